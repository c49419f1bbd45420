"""The chunks of a plan: runs of its batches that are computed, saved and, if need be, computed again as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from seekset.inference.results import Span
from seekset.plan import PlannedBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from seekset.plan import Plan

__all__ = ["Pieces", "Slice", "cut_chunks"]

# There are as many chunks as let devices of different speed end together, whatever their number: it may change.
_CHUNKS = 1024
# A chunk is what a crash loses at most, and what a result is held in memory for.
_MOST_TOKENS = 1 << 20
_MOST_TOKENS_BY_TOKEN = 1 << 16


class Slice(NamedTuple):
    """Some pieces of one batch of a plan."""

    span: Span
    batch: PlannedBatch
    tokens: int

    def halves(self, specials: int) -> tuple[Slice, Slice]:
        """The same pieces in two slices."""
        middle = self.span.size // 2
        first, second = self.span.halves()
        batches = [
            PlannedBatch(*(column[part] for column in self.batch)) for part in (slice(middle), slice(middle, None))
        ]
        return (
            Slice(first, batches[0], _tokens(batches[0], specials)),
            Slice(second, batches[1], _tokens(batches[1], specials)),
        )


def _tokens(batch: PlannedBatch, specials: int) -> int:
    return int(batch.lengths.sum()) + specials * len(batch.lengths)


class Pieces:
    """The pieces of all batches of a plan, one batch after another, by number.

    Args:
        plan: The plan. Its batches have room for the longest sequence, however long that is.
        budget: The most tokens of a slice that has more than one piece: batches of more are cut. All of a batch is a
            slice if not given.

    >>> from seekset import Fasta, Plan
    >>> pieces = Pieces(Plan.create(Fasta("proteins.fa"), max_tokens=40))
    >>> len(pieces), [(part.span, part.batch.rows.tolist(), part.tokens) for part in pieces.slices(Span(0, 2))]
    (3, [(Span(start=0, end=1), [0], 35), (Span(start=1, end=2), [1], 18)])
    >>> pieces = Pieces(Plan.create(Fasta("proteins.fa"), max_tokens=1000), budget=25)
    >>> [(part.span, part.tokens) for part in pieces.slices(Span(0, 3))]
    [(Span(start=0, end=1), 35), (Span(start=1, end=3), 25)]
    """

    def __init__(self, plan: Plan, budget: int | None = None) -> None:
        self.plan = plan
        self._budget = plan.max_tokens if budget is None else budget
        self.ends: NDArray[np.int64] = np.cumsum(plan.counts)
        self._tokens_before = np.concatenate([[0], np.cumsum(plan.tokens)])

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def slices(self, span: Span) -> Iterator[Slice]:
        """The batches of a span, cut to the budget; the first and the last may be parts of one."""
        number, at = int(np.searchsorted(self.ends, span.start, side="right")), span.start
        while at < span.end:
            end = min(int(self.ends[number]), span.end)
            first = int(self.ends[number - 1]) if number else 0
            batch = PlannedBatch(*(column[at - first : end - first] for column in self.plan[number]))
            while at < end:
                count = self._fitting(batch.lengths)
                part = PlannedBatch(*(column[:count] for column in batch))
                yield Slice(Span(at, at + count), part, _tokens(part, self.plan.specials))
                at, batch = at + count, PlannedBatch(*(column[count:] for column in batch))
            number += 1

    def _fitting(self, lengths: NDArray[np.int64]) -> int:
        """How many of some pieces, longest first, are within the budget; one always is."""
        costs = lengths + self.plan.specials
        if self.plan.layout == "padded":
            # Each is filled up to the first, which is the longest.
            fit = self._budget // max(int(costs[0]), 1)
        else:
            fit = int(np.searchsorted(np.cumsum(costs), self._budget, side="right"))
        return min(max(fit, 1), len(lengths))

    def tokens(self, span: Span) -> int:
        """About how many tokens a span has: batches that are cut count by their part of pieces."""
        edges = np.interp([span.start, span.end], np.concatenate([[0], self.ends]), self._tokens_before)
        return int(edges[1] - edges[0])

    def row(self, piece: int) -> int:
        """The row of the index that a piece is of."""
        return int(next(self.slices(Span(piece, piece + 1))).batch.rows[0])


def cut_chunks(plan: Plan, *, per_token: bool = False) -> list[Span]:
    """Cut a plan into chunks of whole batches, of bounded tokens. The same plan always gives the same chunks.

    >>> from seekset import Fasta, Plan
    >>> cut_chunks(Plan.create(Fasta("proteins.fa"), max_tokens=40))
    [Span(start=0, end=1), Span(start=1, end=3)]
    """
    most = _MOST_TOKENS_BY_TOKEN if per_token else _MOST_TOKENS
    budget = max(min(-(-plan.total_tokens // _CHUNKS), most), 1)
    chunks: list[Span] = []
    start = end = tokens = 0
    for count, more in zip(plan.counts.tolist(), plan.tokens.tolist(), strict=True):
        if tokens and tokens + more > budget:
            chunks.append(Span(start, end))
            start, tokens = end, 0
        end, tokens = end + count, tokens + more
    return [*chunks, Span(start, end)] if end > start else chunks
