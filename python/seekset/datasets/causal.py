"""Rows of tokens as items of causal language models: tokens, labels, loss mask and positions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from seekset.datasets.columns import Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CausalBatch", "CausalItems", "attention_mask", "narrowed"]


class CausalBatch(dict[str, Any]):
    """A batch by name, which others may rebuild as they rebuild any dict.

    One that was made by :meth:`of`, and not changed since, goes from a worker to its loader as rows of tokens in the
    smallest numbers that hold them, and a bit for each label: an eightieth part of its tensors.

    >>> batch = CausalBatch.of(np.array([[2, 65, 67, 0, 1]]), np.array([[1, 1, 0, 0]], dtype=np.float32))
    >>> batch["tokens"], batch["labels"], batch["loss_mask"]
    (tensor([[ 2, 65, 67,  0]]), tensor([[65, 67,  0,  1]]), tensor([[1., 1., 0., 0.]]))
    """

    _made: tuple[NDArray[Any], dict[str, torch.Tensor]] | None = None

    @classmethod
    def of(
        cls,
        rows: NDArray[Any],
        mask: NDArray[np.float32],
        ignored: NDArray[np.bool_] | None = None,
        *,
        with_attention: bool = False,
    ) -> CausalBatch:
        """The batch of rows of tokens.

        Args:
            rows: Tokens, with one more column than the items have, which is padding. Tokens and labels are views of it.
            mask: 1 for each label that counts, 0 for the others.
            ignored: Further labels that don't count, one flag for each label.
            with_attention: Whether items have an attention mask, too.
        """
        if ignored is not None:
            mask[ignored] = 0
        return cls._of(rows, mask, with_attention=with_attention)

    @classmethod
    def _of(cls, rows: NDArray[Any], mask: NDArray[np.float32], *, with_attention: bool) -> CausalBatch:
        tokens, (count, length) = torch.from_numpy(rows), mask.shape
        values = {"tokens": tokens[:, :-1], "labels": tokens[:, 1:], "loss_mask": torch.from_numpy(mask)}
        values["position_ids"] = _positions(length).expand(count, length)
        if with_attention:
            values["attention_mask"] = attention_mask(length).expand(count, 1, length, length)
        batch = cls(values)
        batch._made = (rows, values)
        return batch

    def __reduce__(self) -> tuple[Any, ...]:
        if self._made is None or self.keys() != self._made[1].keys() or not self._is_as_made(self._made[1]):
            return type(self), (dict(self),)
        rows, mask = self._made[0], self["loss_mask"].numpy()
        return _received, (*narrowed(rows), np.packbits(mask == 1, axis=1), "attention_mask" in self)

    def __copy__(self) -> CausalBatch:
        # Else it would go through bytes, as it does for each batch that is pinned.
        return CausalBatch(self)

    def _is_as_made(self, values: dict[str, torch.Tensor]) -> bool:
        mask = values["loss_mask"]
        return all(self[name] is value for name, value in values.items()) and bool(((mask == 0) | (mask == 1)).all())


def _received(rows: NDArray[Any], dtype: str, bits: NDArray[np.uint8], with_attention: bool) -> CausalBatch:
    mask = np.unpackbits(bits, axis=1, count=rows.shape[1] - 1).astype(np.float32)
    return CausalBatch._of(rows.astype(dtype), mask, with_attention=with_attention)  # noqa: SLF001 (the same class)


def narrowed(values: NDArray[Any]) -> tuple[NDArray[Any], str]:
    """Whole numbers in the smallest kind that holds them, and the kind they are of."""
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    kind = np.result_type(np.min_scalar_type(least), np.min_scalar_type(most))
    return values.astype(kind if kind.kind in "iu" else values.dtype, copy=False), values.dtype.str


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
