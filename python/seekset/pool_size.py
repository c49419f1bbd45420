"""The size of a pool: how many rows it holds and how many bytes that takes, reckoned before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from seekset import _core
from seekset.errors import MismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seekset.mixing import MixPlan, Stretch
    from seekset.world import World

__all__ = ["PoolSize", "cost", "held", "pooled"]

# Memory for pooled rows of columns is asked for in chunks: the last one may be all but empty.
_CHUNK_BYTES = 1 << 18


@dataclass(frozen=True)
class PoolSize:
    """What one reader's pool holds: rows, and the most bytes it takes, with what is on its way into it."""

    pool_rows: int
    row_bytes: int
    partly: int
    reading: int
    budget: int | None
    chunk: int = 0

    @property
    def peak(self) -> int:
        """The most bytes that are in use at once."""
        return self.bytes_of(self.pool_rows)

    def bytes_of(self, rows: int) -> int:
        """The same of a pool of so many rows."""
        return rows * self.row_bytes + self.partly + self.chunk + self.reading

    @property
    def room(self) -> int:
        """The most bytes of rows that are pooled or wait to be."""
        return self.pool_rows * self.row_bytes + self.partly

    @classmethod
    def of(cls, plan: MixPlan, world: World) -> Self:
        """The size of a reader's pool: as many rows as were asked for, or as its share of the bytes allows."""
        budget = None if plan.max_bytes is None else plan.max_bytes // world.workers
        read = [stretch for stretches in plan.stretches(world) for stretch in stretches]
        if plan.mixing == "global" or not read:
            return cls(plan.pool_rows, 0, 0, 0, budget)
        row_bytes = max(_core.pooled_row_bytes(plan.shards[one.shard][1].census.row_bytes) for one in read)
        rows = sum(stretch.rows for stretch in read)
        partly, reading = _partly(plan, world), (plan.decoders + 1) * max(cost(plan, one) for one in read)
        beside = partly + reading + (0 if plan.fields is None else _CHUNK_BYTES)
        pool_rows = plan.pool_rows
        if budget is not None:
            pool_rows = min(pool_rows, (budget - beside) // row_bytes)
        if pool_rows < 1:
            raise MismatchError(_too_small(plan, read, budget, beside + row_bytes))
        pool_rows = pool_rows if budget is None else min(pool_rows, rows)
        return cls(pool_rows, row_bytes, partly, reading, budget, beside - partly - reading)


def cost(plan: MixPlan, stretch: Stretch) -> int:
    """The most bytes that it takes to read a stretch, the result counted."""
    census = plan.shards[stretch.shard][1].census
    if not census.decoded_bytes:
        # Rows that are read by themselves are there once as they are, and once packed.
        return held(plan, stretch) + stretch.rows * census.unpacked_bytes
    return held(plan, stretch) + census.decoded_bytes + (census.packed_bytes if stretch.rows < census.rows else 0)


def held(plan: MixPlan, stretch: Stretch) -> int:
    """The most bytes that the packed rows of a stretch take."""
    census = plan.shards[stretch.shard][1].census
    return min(census.packed_bytes, stretch.rows * census.row_bytes) + 8 * stretch.rows


def pooled(plan: MixPlan, stretch: Stretch) -> int:
    """The most bytes that the rows of a stretch take in a pool."""
    return stretch.rows * _core.pooled_row_bytes(plan.shards[stretch.shard][1].census.row_bytes)


def _partly(plan: MixPlan, world: World) -> int:
    """The most bytes of what is read, but not yet pooled: of every source, the shards that are open."""
    sources = [stretches for stretches in plan.stretches(world) if stretches]
    return sum(plan.open_shards * max(pooled(plan, one) for one in stretches) for stretches in sources)


def _too_small(plan: MixPlan, read: Sequence[Stretch], budget: int | None, needed: int) -> str:
    largest = max(read, key=lambda one: cost(plan, one))
    path = plan.shards[largest.shard][1].path
    return (
        f"{path}: a budget of {budget} bytes for each reader can't hold what is being read: this shard alone needs "
        f"{cost(plan, largest)} bytes, and {needed} are needed with {plan.open_shards} open in each of "
        f"{len(plan.sources)} sources and {plan.decoders} being read; raise max_bytes, or cut shards smaller"
    )
