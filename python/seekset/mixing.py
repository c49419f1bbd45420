"""Which rows of which shards a reader of a mixed pool gets, and in which order: counted before anything is read."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from seekset import _core
from seekset.errors import MismatchError
from seekset.files import fingerprint
from seekset.ledger import Ledger
from seekset.pool_size import PoolSize
from seekset.quality import MixingQuality, Runs, measure_sample
from seekset.shards.readers import reader_for
from seekset.shards.rows import piece_rows
from seekset.world import Even, World

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from seekset.shards.census import Shard
    from seekset.shards.rows import Field
    from seekset.sources import Source

__all__ = [
    "MOST_ROWS",
    "MixPlan",
    "MixShare",
    "Mixing",
    "Stop",
    "Stretch",
    "deal",
    "mixed",
    "mixed_all",
    "reader_key",
    "whole_weights",
]

Stop = Literal["all_exhausted", "first_exhausted", "cycle_until_all_exhausted"]
"""When an epoch ends: with every row once, with the end of the first source, or when every source has ended once."""

Mixing = Literal["pool", "global"]
"""Where rows are drawn from: a pool of those that were read, or all rows of a source at once."""

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1
MOST_ROWS = 2**32 - 1
"""What a stretch may have; sources may have more."""
_PIECE = 1 << 18
"""Of how many rows it is told at once where they lie."""
_MEASURED = 10_000_000
"""Of how many rows the mixing is measured, at most: each takes up to 170 bytes then."""
_DIGESTED = 1 << 20
"""Of how many rows a digest is brought up to date at once: digests depend on it."""


def deal(rows: Sequence[int], part: int, parts: int, even: Even = "none") -> list[tuple[int, int]]:
    """Which rows of each source fall to one of several parts: from where to before where.

    Parts of a source differ by a row at most, and so do the parts of all sources together: who gets the rows that are
    left over goes round from source to source. With ``even="drop"`` those rows are nobody's, with ``"pad"`` a
    neighbour's row is theirs, too, who would have one less.

    >>> [deal([7, 3], part, 3) for part in range(3)]
    [[(0, 3), (0, 1)], [(3, 5), (1, 2)], [(5, 7), (2, 3)]]
    >>> [sum(end - start for start, end in deal([7, 4], part, 3)) for part in range(3)]
    [4, 4, 3]
    """
    spans, offset, extra_of = [], 0, -1
    for number, count in enumerate(rows):
        base, extra = divmod(count, parts)
        # The parts from `offset` on, around the circle, have one more.
        before = max(0, min(part, offset + extra) - offset) + max(0, min(part, offset + extra - parts))
        more = (part - offset) % parts < extra
        extra_of = number if more else extra_of
        start = part * base + before
        spans.append((start, start + base + more))
        offset = (offset + extra) % parts
    left_over = sum(rows) % parts
    if even == "drop" and part < left_over:
        start, end = spans[extra_of]
        spans[extra_of] = (start, end - 1)
    if even == "pad" and 0 < left_over <= part:
        number = next(number for number, count in enumerate(rows) if count)
        start, end = spans[number]
        spans[number] = (start, end + 1) if end < rows[number] else (start - 1, end)
    return spans


def whole_weights(weights: Sequence[float]) -> list[int]:
    """Weights as whole numbers in the same proportions, as nearly as a part in four thousand million.

    >>> whole_weights([2, 1]), whole_weights([0.5, 0.5])
    ([2, 1], [2147483648, 2147483648])
    """
    plain = [weight.item() if isinstance(weight, np.number) else weight for weight in weights]
    for weight in plain:
        if not (isinstance(weight, (int, float)) and math.isfinite(weight) and weight > 0):
            raise ValueError(f"weights must be numbers above 0, but one is {weight!r}")
    if all(isinstance(weight, int) and weight < 2**32 for weight in plain):
        return [int(weight) for weight in plain]
    whole = sum(plain)
    return [max(1, round(weight / whole * 2**32)) for weight in plain]


class Stretch(NamedTuple):
    """Rows of a shard that are read together: the number of the shard, the first row, and how many."""

    shard: int
    start: int
    rows: int


@dataclass(frozen=True)
class MixPlan:
    """Sources and rules, from which everything follows but the rows themselves.

    Args:
        sources: The sources.
        weights: How often each comes, against the others; in proportion to rows, if not given.
        pool_rows: How many rows are pooled, at most.
        threshold: Below how many the pool is filled again.
        open_shards: From how many shards of a source rows are pooled by turns.
        stop: When an epoch ends.
        mixing: ``"pool"``, or ``"global"`` to draw from all rows at once, without a pool.
        even: What to do where rows don't divide by ranks.
        max_bytes: What a rank may use for rows, all workers together; ``None`` for no bound.
        max_rows: How many rows of an epoch are delivered at most, over all ranks: those that are read first.
        decoders: How many shards each reader reads at a time.
    """

    sources: tuple[Source, ...]
    weights: tuple[int, ...] | None = None
    pool_rows: int = 100_000
    threshold: int = 75_000
    open_shards: int = 1
    stop: Stop = "all_exhausted"
    mixing: Mixing = "pool"
    even: Even = "none"
    max_bytes: int | None = None
    max_rows: int | None = None
    decoders: int = 1

    def __post_init__(self) -> None:
        for name, choices in (("stop", get_args(Stop)), ("mixing", get_args(Mixing)), ("even", get_args(Even))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {getattr(self, name)!r}")
        if not 0 <= self.threshold <= self.pool_rows:
            raise ValueError(
                f"the refill threshold must be from 0 to the {self.pool_rows} rows of the pool, but is {self.threshold}"
            )
        if self.even == "pad" and self.stop != "all_exhausted":
            raise ValueError(
                'even="pad" repeats the one row that a rank may lack, but with '
                f'stop="{self.stop}" ranks may end many rows apart; use even="drop", or stop="all_exhausted"'
            )
        if self.mixing == "global":
            for source, shard in self.shards:
                if shard.census.rows and not source.reads_singly(shard):
                    raise MismatchError(
                        f'{shard.path}: its rows can\'t be read singly, which mixing="global" needs; use '
                        f'mixing="pool", or {_for_single_reads(source, shard)}'
                    )

    @cached_property
    def shards(self) -> tuple[tuple[Source, Shard], ...]:
        """All shards, in the order of the sources."""
        return tuple((source, shard) for source in self.sources for shard in source.shards)

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """The number of each shard's first row, over all sources."""
        return np.cumsum([0, *(shard.census.rows for _, shard in self.shards)], dtype=np.int64)

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """How many rows of each source an epoch has, before any comes twice."""
        rows = [source.rows for source in self.sources]
        if self.max_rows is None or sum(rows) <= self.max_rows:
            return tuple(rows)
        cuts = [_cut(count, MOST_ROWS) for count in rows]
        source_of = np.repeat(np.arange(len(rows)), list(map(len, cuts)))
        order, found = _core.Mixing(cuts, pool_rows=1, threshold=1), np.zeros(len(rows), dtype=np.int64)
        for done in range(0, self.max_rows, _PIECE):
            stretches, _ = order.order(min(self.max_rows - done, _PIECE))
            found += np.bincount(source_of[stretches], minlength=len(rows))
        return tuple(found.tolist())

    @cached_property
    def fields(self) -> tuple[Field, ...] | None:
        """The columns of all rows; ``None`` for objects. Shards without rows don't tell."""
        return next((shard.census.fields for _, shard in self.shards if shard.census.rows), None)

    def shares(self, world: World) -> list[tuple[int, int]]:
        """The rows of each source that fall to one reader."""
        of_rank = deal(self.rows, world.rank, world.size, self.even)
        of_worker = deal([end - start for start, end in of_rank], world.worker, world.workers)
        spans = zip(of_rank, of_worker, strict=True)
        return [(first + start, first + end) for (first, _), (start, end) in spans]

    def length(self, world: World) -> int:
        """How many rows one reader delivers in an epoch."""
        if self.stop == "all_exhausted" or self.even == "none":
            return self._turns(world)
        # Shares that are as long may end apart, as their sources do: each worker ends where the same one of another
        # rank has to.
        return min(self._turns(replace(world, rank=rank)) for rank in range(world.size))

    def _turns(self, world: World) -> int:
        """How many rows one reader has in an epoch, whatever the others have."""
        rows = tuple(end - start for start, end in self.shares(world))
        return sum(rows) if self.stop == "all_exhausted" else _turns(rows, self.weights, self.stop)

    @property
    def _weights(self) -> list[int] | None:
        return None if self.weights is None else list(self.weights)

    def stretches(self, world: World) -> list[list[Stretch]]:
        """What one reader reads of each source, in order; in pieces, where rows can be read by themselves."""
        found, first_shard = [], 0
        for source, (start, end) in zip(self.sources, self.shares(world), strict=True):
            found.append(list(_stretches(source, first_shard, start, end)))
            first_shard += len(source.shards)
        return found

    def order(self, world: World, key: int, pool_rows: int) -> _core.Mixing:
        """The order of an epoch for one reader, before its first row."""
        if self.mixing == "global":
            lengths = [_cut(end - start, MOST_ROWS) for start, end in self.shares(world)]
            pool = {"pool_rows": 1, "threshold": 1}
        else:
            lengths = [[stretch.rows for stretch in stretches] for stretches in self.stretches(world)]
            threshold = min(self.threshold * pool_rows // self.pool_rows, pool_rows)
            pool = {"pool_rows": pool_rows, "threshold": threshold, "open_shards": self.open_shards}
        return _core.Mixing(lengths, weights=self._weights, stop=self.stop, key=key, **pool)

    def planned(self, world: World, seed: int, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The shards and rows of an epoch for one reader, in the order in which they come, without reading one."""
        length = self.length(world)
        shards, rows = np.empty(length, dtype=np.int64), np.empty(length, dtype=np.int64)
        for done, *piece in self.pieces(world, seed, epoch):
            shards[done : done + len(piece[0])], rows[done : done + len(piece[1])] = piece
        return shards, rows

    def pieces(self, world: World, seed: int, epoch: int) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """The same in pieces, each with how many rows came before it."""
        order = self.order(world, reader_key(seed, epoch, world), self.sized(world).pool_rows)
        return self.followed(order, self.length(world), world, seed, epoch)

    def ledger(self, world: World, seed: int, epoch: int) -> Ledger:
        """The ledger of an epoch for one reader."""
        if self.stop == "all_exhausted" and self.mixing == "pool":
            return self._ledger_of_shares(world)
        pieces = self.pieces(world, seed, epoch)
        return sum((Ledger.of(self.firsts[shards] + rows) for _, shards, rows in pieces), Ledger())

    def _ledger_of_shares(self, world: World) -> Ledger:
        """The ledger of every row of a reader's shares, without their order."""
        whole, first = Ledger(), 0
        for source, span in zip(self.sources, self.shares(world), strict=True):
            for start in range(*span, _PIECE):
                end = min(start + _PIECE, span[1])
                whole += Ledger.of(np.arange(first + start, first + end, dtype=np.int64))
            first += source.rows
        return whole

    def followed(
        self, order: _core.Mixing, count: int, world: World, seed: int, epoch: int
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """The next shards and rows of an order in pieces, each with how many came before it.

        In pieces, because untouched memory costs more than what is computed in it.
        """
        for done in range(0, count, _PIECE):
            places = order.order(min(count - done, _PIECE))
            yield done, *self.placed(*places, world, seed, epoch)

    def placed(
        self, stretches: NDArray[np.int64], rows: NDArray[np.int64], world: World, seed: int, epoch: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The shards and rows that an order's stretches and rows are."""
        if self.mixing == "global":
            return self._placed_globally(stretches, rows, world, seed, epoch)
        read = [stretch for of_source in self.stretches(world) for stretch in of_source]
        shards, starts = np.array([(one.shard, one.start) for one in read], dtype=np.int64).reshape(-1, 2).T
        return shards[stretches], starts[stretches] + rows

    def _placed_globally(
        self, stretches: NDArray[np.int64], places: NDArray[np.int64], world: World, seed: int, epoch: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The shards and rows at places of a reader's shares, where each source is shuffled as a whole."""
        # Shares are cut where they have too many rows for one stretch: the source of each, and its first place.
        spans = enumerate(self.shares(world))
        pieces = [(number, start) for number, span in spans for start in range(*span, MOST_ROWS)]
        sources, starts = np.array(pieces, dtype=np.int64).reshape(-1, 2).T
        at = starts[stretches] + places
        numbers = np.empty(len(places), dtype=np.int64)
        first = 0
        for number, source in enumerate(self.sources):
            mine = np.flatnonzero(sources[stretches] == number)
            if len(mine):
                numbers[mine] = first + _core.Permutation(self.rows[number], seed + number, epoch).take(at[mine])
            first += source.rows
        shards = np.searchsorted(self.firsts, numbers, side="right") - 1
        return shards, numbers - self.firsts[shards]

    def quality(
        self, world: World, seed: int, epoch: int, batch: int, *, most: int = _MEASURED
    ) -> MixingQuality | None:
        """How well an epoch is mixed for one reader; nothing where it has no rows.

        Where there are more than ``most`` rows, it is measured on a sample of batches spread evenly over the epoch.
        """
        if not (length := self.length(world)):
            return None
        runs = Runs.of(length, batch=batch, most=most)
        of_shards = np.zeros(len(self.shards), dtype=np.int64)
        picked: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for done, shards, rows in self.pieces(world, seed, epoch):
            of_shards += np.bincount(shards, minlength=len(of_shards))
            here = runs.picked(done, len(shards))
            picked.append((shards[here], self.firsts[shards[here]] + rows[here]))
        shards, numbers = map(np.concatenate, zip(*picked, strict=True))
        return measure_sample(
            shards,
            self.source_of[shards],
            numbers if self.mixing == "global" else self._read_at(numbers, world, seed, epoch),
            of_shards=of_shards,
            of_sources=np.bincount(self.source_of, of_shards, len(self.sources)).astype(np.int64),
            batch=batch,
        )

    def _read_at(self, numbers: NDArray[np.int64], world: World, seed: int, epoch: int) -> NDArray[np.int64]:
        """At which place of the order of reading each of some rows comes first."""
        wanted = np.sort(numbers)
        places = np.full(len(wanted), -1, dtype=np.int64)
        # A pool of one row gives rows in the order in which they are read; all, because some that are read may not be
        # delivered.
        order = self.order(world, reader_key(seed, epoch, world), 1)
        for done, shards, rows in self.followed(order, self._turns(world), world, seed, epoch):
            read = self.firsts[shards] + rows
            at = np.minimum(np.searchsorted(wanted, read), len(wanted) - 1)
            # From the last to the first: what is assigned last stays.
            new = np.flatnonzero((wanted[at] == read) & (places[at] < 0))[::-1]
            places[at[new]] = done + new
        found: NDArray[np.int64] = places[np.searchsorted(wanted, numbers)]
        return found

    @cached_property
    def source_of(self) -> NDArray[np.int64]:
        """The number of each shard's source."""
        counts = [len(source.shards) for source in self.sources]
        return np.repeat(np.arange(len(counts), dtype=np.int64), counts)

    def order_digest(self, world: World, seed: int, epoch: int) -> str:
        """A digest of an epoch's order: equal if every row comes at the same place."""
        order = self.order(world, reader_key(seed, epoch, world), self.sized(world).pool_rows)
        digest, length = hashlib.blake2b(digest_size=8), self.length(world)
        for done in range(0, length, _DIGESTED):
            places = order.order(min(length - done, _DIGESTED))
            # Of a pool, an order tells which row it is; of all rows at once, only which place of a shuffle.
            if self.mixing == "global":
                places = self.placed(*places, world, seed, epoch)
            digest.update(b"".join(one.tobytes() for one in places))
        return digest.hexdigest()

    def sized(self, world: World) -> PoolSize:
        """What one reader's pool holds, by its bytes."""
        if world not in self._sizes:
            self._sizes[world] = PoolSize.of(self, world)
        return self._sizes[world]

    @cached_property
    def _sizes(self) -> dict[World, PoolSize]:
        """What is known of readers: a size takes a look at every shard, and every state tells it."""
        return {}

    @cached_property
    def fingerprint(self) -> str:
        """What tells these shards from others: names, sizes, rows and some of their bytes, but not their folders."""
        return fingerprint([_facts(source, shard) for source, shard in self.shards] or [["no shards"]])

    @cached_property
    def marks(self) -> str:
        """Four hexadecimal digits for each shard, so that a state can tell which one has changed."""
        facts = (repr(_facts(source, shard)).encode() for source, shard in self.shards)
        return "".join(hashlib.blake2b(fact, digest_size=2).hexdigest() for fact in facts)


def _facts(source: Source, shard: Shard) -> list[Any]:
    return [shard.path.name, source.name, shard.size, shard.census.rows, shard.digest]


def _for_single_reads(source: Source, shard: Shard) -> str:
    """What would let rows be read by themselves that can't be: it depends on who reads them."""
    from seekset.shards.npz import NpzShards

    reader = reader_for(shard.path) if source.reader is None else source.reader
    if isinstance(reader, NpzShards):
        return "store shards uncompressed"
    if type(reader).__module__.startswith("seekset."):
        return "store its rows as .npz that is not compressed, or as TFRecords"
    return f"give {type(reader).__name__} a read_rows, and a count that gives a Census with decoded_bytes=0"


@lru_cache(maxsize=1024)
def _turns(rows: tuple[int, ...], weights: tuple[int, ...] | None, stop: Stop) -> int:
    """How many turns sources of so many rows have. They are counted one by one: once for ranks that have as many."""
    return _core.count_turns(list(rows), None if weights is None else list(weights), stop)


def _cut(rows: int, most: int) -> list[int]:
    whole, rest = divmod(rows, most)
    return [most] * whole + ([rest] if rest else [])


def _stretches(source: Source, first_shard: int, start: int, end: int) -> Iterator[Stretch]:
    before = 0
    for number, shard in enumerate(source.shards, first_shard):
        rows = shard.census.rows
        first, last = max(start - before, 0), min(end - before, rows)
        before += rows
        singly = source.reads_singly(shard)
        most = piece_rows(shard.census) if singly else MOST_ROWS
        for length in _cut(max(0, last - first), most):
            yield Stretch(number, first, length)
            first += length


def reader_key(seed: int, epoch: int, world: World) -> int:
    """What rows are drawn by: another number for every reader and epoch."""
    key = 0
    for fact in (seed, epoch, world.rank, world.size, world.worker, world.workers):
        key = mixed(key + fact & _MASK)
    return key


def mixed(value: int) -> int:
    """A random number for a number."""
    return int(mixed_all(np.array([value & _MASK], dtype=np.uint64))[0])


def mixed_all(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Random numbers for numbers (splitmix64)."""
    found = values + np.uint64(_GOLDEN)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))


@dataclass(frozen=True)
class MixShare:
    """The rows of a plan that fall to one reader: what :class:`seekset.world.Share` is for strides."""

    plan: MixPlan
    world: World

    def __len__(self) -> int:
        return self.plan.length(self.world)

    @property
    def of_rank(self) -> int:
        """How many rows the rank gets, read by one process."""
        return self.plan.length(World(self.world.rank, self.world.size))

    @property
    def longest(self) -> MixShare:
        """The share of the rank that has most: the first, unless ranks end as their sources do."""
        alike = self.plan.stop == "all_exhausted" or self.plan.even == "drop"
        ranks = range(1 if alike else self.world.size)
        return max((replace(self, world=replace(self.world, rank=rank)) for rank in ranks), key=len)

    def at_worker(self, worker: int, workers: int) -> MixShare:
        """The same rank's, as one of its loader's workers."""
        return replace(self, world=self.world.at_worker(worker, workers))
