"""Regions as samtools writes them: ``chr1:101-200``, counted from 1, both ends included."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from seekset.errors import MismatchError

if TYPE_CHECKING:
    from seekset.fasta import Fasta

__all__ = ["Region", "parse_region"]

_SPAN = re.compile(r"(?P<first>[0-9][0-9,]*)?(?:-(?P<last>[0-9][0-9,]*)?)?")
_BRACED = re.compile(r"\{(?P<id>.+)\}(?::(?P<span>.*))?")


class Region(NamedTuple):
    """A window of a record as the rest of seekset counts: from 0, half-open."""

    text: str
    row: int
    start: int
    end: int


def parse_region(fasta: Fasta, text: str) -> Region:
    """Turn a region into a window; a text that is an id as it stands means the whole record.

    Braces around the id, as in samtools, tell ``{chr1:5-8}``, a record of that name, from ``{chr1}:5-8``.

    >>> from seekset import Fasta
    >>> parse_region(Fasta("genome.fa"), "chr1:3-8")
    Region(text='chr1:3-8', row=0, start=2, end=8)
    >>> parse_region(Fasta("genome.fa"), "{chr1}:-8")
    Region(text='{chr1}:-8', row=0, start=0, end=8)
    """
    key, span = _parts(fasta, text)
    row = fasta.row(key)
    length = len(fasta[row])
    if not span:
        return Region(text, row, 0, length)
    numbers = _SPAN.fullmatch(span)
    if numbers is None or span == "-":
        raise _wrong(fasta, text, f"expected FIRST-LAST, FIRST- or -LAST after the id, found {span!r}")
    first, last = (int(number.replace(",", "")) if number else None for number in numbers.group("first", "last"))
    first = 1 if first is None else first
    if first < 1 or last == 0:
        raise _wrong(fasta, text, f"positions count from 1, and {span!r} has a 0")
    if last is not None and last < first:
        meant = f"{text.removesuffix(span)}{last}-{first}"
        raise _wrong(fasta, text, f"it ends at {last}, before it starts at {first}; is {meant} meant?")
    if first > length:
        raise _wrong(fasta, text, f"it starts behind the end: {key!r} has {length} letters")
    return Region(text, row, first - 1, length if last is None else min(last, length))


def _parts(fasta: Fasta, text: str) -> tuple[str, str]:
    """The id in a region and what follows its colon."""
    if text.startswith("{"):
        braced = _BRACED.fullmatch(text)
        if braced is None:
            raise _wrong(fasta, text, "expected {ID} or {ID}:FIRST-LAST")
        return braced["id"], braced["span"] or ""
    key, colon, span = text.rpartition(":")
    if text in fasta:
        if colon and key in fasta:
            raise _wrong(fasta, text, f"it names a record and a part of another; write {{{text}}} or {{{key}}}:{span}")
        return text, ""
    return (key, span) if key and (key in fasta or _SPAN.fullmatch(span)) else (text, "")


def _wrong(fasta: Fasta, text: str, what: str) -> MismatchError:
    return MismatchError(f"{fasta.path}: region {text!r}: {what}")
