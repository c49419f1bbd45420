"""The suites: which module holds which contests, and what is to be known about how they are held."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from data import Size


class Suite(NamedTuple):
    """A module with ``contests(size)``, the names that it gives, and what the results say above its tables."""

    module: str
    title: str
    names: tuple[str, ...]
    text: str

    def contests(self, size: Size) -> dict[str, Callable[[], list[Any]]]:
        """All of them, to be held when they are called. Files that they need are made."""
        found = import_module(self.module).contests(size)
        if tuple(found) != self.names:
            raise RuntimeError(f"suites.py names {self.names}, {self.module}.py {tuple(found)}: let them agree")
        return found


SUITES = (
    Suite(
        "fasta",
        "FASTA",
        (
            *("scan", "index-proteins", "index-genome", "open", "fetch", "gather", "gather-tokens"),
            *("windows", "windows-tokens"),
            *("index-proteins-cold", "open-cold", "gather-cold", "windows-cold"),
        ),
        """
        2 000 000 proteins (about 0.9 GB) and a genome of 20 contigs (1 GB), made by a fixed seed. The bare scans share
        one process, a Rust program built with `target-cpu=native`, and are repeated 7 times; all else is as pip
        installs it. samtools takes part through pysam, which holds its code; NvFaidx is of bionemo-noodles, and Lance's
        package is pylance. `.fai` files are equal byte for byte. In the cold contests, indexes are on the disk only,
        too; handles are opened before the clock starts, but for those that open.
        """,
    ),
    Suite(
        "sequence_batches",
        "Packed batches",
        ("batches-0", "batches-1", "batches-2", "batches-files", "sequence-index", "sequence-index-open", "plan"),
        """
        From FASTA to what a training loop takes, through torch's DataLoader; workers stay between epochs. The plain
        loader is what people write: a JSON index, a seek and readlines for each sequence, and a collator that fills
        batches from a buffer. No peer packs all sequences at once: beside the plan stands its goal.
        """,
    ),
    Suite(
        "windows",
        "Windows of genomes",
        ("windows-0", "windows-2", "windows-0-cold", "windows-of-1-mb", "windows-of-10-mb", "windows-of-100-mb"),
        """
        "SQLite SUBSTR and a Python tokenizer" is a dataset that does what BioNeMo's Sharded Eden does: a look-up, a
        `SUBSTR`, a list of ids and the masks for each window. Windows come in batches of 16, and times are of one
        window. Contigs of 20 samples are 270 Mb in all; their databases were made by `seekset eden build`'s writer.
        """,
    ),
    Suite(
        "tfrecord_index",
        "TFRecord files",
        (
            *("tfrecord-index-small", "tfrecord-index-middle", "tfrecord-index-large"),
            *("tfrecord-random", "tfrecord-verify"),
            *("tfrecord-index-cold", "tfrecord-open-cold", "tfrecord-gather-cold"),
        ),
        """
        `.idx` files are equal byte for byte. DALI's tfrecord2idx runs inside a process that is there, so that starting
        Python is not timed. TensorFlow and the `tfrecord` package reach a record by reading all before it.
        """,
    ),
    Suite(
        "tfrecord_examples",
        "TFRecord Examples",
        ("examples-file", "examples-payloads"),
        "Examples of 64 floats, an integer and a byte string, to arrays. What people wait for is the way from a file; "
        "what is in memory already has no goal.",
    ),
    Suite(
        "pool",
        "Mixed shard pools",
        ("pool-pickles", "pool-native", "pool-cold", "pool-order", "pool-quality"),
        """
        200 000 positions of Hex in 50 shards of two sources, in batches of 256, out of a pool of 50 000. Rows are
        compared by a sum of hashes, which doesn't depend on their order. An epoch that takes more than half a minute is
        held once. Cold epochs are the first of a new process, with opening and the start of decoders. Of how well
        orders mix: `open_shards` counts for each source, so that "ten" of the two sources are twenty, while the
        reservoir has ten in all. The order by itself is of rows that are all in the pool: turns of sources, and a
        random row of each.
        """,
    ),
    Suite(
        "inference",
        "Runs of an encoder",
        ("embed", "embed-cost", "aggregate"),
        """
        The encoder of "embed" hashes on one core and holds the GIL now and then. A run includes finding out what the
        encoder wants, starting workers, saving and aggregating, about 0.7 s in all, which weighs in short runs.
        """,
    ),
)


def names() -> list[str]:
    """The contests of all suites, in the order of the page."""
    return [name for suite in SUITES for name in suite.names]


def unknown(wanted: Collection[str]) -> str | None:
    """What is wrong with names of contests, if anything."""
    if strange := sorted(set(wanted) - set(names())):
        return f"there is no contest {', '.join(strange)}; there are {', '.join(names())}"
    return None
