"""Rows of a shard: as columns of numbers, or as objects; and what is known of them without holding them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from seekset.errors import MismatchError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Census", "Field", "Rows", "as_rows", "bounded_census", "is_numeric", "little_endian", "piece_rows"]

_PIECE_BYTES = 8 << 20

# Numbers that a column may hold: booleans, integers, floats, complex numbers. Floats of 16 bytes differ by machine.
_KINDS = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}


@dataclass(frozen=True, slots=True)
class Field:
    """A column: every row has an array of this dtype and shape there, ``()`` for one number.

    >>> Field("board", "<f4", (3, 13, 13)).row_bytes
    2028
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        """What one row of it takes as it is."""
        return np.dtype(self.dtype).itemsize * prod(self.shape)


@dataclass(slots=True)
class Rows:
    """What was read of a shard: columns, whose first axis is the row, or objects; and which rows are bad.

    Columns lie in memory row by row and are little-endian. The values of a bad row are zeros, or ``None``; ``bad`` says
    what is wrong with it, by its place among the rows read.

    >>> rows = Rows(columns={"value": np.array([0.5, 0.0, 1.0])}, bad={1: "field 'value' is missing"})
    >>> len(rows), rows.part(1, 3).columns["value"], rows.part(1, 3).bad
    (3, array([0., 1.]), {0: "field 'value' is missing"})
    """

    columns: dict[str, NDArray[Any]] | None = None
    objects: Sequence[Any] | None = None
    bad: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.columns is None) == (self.objects is None):
            raise ValueError("rows are columns or objects, not both and not neither")

    def __len__(self) -> int:
        if self.columns is None:
            return len(self.objects or ())
        return len(next(iter(self.columns.values()))) if self.columns else 0

    @property
    def fields(self) -> tuple[Field, ...] | None:
        """What the columns are; ``None`` for objects."""
        if self.columns is None:
            return None
        return tuple(Field(name, column.dtype.str, column.shape[1:]) for name, column in self.columns.items())

    @property
    def nbytes(self) -> int:
        """What the columns take."""
        return sum(column.nbytes for column in (self.columns or {}).values())

    def part(self, start: int, end: int) -> Rows:
        """The rows from ``start`` to before ``end``, without a copy of columns."""
        if not 0 <= start <= end <= len(self):
            raise IndexError(f"rows {start} to {end} are out of range: there are {len(self)} rows")
        bad = {row - start: text for row, text in self.bad.items() if start <= row < end}
        if self.columns is None:
            return Rows(objects=(self.objects or ())[start:end], bad=bad)
        return Rows(columns={name: column[start:end] for name, column in self.columns.items()}, bad=bad)


@dataclass(frozen=True, slots=True)
class Census:
    """What is known of a shard without holding its rows.

    Args:
        rows: How many there are.
        fields: Its columns; ``None`` if its rows are objects.
        row_bytes: The most that one row takes in a pool, where rows are packed; an estimate for objects.
        packed_bytes: The most that all of them take there.
        decoded_bytes: The most that reading it needs at once beside the result; 0 where rows are read by themselves.
        dropped: What examples have beside, but which is no number.
        absent: Fields that are ``None`` in every row, so that nobody knows their dtype and shape here.
    """

    rows: int
    fields: tuple[Field, ...] | None
    row_bytes: int
    packed_bytes: int
    decoded_bytes: int
    dropped: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def unpacked_bytes(self) -> int:
        """The most that one row takes before it is packed, and what marks its fields then; an estimate for objects.

        >>> Census(2, (Field("x", "<f4", (3,)),), 2, 4, 0).unpacked_bytes
        13
        """
        return self.row_bytes if self.fields is None else sum(1 + one.row_bytes for one in self.fields)

    def to_json(self) -> dict[str, Any]:
        """As JSON has it.

        >>> Census(2, (Field("x", "<f4", (3,)),), 13, 26, 0).to_json()["fields"]
        [['x', '<f4', [3]]]
        """
        fields = None if self.fields is None else [[one.name, one.dtype, list(one.shape)] for one in self.fields]
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return {**numbers, "fields": fields, **{name: list(getattr(self, name)) for name in _NAMES}}

    @classmethod
    def from_json(cls, found: Any) -> Census:
        """From JSON; what is none is a ``ValueError``, whatever was found instead.

        >>> Census.from_json({"rows": -1})
        Traceback (most recent call last):
        ValueError: this is no census: ...
        """
        try:
            numbers = {name: found[name] for name in _NUMBERS}
            if not all(type(number) is int and number >= 0 for number in numbers.values()):
                raise ValueError(f"sizes are not negative, but {numbers} was found")  # noqa: TRY301
            names: dict[str, Any] = {name: tuple(map(str, found[name])) for name in _NAMES}
            listed = found["fields"]
            fields = None if listed is None else tuple(_field_from_json(*one) for one in listed)
            return cls(**numbers, fields=fields, **names)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no census: {error}") from None


_NUMBERS = ("rows", "row_bytes", "packed_bytes", "decoded_bytes")
_NAMES = ("dropped", "absent")


def _field_from_json(name: str, dtype: str, shape: list[int]) -> Field:
    if not isinstance(name, str) or not is_numeric(np.dtype(dtype)) or not all(type(size) is int for size in shape):
        raise ValueError(f"expected the name, dtype and shape of a column, found {[name, dtype, shape]}")
    return Field(name, np.dtype(dtype).str, tuple(shape))


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether a column may have this dtype.

    >>> is_numeric(np.dtype("f4")), is_numeric(np.dtype("U3")), is_numeric(np.dtype(object))
    (True, False, False)
    """
    return dtype.itemsize <= _KINDS.get(dtype.kind, 0) and dtype.names is None


def little_endian(array: NDArray[Any]) -> NDArray[Any]:
    """An array as columns are: little-endian, and in memory row by row; a copy only where it is not.

    >>> little_endian(np.array([1, 2], dtype=">i2")).dtype.str
    '<i2'
    """
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def as_rows(given: Any, path: Path) -> Rows:
    """Rows from whatever a reader gave: rows, columns by name, or a list of objects.

    >>> as_rows({"x": [1, 2], "y": [1.5, 2.5]}, "a.shard").fields
    (Field(name='x', dtype='<i8', shape=()), Field(name='y', dtype='<f8', shape=()))
    >>> as_rows({"x": [1, 2], "y": [1.5]}, "a.shard")
    Traceback (most recent call last):
    seekset.errors.MismatchError: a.shard: columns have one length, but 'x' has 2 rows and 'y' has 1
    """
    if isinstance(given, Rows):
        return given if given.columns is None else Rows(columns=_as_columns(given.columns, path), bad=given.bad)
    if isinstance(given, Mapping):
        return Rows(columns=_as_columns(given, path))
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        return Rows(objects=given)
    raise MismatchError(
        f"{path}: a reader gives Rows, a mapping of columns or a sequence of objects, but gave {type(given).__name__}"
    )


def _as_columns(given: Mapping[str, Any], path: Path) -> dict[str, NDArray[Any]]:
    columns = {str(name): np.asarray(column) for name, column in given.items()}
    if not columns:
        raise MismatchError(f"{path}: a reader gave no column")
    first, length = next((name, column.shape[:1]) for name, column in columns.items())
    for name, column in columns.items():
        if column.ndim == 0 or not is_numeric(column.dtype):
            raise MismatchError(
                f"{path}: column {name!r}: expected numbers with a row on the first axis, "
                f"found {column.dtype} of shape {column.shape}"
            )
        if column.shape[:1] != length:
            raise MismatchError(
                f"{path}: columns have one length, but {first!r} has {length[0]} rows and {name!r} has {len(column)}"
            )
    return {name: little_endian(column) for name, column in columns.items()}


def piece_rows(known: Census) -> int:
    """How many rows are read at a time, where rows can be read by themselves.

    >>> piece_rows(Census(10**9, (Field("x", "<f4", (1024,)),), 0, 0, 0))
    2047
    """
    return max(1, _PIECE_BYTES // max(1, known.unpacked_bytes))


def bounded_census(
    rows: int, fields: tuple[Field, ...], *, decoded_bytes: int = 0, dropped: tuple[str, ...] = ()
) -> Census:
    """What is known of columns whose values nobody looked at: packing never takes more than a byte for each field.

    >>> bounded_census(10, (Field("x", "<f4", (3,)), Field("y", "<i8", ()))).packed_bytes
    220
    """
    row_bytes = Census(0, fields, 0, 0, 0).unpacked_bytes
    return Census(rows, fields, row_bytes, rows * row_bytes, decoded_bytes, dropped)
