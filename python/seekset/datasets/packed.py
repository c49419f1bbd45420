"""Packed batches of token ids: a plan says which sequences share a batch, one call gathers them."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch.utils.data import Dataset

from seekset.datasets.batch import PackedBatch
from seekset.datasets.ledgers import SharedLedger
from seekset.datasets.order import Order
from seekset.datasets.ordered import Ordered
from seekset.datasets.stream import Stream, of_rank
from seekset.errors import MismatchError, SeeksetWarning
from seekset.gathering import gather_batch
from seekset.ledger import Ledger
from seekset.plan import Plan
from seekset.rows import row_number, row_numbers
from seekset.sequences import SequenceIndex
from seekset.tokens import needed_table
from seekset.workers import refuse_cuda_in_worker
from seekset.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from seekset.plan import PlannedBatch
    from seekset.tokens import TokenTable
    from seekset.world import Even

__all__ = ["PackedBatches", "PackedDataset"]


_DEFAULTS = {"max_tokens": 16384, "max_length": 1022, "overflow": "truncate", "overlap": 0, "layout": "packed"}

# Places are turned into rows for some batches at a time; letters are gathered batch by batch.
_PLANNED_AT_ONCE = 16


class PackedBatches(Ordered, Dataset[dict[str, Any]]):
    """The batches of a plan, by their place in an epoch. Map style: one item is one whole batch.

    For loaders with a sampler, give ``batch_size=None`` and a :class:`seekset.loading.ResumableSampler`.
    :class:`PackedDataset` makes it, and has its arguments.
    """

    yields_batches = True

    def __init__(
        self,
        index: SequenceIndex,
        plan: Plan,
        *,
        tokens: TokenTable,
        specials: bool = True,
        ranks: int = 1,
        seed: int | None = None,
        repack_each_epoch: bool = False,
    ) -> None:
        if repack_each_epoch and seed is None:
            raise ValueError("repack_each_epoch draws from seed: give one")
        self.index = index
        self.plan = plan
        self._tokens = tokens
        self._specials = specials
        self._repack = repack_each_epoch
        self._ranks = ranks
        self._order = Order(len(plan), shuffle=seed is not None, seed=seed or 0, ranks=ranks)

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def fingerprint(self) -> str:
        """What tells these batches from others: those of the index and of the plan's rules."""
        return f"index {self.plan.fingerprint}, plan {self.plan.digest}"

    @property
    def _rules(self) -> dict[str, Any]:
        return {**super()._rules, "ranks": self._ranks, "repack": self._repack}

    @property
    def _content(self) -> dict[str, Any]:
        return {"batches": len(self), "plan": self.fingerprint}

    def __getitem__(self, place: int) -> dict[str, Any]:
        refuse_cuda_in_worker()
        return self._gathered(self.planned([row_number(place, len(self))])[0])

    def __getitems__(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """The batches at many places, in that order."""
        refuse_cuda_in_worker()
        return [self._gathered(batch) for batch in self.planned(places)]

    def rows_at(self, places: Sequence[int], epoch: int | None = None) -> Iterator[dict[str, Any]]:
        """The batches at many places, each gathered when it is asked for."""
        return map(self._gathered, self.planned(places, epoch))

    def planned(self, places: Iterable[int] | NDArray[np.int64], epoch: int | None = None) -> list[PlannedBatch]:
        """Rows, starts and lengths of the batches at some places of an epoch, without reading a sequence."""
        epoch = self.epoch if epoch is None else epoch
        numbers = self._order.rows(row_numbers(places, len(self)), epoch).tolist()
        if not self._repack:
            return [self.plan[number] for number in numbers]
        return [self.plan.repacked(number, seed=self._order.seed, epoch=epoch) for number in numbers]

    def _gathered(self, batch: PlannedBatch) -> dict[str, Any]:
        found = gather_batch(self.index, batch, self._tokens, layout=self.plan.layout, specials=self._specials)
        return PackedBatch(
            {name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in found.items()}
        )


class PackedDataset(Stream[dict[str, Any]]):
    """Batches of token ids that fill a budget, of all sequences of an index. Iterable: every item is a whole batch.

    Which sequences share a batch is planned from their lengths before anything is read, so that batches are full, ranks
    have as many tokens, every sequence comes once in an epoch, and a position is a number. Batches are dicts:
    ``input_ids`` (int64, one after another), ``cu_seqlens`` (int32), ``max_seqlen``, ``position_ids``,
    ``sequence_ids``, ``rows``, ``starts`` and ``num_sequences``; with ``layout="padded"``, ``input_ids`` has two
    dimensions and ``attention_mask`` is in the place of ``cu_seqlens`` and ``position_ids``.

    Args:
        index: A sequence index, or its path.
        tokens: A token table or its name.
        max_tokens: The most tokens of a batch, specials and padding counted.
        max_length: The most letters of a sequence, specials not counted; ``None`` for as many as there are.
        rank: The rank; found out if not given, as ``world_size`` is.
        world_size: How many ranks there are.
        seed: What batches are shuffled by, with the epoch; in the plan's order, fullest first, without one.
        drop_last: Whether all ranks get as many batches, and the rest is left out: the same as ``even="drop"``.
        even: ``"none"``, ``"drop"`` or ``"pad"``: what to do where batches don't divide by ranks.
        overflow: What becomes of longer sequences: ``"truncate"``, ``"split"`` into pieces, or ``"error"``.
        overlap: How many letters neighbouring pieces share.
        layout: ``"packed"`` or ``"padded"``.
        specials: Whether the table's prefix and suffix are put around each piece.
        repack_each_epoch: Whether sequences of one length change places between epochs, so that batches differ.
        plan: A plan made before, or its path. It has rules of its own, so that ``max_tokens``, ``max_length``,
            ``overflow``, ``overlap`` and ``layout`` can't be given with it.

    >>> index = SequenceIndex.create(["proteins.fa"], "proteins.sidx")
    >>> ds = PackedDataset("proteins.sidx", tokens="esm", max_tokens=40)
    >>> for batch in ds:
    ...     batch["sequence_ids"], batch["cu_seqlens"].tolist(), batch["max_seqlen"]
    (['seq_1'], [0, 35], 35)
    (['seq_2', 'seq_3'], [0, 18, 25], 18)
    >>> ds.ledger == ds.whole
    True
    """

    data: PackedBatches
    yields_batches = True

    def __init__(
        self,
        index: str | os.PathLike[str] | SequenceIndex,
        *,
        tokens: str | TokenTable = "esm",
        max_tokens: int = 16384,
        max_length: int | None = 1022,
        rank: int | None = None,
        world_size: int | None = None,
        seed: int | None = None,
        drop_last: bool = False,
        even: Even | None = None,
        overflow: Literal["truncate", "split", "error"] = "truncate",
        overlap: int = 0,
        layout: Literal["packed", "padded"] = "packed",
        specials: bool = True,
        repack_each_epoch: bool = False,
        plan: Plan | str | os.PathLike[str] | None = None,
    ) -> None:
        world = _world(rank, world_size)
        opened = index if isinstance(index, SequenceIndex) else SequenceIndex.load(index)
        opened.check_files()
        rules: dict[str, Any] = {"max_tokens": max_tokens, "max_length": max_length}
        rules |= {"overflow": overflow, "overlap": overlap, "layout": layout}
        table = needed_table(tokens)
        planned = _plan(plan, opened, tokens=table, specials=specials, **rules)
        if plan is None:
            planned.tell_of_cuts(stacklevel=3)
        if planned.layout == "padded" and table.pad is None:
            raise MismatchError(f"{table!r} has no pad id, which padded batches need")
        batches = PackedBatches(
            opened,
            planned,
            tokens=table,
            specials=specials,
            ranks=world.size,
            seed=seed,
            repack_each_epoch=repack_each_epoch,
        )
        evened = _even(even, drop_last=drop_last)
        super().__init__(batches, even=evened, world=world, at_once=_PLANNED_AT_ONCE)
        self._ledger = SharedLedger()
        if len(batches) and evened == "drop" and not len(self):
            message = f'of {len(batches)} batches for {world.size} ranks, even="drop" leaves none: every rank is idle'
            warnings.warn(message, SeeksetWarning, stacklevel=2)

    @property
    def batches(self) -> PackedBatches:
        """The same batches by place, for samplers."""
        return self.data

    @property
    def index(self) -> SequenceIndex:
        """The index they are of."""
        return self.data.index

    @property
    def plan(self) -> Plan:
        """Which sequences share a batch."""
        return self.data.plan

    @property
    def ledger(self) -> Ledger:
        """What this rank has delivered in the epoch, through all its workers; those run ahead of what was received.

        Added up over ranks at the end of an epoch, it is :attr:`whole`, unless ``even`` drops or repeats batches.
        """
        return self._ledger.total(self.epoch)

    @property
    def whole(self) -> Ledger:
        """The ledger of everything, once."""
        return _ledger(self.plan)

    def __repr__(self) -> str:
        world = self._share.world
        return f"<PackedDataset of {len(self)} batches, rank {world.rank} of {world.size}, {self.plan!r}>"

    def _note(self, position: int, row: dict[str, Any]) -> None:
        delivered = Ledger.of(row["rows"].numpy(), row["starts"].numpy())
        self._ledger.add(self._position.under_way, delivered, first=position == 0)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken, once; at the end of an epoch, with the next one."""
        super().load_state_dict(state)
        # What was delivered before follows from the position: the plan is asked, and nothing is read.
        places = self._of_worker().places(0, state["position"])
        self._ledger.begin(state["epoch"], _ledger(self.data.planned(places, state["epoch"])))


def _ledger(batches: Iterable[PlannedBatch]) -> Ledger:
    return sum((Ledger.of(batch.rows, batch.starts) for batch in batches), Ledger())


def _world(rank: int | None, size: int | None) -> World:
    if (rank is None) != (size is None):
        raise ValueError("give both rank and world_size, or neither to have them found out")
    return of_rank() if rank is None or size is None else World(rank, size)


def _even(even: Even | None, *, drop_last: bool) -> Even:
    if drop_last and even not in (None, "drop"):
        raise ValueError(f'drop_last is even="drop" and can\'t go with even={even!r}')
    return "drop" if drop_last else even or "none"


def _plan(
    plan: Plan | str | os.PathLike[str] | None,
    index: SequenceIndex,
    *,
    tokens: TokenTable,
    specials: bool,
    **rules: Any,
) -> Plan:
    if plan is None:
        return Plan.silently(index, tokens=tokens, specials=specials, **rules)
    if given := [name for name, rule in rules.items() if rule != _DEFAULTS[name]]:
        raise ValueError(f"a plan has rules of its own: {', '.join(given)} can't be given with it")
    if isinstance(plan, Plan):
        plan.check(index)
    else:
        plan = Plan.load(plan, index)
    around = len(tokens.prefix) + len(tokens.suffix) if specials else 0
    if plan.specials != around:
        message = (
            f"the plan counts {plan.specials} special tokens for each sequence, but {around} are put around it here"
        )
        raise MismatchError(message)
    return plan
