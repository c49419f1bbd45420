"""``seekset demo``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from seekset.fasta import Fasta

_T = TypeVar("_T")
_PROTEINS = 200_000
_CONTIGS, _CONTIG_LETTERS = 4, 25_000_000
_BATCHES, _BATCH = 40, 128
_EMBEDDED = 40_000

# A file that tells a folder of the demo's from others.
_MARK = ".seekset-demo"


@click.command(name="demo")
@click.option(
    "--folder", default="demo", show_default=True, type=click.Path(path_type=Path), help="Where to put its files."
)
def command(folder: Path) -> None:
    """Show the main job end to end, on generated data.

    It writes about 200 MB into a folder of its own: one that holds files the demo did not make is refused.
    """
    claim(folder)
    proteins, genome = folder / "proteins.fa", folder / "genome.fa"
    _say("1. Data, made with a fixed seed")
    _timed("proteins", lambda: _make_proteins(proteins), proteins)
    _timed("genome", lambda: _make_genome(genome), genome)
    _say("2. Index: one pass over the bytes, then never again")
    for path in (proteins, genome):
        Path(f"{path}.sidx").unlink(missing_ok=True)
        _timed(f"index {path.name}", lambda path=path: _open(path), path)  # type: ignore[misc]
        _timed(f"open {path.name} again", lambda path=path: _open(path))  # type: ignore[misc]
    _say("3. Any record, any window")
    _show_reads(_open(proteins), _open(genome))
    _say("4. Batches that are full, planned before a letter is read")
    _show_batches(proteins)
    _say("5. Ready for other tools")
    _show_fai(genome)
    _say("6. An encoder over every sequence, with a worker killed on the way")
    _show_run(proteins, folder / "embedded")
    _say("7. A bad file gets a sentence")
    _show_fault(folder / "bad.fa")
    click.echo(f"\nEverything is in {folder}/. Next: seekset --help")


def claim(folder: Path) -> None:
    """Make a folder the demo's own, whose files it may replace; one that holds others' files is refused.

    >>> claim(Path("new"))
    >>> claim(Path("new"))
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(path.name for path in folder.iterdir())
    if names and _MARK not in names:
        raise click.UsageError(
            f"{folder} holds files that the demo did not make ({names[0]} is one) and might replace: give --folder "
            "another name"
        )
    (folder / _MARK).write_text("seekset demo made this folder and replaces its own files in it\n")


def _say(text: str) -> None:
    click.secho(f"\n{text}", bold=True)


def _timed(label: str, work: Callable[[], _T], path: Path | None = None) -> _T:
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    speed = f"  {path.stat().st_size / seconds / 1e9:.2f} GB/s" if path is not None else ""
    click.echo(f"   {label:<28}{seconds * 1e3:>10.1f} ms{speed}")
    return result


def _open(path: Path) -> Fasta:
    from seekset.fasta import Fasta

    return Fasta(path)


def _make_proteins(path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(7)
    lengths = np.clip(rng.lognormal(5.85, 0.6, _PROTEINS), 20, 5000).astype(int)
    letters = rng.choice(np.frombuffer(b"LAGVSERTIDPKQNFYMHWC", dtype=np.uint8), int(lengths.sum())).tobytes()
    at = 0
    with path.open("wb") as out:
        for number, length in enumerate(lengths.tolist()):
            lines = [letters[k : min(k + 60, at + length)] for k in range(at, at + length, 60)]
            out.write(b">seq_%d protein %d of the demo\n%s\n" % (number, number, b"\n".join(lines)))
            at += length


def _make_genome(path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(8)
    with path.open("wb") as out:
        for number in range(1, _CONTIGS + 1):
            lines = np.full((_CONTIG_LETTERS // 60, 61), ord("\n"), dtype=np.uint8)
            lines[:, :60] = rng.choice(np.frombuffer(b"ACGT", dtype=np.uint8), (len(lines), 60))
            out.write(b">chr%d\n" % number)
            out.write(lines.tobytes())


def _show_reads(proteins: Fasta, genome: Fasta) -> None:
    import numpy as np

    click.echo(f"   fa['seq_7'][:40]             {proteins['seq_7'][:40]}…")
    click.echo(f"   fa.fetch('chr2', 100, 140)   {genome.fetch('chr2', 100, 140)}")
    rng = np.random.default_rng(9)
    rows = rng.integers(0, len(proteins), 50_000)
    batch = _timed("50 000 records as tokens", lambda: proteins.gather(rows, tokens="esm", max_length=1022))
    click.echo(f"   batch.values {batch.values.shape} {batch.values.dtype}, batch.offsets {batch.offsets.shape}")
    starts = rng.integers(0, _CONTIG_LETTERS - 9000, (_BATCHES, _BATCH))
    contigs = rng.integers(0, _CONTIGS, (_BATCHES, _BATCH))
    out = np.zeros((_BATCH, 8192), dtype=np.int64)  # one buffer for all batches: fresh memory costs more than the copy

    def all_batches() -> None:
        for rows, at in zip(contigs, starts, strict=True):
            genome.gather_windows(rows, at, 8192, tokens="dna", out=out)

    _timed("5 120 windows of 8 192 bases", all_batches)


def _show_batches(proteins: Path) -> None:
    from seekset.plan import Plan
    from seekset.sequences import SequenceIndex
    from seekset.tokens import TokenTable

    made = proteins.with_suffix(".sidx")
    made.unlink(missing_ok=True)
    index = _timed("index, the longest first", lambda: SequenceIndex.create([proteins], made))
    plan = _timed("plan of all sequences", lambda: Plan.create(index, max_tokens=16_384, max_length=None))
    click.echo(f"   {len(plan)} batches of up to 16 384 tokens, {plan.efficiency:.2%} full")
    table = TokenTable.named("esm")
    start = time.perf_counter()
    tokens = sum(len(index.packed_batch(batch, table).input_ids) for batch in plan)
    speed = tokens / (time.perf_counter() - start) / 1e6
    click.echo(f"   all of them as int64 tokens: {speed:.0f} million tokens/s")


def _show_fai(genome: Path) -> None:
    from seekset.fai import faidx

    written = _timed("seekset.faidx(genome)", lambda: faidx(genome), genome)
    click.echo(f"   {written}: {written.read_text().splitlines()[0]!r} …")


def _show_run(proteins: Path, out: Path) -> None:
    """Embed some of the proteins on two processes, and kill one of them as soon as it has something to lose."""
    try:
        import h5py
    except ImportError:
        click.echo("   left out: it needs h5py, which `pip install 'seekset[inference]'` brings")
        return
    some = out.with_suffix(".fa")
    with some.open("w") as file:
        file.writelines(f">{record.id}\n{record.sequence}\n" for record in islice(_open(proteins).values(), _EMBEDDED))
    words = [
        sys.executable,
        "-m",
        "seekset",
        "embed",
        str(some),
        "-o",
        str(out),
        "--devices",
        "cpu,cpu",
        "--restart",
        "-q",
    ]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)  # noqa: S603 (this very program)
    click.echo(f"   $ seekset embed {some} -o {out} --devices cpu,cpu")
    click.echo(f"   {_killed(run, out / 'events.jsonl')}")
    run.communicate()
    with h5py.File(out / "embeddings.h5") as file:
        click.echo(f"   {out}/embeddings.h5: {file['embeddings'].shape} {file['embeddings'].dtype}, nothing lost")
    for line in (out / "logs" / "coordinator.log").read_text().splitlines():
        if "worker_died" in line:
            click.echo(f"   {line}")


def _killed(run: subprocess.Popen[str], events: Path) -> str:
    from seekset.inference.events import read_events

    while run.poll() is None:
        told = list(read_events(events))
        if any(event["event"] == "chunk_finished" for event in told):
            pid = next(event["pid"] for event in told if event["event"] == "worker_started")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            return f"killed worker 0, process {pid}"
        time.sleep(0.01)
    return "it was over before a worker could be killed"


def _show_fault(path: Path) -> None:
    from seekset.errors import SeeksetError

    path.write_bytes(b">fine\nMKVLA\n>broken\nMK\x00VL\n")
    try:
        _open(path)
    except SeeksetError as error:
        click.echo(f"   {type(error).__name__}: {error}")
