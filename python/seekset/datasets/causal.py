"""Rows of tokens as items of causal language models: tokens, labels, loss mask and positions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from seekset import _core
from seekset.datasets.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["CausalBatch", "CausalItems", "attention_mask"]


class CausalBatch(dict[str, Any]):
    """A batch by name. Tokens and labels are views of rows that are one token longer.

    From a worker it goes to its loader as those rows, in the smallest numbers that hold them, and what follows from
    them is made again there: an eightieth of what the tensors would take.

    Args:
        rows: Tokens, with one more column than the items have, which is padding.
        uncounted: Ids whose labels don't count.
        ignored: Further labels that don't count, one flag for each label.
        more: Whether items have an attention mask, too.
    """

    def __init__(
        self,
        rows: NDArray[Any],
        uncounted: Sequence[int],
        ignored: NDArray[np.bool_] | None = None,
        *,
        with_attention: bool = False,
    ) -> None:
        super().__init__()
        self._sent = (rows, tuple(uncounted), ignored, with_attention)
        tokens = torch.from_numpy(rows)
        mask = _core.loss_mask(rows, list(uncounted))
        if ignored is not None:
            mask[ignored] = 0
        count, length = mask.shape
        self["tokens"], self["labels"] = tokens[:, :-1], tokens[:, 1:]
        self["loss_mask"] = torch.from_numpy(mask)
        self["position_ids"] = _positions(length).expand(count, length)
        if with_attention:
            self["attention_mask"] = attention_mask(length).expand(count, 1, length, length)

    def __reduce__(self) -> tuple[Any, ...]:
        rows, uncounted, ignored, with_attention = self._sent
        narrow = np.min_scalar_type(int(rows.max(initial=0))) if rows.size and rows.min() >= 0 else rows.dtype
        bits = None if ignored is None else np.packbits(ignored, axis=1)
        return _received, (rows.astype(narrow, copy=False), rows.dtype.str, uncounted, bits, with_attention)


def _received(
    rows: NDArray[Any], dtype: str, uncounted: tuple[int, ...], bits: NDArray[np.uint8] | None, with_attention: bool
) -> CausalBatch:
    ignored = None if bits is None else np.unpackbits(bits, axis=1, count=rows.shape[1] - 1).astype(np.bool_)
    return CausalBatch(rows.astype(dtype), uncounted, ignored, with_attention=with_attention)


class CausalItems(Columns):
    """The items of a batch, which is there as a whole, too."""

    columns: CausalBatch

    def __init__(self, batch: CausalBatch) -> None:
        super().__init__(batch, len(batch["tokens"]))
        self.columns = batch


@cache
def _positions(length: int) -> torch.Tensor:
    """Counted once, shared by all items."""
    return torch.arange(length, dtype=torch.int64)


@cache
def attention_mask(length: int) -> torch.Tensor:
    """What a causal model must not look at: True where a token comes later. Made once, shared by all items."""
    return torch.ones((1, length, length), dtype=torch.bool).triu_(1)
