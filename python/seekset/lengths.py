"""Lengths of sequences in a few numbers: how many, how long, and how they are spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Histogram", "describe", "histogram", "quantiles"]

# Lengths that differ by more than this factor are counted in bins that grow with them.
_WIDE_SPREAD = 20
_PARTS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many lengths are from each edge to before the next; edges grow by a factor if ``log``.

    Sequences without a letter have no place on such a scale: they are counted in ``empty`` alone, if ``log``.
    """

    edges: tuple[int, ...]
    counts: tuple[int, ...]
    log: bool
    empty: int


def describe(lengths: NDArray[np.int64]) -> dict[str, Any]:
    """Count, sum and quantiles of lengths.

    >>> describe(np.array([2, 8, 4], dtype=np.uint64))["n50"]
    8
    """
    if not lengths.size:
        return dict.fromkeys(("records", "letters", "shortest", "median", "mean", "n50", "longest"), 0)
    ordered = np.sort(lengths)[::-1]
    total = int(ordered.sum())
    return {
        "records": len(ordered),
        "letters": total,
        "shortest": int(ordered[-1]),
        "median": float(np.median(ordered)),
        "mean": round(total / len(ordered), 1),
        "n50": int(ordered[np.searchsorted(np.cumsum(ordered), total / 2)]),
        "longest": int(ordered[0]),
    }


def quantiles(lengths: NDArray[np.int64]) -> dict[str, float]:
    """Below which length so many per cent of all sequences are; nothing where there is no sequence.

    >>> quantiles(np.arange(101))["25 %"]
    25.0
    """
    if not lengths.size:
        return {}
    found = np.quantile(lengths, _PARTS).tolist()
    return {f"{100 * part:g} %": value for part, value in zip(_PARTS, found, strict=True)}


def histogram(lengths: NDArray[np.int64], bins: int = 60) -> Histogram:
    """Count lengths in bins between whole numbers: equal ones, or such that grow where lengths differ much.

    >>> histogram(np.array([3, 4, 4, 6]))
    Histogram(edges=(3, 4, 5, 6, 7), counts=(1, 2, 0, 1), log=False, empty=0)
    >>> histogram(np.array([0, 1, 10, 100]), bins=2)
    Histogram(edges=(1, 10, 101), counts=(1, 2), log=True, empty=1)
    """
    empty = int((lengths == 0).sum())
    shown = lengths[lengths > 0]
    if not shown.size:
        return Histogram((0, 1), (empty,), log=False, empty=empty)
    low, high = int(shown.min()), int(shown.max())
    log = high > _WIDE_SPREAD * low
    if not log and empty:
        low, shown = 0, lengths
    if log:
        edges = np.unique(np.rint(np.geomspace(low, high + 1, bins + 1)).astype(np.int64))
    else:
        # A bin has whole numbers, all bins equally many; the last may reach over the end.
        width = -(-(high + 1 - low) // bins)
        edges = np.arange(low, high + 1 + width, width, dtype=np.int64)
    # Lengths are sorted into bins by hand: numpy's own histogram counts the last edge in, and loses it in floats.
    counts = np.bincount(np.searchsorted(edges, shown, side="right") - 1, minlength=len(edges) - 1)
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), log=log, empty=empty)
