"""One stream out of many sources of shards: mixed in proportion, exactly once, resumable at every row."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.utils.data import get_worker_info

from seekset import _core
from seekset.datasets.delivery import Delivery, like
from seekset.datasets.gauges import Gauges
from seekset.datasets.ledgers import SharedLedger
from seekset.datasets.left_out import LeftOut
from seekset.datasets.order import Order
from seekset.datasets.ranks import compare, said_by_ranks
from seekset.datasets.stream import SharedStream, of_rank
from seekset.errors import MismatchError, SeeksetError
from seekset.files import AnyPath, fingerprint
from seekset.ledger import Ledger
from seekset.limits import byte_count, limit, whole_number
from seekset.mixing import MixPlan, MixShare, reader_key, whole_weights
from seekset.pool import begin_pool
from seekset.position import count_in
from seekset.shards.census import take_census
from seekset.shards.readers import find_shards, readers_by_name
from seekset.sources import Source, alike, warn_of_repeats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seekset.mixing import Mixing, Stop
    from seekset.quality import MixingQuality
    from seekset.shards.readers import Readers
    from seekset.world import Even, World

__all__ = ["MixedShardDataset", "PoolLedger", "PoolPlan", "Provenance"]

Sources: TypeAlias = Mapping[str, AnyPath | Iterable[AnyPath]] | Sequence[AnyPath]
Augment: TypeAlias = Callable[[Any, np.random.Generator], Any]


class PoolPlan(NamedTuple):
    """What is known of an epoch before any row is read; of this reader, where it has ranks or workers."""

    digest: str
    rows: dict[str, int]
    length: int
    pool_rows: int
    peak_bytes: int
    quality: MixingQuality | None


class Provenance(NamedTuple):
    """Where a row comes from."""

    source: str
    shard: Path
    row: int


class PoolLedger(NamedTuple):
    """What was delivered in an epoch, and what an epoch has."""

    delivered: Ledger
    whole: Ledger

    def check(self) -> None:
        """Raise a ``SeeksetError`` unless every row was delivered exactly once."""
        if self.delivered != self.whole:
            count = f"{self.delivered.count} rows were delivered of {self.whole.count}"
            which = (
                "" if self.delivered.count != self.whole.count else ", but some more than once and others not at all"
            )
            raise SeeksetError(f"the epoch is not complete: {count}{which}")


class MixedShardDataset(SharedStream[Any]):
    """The rows of many sources of shards as one stream, mixed through a pool. Iterable.

    Sources take turns in proportion to their rows, or to ``weights``, so that every prefix of a reader's stream has of
    each source what its share is, to within a row. Within a source, every pooled row is as likely to come next as any
    other. Which row follows which is a pure function of row counts, rules, seed, epoch, rank and worker: how quickly
    shards are read never changes it. Every row comes once in an epoch, over all ranks and workers.

    Items are dicts of tensors with the shards' fields; or whatever objects they hold. With ``batch_size``, items are
    whole batches: give loaders ``batch_size=None`` then.

    Args:
        sources: Files, folders or globs by the name of their source; or a list, where each is a source by its own name.
        weights: How often each source comes, by name or in order; in proportion to rows, if not given.
        reader: What reads shards, where their names don't tell: a :class:`seekset.shards.ShardReader`, or several, by
            the names of their sources.
        pool_rows: How many rows each reader pools, at most.
        refill_threshold: Below how many rows the pool is filled again; three quarters, if not given.
        max_bytes: What a rank may use for pooled rows and those on their way, divided over its workers: a number of
            bytes, or such as ``"5GB"``. Where it doesn't suffice for ``pool_rows``, the pool has fewer.
        seed: What rows are drawn by, with the epoch; ``None`` to draw a seed, which states hold.
        augment: Called with each example and a numpy generator of its own; gives an example, or a list of several. One
            with ``augment_batch``, such as :data:`seekset.augment.hex_symmetries`, is called once for many rows.
        transform: Called with each item; what it returns takes its place.
        stop: ``"all_exhausted"``, ``"first_exhausted"`` or ``"cycle_until_all_exhausted"``.
        batch_size: How many rows an item has; without, items are single rows.
        drop_last: Whether a last batch with fewer rows is left out.
        open_shards: From how many shards of each source rows are pooled by turns: more mix better, and take memory.
        mixing: ``"pool"``, or ``"global"`` to draw from all rows of a source at once, where they can be read singly.
        even: What to do where rows don't divide by ranks: ``"none"``, ``"drop"`` or ``"pad"``.
        world: The rank and the number of ranks, found out if not given.
        decoders: How many shards are read at a time by each reader; in so many threads.
        max_rows: How many rows an epoch has at most, over all ranks: those that are read first.
        on_error: ``"raise"``, or ``"skip"`` to leave out rows that can't be read; :meth:`skipped` lists them.
        return_provenance: Whether items have a ``"provenance"``: numbers of source, shard and row, which
            :meth:`provenance` turns into names.
        max_process_bytes: What a process may have in anonymous memory, for whatever reason, before it stops.
        verbose: Whether to log what is read.

    >>> import numpy as np
    >>> for name, first in (("a", 0), ("b", 100)):
    ...     np.savez(f"{name}.npz", x=np.arange(first, first + 6 if first else 3))
    >>> ds = MixedShardDataset({"few": "a.npz", "many": "b.npz"}, pool_rows=4, batch_size=5)
    >>> [batch["x"].tolist() for batch in ds]
    [[100, 0, 103, 102, 1], [101, 104, 2, 105]]
    >>> ds.ledger.check()
    """

    yields_batches: bool = False

    def __init__(
        self,
        sources: Sources,
        *,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        reader: Readers = None,
        pool_rows: int = 100_000,
        refill_threshold: int | None = None,
        max_bytes: int | str | None = "5GB",
        seed: int | None = 0,
        augment: Augment | None = None,
        transform: Callable[[Any], Any] | None = None,
        stop: Stop = "all_exhausted",
        batch_size: int | None = None,
        drop_last: bool = False,
        open_shards: int = 1,
        mixing: Mixing = "pool",
        even: Even = "none",
        world: World | None = None,
        decoders: int = 1,
        max_rows: int | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        return_provenance: bool = False,
        max_process_bytes: int | str | None = None,
        verbose: bool = False,
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise ValueError(f'on_error must be "raise" or "skip", not {on_error!r}')
        pool_rows = whole_number(pool_rows, "pool_rows")
        threshold = pool_rows * 3 // 4 if refill_threshold is None else refill_threshold
        self._skip = on_error == "skip"
        self._unread: list[tuple[Path, str]] = []
        found = alike(self._found(sources, reader))
        self.mix: MixPlan = MixPlan(
            sources=found,
            pool_rows=pool_rows,
            threshold=whole_number(threshold, "refill_threshold", least=0),
            open_shards=whole_number(open_shards, "open_shards"),
            stop=stop,
            mixing=mixing,
            even=even,
            max_bytes=byte_count(max_bytes, "max_bytes"),
            max_rows=limit(max_rows, "max_rows"),
            decoders=whole_number(decoders, "decoders", most=64),
            weights=_weights(weights, found),
        )
        warn_of_repeats(self.mix.sources, stacklevel=2)
        self._batch_size = limit(batch_size, "batch_size")
        self._drop_last = drop_last
        self._augment, self._transform = augment, transform
        self._return_provenance = return_provenance
        self._max_process = byte_count(max_process_bytes, "max_process_bytes")
        self._verbose = verbose
        self._drawn_seed = seed is None
        self._order = Order(0, seed=secrets.randbits(63) if seed is None else seed)
        self._gauges, self._ledger = Gauges(len(self.mix.sources)), SharedLedger()
        self._left_out = LeftOut(len(self.mix.sources), expected=self._skip)
        # Of a state that was loaded and is not begun: its position, and what was left out before.
        self._loaded: tuple[int, int, dict[str, Any] | None] | None = None
        # How many workers of a loader read, as those that read say.
        self._workers = torch.ones(1, dtype=torch.int64).share_memory_()
        # Ranks that were found out are compared before the first row; where they were given, nobody may be waiting.
        self._compared = world is not None
        share = MixShare(self.mix, of_rank() if world is None else world)
        self.mix.sized(share.world)
        super().__init__(share, self._order, self._rules(), part="parts")
        self.yields_batches = batch_size is not None

    def _found(self, sources: Sources, reader: Readers) -> Iterator[Source]:
        named = sources if isinstance(sources, Mapping) else _by_name(sources)
        if not named:
            raise ValueError("there are no sources: a pool needs one at least")
        readers = readers_by_name(reader, named)
        for name, patterns in named.items():
            own = readers[name]
            try:
                given = [] if isinstance(patterns, (list, tuple)) and not patterns else find_shards(patterns, own)
                shards, unread = take_census(given, own, on_error="skip" if self._skip else "raise")
            except (SeeksetError, FileNotFoundError) as error:
                raise like(error, f"source {name!r}: {error}") from error
            self._unread += unread
            yield Source(name, tuple(shards), own)

    def _rules(self) -> dict[str, Any]:
        plan = self.mix
        # Not the bytes that a pool may take: what counts of these is how many rows it holds.
        names = ("pool_rows", "threshold", "open_shards", "stop", "mixing", "even", "max_rows", "decoders")
        rules = {name: getattr(plan, name) for name in names}
        weights = None if plan.weights is None else list(plan.weights)
        sources, readers = [source.name for source in plan.sources], [source.read_by for source in plan.sources]
        return {**rules, "weights": weights, "sources": sources, "readers": readers}

    # --- what there is ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many items the rank gets: rows, or batches; before augmentation, where that makes several of one.

        Of streams that end early or go round, as many as one process delivers: workers have ends of their own, and
        :meth:`length` tells of those.
        """
        return self.length()

    def length(self, workers: int = 1) -> int:
        """How many items a loader with so many workers delivers, in this rank."""
        world = self._share.world
        if self.mix.stop == "all_exhausted" and self._batch_size is None:
            return int(self._share.of_rank)
        rows = [self.mix.length(world.at_worker(worker, workers)) for worker in range(workers)]
        if self._batch_size is None:
            return sum(rows)
        return sum(rows // self._batch_size if self._drop_last else -(-rows // self._batch_size) for rows in rows)

    @property
    def sources(self) -> dict[str, list[Path]]:
        """The shards of each source, in the order in which they are read."""
        return {source.name: [shard.path for shard in source.shards] for source in self.mix.sources}

    @property
    def seed(self) -> int:
        """What rows are drawn by, with the epoch."""
        return self._order.seed

    def plan(self, *, quality_batch: int | None = 100) -> PoolPlan:
        """What an epoch will be: nothing is read for it. With ``quality_batch=None``, without the quality of mixing."""
        plan, world = self.mix, self._of_worker().world
        size = plan.sized(world)
        rows = {source.name: count for source, count in zip(plan.sources, plan.rows, strict=True)}
        quality = None
        if quality_batch is not None and plan.length(world) > quality_batch:
            quality = plan.quality(world, self.seed, self.epoch, quality_batch)
        digest = plan.order_digest(world, self.seed, self.epoch)
        return PoolPlan(digest, rows, plan.length(world), size.pool_rows, size.peak, quality)

    def planned(self, world: World | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The shards and rows of an epoch, in the order in which they come, without reading one."""
        reader = self._of_worker().world if world is None else world
        return self.mix.planned(reader, self.seed, self.epoch)

    @property
    def _source_of(self) -> NDArray[np.int64]:
        return self.mix.source_of

    def report(self) -> dict[str, Any]:
        """What has been delivered of the epoch, by source, and what the pools of this rank hold."""
        found = self._gauges.total()
        rows = dict(zip(self.sources, found.pop("rows"), strict=True))
        found["waited_s"] = found.pop("waited_us") / 1e6
        shards = {source.name: len(source.shards) for source in self.mix.sources}
        return {
            "epoch": self.epoch,
            "rows": rows,
            "of": dict(zip(rows, self.mix.rows, strict=True)),
            "shards": shards,
            **found,
        }

    @property
    def ledger(self) -> PoolLedger:
        """What this rank has delivered, through all its workers, beside what it is to deliver. ``check()`` compares."""
        world = self._share.world
        # Workers may have ends of their own: it counts how many there are.
        count = int(self._workers[0]) if world.workers == 1 else 0
        readers = [world.at_worker(worker, count) for worker in range(count)] or [world]
        whole = sum((self.mix.ledger(reader, self.seed, self.epoch) for reader in readers), Ledger())
        return PoolLedger(self._ledger.total(self.epoch), whole)

    def provenance(self, item: Mapping[str, Any]) -> list[Provenance]:
        """Where the rows of an item or a batch come from; of a dataset with ``return_provenance=True``."""
        found = item["provenance"]
        shards, rows = (np.atleast_1d(np.asarray(found[name])).tolist() for name in ("shard", "row"))
        return [
            Provenance(self.mix.shards[shard][0].name, self.mix.shards[shard][1].path, row)
            for shard, row in zip(shards, rows, strict=True)
        ]

    def skipped(self) -> dict[str, Any]:
        """How many rows were left out of this pass, in all processes; which, and shards that could not be counted.

        Of each process the first 32 rows are listed. Rows that were left out before a state was taken are counted and
        listed after it was loaded, too, but nobody knows why any more.
        """
        rows = [(*self._named(number), reason) for number, reason in self._left_out.listed()]
        return {"count": self._gauges.total()["skipped"], "rows": rows, "shards": list(self._unread)}

    def _named(self, number: int) -> Provenance:
        shard = int(np.searchsorted(self.mix.firsts, number, side="right")) - 1
        source, found = self.mix.shards[shard]
        return Provenance(source.name, found.path, number - int(self.mix.firsts[shard]))

    def check_ranks(self) -> None:
        """Raise a ``MismatchError``, on all ranks, unless they have found the same rows and deal them out alike.

        Each rank counts shards by itself. Where one left out a shard that it could not read for a moment, or sees
        another folder, its share would overlap with those of others. All ranks of ``torch.distributed`` must call it,
        because they wait for each other; without, or with one rank, it does nothing. It is called before the first row
        where this process reads by itself and found its rank out; a loader with workers has nobody to call it.
        """
        plan = self.mix
        # Whichever decides who gets which row, beside what was found.
        dealt = [plan.stop, plan.mixing, plan.even, plan.max_rows, plan.weights]
        drawn = self.seed if plan.mixing == "global" else None
        rules = fingerprint([["rules", *dealt, drawn]])
        text = f"{sum(plan.rows)} rows of {len(plan.shards)} shards ({plan.fingerprint}; {rules})"
        remedy = (
            "rows would come twice or not at all: make the dataset again with the same arguments, where all ranks see "
            "and can read the same shards; skipped() lists what a rank left out"
        )
        compare(said_by_ranks(text, self._share.world), remedy)
        self._compared = True

    # --- the stream ---------------------------------------------------------------------------------------------------

    def _key(self, epoch: int, world: World) -> int:
        """What rows are drawn by: another number for every reader and epoch."""
        return reader_key(self.seed, epoch, world)

    def __iter__(self) -> Iterator[Any]:
        if not self._compared and get_worker_info() is None:
            self.check_ranks()
        share, start = self._begin()
        epoch, skip = self._position.under_way, self._position.parts
        world, plan = share.world, self.mix
        self._workers[0] = world.workers
        order = plan.order(world, self._key(epoch, world), plan.sized(world).pool_rows)
        self._go_on(order, world, epoch, start, len(share))
        with closing(
            Delivery(self, begin_pool(plan, world, self.seed, epoch, order), epoch, start, len(share))
        ) as deliver:
            yield from deliver.items(skip)

    def _go_on(self, order: _core.Mixing, world: World, epoch: int, position: int, length: int) -> None:
        """Bring an order to a position, and what is told of the pass to what was delivered before it."""
        (_, at, skipped), self._loaded = self._loaded or (0, 0, None), None
        self._left_out.begin(skipped if at == position and _is_of(skipped, world) else None)
        # A last batch that is left out is passed, too, but was not delivered.
        end = length - length % (self._batch_size or 1) if self._drop_last else length
        ledger, by_source = Ledger(), np.zeros(len(self.mix.sources), dtype=np.int64)
        for done, shards, rows in self.mix.followed(order, position, world, self.seed, epoch):
            counted = slice(0, max(0, end - done))
            ledger += Ledger.of(self.mix.firsts[shards[counted]] + rows[counted])
            by_source += np.bincount(self._source_of[shards[counted]], minlength=len(by_source))
        self._ledger.begin(epoch, ledger - self._left_out.ledger)
        self._gauges.begin(by_source - self._left_out.by_source, skipped=self._left_out.ledger.count)

    # --- states -------------------------------------------------------------------------------------------------------

    def _with_data(self, state: dict[str, Any]) -> dict[str, Any]:
        found = super()._with_data(state)
        at, world = (state["epoch"], state["position"]), self._of_worker().world
        if self._loaded is not None and self._loaded[:2] == at:
            skipped = self._loaded[2]
        else:
            left_out = self._left_out.state() if state["position"] else {}
            skipped = {"rank": world.rank, "worker": world.worker, **left_out} if left_out else None
        told: dict[str, Any] = {} if skipped is None else {"skipped": skipped}
        if self.mix.mixing == "pool":
            told["pool"] = {"rank": world.rank, "worker": world.worker, "rows": self.mix.sized(world).pool_rows}
        return {**found, "seed": self.seed, "data": self.mix.fingerprint, "shards": self.mix.marks, **told}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken, once; at the end of an epoch, with the next one.

        Shards may have moved to another folder; where one has changed, it is named.
        """
        if isinstance(state, dict):
            self._check_data(state)
            seed = state.get("seed")
            if seed != self.seed and not (self._drawn_seed and isinstance(seed, int)):
                raise MismatchError(f"state mismatch: seed was {seed!r} and is {self.seed!r} here")
            count_in(state, "seed")
            if self._batch_size is not None and state.get("parts"):
                raise MismatchError(
                    f"state mismatch: {state['parts']} of what augmentation made of a row were delivered, and a batch "
                    "has whole rows: load it without batch_size, or take a state after the last of a row"
                )
            if state.get("skipped") is not None:
                self._left_out.check(state["skipped"], int(self.mix.firsts[-1]))
        super().load_state_dict(state)
        self._order.seed = state["seed"]
        self._loaded = (state["epoch"], state["position"], state.get("skipped"))

    def _load_data(self, state: dict[str, Any]) -> None:
        """Refuse a state of a pool with more rows or fewer: which row follows which depends on how many there are."""
        if self.mix.mixing != "pool":
            return
        found = state.get("pool")
        try:
            # The state may be that of another rank: its pool is the one that is compared.
            rank, worker, rows = (count_in(found, name) for name in ("rank", "worker", "rows"))  # type: ignore[arg-type]
            world = replace(self._of_worker().world, rank=rank, worker=worker)
        except (AttributeError, ValueError):
            raise MismatchError(f"state mismatch: pool must say how many rows it held, found {found!r}") from None
        size = self.mix.sized(world)
        if rows != size.pool_rows:
            raise MismatchError(
                f"state mismatch: the pool of rank {rank}, worker {worker}, held {rows} rows and holds "
                f"{size.pool_rows} here, on which the order of rows depends: give "
                f"max_bytes={size.bytes_of(rows) * world.workers}, and it holds as many"
            )

    def _check_data(self, state: dict[str, Any]) -> None:
        if state.get("data") == self.mix.fingerprint:
            return
        then, now = str(state.get("shards", "")), self.mix.marks
        pairs = [(then[at : at + 4], now[at : at + 4]) for at in range(0, max(len(then), len(now)), 4)]
        changed = next((at for at, (before, here) in enumerate(pairs) if before != here), 0)
        if changed < len(self.mix.shards):
            source, shard = self.mix.shards[changed]
            which = f"{shard.path}, shard {changed} (from 0), of source {source.name!r}, is not the one of the state"
        else:
            which = f"there were {len(then) // 4} shards, and there are {len(now) // 4} here"
        raise MismatchError(f"state mismatch: the shards are not those of the state: {which}")

    def __repr__(self) -> str:
        world = self._share.world
        shards, rows = len(self.mix.shards), sum(self.mix.rows)
        what = f"{rows} rows in {shards} shards of {len(self.mix.sources)} sources"
        return f"<{type(self).__name__} of {what}, rank {world.rank} of {world.size}>"


def _is_of(skipped: dict[str, Any] | None, world: World) -> bool:
    """Whether rows that a state says were left out are this reader's: a state may be that of another rank."""
    return skipped is not None and (skipped.get("rank"), skipped.get("worker")) == (world.rank, world.worker)


def _weights(
    weights: Mapping[str, float] | Sequence[float] | None, sources: Sequence[Source]
) -> tuple[int, ...] | None:
    if weights is None:
        return None
    names = [source.name for source in sources]
    if isinstance(weights, Mapping):
        if set(weights) != set(names):
            raise MismatchError(
                f"weights mismatch: there are weights for {sorted(weights)}, but the sources are {sorted(names)}"
            )
        weights = [weights[name] for name in names]
    if len(weights) != len(names):
        raise MismatchError(f"weights mismatch: there are {len(weights)} weights for {len(names)} sources")
    # One without rows has no turns, whatever its weight is: it may be said to be 0.
    pairs = zip(weights, sources, strict=True)
    return tuple(whole_weights([weight if weight or source.rows else 1 for weight, source in pairs]))


def _by_name(sources: Sequence[AnyPath]) -> dict[str, AnyPath]:
    if isinstance(sources, (str, bytes, Path)):
        raise TypeError(f"sources are a list or a mapping of names, not one path: give [{str(sources)!r}]")
    named: dict[str, AnyPath] = {}
    for one in sources:
        if str(one) in named:
            raise ValueError(f"source {str(one)!r} is given twice: its rows would come twice")
        named[str(one)] = one
    return named
