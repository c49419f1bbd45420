"""Packed batches for attention of variable length: sequences one after another in one tensor, without padding."""

from __future__ import annotations

import operator
import threading
import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch.utils.data import IterableDataset

from seekset import _core
from seekset.errors import MismatchError, SeeksetWarning
from seekset.limits import limit
from seekset.position import VERSION, check_state
from seekset.tokenizers import as_tokenizer
from seekset.workers import refuse_cuda_in_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from seekset.tokenizers import Labelled

__all__ = ["PackingStream", "VarlenCollator"]

_MOST_TOKENS = 2**31 - 1
_END: Any = object()

# Set once a cut was told of: the collator itself keeps nothing from call to call.
_told_of_cuts = threading.Event()


class VarlenCollator:
    """Makes one packed batch of a list of sequences. It keeps nothing from one call to the next.

    A batch is a dict: ``input_ids`` (int64, all tokens one after another), ``cu_seqlens`` (int32, where each sequence
    starts, and the end), ``max_seqlen``, ``position_ids`` (int64, from 0 in each sequence), ``sequence_ids`` and
    ``num_sequences``. That is what attention kernels of variable length take.

    A list over the budget is an error. Which sequences fit into a batch together is decided before, by
    :class:`PackingStream`, which :func:`seekset.loading.create_async_dataloader` puts around a stream.

    Args:
        batch_converter: What makes tokens: a token table or its name, a tokenizer of Hugging Face, or a batch
            converter of ESM.
        max_tokens_per_batch: How many tokens a batch may have, specials counted.
        max_sequence_length: How many residues of a sequence are used; ``None`` for all. That sequences were cut is
            told once per process, by a warning.

    >>> collate = VarlenCollator("esm", max_tokens_per_batch=16)
    >>> batch = collate([{"id": "a", "sequence": "LAG"}, {"id": "b", "sequence": "MK"}])
    >>> batch["input_ids"]
    tensor([ 0,  4,  5,  6,  2,  0, 20, 15,  2])
    >>> batch["cu_seqlens"], batch["max_seqlen"], batch["sequence_ids"]
    (tensor([0, 5, 9], dtype=torch.int32), 5, ['a', 'b'])
    """

    def __init__(
        self, batch_converter: Any, max_tokens_per_batch: int = 4096, max_sequence_length: int | None = 1022
    ) -> None:
        self.max_tokens_per_batch: int = _from_one(max_tokens_per_batch, "max_tokens_per_batch")
        self.max_sequence_length: int | None = limit(max_sequence_length, "max_sequence_length")
        self._tokenizer = as_tokenizer(batch_converter)

    def cost(self, item: Mapping[str, Any]) -> int:
        """How many tokens an item takes, at most: its residues, as far as they are used, and the specials.

        >>> VarlenCollator("esm").cost({"id": "a", "sequence": "LAG"})
        5
        """
        residues = len(_labelled(item)[1])
        if self.max_sequence_length is not None:
            residues = min(residues, self.max_sequence_length)
        return residues + self._tokenizer.specials

    def __call__(self, items: Sequence[Any]) -> dict[str, Any]:
        """One packed batch of all items; of a list that holds one list, of those."""
        if len(items) == 1 and isinstance(items[0], list):
            items = items[0]
        if not items:
            raise ValueError("a batch needs at least one sequence, but the list is empty")
        pairs = self._cut([_labelled(item) for item in items])
        return self._packed([label for label, _ in pairs], self._tokenizer.encode(pairs))

    def _cut(self, pairs: list[Labelled]) -> list[Labelled]:
        most = self.max_sequence_length
        long = [] if most is None else [pair for pair in pairs if len(pair[1]) > most]
        if not long:
            return pairs
        if not _told_of_cuts.is_set():
            _told_of_cuts.set()
            label, sequence = long[0]
            message = (
                f"{len(long)} of the {len(pairs)} sequences of a batch are longer than max_sequence_length, which is "
                f"{most} residues, and were cut: the first is {label!r} with {len(sequence)}; others are cut without a "
                "word from here on"
            )
            warnings.warn(message, SeeksetWarning, stacklevel=3)
        return [(label, sequence[:most]) for label, sequence in pairs]

    def _packed(self, labels: list[str], rows: Sequence[np.ndarray[Any, np.dtype[np.int64]]]) -> dict[str, Any]:
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        cost, budget = int(offsets[-1]), self.max_tokens_per_batch
        if cost > budget:
            raise MismatchError(
                f"a batch of {len(rows)} sequences costs {cost} tokens, but max_tokens_per_batch is {budget}; "
                "create_async_dataloader and PackingStream give batches that fit"
            )
        return {
            "input_ids": torch.from_numpy(np.concatenate(rows)),
            "cu_seqlens": torch.from_numpy(offsets.astype(np.int32)),
            "max_seqlen": int(lengths.max()),
            "position_ids": torch.from_numpy(np.arange(cost) - np.repeat(offsets[:-1], lengths)),
            "sequence_ids": labels,
            "num_sequences": len(rows),
        }


def _labelled(item: Any) -> Labelled:
    try:
        return item["id"], item["sequence"]
    except (KeyError, TypeError, IndexError):
        found = f"one with {', '.join(map(repr, item))}" if isinstance(item, dict) else type(item).__name__
        raise TypeError(f"an item must be a dict with 'id' and 'sequence', not {found}") from None


_State: TypeAlias = "tuple[Any, list[Any], int]"


class PackingStream(IterableDataset[list[Any]]):
    """Lists of a stream's items that fit into a batch together: packed best fit decreasing, some at a time.

    Items are taken from the stream until a buffer is full, and packed. Batches that are not full stay for the next
    buffer, a part of it at most, so that no buffer has a tail; at the end everything is delivered. What comes out
    depends on nothing but the stream and the options.

    The state is that of the stream where the buffer began, the items that had stayed, and how many batches of the
    buffer were delivered: it resumes at every batch, if the stream has a state.

    Args:
        data: A stream of items: anything that can be iterated over.
        max_tokens: How many tokens a batch may have.
        cost: How many tokens an item takes; :meth:`VarlenCollator.cost` knows.
        buffer_items: How many items are held at most.
        buffer_tokens: How many tokens fill the buffer; 64 batches, if not given.

    >>> stream = PackingStream(["aaaa", "bb", "ccc", "d"], max_tokens=5, cost=len)
    >>> list(stream)
    [['aaaa', 'd'], ['ccc', 'bb']]
    """

    yields_batches = True

    def __init__(
        self,
        data: Any,
        max_tokens: int,
        cost: Callable[[Any], int],
        *,
        buffer_items: int = 8192,
        buffer_tokens: int | None = None,
    ) -> None:
        self.data = data
        self.max_tokens: int = _from_one(max_tokens, "max_tokens")
        self._cost = cost
        self._items = _from_one(buffer_items, "buffer_items")
        buffer_tokens = min(64 * self.max_tokens, _MOST_TOKENS) if buffer_tokens is None else buffer_tokens
        self._tokens = _from_one(buffer_tokens, "buffer_tokens")
        # The stream's state where the buffer began, what had stayed, batches delivered; None where nothing is held.
        self._at: _State | None = None
        self._pending: _State | None = None
        self._epoch = self.epoch

    @property
    def epoch(self) -> int:
        """The stream's epoch."""
        return int(getattr(self.data, "epoch", 0))

    def set_epoch(self, epoch: int) -> None:
        """Take the stream to an epoch."""
        if epoch != self.epoch:
            self._pending = None
        if hasattr(self.data, "set_epoch"):
            self.data.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[Any]]:
        # A generator, so that nothing is taken up before the first batch: loaders call `iter` more often than needed.
        refuse_cuda_in_worker()
        pending, self._pending = self._pending, None
        items = iter(self.data)
        start, stayed, done = (self._upcoming(), [], 0) if pending is None else pending
        ahead = next(items, _END)
        # Only now: the stream goes to the epoch of a state that it has loaded when its first item is asked for.
        self._epoch, self._at = self.epoch, (start, stayed, done)
        while stayed or ahead is not _END:
            buffer, ahead, following = self._fill(stayed, ahead, items)
            batches = self._pack(buffer)
            staying = [] if ahead is _END else self._split(batches)
            for number, batch in enumerate(batches[done:], done + 1):
                if number < len(batches):
                    self._at = (start, stayed, number)
                else:
                    self._at = None if ahead is _END else (following, staying, 0)
                yield [item for item, _ in batch]
            start, stayed, done = following, staying, 0
        self._at = None

    def _fill(self, stayed: list[Any], ahead: Any, items: Iterator[Any]) -> tuple[list[tuple[Any, int]], Any, Any]:
        """A full buffer, or the last; the item after it, or the end; and the stream's state before that item."""
        buffer = [(item, self._checked_cost(item)) for item in stayed]
        tokens = sum(cost for _, cost in buffer)
        while ahead is not _END:
            cost = self._checked_cost(ahead)
            buffer.append((ahead, cost))
            tokens += cost
            if len(buffer) >= self._items or tokens >= self._tokens:
                following = self._here()
                return buffer, next(items, _END), following
            ahead = next(items, _END)
        return buffer, _END, None

    def _checked_cost(self, item: Any) -> int:
        cost = self._cost(item)
        if cost > self.max_tokens:
            name = repr(item["id"]) if isinstance(item, dict) and "id" in item else "an item"
            raise MismatchError(
                f"{name} costs {cost} tokens, but a batch may have {self.max_tokens}; raise the budget, or cut "
                "sequences with max_sequence_length"
            )
        return cost

    def _pack(self, buffer: list[tuple[Any, int]]) -> list[list[tuple[Any, int]]]:
        """The buffer in batches, the fullest first: a plan as for a whole index, of a few items."""
        costs = np.array([cost for _, cost in buffer], dtype=np.uint64)
        plan = _core.Plan.pack(costs, max_tokens=self.max_tokens, overflow="error", fingerprint="")
        return [[buffer[place] for place in plan.batch(number)[0].tolist()] for number in range(len(plan))]

    def _split(self, batches: list[list[tuple[Any, int]]]) -> list[Any]:
        """Take batches that are not full off the end of the list, an eighth of the buffer at most: items that stay."""
        staying: list[Any] = []
        tokens = 0
        while len(batches) > 1 and _filled(batches[-1]) < self.max_tokens * 0.99:
            tokens += _filled(batches[-1])
            if len(staying) + len(batches[-1]) > self._items // 8 or tokens > self._tokens // 8:
                break
            staying += [item for item, _ in batches.pop()]
        return staying

    def _here(self) -> Any:
        return self.data.state_dict() if hasattr(self.data, "state_dict") else None

    def _upcoming(self) -> Any:
        # Before an iteration begins, some streams' states still tell of the one before.
        return self.data.upcoming_state() if hasattr(self.data, "upcoming_state") else self._here()

    @property
    def _setting(self) -> dict[str, Any]:
        return {"max_tokens": self.max_tokens, "buffer_items": self._items, "buffer_tokens": self._tokens}

    def state_dict(self) -> dict[str, Any]:
        """Where this process is, as JSON has it if it has the items."""
        if not (hasattr(self.data, "state_dict") and hasattr(self.data, "load_state_dict")):
            name = type(self.data).__name__
            raise TypeError(f"{name} has no state_dict and load_state_dict: batches of it can't be resumed")
        held = self._at if self._epoch == self.epoch else None
        held = held if self._pending is None else self._pending
        start, stayed, done = (self._here(), [], 0) if held is None else held
        return {"version": VERSION, "data": start, "stayed": list(stayed), "delivered": done, **self._setting}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken, once; at the end of an epoch, with the next one."""
        check_state(state, self._setting)
        stayed, done = state.get("stayed"), state.get("delivered")
        if not isinstance(stayed, list) or isinstance(done, bool) or not isinstance(done, int) or done < 0:
            raise MismatchError(
                "state mismatch: expected what state_dict gave, but what stayed or was delivered is none"
            )
        self.data.load_state_dict(state.get("data"))
        self._pending = (state["data"], stayed, done)
        self._epoch, self._at = self.epoch, None


def _filled(batch: list[tuple[Any, int]]) -> int:
    return sum(cost for _, cost in batch)


def _from_one(value: int, name: str) -> int:
    number = operator.index(value)
    if not 1 <= number <= _MOST_TOKENS:
        raise ValueError(f"{name} must be from 1 to 2**31 - 1, but is {number}")
    return number
