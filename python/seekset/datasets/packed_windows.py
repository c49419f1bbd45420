"""Windows packed into full batches: short ones share a batch instead of being padded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset

from seekset import _core
from seekset._core import Permutation
from seekset.datasets.batch import PackedBatch
from seekset.datasets.ordered import Ordered
from seekset.datasets.shared import SharedNumbers
from seekset.datasets.stream import Stream
from seekset.errors import MismatchError
from seekset.limits import whole_number
from seekset.plan import Plan
from seekset.rows import row_number, row_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from seekset.datasets.windows import WindowDataset
    from seekset.world import Even, World

__all__ = ["PackedWindowBatches", "PackedWindows"]

_PLANNED_AT_ONCE = 16

# cu_seqlens is int32.
_MOST_TOKENS = 2**31 - 1


class _Lengths:
    """The tokens of short windows, in shared memory, as a plan asks for them."""

    def __init__(self, lengths: NDArray[np.int64]) -> None:
        self._shared = SharedNumbers(lengths)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self._shared.values


class PackedWindowBatches(Ordered, Dataset[dict[str, Any]]):
    """Batches of windows, by their place in an epoch. Map style: one item is one whole batch.

    Full windows are shared out a few at a time, in another order for every epoch; those that are not full, at most one
    of a contig, are packed as well as they go, once for all epochs.
    """

    yields_batches = True

    def __init__(self, windows: WindowDataset, max_tokens: int | None = None) -> None:
        plan = windows.plan
        budget = plan.window if max_tokens is None else whole_number(max_tokens, "max_tokens", most=_MOST_TOKENS)
        if budget < plan.window:
            raise MismatchError(
                f"max_tokens mismatch: a window has {plan.window} tokens, but a batch has only {budget}"
            )
        if windows.ends != "window":
            raise ValueError('packed windows each have their specials: ends="contig" can\'t be packed')
        if windows.transform is not None:
            raise ValueError("a transform is called with items, which packed batches have none of: give no transform")
        self.windows = windows
        self.max_tokens = budget
        self._at_once = budget // plan.window
        numbers, letters = plan.short()
        self._short = SharedNumbers(numbers)
        # How many full windows stand before each of them.
        self._full_before = SharedNumbers(numbers - np.arange(len(numbers)))
        specials = plan.window - plan.content
        self._plan = Plan.create(_Lengths(letters + specials), tokens=None, max_tokens=budget, max_length=None)
        self._full = len(plan) - len(numbers)
        # The same seed and epoch as the windows': strands are drawn from them, too.
        self._order = windows._order.of_other_rows(len(self))  # noqa: SLF001 (they are one dataset)

    def __len__(self) -> int:
        return -(-self._full // self._at_once) + len(self._plan)

    @property
    def fingerprint(self) -> str:
        """What tells these batches from others."""
        return f"{self.windows.fingerprint}, {self.max_tokens}"

    @property
    def _rules(self) -> dict[str, Any]:
        return {**super()._rules, "rc_aug": self.windows.rc_aug}

    @property
    def _content(self) -> dict[str, Any]:
        return {"batches": len(self), "files": self.fingerprint}

    def __getitem__(self, place: int) -> dict[str, Any]:
        return next(self.rows_at([row_number(place, len(self))]))

    def __getitems__(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """The batches at many places, in that order."""
        return list(self.rows_at(places))

    def rows_at(self, places: Sequence[int], epoch: int | None = None) -> Iterator[dict[str, Any]]:
        """The batches at many places of an epoch, each gathered when it is asked for."""
        epoch = self.epoch if epoch is None else epoch
        numbers = self._order.rows(row_numbers(places, len(self)), epoch).tolist()
        return (self._gathered(self._windows_of(number, epoch), epoch) for number in numbers)

    def _windows_of(self, batch: int, epoch: int) -> NDArray[np.int64]:
        """The numbers of a batch's windows."""
        of_full = -(-self._full // self._at_once)
        if batch >= of_full:
            return self._short.values[self._plan[batch - of_full].rows]
        start = batch * self._at_once
        places = np.arange(start, min(start + self._at_once, self._full), dtype=np.int64)
        if self._order.shuffle:
            places = Permutation(self._full, self._order.seed, epoch).take(places)
        # The k-th of the full windows comes after as many short ones as stand before it.
        found: NDArray[np.int64] = places + np.searchsorted(self._full_before.values, places, side="right")
        return found

    def _gathered(self, numbers: NDArray[np.int64], epoch: int) -> PackedBatch:
        windows = self.windows
        spans = windows.spans_of(np.ascontiguousarray(numbers), epoch)
        tokens, flags = windows.gather(spans, None)
        specials = windows.plan.window - windows.plan.content
        ends = np.concatenate([[0], np.cumsum(spans.letters + specials)]).astype(np.int32)
        labels, mask = self._labels(tokens, ends, flags)
        arrays = {"tokens": tokens, "labels": labels, "loss_mask": mask, "position_ids": _core.token_positions(ends)}
        arrays |= {"cu_seqlens": ends, "windows": numbers}
        longest = int(np.diff(ends).max(initial=0))
        return PackedBatch({name: torch.from_numpy(array) for name, array in arrays.items()}, max_seqlen=longest)

    def _labels(
        self, tokens: NDArray[Any], ends: NDArray[np.int32], flags: NDArray[np.bool_] | None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The tokens one place on, with padding after each window, and which of them count."""
        # One more in front, which stands for no label.
        labels = np.full((1, len(tokens) + 1), self.windows.tokens.pad or 0, dtype=tokens.dtype)
        labels[0, 1:-1] = tokens[1:]
        labels[0, ends[1:]] = self.windows.tokens.pad or 0
        mask = _core.loss_mask(labels, self.windows.uncounted)[0]
        if flags is not None:
            mask[:-1][flags[1:]] = 0
        return labels[0, 1:], mask


class PackedWindows(Stream[dict[str, Any]]):
    """Windows as full batches, one after another without padding. Iterable: every item is a whole batch.

    Batches are dicts: ``tokens``, ``labels``, ``loss_mask`` and ``position_ids``, one window after another;
    ``cu_seqlens`` (int32), ``max_seqlen``, and ``windows``, their numbers. Labels of a window's last token are padding.

    Args:
        windows: The windows.
        max_tokens: The most tokens of a batch, at least those of a window; one window's unless given.
        even: What to do where batches don't divide by ranks: ``"none"``, ``"drop"`` or ``"pad"``.
        world: The rank and the number of ranks, found out if not given.

    >>> from seekset.datasets import WindowDataset
    >>> stream = WindowDataset("genome.fa", window=8, shuffle=False).packed(max_tokens=16)
    >>> [(batch["windows"].tolist(), batch["cu_seqlens"].tolist()) for batch in stream][0]
    ([0, 1], [0, 8, 16])
    """

    data: PackedWindowBatches
    yields_batches = True

    def __init__(
        self,
        windows: WindowDataset,
        max_tokens: int | None = None,
        *,
        even: Even = "none",
        world: World | None = None,
    ) -> None:
        batches = PackedWindowBatches(windows, max_tokens)
        super().__init__(batches, even=even, world=world, at_once=_PLANNED_AT_ONCE)

    @property
    def batches(self) -> PackedWindowBatches:
        """The same batches by place, for samplers."""
        return self.data
