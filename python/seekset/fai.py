"""``.fai`` files, as samtools writes them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seekset import _core
from seekset.errors import SeeksetWarning
from seekset.files import is_stream, refuse_stream

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

__all__ = ["FaiRecord", "faidx", "read_fai"]


class FaiRecord(NamedTuple):
    """One line of a ``.fai``."""

    name: str
    length: int
    offset: int
    line_bases: int
    line_bytes: int


def faidx(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    like_samtools: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Path:
    r"""Write the ``.fai`` of a FASTA file and return its path; for BGZF files the ``.gzi`` as well.

    The result is byte for byte that of ``samtools faidx``. Where samtools would lose something without a word (names
    that repeat, records without sequence, blanks inside lines) this is an error, unless ``like_samtools`` asks for
    exactly what samtools does.

    >>> faidx("proteins.fa").read_text().splitlines()[0]
    'seq_1\t33\t22\t20\t21'
    """
    if out is None and is_stream(path):
        refuse_stream(path)
    written, left_out, remark = _core.faidx(path, out, like_samtools, progress)
    if remark is not None:
        warnings.warn(f"{path}: {remark}", SeeksetWarning, stacklevel=2)
    if left_out:
        some = "1 record was" if left_out == 1 else f"{left_out} records were"
        message = f"{path}: {some} left out of {written}, because an earlier one has the same name"
        warnings.warn(message, SeeksetWarning, stacklevel=2)
    return Path(written)


def read_fai(path: str | os.PathLike[str]) -> list[FaiRecord]:
    """Read a ``.fai``; a line that is none is a ``FormatError`` that names it.

    >>> read_fai(faidx("proteins.fa"))[0].length
    33
    """
    return [FaiRecord(*row) for row in _core.read_fai(path)]
