"""Columns of a pickle, as the extension found them: arrays with names, and what is told of rows that are bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from seekset.shards.rows import Field, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Stacked", "rows_of"]

# What was found in the place of a value: nothing, a dtype and a shape, a type, the bits of an integer, or a float.
_Found: TypeAlias = "tuple[str, list[int]] | str | float | None"
_Column: TypeAlias = "tuple[bytes, str, list[int], NDArray[np.uint8]]"
_Bad: TypeAlias = "tuple[int, int | None, _Found]"

# How many rows; the name, dtype, shape and bytes of columns; row, column and finding of what is bad; names of what is
# dropped, and of what is always None.
Stacked: TypeAlias = "tuple[int, list[_Column], list[_Bad], list[bytes], list[bytes]]"


def rows_of(stacked: Stacked) -> tuple[Rows, tuple[str, ...], tuple[str, ...]]:
    """Rows of columns, the fields that are no numbers, and those that are always ``None``.

    >>> values = np.array([0, 0, 0, 63, 0, 0, 0, 0], dtype="u1")
    >>> rows, *others = rows_of((2, [(b"x", "<f4", [], values)], [(1, 0, ("<i8", []))], [b"note"], [b"policy"]))
    >>> rows.columns["x"].tolist(), rows.bad
    ([0.5, 0.0], {1: "field 'x': expected float32 of shape (), found int64 of shape ()"})
    >>> others
    [('note',), ('policy',)]
    """
    count, found, wrong, dropped, absent = stacked
    fields = [Field(_text(name), dtype, tuple(shape)) for name, dtype, shape, _ in found]
    columns: dict[str, NDArray[Any]] = {
        field.name: values.view(field.dtype).reshape(count, *field.shape)
        for field, (*_, values) in zip(fields, found, strict=True)
    }
    bad = {row: _reason(None if column is None else fields[column], what) for row, column, what in wrong}
    return Rows(columns=columns, bad=bad), tuple(map(_text, dropped)), tuple(map(_text, absent))


def _text(name: bytes) -> str:
    # A string of Python's may have halves of surrogate pairs.
    return name.decode("utf-8", "surrogatepass")


def _reason(field: Field | None, found: _Found) -> str:
    if field is None:
        return f"expected an example that is a dict, found {_told(found)}"
    return f"field {field.name!r}: expected {_told((field.dtype, list(field.shape)))}, found {_told(found)}"


def _told(found: _Found) -> str:
    match found:
        case None:
            return "nothing"
        case str():
            return found
        case int():
            return f"an integer of {found} bits"
        case float():
            return repr(found)
        case dtype, shape:
            return f"{np.dtype(dtype)} of shape {tuple(shape)}"
