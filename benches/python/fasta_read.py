"""Contestants that read records and windows through an index that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from contest import Answers, Task, digest
from peers import fai_path, lance_path

# As many as a peer reads that is too slow for all; the others' first ones are compared with it.
FEW = 200

WINDOW = 8_192

# pyfaidx counts from 1, and cuts what is asked for where the record ends.
_PAST_EVERY_END = 1 << 40

# The vocabulary of ESM-2, where 3 is what it does not know.
_ESM = np.full(256, 3, dtype=np.uint8)
_ESM[list(b"LAGVSERTIDPKQNFYMHWCXBUZO.-")] = range(4, 31)

# Tokens of genome models: the letters' ASCII codes, in upper case.
_DNA = np.frombuffer(bytes(range(256)).upper(), dtype=np.uint8).astype(np.int64)


def letters(pieces: Iterable[Any]) -> Answers:
    """The answers of a contestant that read letters: strings, bytes or arrays."""
    return _answers("letters", [piece.encode() if isinstance(piece, str) else bytes(piece) for piece in pieces])


def tokens(pieces: Iterable[np.ndarray]) -> Answers:
    """The answers of a contestant that made tokens."""
    return _answers("tokens", [np.ascontiguousarray(piece).tobytes() for piece in pieces])


def _answers(kind: str, pieces: list[bytes]) -> Answers:
    return {f"{kind} of the first {count}": digest(*pieces[:count]) for count in {min(FEW, len(pieces)), len(pieces)}}


# --- handles --------------------------------------------------------------------------------------------------------


def _seekset(path: Path):
    import seekset

    return seekset.Fasta(path)


def _pysam(path: Path):
    import pysam

    return pysam.FastaFile(str(path))


def _pyfaidx(path: Path):
    import pyfaidx

    return pyfaidx.Fasta(str(path), as_raw=True)


def _pyfastx(path: Path):
    import pyfastx

    return pyfastx.Fasta(str(path))


def _noodles(path: Path):
    from bionemo.noodles.nvfaidx import NvFaidx

    return NvFaidx(str(path), str(fai_path(path)), ignore_existing_fai=False)


# How each opens a file, and what it gives for a name: the fastest way that its documentation tells.
HANDLES: dict[str, tuple[Callable[[Path], Any], Callable[[Any], Callable[[str], str]]]] = {
    "seekset": (_seekset, lambda fasta: fasta.fetch),
    "pysam": (_pysam, lambda fasta: fasta.fetch),
    "pyfaidx": (_pyfaidx, lambda fasta: lambda name: fasta.get_seq(name, 1, _PAST_EVERY_END)),
    "pyfastx": (_pyfastx, lambda fasta: lambda name: fasta[name].seq),
    "NvFaidx": (_noodles, lambda fasta: lambda name: fasta[name][:]),
}

_MODULES = {"NvFaidx": "bionemo.noodles.nvfaidx", "seekset": "seekset.fasta"}


def open_and_read(who: str, path: Path, name: str) -> Task:
    """Open a file whose index is there, and read one record."""
    import_module(_MODULES.get(who, who))
    opener, reader = HANDLES[who]

    def run() -> tuple[Any, str]:
        fasta = opener(path)
        return fasta, reader(fasta)(name)  # the handle too, so that closing it is not timed

    return Task(run, lambda result: letters(result[1:]))


def read_by_name(who: str, path: Path, names: Sequence[str]) -> Task:
    """Read one record after another, a call for each."""
    opener, reader = HANDLES[who]
    read = reader(opener(path))
    return Task(lambda: [read(name) for name in names], letters, calls=len(names))


# --- many records ---------------------------------------------------------------------------------------------------


def seekset_gather(path: Path, keys: Any, *, esm: bool = False, reuse: bool = False, threads: int = 0) -> Task:
    """``gather``, as letters or as tokens, to a new array each time or always to the same."""
    import seekset

    seekset.set_threads(threads)
    fasta = seekset.Fasta(path)
    table = "esm" if esm else None
    out = np.empty(int(fasta.lengths[fasta.rows(keys)].sum()), dtype=np.uint8) if reuse else None

    def answers(batch: seekset.Batch) -> Answers:
        pieces = np.split(batch.values, batch.offsets[1:-1])
        return tokens(pieces) if esm else letters(pieces)

    return Task(lambda: fasta.gather(keys, tokens=table, specials=False, out=out), answers)


def pysam_loop(path: Path, names: Sequence[str], *, esm: bool = False) -> Task:
    """Read one after another, and no more. Where others make tokens, they are made of the answers only."""
    fetch = _pysam(path).fetch

    def answers(pieces: list[str]) -> Answers:
        return tokens(_ESM[np.frombuffer(piece.encode(), np.uint8)] for piece in pieces) if esm else letters(pieces)

    return Task(lambda: [fetch(name) for name in names], answers)


def pysam_loop_tokens(path: Path, names: Sequence[str]) -> Task:
    """Read one after another and look the letters up in a numpy table."""
    fetch = _pysam(path).fetch
    return Task(lambda: [_ESM[np.frombuffer(fetch(name).encode(), np.uint8)] for name in names], tokens)


def lance_take(path: Path, rows: np.ndarray) -> Task:
    """``take`` of a Lance data set that holds the same sequences as bytes."""
    import lance

    dataset = lance.dataset(str(lance_path(path)))
    wanted = rows.tolist()
    return Task(
        lambda: dataset.take(wanted, columns=["sequence"]),
        lambda table: letters(value.as_buffer() for value in table.column("sequence")),
    )


# --- windows --------------------------------------------------------------------------------------------------------


class Windows:
    """Windows of one length, at random places of random records."""

    def __init__(self, names: Sequence[str], lengths: np.ndarray, count: int, rng: np.random.Generator) -> None:
        self.rows = rng.integers(0, len(names), count)
        self.starts = rng.integers(0, lengths[self.rows] - WINDOW)
        self.names = [names[row] for row in self.rows]

    def regions(self) -> list[tuple[str, int, int]]:
        """Name, start and end of each, counted from 0 and half-open."""
        return [(name, start, start + WINDOW) for name, start in zip(self.names, self.starts.tolist(), strict=True)]


def seekset_windows(path: Path, windows: Windows, *, dna: bool = False, threads: int = 0) -> Task:
    """``gather_windows``, as letters or as int64 tokens."""
    import seekset

    seekset.set_threads(threads)
    fasta = seekset.Fasta(path)
    options = {"tokens": "dna", "dtype": np.int64} if dna else {}

    def run() -> np.ndarray:
        return fasta.gather_windows(windows.rows, windows.starts, WINDOW, **options)

    return Task(run, tokens if dna else letters, calls=len(windows.rows))


def pysam_windows(path: Path, windows: Windows) -> Task:
    """pysam's ``fetch``."""
    fetch, regions = _pysam(path).fetch, windows.regions()
    return Task(lambda: [fetch(*region) for region in regions], letters, calls=len(regions))


def pysam_windows_tokens(path: Path, windows: Windows) -> Task:
    """pysam's ``fetch``, and the letters looked up in a numpy table."""
    fetch, regions = _pysam(path).fetch, windows.regions()

    def run() -> list[np.ndarray]:
        return [_DNA[np.frombuffer(fetch(*region).encode(), np.uint8)] for region in regions]

    return Task(run, tokens, calls=len(regions))


def pyfaidx_windows(path: Path, windows: Windows) -> Task:
    """pyfaidx's ``get_seq``."""
    read, regions = _pyfaidx(path).get_seq, windows.regions()
    return Task(lambda: [read(name, start + 1, end) for name, start, end in regions], letters, calls=len(regions))


def noodles_windows(path: Path, windows: Windows) -> Task:
    """A slice of an ``NvFaidx``."""
    fasta, regions = _noodles(path), windows.regions()
    return Task(lambda: [fasta[name][start:end] for name, start, end in regions], letters, calls=len(regions))
