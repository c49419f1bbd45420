"""The order of sequences in a result: where in it each row of an index stands."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from seekset.sequences import SequenceIndex

__all__ = ["Order", "blocks", "ordered", "scratch"]

# Numbers that are looked at together.
_BLOCK = 1 << 16


class Order(Protocol):
    """Where rows of an index stand."""

    def positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of each row, from 0 on."""


def ordered(index: SequenceIndex, order: Literal["input", "length"], folder: Path) -> Order:
    """The order of an index's sequences by ``"length"``, as they are in it, or of the ``"input"``.

    Input is in order by file, as listed in the index, then by place in the file. ``folder`` is where a temporary file
    may be.
    """
    if order == "length":
        return _ByLength()
    if order != "input":
        raise ValueError(f'order must be "input" or "length", not {order!r}')
    return _by_rows(index) or _ByBytes(index, folder)


class _ByLength:
    def positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows


class _ByRows:
    """Where an index knows the row of each sequence in its file, and has all of each file: a sum."""

    def __init__(self, index: SequenceIndex, before: NDArray[np.int64]) -> None:
        self._files, self._rows, self._before = index.file_numbers, index.rows, before

    def positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(self._before[self._files[rows]] + self._rows[rows])


def _by_rows(index: SequenceIndex) -> _ByRows | None:
    files, rows = index.file_numbers, index.rows
    counts = np.zeros(len(index.files), np.int64)
    for block in blocks(len(index)):
        counts += np.bincount(files[block], minlength=counts.size)
    for block in blocks(len(index)):
        if (rows[block] < 0).any() or (rows[block] >= counts[files[block]]).any():
            return None
    return _ByRows(index, np.cumsum(counts) - counts)


class _ByBytes:
    """Where it does not: by searching among all (file, byte), sorted in a file that is mapped."""

    def __init__(self, index: SequenceIndex, folder: Path) -> None:
        self._index = index
        self._sorted = scratch(folder, len(index), "S20")
        for block in blocks(len(index)):
            self._sorted[block] = self._keys(np.arange(block.start, block.stop))
        self._sorted.sort()

    def _keys(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        # From the most significant byte on, so that numbers compare as text does. With the row, no two are the same.
        keys = np.empty(rows.size, [("file", ">u4"), ("byte", ">u8"), ("row", ">u8")])
        keys["file"], keys["byte"] = self._index.file_numbers[rows], self._index.byte_offsets[rows]
        keys["row"] = rows
        return keys.view("S20")

    def positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self._sorted, self._keys(rows)).astype(np.int64, copy=False)


def blocks(count: int) -> Iterator[slice]:
    """Stretches of so many rows, one after another, each small enough to be held in memory."""
    for start in range(0, count, _BLOCK):
        yield slice(start, min(start + _BLOCK, count))


def scratch(folder: Path, count: int, dtype: Any) -> NDArray[Any]:
    """An array of zeros in a file without a name: its pages are the system's cache, and no memory of the process.

    Its room is reserved at once, because a disk that is found to be full by a store to memory ends the process.
    """
    dtype = np.dtype(dtype)
    if count == 0:
        return np.empty(0, dtype)
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            os.posix_fallocate(file.fileno(), 0, count * dtype.itemsize)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(folder)) from None
        return np.frombuffer(mmap.mmap(file.fileno(), count * dtype.itemsize), dtype)
