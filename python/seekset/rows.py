"""Row numbers as people give them and as the extension takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["integers", "one_each", "row_number", "row_numbers"]

_T = TypeVar("_T", bound=np.generic)


def row_number(row: SupportsIndex, count: int) -> int:
    """One row of ``count``, counted from the front.

    >>> row_number(-1, 5)
    4
    """
    if not hasattr(row, "__index__"):
        raise TypeError(f"a row is asked for by its number, not by {type(row).__name__}")
    number = row.__index__()
    if not -count <= number < count:
        few = {0: "there are no rows", 1: "there is one row, row 0"}
        there = few.get(count, f"there are {count} rows, 0 to {count - 1}")
        raise IndexError(f"row {number} is out of range: {there}")
    return number % count


def row_numbers(rows: Iterable[SupportsIndex] | ArrayLike, count: int) -> NDArray[np.int64]:
    """Many rows of ``count``, counted from the front, in an array as the extension takes it.

    >>> row_numbers([0, -1], 5)
    array([0, 4])
    """
    if isinstance(rows, (slice, str, bytes)) or not (isinstance(rows, Iterable) or hasattr(rows, "__array__")):
        raise TypeError(f"rows must be a list or an array of integers, not {type(rows).__name__}")
    listed = isinstance(rows, Iterable) and not isinstance(rows, (np.ndarray, Sequence))
    numbers = integers(list(cast("Iterable[Any]", rows)) if listed else rows, "rows")
    if numbers.size and numbers.min() >= 0 and numbers.max() < count:
        return np.ascontiguousarray(numbers)
    wrong = (numbers < -count) | (numbers >= count)
    if wrong.any():
        row_number(int(numbers[wrong][0]), count)  # raises
    negative = numbers < 0
    return np.ascontiguousarray(np.where(negative, numbers + count, numbers) if negative.any() else numbers)


def integers(values: Any, name: str) -> NDArray[np.int64]:
    """Integers as the extension takes them; what is no integer is refused rather than rounded.

    >>> integers([1.5], "rows")
    Traceback (most recent call last):
    TypeError: rows must be integers, not float64
    """
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, not {array.dtype}")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise IndexError(f"{name} holds {array.max()}, which is out of range")
    if array.ndim > 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    return array.astype(np.int64, copy=False)


def one_each(values: NDArray[_T], count: int, name: str) -> NDArray[_T]:
    """One value per row: as given, or the same for all.

    >>> one_each(np.array(5), 2, "lengths")
    array([5, 5])
    """
    if values.ndim == 1 and len(values) != count:
        raise ValueError(f"{name} has {len(values)} values for {count} rows; give one each, or one for all")
    return np.ascontiguousarray(np.broadcast_to(values, (count,)))
