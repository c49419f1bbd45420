"""How well an order mixes shards and sources, in four numbers beside those of a perfect shuffle.

They are measured on where rows come from, so that an order can be judged before anything is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from seekset.errors import MismatchError
from seekset.rows import integers

if TYPE_CHECKING:
    import os

    from numpy.typing import ArrayLike, NDArray

# `Runs` and `measure_sample` are for plans, which know the whole of what they take a sample of.
__all__ = ["Mixing", "MixingQuality", "measure", "plot"]

# Numbers with more gaps than this between them are sorted rather than counted.
_SPARSE = 16
# Runs of batches in a sample: so many that it meets a pool that is full and one that is nearly empty alike.
_RUNS = 1000
_DECILES = 10


class Mixing(NamedTuple):
    """How well some batches are mixed.

    | | what | sorted, well mixed, as planned |
    |---|---|---|
    | ``shards`` | different shards in a batch, on average | few; the more, the better |
    | ``neighbours`` | how often a row is of the shard of the row before it, as a multiple of chance | many; 1 |
    | ``sources`` | chi-square of a batch's rows by source, by degree of freedom | many; 1; near 0 in turns |
    | ``correlation`` | rank correlation of the order of reading and of delivery | 1; 0 |
    """

    shards: float
    neighbours: float
    sources: float
    correlation: float


@dataclass(frozen=True, slots=True)
class MixingQuality:
    """The mixing of an epoch: by decile, on the whole, and what a uniformly random order of the same rows would have.

    ``rows`` and ``batches`` are those that were looked at, of the ``of_rows`` that there are: a last batch that isn't
    full is left out, and of very many rows a sample is taken.
    """

    rows: int
    of_rows: int
    batch: int
    batches: int
    deciles: tuple[Mixing, ...]
    whole: Mixing
    ideal: Mixing

    def table(self) -> tuple[list[str], list[list[object]]]:
        """Heads and rows as a command shows them.

        >>> heads, rows = measure([0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 2, 3], batch=2, deciles=2).table()
        >>> for row in (heads, *rows):
        ...     print(*row, sep="  ")
        part of the epoch  shards per batch  same-shard neighbours  chi-square of sources  rank correlation
        0-50 %  1.00  3.00x  0.00  1.000
        50-100 %  1.00  3.00x  0.00  1.000
        all  1.00  2.00x  0.00  1.000
        ideal  1.67  1.00x  0.00  0.000
        """
        heads = ["part of the epoch", "shards per batch", "same-shard neighbours", "chi-square of sources"]
        named = [*zip(self.parts, self.deciles, strict=True), ("all", self.whole), ("ideal", self.ideal)]
        return [*heads, "rank correlation"], [
            [name, f"{one.shards:.2f}", f"{one.neighbours:.2f}x", f"{one.sources:.2f}", f"{one.correlation:.3f}"]
            for name, one in named
        ]

    @property
    def remark(self) -> str | None:
        """What is to be said where a sample was taken."""
        if self.of_rows - self.rows < self.batch:
            return None
        return f"mixing was measured on {self.rows:,} of {self.of_rows:,} rows, in batches spread evenly over the epoch"

    @property
    def parts(self) -> list[str]:
        """The names of the deciles, or of as many parts as there are."""
        edges = [round(100 * k / len(self.deciles)) for k in range(len(self.deciles) + 1)]
        return [f"{start}-{stop} %" for start, stop in pairwise(edges)]

    def facts(self) -> dict[str, Any]:
        """The same as plain numbers, for JSON."""
        return {
            "rows": self.rows,
            "of_rows": self.of_rows,
            "batch": self.batch,
            "batches": self.batches,
            "deciles": [one._asdict() for one in self.deciles],
            "all": self.whole._asdict(),
            "ideal": self.ideal._asdict(),
        }


def measure(
    shards: ArrayLike, sources: ArrayLike, read_order: ArrayLike, *, batch: int = 256, deciles: int = _DECILES
) -> MixingQuality:
    """The quality of an order, given for each row in the order of delivery.

    Args:
        shards: The number of the shard that the row is of.
        sources: The number of the source that it is of.
        read_order: Its place in the order of reading.
        batch: Rows of a batch. All rows are one batch where there are fewer.
        deciles: Parts that the epoch is cut into; no more than there are batches.

    >>> order = np.random.default_rng(0).permutation(10_000)
    >>> shuffled = measure(order // 200, order // 8_000, order, batch=100)
    >>> [round(number, 1) for number in shuffled.ideal]
    [43.4, 1.0, 1.0, 0.0]
    >>> shuffled.whole.shards > 0.98 * shuffled.ideal.shards
    True
    """
    places = _Places.of(shards, sources, read_order)
    if batch < 1 or deciles < 1:
        raise ValueError(f"batch and deciles must be at least 1, but are {batch} and {deciles}")
    counts = np.bincount(places.shards), np.bincount(places.sources)
    return _measured(places, _Odds.of(*counts, batch), deciles)


def measure_sample(
    shards: NDArray[np.int64],
    sources: NDArray[np.int64],
    read_order: NDArray[np.int64],
    *,
    of_shards: NDArray[np.int64],
    of_sources: NDArray[np.int64],
    batch: int,
) -> MixingQuality:
    """The quality of an order of which only some batches are given, as :class:`Runs` chooses them.

    ``of_shards`` and ``of_sources`` are how many rows of each shard and source the whole of it has.

    >>> runs, order = Runs.of(10_000, batch=100, most=2_000), np.random.default_rng(0).permutation(10_000)
    >>> some = order[runs.picked(0, 10_000)]
    >>> parts = {"of_shards": np.bincount(order // 200), "of_sources": np.bincount(order // 8_000)}
    >>> measure_sample(some // 200, some // 8_000, some, batch=100, **parts).remark
    'mixing was measured on 2,000 of 10,000 rows, in batches spread evenly over the epoch'
    """
    return _measured(_Places.of(shards, sources, read_order), _Odds.of(of_shards, of_sources, batch), _DECILES)


class Runs(NamedTuple):
    """Runs of whole batches, evenly spread over the rows of an epoch: where each begins, and before which row it ends.

    >>> runs = Runs.of(100, batch=10, most=30)
    >>> runs.starts.tolist(), runs.ends.tolist()
    ([0, 10, 20, 30, 40, 50, 60, 70, 80, 90], [10, 20, 30, 40, 50, 60, 70, 80, 90, 100])
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, rows: int, *, batch: int, most: int) -> Self:
        """So many that they have no more than ``most`` rows together, or a batch in each decile; or else all rows."""
        batches = rows // batch
        wanted = min(batches, max(_DECILES, most // batch))
        if rows <= most or wanted < 1:
            return cls(np.array([0]), np.array([rows]))
        count = min(_RUNS, wanted)
        each = wanted // count
        starts = batch * ((batches - each) * np.arange(count, dtype=np.int64) // max(1, count - 1))
        return cls(starts, starts + batch * each)

    def picked(self, start: int, count: int) -> NDArray[np.bool_]:
        """Which of so many rows, from one on, are in a run."""
        picked = np.zeros(count, dtype=np.bool_)
        first, last = np.searchsorted(self.ends, start, side="right"), np.searchsorted(self.starts, start + count)
        for begin, end in zip(self.starts[first:last] - start, self.ends[first:last] - start, strict=True):
            picked[max(0, begin) : end] = True
        return picked


def _measured(places: _Places, odds: _Odds, deciles: int) -> MixingQuality:
    batch = odds.batch
    batches = len(places.shards) // batch
    parts = min(deciles, batches)
    # Whole batches, as evenly as they can be shared out.
    edges = [batch * (batches * part // parts) for part in range(parts + 1)]
    return MixingQuality(
        rows=batch * batches,
        of_rows=odds.rows,
        batch=batch,
        batches=batches,
        deciles=tuple(odds.compared(places.part(*ends)) for ends in pairwise(edges)),
        whole=odds.compared(places.part(0, batch * batches)),
        ideal=odds.ideal(),
    )


class _Places(NamedTuple):
    """Where rows come from, in the order of delivery. Shards and sources are numbered without gaps."""

    shards: NDArray[np.intp]
    sources: NDArray[np.intp]
    read: NDArray[np.int64]

    @classmethod
    def of(cls, shards: ArrayLike, sources: ArrayLike, read_order: ArrayLike) -> _Places:
        of_shards, of_sources = integers(shards, "shards"), integers(sources, "sources")
        read = integers(read_order, "read_order")
        counts = len(of_shards), len(of_sources), len(read)
        if len(set(counts)) > 1:
            found = ", ".join(map(str, counts))
            raise MismatchError(f"shards, sources and read_order must be of one length, but have {found} rows")
        if not counts[0]:
            raise MismatchError("there are no rows whose mixing could be measured")
        return cls(_numbered(of_shards)[0], _numbered(of_sources)[0], read)

    def part(self, start: int, stop: int) -> _Places:
        return _Places(*(array[start:stop] for array in self))


def _numbered(values: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Values by their number among the different ones, and how often each of these is there."""
    low = values.min()
    if values.max() - low > _SPARSE * len(values):
        _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
        return which.ravel(), counts
    # Counting is several times quicker than sorting.
    counts = np.bincount(values - low)
    there = counts > 0
    return (np.cumsum(there) - 1)[values - low], counts[there]


class _Odds(NamedTuple):
    """What chance would do with the rows of an epoch: what is found is compared with it."""

    batch: int
    rows: int
    shard_sizes: NDArray[np.intp]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, of_shards: NDArray[np.intp], of_sources: NDArray[np.intp], batch: int) -> Self:
        """The odds of rows of which each shard and each source has so many."""
        rows = int(of_shards.sum())
        return cls(min(batch, rows), rows, of_shards[of_shards > 0], of_sources[of_sources > 0] / rows)

    @property
    def neighbours(self) -> float:
        """How likely two rows are of one shard."""
        pairs = float(self.rows) * (self.rows - 1)
        sizes = self.shard_sizes.astype(np.float64)
        return float((sizes * (sizes - 1)).sum()) / pairs if pairs else 0.0

    def ideal(self) -> Mixing:
        """What is to be expected of a batch that is drawn from all rows."""
        sizes, counts = np.unique(self.shard_sizes, return_counts=True)
        shards = sum(
            count * (1 - self._missing(size)) for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)
        )
        # Rows don't come twice, so that the counts of large batches scatter less than those of dice.
        scatter = (self.rows - self.batch) / (self.rows - 1) if self.rows > 1 and len(self.shares) > 1 else 0.0
        return Mixing(shards, 1.0, scatter, 0.0)

    def _missing(self, size: int) -> float:
        """How likely a batch has no row of a shard of this size: all its rows are of the others (hypergeometric)."""
        others = self.rows - size
        if others < self.batch:
            return 0.0
        of_others, of_all = (math.lgamma(n + 1) - math.lgamma(n - self.batch + 1) for n in (others, self.rows))
        return math.exp(of_others - of_all)

    def compared(self, places: _Places) -> Mixing:
        """What some whole batches have."""
        same = places.shards[1:] == places.shards[:-1]
        found = float(same.mean()) if len(same) else 0.0
        # Where no two rows are of one shard, there is nothing that could be worse than chance.
        ratio = found / self.neighbours if self.neighbours else 1.0
        return Mixing(self._distinct(places.shards), ratio, self._spread(places.sources), _correlation(places.read))

    def _distinct(self, shards: NDArray[np.intp]) -> float:
        batches = np.sort(shards.reshape(-1, self.batch), axis=1)
        return float(1 + (batches[:, 1:] != batches[:, :-1]).sum() / len(batches))

    def _spread(self, sources: NDArray[np.intp]) -> float:
        freedom = len(self.shares) - 1
        if not freedom:
            return 0.0
        batches = sources.reshape(-1, self.batch)
        offsets = len(self.shares) * np.arange(len(batches))[:, None]
        found = np.bincount((batches + offsets).ravel(), minlength=len(self.shares) * len(batches))
        expected = self.batch * self.shares
        of_batches = (found.reshape(len(batches), -1) - expected) ** 2 / expected
        return float(of_batches.sum() / len(batches) / freedom)


def _correlation(read: NDArray[np.int64]) -> float:
    """Spearman's: how far rows come in the order they were read in. Equal places share a rank."""
    which, counts = _numbered(read)
    ranks = (np.cumsum(counts) - (counts + 1) / 2)[which]
    ranks -= ranks.mean()
    places = np.arange(len(read)) - (len(read) - 1) / 2
    scale = math.sqrt(float(ranks @ ranks) * float(places @ places))
    return float(ranks @ places) / scale if scale else 0.0


# --- the picture ------------------------------------------------------------------------------------------------------

_FOUND, _IDEAL = "#33658a", "#f26419"

# Axes reach at least so far: what is chance must not look large.
PANELS = (
    ("shards", 1, "different shards in a batch", "more is better"),
    ("neighbours", 2, "neighbours of one shard, against chance", "1 is chance, less is better"),
    ("sources", 2, "chi-square of sources in a batch, by degree of freedom", "1 is chance, 0 is exact proportion"),
    ("correlation", 1, "rank correlation of reading and delivery", "0 is a perfect shuffle, 1 the order of reading"),
)


def plot(quality: MixingQuality, path: str | os.PathLike[str], *, title: str | None = None) -> None:
    """Draw the quality by decile, beside that of a perfect shuffle. Needs matplotlib.

    The format is that of the path's suffix, or PNG. What is there and no picture is not replaced.
    """
    from seekset.pictures import picture

    with picture(path, size=(11, 7), rows=2, columns=2) as (figure, panels):
        for axes, (field, reach, heading, better) in zip(panels, PANELS, strict=True):
            found = [getattr(one, field) for one in quality.deciles]
            _draw(axes, quality.parts, found, getattr(quality.ideal, field), reach)
            axes.set_title(f"{heading}\n({better})", fontsize=10)
        for axes in panels[2:]:
            axes.set_xlabel("part of the epoch")
        figure.suptitle(title or f"{quality.rows:,} rows in batches of {quality.batch:,}")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False, fontsize=10)


def _draw(axes: Any, parts: list[str], found: list[float], ideal: float, reach: float) -> None:
    bars = axes.bar(parts, found, color=_FOUND, label="this order")
    axes.axhline(ideal, color=_IDEAL, linestyle="--", label="a uniformly random order, on average")
    # Numbers stand above the dashed line, on white: the two often meet.
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    axes.bar_label(bars, [_short(value) for value in found], padding=3, fontsize=8, bbox=behind, zorder=3)
    low, high = min(0.0, *found), max(*found, ideal, reach)
    room = 0.12 * (high - low)
    axes.set_ylim(low - room if low < 0 else 0, high + room)
    axes.tick_params(axis="x", labelrotation=45, labelsize=8)


def _short(value: float) -> str:
    """A number in a few letters, and no zero with a sign.

    >>> [_short(value) for value in (189.4321, 5.3821, -0.0004)]
    ['189.4', '5.38', '0.00']
    """
    return f"{value:.1f}" if value >= 10 else f"{round(value, 2) + 0.0:.2f}"  # noqa: PLR2004 (two digits and more)
