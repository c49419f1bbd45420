"""The files that are measured on: made once, the same each time, by a fixed seed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BENCHES = Path(__file__).resolve().parent.parent

_SEED = 20_240_607
_WRAP = 60
_AT_ONCE = 100_000

# How often a residue stands in 256: about as often as in known proteins, so that no letter is as likely as another.
_RESIDUES = b"".join(
    letter * count
    for letter, count in zip(
        (bytes([letter]) for letter in b"ARNDCQEGHILKMFPSTWYV"),
        (21, 14, 10, 14, 4, 10, 17, 18, 6, 15, 25, 15, 6, 10, 12, 17, 14, 3, 7, 18),
        strict=True,
    )
)
_BASES = b"ACGT" * 64

# Headers are of several widths, so that nothing can count on one.
_NAMES = (b"KINA_ECOLI", b"RL7_YEAST", b"CATA_HUMAN", b"Y112_METJA")
_DESCRIPTIONS = (b"Sensor kinase", b"Large ribosomal subunit protein", b"Catalase OS=Homo sapiens", b"Uncharacterized")
_NUMBER_AT, _NUMBER_DIGITS = len(b">sp|P"), 7


@dataclass(frozen=True)
class Size:
    """How much data a run uses, and how often each thing is asked for."""

    folder: Path
    proteins: int
    contigs: int
    contig_length: int
    single_reads: int
    batch: int
    windows: int

    @property
    def proteins_path(self) -> Path:
        """The file of many short records."""
        return self.folder / "proteins.fa"

    @property
    def genome_path(self) -> Path:
        """The file of a few long records."""
        return self.folder / "genome.fa"


FULL = Size(BENCHES / "data" / "full", 2_000_000, 20, 49_180_327, 20_000, 100_000, 20_000)
QUICK = Size(BENCHES / "data" / "quick", 100_000, 20, 2_459_017, 2_000, 5_000, 1_000)


def spaced(number: int) -> str:
    """A number in groups of three digits, as titles show it."""
    return f"{number:,}".replace(",", " ")


def make(size: Size) -> None:
    """Write the files of ``size`` that are not there yet."""
    assert len(_RESIDUES) == len(_BASES) == 256, "one letter for each value of a byte"
    size.folder.mkdir(parents=True, exist_ok=True)
    for path, blocks in ((size.proteins_path, _protein_blocks), (size.genome_path, _contig_blocks)):
        if not path.exists():
            write(path, blocks(size))


def write(path: Path, blocks) -> None:
    """Write a file that is either whole or not there. It is synced, so that its pages can be dropped from the cache."""
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        for block in blocks:
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)


def _protein_blocks(size: Size):
    rng = np.random.default_rng(_SEED)
    for first in range(0, size.proteins, _AT_ONCE):
        yield proteins(rng, np.arange(first, min(first + _AT_ONCE, size.proteins)))


def proteins(rng: np.random.Generator, numbers: np.ndarray) -> np.ndarray:
    """Records in FASTA: letters everywhere, then line ends and headers laid over them."""
    lengths = np.clip(rng.lognormal(np.log(350), 0.6, len(numbers)), 20, 35_000).astype(np.int64)
    kinds = rng.integers(0, len(_NAMES), len(numbers))
    headers = [b">sp|P0000000|%s %s\n" % pair for pair in zip(_NAMES, _DESCRIPTIONS, strict=True)]
    header_sizes = np.array([len(header) for header in headers])[kinds]
    line_counts = -(-lengths // _WRAP)
    ends = np.cumsum(header_sizes + lengths + line_counts)
    text = _random_letters(rng, int(ends[-1]), _RESIDUES)
    starts = ends - lengths - line_counts
    _lay_line_ends(text, starts, ends, line_counts)
    for kind, header in enumerate(headers):
        mine = kinds == kind
        _lay_headers(text, (starts - header_sizes)[mine], header, numbers[mine])
    return text


def _random_letters(rng: np.random.Generator, count: int, alphabet: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(rng.bytes(count).translate(alphabet)), dtype=np.uint8)


def _lay_line_ends(text: np.ndarray, starts: np.ndarray, ends: np.ndarray, line_counts: np.ndarray) -> None:
    first_line = np.cumsum(line_counts) - line_counts
    line = np.arange(line_counts.sum()) - np.repeat(first_line, line_counts)
    text[np.minimum(np.repeat(starts, line_counts) + line * (_WRAP + 1) + _WRAP, np.repeat(ends, line_counts) - 1)] = 10


def _lay_headers(text: np.ndarray, starts: np.ndarray, header: bytes, numbers: np.ndarray) -> None:
    rows = np.tile(np.frombuffer(header, dtype=np.uint8), (len(starts), 1))
    powers = 10 ** np.arange(_NUMBER_DIGITS - 1, -1, -1)
    rows[:, _NUMBER_AT : _NUMBER_AT + _NUMBER_DIGITS] = numbers[:, None] // powers % 10 + ord("0")
    text[starts[:, None] + np.arange(len(header))] = rows


def _contig_blocks(size: Size):
    rng = np.random.default_rng(_SEED)
    for number in range(1, size.contigs + 1):
        # No two contigs are of one length, and few end with a full line.
        length = size.contig_length + 1_001 * number
        yield b">chr%d contig %d of %d\n" % (number, number, size.contigs)
        yield _contig(rng, length)


def _contig(rng: np.random.Generator, length: int) -> np.ndarray:
    lines = -(-length // _WRAP)
    text = _random_letters(rng, lines * (_WRAP + 1), _BASES)
    text[:10_000] = text[-10_000:] = ord("N")  # as assemblies mark their unknown ends
    text.reshape(lines, _WRAP + 1)[:, _WRAP] = 10
    text[length + lines - 1] = 10
    return text[: length + lines]
