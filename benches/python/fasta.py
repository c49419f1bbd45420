"""The contests on FASTA files, and the goals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import fasta_index as index
import fasta_read as read
import fasta_scan
from contest import Contest, Contestant, Row, apart, cold, hold
from data import Size, spaced
from peers import lance_path

_SEED = 7


def contests(size: Size) -> dict[str, Callable[[], list[Row]]]:
    """All of them by name, in the order of the report, to be held when they are called."""
    rows, names, windows = apart(_wanted, size)
    held = {
        "index-proteins": index_of_proteins(size),
        "index-genome": index_of_genome(size),
        "open": first_read(size, names[0]),
        "fetch": one_by_one(size, names[: size.single_reads]),
        "gather": gathered_letters(size, rows, names),
        "gather-tokens": gathered_tokens(size, rows, names),
        "windows": window_letters(size, windows),
        "windows-tokens": window_tokens(size, windows),
    }
    held |= _held_cold(size, held)
    return {"scan": partial(fasta_scan.rows, size), **{name: partial(hold, contest) for name, contest in held.items()}}


def _wanted(size: Size) -> tuple[np.ndarray, list[str], read.Windows]:
    """Random records of the proteins, by row and by name, and random windows of the genome."""
    import seekset

    rng = np.random.default_rng(_SEED)
    # Opening them here also makes sure that seekset's own indexes are there and of this version.
    with seekset.Fasta(size.proteins_path) as proteins:
        rows = rng.choice(len(proteins), size.batch, replace=False)
        names = [proteins[row].id for row in rows]
    with seekset.Fasta(size.genome_path) as genome:
        return rows, names, read.Windows(list(genome), genome.lengths.astype(np.int64), size.windows, rng)


def index_of_proteins(size: Size) -> Contest:
    """The ``.fai`` of many short records."""
    path = size.proteins_path
    return Contest(
        f"Index {spaced(size.proteins)} proteins",
        [
            Contestant("seekset", partial(index.seekset_fai, path)),
            Contestant("pysam (samtools faidx)", partial(index.pysam_fai, path), goal=20),
            Contestant("pyfastx", partial(index.pyfastx_fxi, path)),
            Contestant("pyfaidx", partial(index.pyfaidx_fai, path)),
            Contestant("needletail, parse only", partial(index.needletail_parse, path)),
            Contestant("seekset, 1 thread", partial(index.seekset_fai, path, threads=1)),
            Contestant("seekset, its own .sidx", partial(index.seekset_sidx, path)),
        ],
    )


def index_of_genome(size: Size) -> Contest:
    """The ``.fai`` of a few long records."""
    path = size.genome_path
    return Contest(
        f"Index a genome of {size.contigs} contigs",
        [
            Contestant("seekset", partial(index.seekset_fai, path)),
            Contestant("pyfastx", partial(index.pyfastx_fxi, path), goal=4),
            Contestant("pysam (samtools faidx)", partial(index.pysam_fai, path)),
            Contestant("pyfaidx", partial(index.pyfaidx_fai, path)),
            Contestant("needletail, parse only", partial(index.needletail_parse, path)),
            Contestant("seekset, 1 thread", partial(index.seekset_fai, path, threads=1)),
            Contestant("seekset, its own .sidx", partial(index.seekset_sidx, path)),
        ],
    )


def first_read(size: Size, name: str) -> Contest:
    """Open an index that is there, and read a record."""
    task = partial(read.open_and_read, path=size.proteins_path, name=name)
    peers = (("pysam", 100), ("pyfaidx", None), ("pyfastx", None), ("NvFaidx", None))
    own = Contestant("seekset", partial(task, "seekset"))
    return Contest(
        "Open an index and read one record",
        [own, *(Contestant(who, partial(task, who), goal) for who, goal in peers)],
        fresh=True,
    )


def one_by_one(size: Size, names: list[str]) -> Contest:
    """Records by name, a call for each."""
    task = partial(read.read_by_name, path=size.proteins_path)
    peers = (("pyfaidx", 5), ("pysam", None), ("pyfastx", None))
    return Contest(
        f"One record by name, of {spaced(len(names))} calls",
        [
            Contestant("seekset", partial(task, "seekset", names=names)),
            *(Contestant(who, partial(task, who, names=names), goal) for who, goal in peers),
            Contestant(f"NvFaidx, of {read.FEW} calls", partial(task, "NvFaidx", names=names[: read.FEW])),
        ],
    )


def gathered_letters(size: Size, rows: np.ndarray, names: list[str]) -> Contest:
    """Many random records as letters."""
    path = size.proteins_path
    gather = partial(read.seekset_gather, path)
    return Contest(
        f"{spaced(len(rows))} random proteins in one call, as bytes",
        [
            Contestant("seekset", partial(gather, rows)),
            Contestant("pysam, loop", partial(read.pysam_loop, path, names), goal=100),
            Contestant("Lance take", partial(read.lance_take, path, rows), goal=10),
            Contestant("seekset, out= reused", partial(gather, rows, reuse=True)),
            Contestant("seekset, by name", partial(gather, names)),
            Contestant("seekset, 1 thread", partial(gather, rows, threads=1)),
        ],
    )


def gathered_tokens(size: Size, rows: np.ndarray, names: list[str]) -> Contest:
    """Many random records as token ids."""
    path = size.proteins_path
    gather = partial(read.seekset_gather, path, esm=True)
    return Contest(
        f"{spaced(len(rows))} random proteins in one call, as ESM tokens (uint8)",
        [
            Contestant("seekset", partial(gather, rows)),
            Contestant("pysam, loop without tokens", partial(read.pysam_loop, path, names, esm=True), goal=60),
            Contestant("pysam, loop and numpy table", partial(read.pysam_loop_tokens, path, names)),
            Contestant("seekset, out= reused", partial(gather, rows, reuse=True)),
            Contestant("seekset, 1 thread", partial(gather, rows, threads=1)),
        ],
    )


def window_letters(size: Size, windows: read.Windows) -> Contest:
    """Windows of a genome as letters."""
    path = size.genome_path
    return Contest(
        f"One window of {spaced(read.WINDOW)} bases, of {spaced(size.windows)}, as bytes",
        [
            Contestant("seekset", partial(read.seekset_windows, path, windows)),
            Contestant("pysam", partial(read.pysam_windows, path, windows)),
            Contestant("pyfaidx", partial(read.pyfaidx_windows, path, windows)),
            Contestant("NvFaidx", partial(read.noodles_windows, path, windows)),
            Contestant("seekset, 1 thread", partial(read.seekset_windows, path, windows, threads=1)),
        ],
    )


def window_tokens(size: Size, windows: read.Windows) -> Contest:
    """Windows of a genome as token ids."""
    path = size.genome_path
    return Contest(
        f"One window of {spaced(read.WINDOW)} bases, of {spaced(size.windows)}, as tokens (int64)",
        [
            Contestant("seekset", partial(read.seekset_windows, path, windows, dna=True)),
            Contestant("pysam and numpy table", partial(read.pysam_windows_tokens, path, windows)),
            Contestant("seekset, 1 thread", partial(read.seekset_windows, path, windows, dna=True, threads=1)),
        ],
    )


def _held_cold(size: Size, warm: dict[str, Contest]) -> dict[str, Contest]:
    """Those of which something is to be said about files that lie on the disk only."""
    proteins, genome = (_with_indexes(path) for path in (size.proteins_path, size.genome_path))
    lance = lance_path(size.proteins_path)
    return {
        "index-proteins-cold": cold(_without(warm["index-proteins"], "pyfaidx", "needletail, parse only"), proteins),
        "open-cold": cold(warm["open"], proteins),
        "gather-cold": cold(_without(warm["gather"], "seekset, out= reused"), [*proteins, lance]),
        "windows-cold": cold(warm["windows"], genome),
    }


def _without(contest: Contest, *names: str) -> Contest:
    """Without those of whom a cold cache tells nothing more."""
    return contest._replace(contestants=[who for who in contest.contestants if who.name not in names])


def _with_indexes(path: Path) -> list[Path]:
    """A file and all that readers keep beside it."""
    return [path, *(path.with_name(path.name + suffix) for suffix in (".sidx", ".fai", ".fxi"))]
