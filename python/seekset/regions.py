"""Regions as samtools writes them: ``chr1:101-200``, counted from 1, both ends included."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from seekset.errors import MismatchError

if TYPE_CHECKING:
    from seekset.fasta import Fasta

__all__ = ["Region", "parse_region"]

_SPAN = re.compile(r"(?P<id>.+):(?P<first>[0-9][0-9,]*)(?:-(?P<last>[0-9][0-9,]*)?)?")


class Region(NamedTuple):
    """A window of a record as the rest of seekset counts: from 0, half-open."""

    text: str
    row: int
    start: int
    end: int


def parse_region(fasta: Fasta, text: str) -> Region:
    """Turn a region into a window; a text that is an id as it stands means the whole record.

    >>> from seekset import Fasta
    >>> parse_region(Fasta("genome.fa"), "chr1:3-8")
    Region(text='chr1:3-8', row=0, start=2, end=8)
    """
    span = None if text in fasta else _SPAN.fullmatch(text)
    if span is None:
        row = fasta.row(text)
        return Region(text, row, 0, len(fasta[row]))
    row = fasta.row(span["id"])
    length = len(fasta[row])
    first, last = (int(number.replace(",", "")) if number else None for number in span.group("first", "last"))
    first = first or 0
    last = length if last is None else last
    if not 1 <= first <= last:
        raise MismatchError(
            f"{fasta.path}: region {text!r}: positions count from 1 and must rise, not {first} to {last}"
        )
    if first > length:
        raise MismatchError(f"{fasta.path}: region {text!r} starts behind the end: {span['id']!r} has {length} letters")
    return Region(text, row, first - 1, min(last, length))
