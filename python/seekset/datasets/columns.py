"""A batch that was decoded into columns, seen as a list of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch

from seekset.batch import Batch
from seekset.errors import FormatError

if TYPE_CHECKING:
    from seekset.examples import Column

__all__ = ["Columns", "NoItems", "as_tensors"]


class Columns(Sequence[dict[str, Any]]):
    """Items that are made when they are asked for; ``columns`` has all of them at once.

    An item is a dict of tensors; byte strings are bytes, or lists of them. Loaders' default collate stacks items as it
    stacks those of any dataset; :func:`seekset.loading.collate` hands out the columns as they are.
    """

    def __init__(self, columns: Mapping[str, Any], count: int) -> None:
        self.columns: dict[str, Any] = dict(columns)
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(self._count))]
        place = range(self._count)[at]
        return {name: _value(column, place) for name, column in self.columns.items()}


class NoItems(list[Any]):
    """A batch of which nothing could be read: empty, and an error where an item is asked for all the same.

    Args:
        items: What would have been the items.
        why: What the error says. Loaders' default collate asks for the first item, whether there is one or not.
    """

    def __init__(self, items: Sequence[Any], why: str) -> None:
        super().__init__()
        self.columns: Any = items.columns if isinstance(items, Columns) else []
        self._why = why

    def __getitem__(self, at: Any) -> Any:
        raise FormatError(self._why)


def as_tensors(columns: Mapping[str, Column], count: int) -> Columns:
    """Columns of numpy as items of torch, without a copy."""
    return Columns({name: _as_tensor(column) for name, column in columns.items()}, count)


def _as_tensor(column: Any) -> Any:
    if isinstance(column, Batch):
        return Batch(_as_tensor(column.values), torch.from_numpy(column.offsets))
    if isinstance(column, np.ndarray) and column.dtype != object:
        return torch.from_numpy(column)
    return column


def _value(column: Any, place: int) -> Any:
    if isinstance(column, Batch):
        start, end = column.offsets[place : place + 2].tolist()
        value = column.values[start:end]
    else:
        value = column[place]
    return value.tolist() if isinstance(value, np.ndarray) else value
