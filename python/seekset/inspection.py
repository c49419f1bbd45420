"""What a mixed pool makes of its shards in one epoch and one process, found out before a row is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from seekset.world import World

if TYPE_CHECKING:
    from seekset.mixing import MixPlan
    from seekset.quality import MixingQuality

__all__ = ["Inspection", "SourceShare", "inspect", "schedule"]


class SourceShare(NamedTuple):
    """Shards and rows of a source, and its weight: its part of all turns while every source has rows."""

    source: str
    shards: int
    rows: int
    weight: float


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the first epoch comes to, and how well it is mixed; no quality where there are no rows."""

    rows: int
    pool_rows: int
    peak_bytes: int
    order_digest: str
    sources: tuple[SourceShare, ...]
    quality: MixingQuality | None


def inspect(plan: MixPlan, *, seed: int, batch: int) -> Inspection:
    """Look at the first epoch of a plan; quality is that of batches of so many rows."""
    world = World()
    size = plan.sized(world)
    return Inspection(
        rows=plan.length(world),
        pool_rows=0 if plan.mixing == "global" else size.pool_rows,
        peak_bytes=size.peak,
        order_digest=plan.order_digest(world, seed, 0),
        sources=_shares(plan),
        quality=plan.quality(world, seed, 0, batch),
    )


def _shares(plan: MixPlan) -> tuple[SourceShare, ...]:
    weights = [weight if rows else 0 for weight, rows in zip(plan.weights or plan.rows, plan.rows, strict=True)]
    whole = sum(weights) or 1
    return tuple(
        SourceShare(source.name, len(source.shards), rows, weight / whole)
        for source, rows, weight in zip(plan.sources, plan.rows, weights, strict=True)
    )


def schedule(plan: MixPlan, *, seed: int, parts: int = 10) -> list[list[int]]:
    """How many rows of each source come in each part of the first epoch."""
    length = plan.length(World())
    parts = max(1, min(parts, length))
    # As numpy splits arrays: the first parts have a row more than the others.
    ends = np.cumsum([length // parts + (part < length % parts) for part in range(parts)])
    counts = np.zeros((parts, len(plan.sources)), dtype=np.int64)
    for done, shards, _ in plan.pieces(World(), seed, 0):
        part_of = np.searchsorted(ends, np.arange(done, done + len(shards)), side="right")
        np.add.at(counts, (part_of, plan.source_of[shards]), 1)
    return counts.tolist()
