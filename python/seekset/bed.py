"""BED files: regions of contigs, 0-based and half-open, with a strand."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seekset.errors import FormatError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["BedRegion", "read_bed"]

_GZIP = b"\x1f\x8b"
_STRAND = 5


class BedRegion(NamedTuple):
    """Letters ``start`` to ``end`` of a contig, and whether its reverse strand is meant; ``line`` counts from 1."""

    contig: str
    start: int
    end: int
    reverse: bool
    line: int


def read_bed(path: str | os.PathLike[str]) -> Iterator[BedRegion]:
    r"""The regions of a BED file, plain or gzip'd, in its order.

    Comments, empty lines and lines that begin with ``track`` or ``browser`` are passed over. A strand, which is the
    sixth column, may be ``+``, ``-`` or ``.``.

    >>> _ = Path("peaks.bed").write_text("chr1\t2\t8\tpeak\t0\t-\n")
    >>> list(read_bed("peaks.bed"))
    [BedRegion(contig='chr1', start=2, end=8, reverse=True, line=1)]
    """
    path = Path(path)
    try:
        for number, line in enumerate(_lines(path), 1):
            text = line.rstrip(b"\r\n")
            if text.strip() and not text.startswith(b"#") and text.split(None, 1)[0] not in (b"track", b"browser"):
                yield _region(path, number, text)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"{path}: expected a whole gzip file, found one that can't be read: {error}") from None


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        start = file.read(len(_GZIP))
        file.seek(0)
        if start == _GZIP:
            with gzip.open(file) as inflated:
                yield from inflated
        else:
            yield from file


def _region(path: Path, line: int, text: bytes) -> BedRegion:
    # BED's columns are parted by tabs; some writers use blanks, which a name can't have then.
    try:
        columns = (text.split(b"\t") if b"\t" in text else text.split()) if text.isascii() else []
        contig, start, end, *more = (column.decode("ascii").strip() for column in columns)
        if not (start.lstrip("-").isdecimal() and end.lstrip("-").isdecimal()):
            raise ValueError(start)  # noqa: TRY301 (int would take 1_0)
        region = BedRegion(contig, int(start), int(end), more[_STRAND - 3 :][:1] == ["-"], line)
    except ValueError:
        shown = text[:60].decode("utf-8", "replace")
        raise FormatError(f"{path}: line {line}: expected contig, start and end, found {shown!r}") from None
    strand = more[_STRAND - 3 :][:1]
    if strand and strand[0] not in ("+", "-", "."):
        raise FormatError(f"{path}: line {line}: expected a strand of +, - or ., found {strand[0]!r}")
    if not contig or not 0 <= region.start < region.end:
        found = f"{contig} {region.start} {region.end}"
        raise FormatError(f"{path}: line {line}: expected 0 <= start < end, found {found}")
    return region
