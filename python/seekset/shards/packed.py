"""Packed shards: rows one after another in bytes, as a pool takes them and as they travel between processes."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from seekset import _core
from seekset.errors import FormatError
from seekset.shards.rows import Census, Field, Rows, as_rows

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from seekset.shards.readers import ShardReader

__all__ = [
    "PackedShard",
    "census_of",
    "in_core_units",
    "measured",
    "measured_census",
    "pack_shard",
    "packed_sizes",
    "read_shard",
]


# The most bytes of a value that the extension packs.
_MOST_BYTES = 8


@dataclass(slots=True)
class PackedShard:
    """Rows of a shard, packed: row ``i`` is ``content[ends[i - 1]:ends[i]]``.

    Rows of columns are packed by the extension. Where ``fields`` is ``None``, rows are objects, and each is a pickle.
    """

    content: bytes
    ends: NDArray[np.uint64]
    bad: dict[int, str]
    fields: tuple[Field, ...] | None

    def __len__(self) -> int:
        return len(self.ends)

    def objects(self) -> list[Any]:
        """The objects, where rows are objects; only of a shard that was packed here or in a decoder of ours.

        >>> from pathlib import Path
        >>> pack_shard(_Letters(), Path("any"), (1, 3)).objects()
        ['b', 'c']
        """
        if self.fields is not None:
            raise ValueError("these rows are columns, not objects")
        ends = [0, *self.ends.tolist()]
        view = memoryview(self.content)
        return [pickle.loads(view[start:end]) for start, end in pairwise(ends)]  # noqa: S301 (our own)


class _Letters:
    """A reader for the examples here."""

    def count(self, path: Path) -> int:
        return len(self.read(path))

    def read(self, path: Path) -> list[str]:  # noqa: ARG002
        return ["a", "b", "c"]


def pack_shard(reader: ShardReader, path: Path, rows: tuple[int, int] | None = None) -> PackedShard:
    """Rows of a shard, from the first to before the second, or all, packed in this process."""
    found = read_shard(reader, path, rows)
    content, ends = _packed(found, path)
    return PackedShard(content, ends, found.bad, found.fields)


def read_shard(reader: ShardReader, path: Path, rows: tuple[int, int] | None = None) -> Rows:
    """Rows of a shard as its reader gives them: only those that are wanted, where it can read them by themselves."""
    by_row = getattr(reader, "read_rows", None)
    if rows is not None and by_row is not None:
        return as_rows(by_row(path, np.arange(*rows, dtype=np.int64)), path)
    found = as_rows(reader.read(path), path)
    return found if rows is None else found.part(*rows)


def census_of(reader: ShardReader, path: Path) -> Census:
    """What a reader knows of a shard. One that only counts rows has it read whole, to see what they are."""
    known = reader.count(path)
    if isinstance(known, Census):
        return known
    found = as_rows(reader.read(path), path)
    if len(found) != known:
        raise FormatError(f"{path}: the reader counted {known} rows, but read {len(found)}")
    return measured_census(found, path, decoded_bytes=2 * found.nbytes)


def measured_census(
    rows: Rows, path: Path, *, decoded_bytes: int, dropped: tuple[str, ...] = (), absent: tuple[str, ...] = ()
) -> Census:
    """What is known of rows that are at hand: what they take packed is measured, not bounded."""
    longest, total = packed_sizes([rows], path)
    return Census(len(rows), rows.fields, longest, total, decoded_bytes, dropped, absent)


def measured(known: Census, pieces: Iterable[Rows], path: Path) -> Census:
    """The same census with what rows take packed, where it was only bounded. All rows come, in pieces."""
    longest, total = packed_sizes(pieces, path)
    return replace(known, row_bytes=longest, packed_bytes=total)


def packed_sizes(pieces: Iterable[Rows], path: Path) -> tuple[int, int]:
    """What the longest row of a shard takes packed, and what all of them take; they come in pieces, or all at once.

    >>> packed_sizes([Rows(columns={"x": np.array([0, 1])}), Rows(columns={"x": np.array([1000])})], "a.npz")
    (3, 6)
    """
    longest = total = 0
    for rows in pieces:
        content, ends = _packed(rows, path)
        longest = max(longest, int(np.diff(ends, prepend=np.uint64(0)).max(initial=0)))
        total += len(content)
    return longest, total


def in_core_units(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype as whose values the extension packs those of a column: two for each that is wider than 8 bytes.

    >>> in_core_units(np.dtype("c16")), in_core_units(np.dtype("c8")), in_core_units(np.dtype("i2"))
    (dtype('float64'), dtype('complex64'), dtype('int16'))
    """
    return np.dtype("<f8") if dtype.itemsize > _MOST_BYTES else dtype


def _packed(rows: Rows, path: Path) -> tuple[bytes, NDArray[np.uint64]]:
    if rows.columns is not None:
        columns = [column.view(in_core_units(column.dtype)) for column in rows.columns.values()]
        return _core.pack_rows(columns, len(rows))
    try:
        parts = [pickle.dumps(one, protocol=5) for one in rows.objects or ()]
    except RecursionError:
        raise FormatError(
            f"{path}: expected objects that can be pickled again, found one that is nested too deep"
        ) from None
    return b"".join(parts), np.cumsum([len(part) for part in parts], dtype=np.uint64)
