"""Fitting rows of one shard to those of others: fields that a shard has nothing of, and flags that it needs none of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from seekset.errors import StaleIndexError
from seekset.shards.readers import ShardReader
from seekset.shards.rows import Census, Field, Rows, as_rows

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["FittedShards", "fits", "fitted_census", "flag_of"]

_FLAG = "has_"
# What packing makes of zeros, and of a flag that is set.
_ZERO_BYTES, _SET_BYTES = 1, 2


def flag_of(name: str) -> Field:
    """The column that says where a field is not ``None``.

    >>> flag_of("policy")
    Field(name='has_policy', dtype='|b1', shape=())
    """
    return Field(f"{_FLAG}{name}", "|b1", ())


def fits(census: Census, field: Field) -> bool:
    """Whether rows of a shard have a field, or can be given it without making anything up.

    A field that is ``None`` in all of them is zeros, and its flag false; a flag that they lack is true, where they have
    what it is about.

    >>> games = Census(5, (Field("value", "<f4", ()),), 5, 25, 0, absent=("policy",))
    >>> fits(games, Field("policy", "<f4", (169,))), fits(games, flag_of("policy")), fits(games, flag_of("value"))
    (True, True, True)
    >>> fits(games, Field("value", "<f8", ())), fits(games, Field("board", "<f4", (2, 5, 5)))
    (False, False)
    """
    own = {one.name: one for one in census.fields or ()}
    if field.name in own:
        return own[field.name] == field
    about = field.name.removeprefix(_FLAG)
    return field.name in census.absent or (field == flag_of(about) and (about in own or about in census.absent))


def fitted_census(census: Census, wanted: tuple[Field, ...]) -> Census:
    """What is known of a shard whose rows are given the fields that they lack."""
    own = {one.name for one in census.fields or ()}
    lacking = [one for one in wanted if one.name not in own]
    more = sum(_SET_BYTES if _is_set(one, own) else _ZERO_BYTES for one in lacking)
    # Where rows are read by themselves nothing is decoded beside them.
    beside = census.rows * sum(one.row_bytes for one in lacking) if census.decoded_bytes else 0
    return replace(
        census,
        fields=wanted,
        row_bytes=census.row_bytes + more,
        packed_bytes=census.packed_bytes + census.rows * more,
        decoded_bytes=census.decoded_bytes + beside,
    )


def _is_set(field: Field, own: set[str]) -> bool:
    return field.name.startswith(_FLAG) and field.name.removeprefix(_FLAG) in own


class FittedShards:
    """A reader around a reader: its rows have the fields that are wanted, in that order.

    Args:
        reader: What reads the shard.
        own: The fields that it gives.
        wanted: The fields that rows are to have.

    >>> from seekset.shards import NpzShards
    >>> np.savez("no_policy.npz", value=np.array([0.5, 1.0], dtype="f4"))
    >>> value, policy = Field("value", "<f4", ()), Field("policy", "<f4", (3,))
    >>> reader = FittedShards(NpzShards(), (value,), (policy, value, flag_of("policy"), flag_of("value")))
    >>> {name: column.tolist() for name, column in reader.read_rows("no_policy.npz", [1]).columns.items()}
    {'policy': [[0.0, 0.0, 0.0]], 'value': [1.0], 'has_policy': [False], 'has_value': [True]}
    """

    def __init__(self, reader: ShardReader, own: tuple[Field, ...], wanted: tuple[Field, ...]) -> None:
        self.reader: ShardReader = reader
        self.own: tuple[Field, ...] = own
        self.wanted: tuple[Field, ...] = wanted
        self.holds_gil: bool = bool(getattr(reader, "holds_gil", False))
        self.max_bytes: int | None = getattr(reader, "max_bytes", None)
        if hasattr(reader, "read_rows"):
            self.read_rows = self._read_rows

    def count(self, path: Path) -> int | Census:
        """What the reader knows of a shard, with the fields that are wanted."""
        found = self.reader.count(path)
        return fitted_census(found, self.wanted) if isinstance(found, Census) else found

    def read(self, path: Path) -> Rows:
        """All rows of a shard."""
        return self._fitted(self.reader.read(path), path)

    def _read_rows(self, path: Path, rows: Sequence[int]) -> Rows:
        """The rows with these numbers, in that order."""
        reader: Any = self.reader
        return self._fitted(reader.read_rows(path, rows), path)

    def _fitted(self, given: Any, path: Path) -> Rows:
        rows = as_rows(given, path)
        # What a shard lacks was decided by what it had: nothing else may be filled in.
        if rows.fields != self.own:
            raise StaleIndexError(f"{path}: its fields were {self.own}, but {rows.fields} were read")
        return Rows(columns={one.name: _column(rows, one) for one in self.wanted}, bad=rows.bad)

    def __reduce__(self) -> tuple[Any, ...]:
        return FittedShards, (self.reader, self.own, self.wanted)

    def __repr__(self) -> str:
        return f"FittedShards({self.reader!r})"


def _column(rows: Rows, field: Field) -> NDArray[Any]:
    columns = rows.columns or {}
    if field.name in columns:
        return columns[field.name]
    column = np.zeros((len(rows), *field.shape), field.dtype)
    if _is_set(field, set(columns)):
        column[:] = True
        column[list(rows.bad)] = False
    return column
