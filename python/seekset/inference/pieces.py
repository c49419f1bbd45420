"""The chunks of a plan: runs of its batches that are computed, saved and, if need be, computed again as one."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
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

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def slices(self, span: Span) -> Iterator[Slice]:
        """The batches of a span, cut to the budget; the first and the last may be parts of one."""
        number, at = int(np.searchsorted(self.ends, span.start, side="right")), span.start
        while at < span.end:
            end = min(int(self.ends[number]), span.end)
            first = int(self.ends[number - 1]) if number else 0
            batch = PlannedBatch(*(column[at - first : end - first] for column in self.plan[number]))
            for start, stop in pairwise([0, *self._cuts(batch.lengths)]):
                part = PlannedBatch(*(column[start:stop] for column in batch))
                yield Slice(Span(at + start, at + stop), part, _tokens(part, self.plan.specials))
            at, number = end, number + 1

    def _cuts(self, lengths: NDArray[np.int64]) -> list[int]:
        """Where slices of some pieces, longest first, end: each is within the budget, or one piece."""
        costs = lengths + self.plan.specials
        sums, cuts, at = np.cumsum(costs), list[int](), 0
        while at < len(lengths):
            if self.plan.layout == "padded":
                # Each is filled up to the first, which is the longest.
                end = at + self._budget // max(int(costs[at]), 1)
            else:
                before = int(sums[at - 1]) if at else 0
                end = int(np.searchsorted(sums, before + self._budget, side="right"))
            at = min(max(end, at + 1), len(lengths))
            cuts.append(at)
        return cuts

    @cached_property
    def edges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The pieces at which slices begin and end, and how many tokens there are before each, as is interpolated."""
        counts, tokens = self.plan.counts, self.plan.tokens
        if self.plan.max_tokens > self._budget:
            counts, tokens = self._cut_batches(counts, tokens)
        return np.concatenate([[0.0], np.cumsum(counts)]), np.concatenate([[0.0], np.cumsum(tokens)])

    def _cut_batches(
        self, counts: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pieces and tokens of all slices, where those of batches are known."""
        # How large a padded batch is, its tokens alone don't tell.
        large = np.arange(len(counts)) if self.plan.layout == "padded" else np.flatnonzero(tokens > self._budget)
        parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        done = 0
        for number in large.tolist():
            lengths = self.plan[number].lengths
            starts = np.array([0, *self._cuts(lengths)])
            sums = np.concatenate([[0], np.cumsum(lengths + self.plan.specials)])
            parts += [(counts[done:number], tokens[done:number]), (np.diff(starts), np.diff(sums[starts]))]
            done = number + 1
        parts.append((counts[done:], tokens[done:]))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def tokens(self, span: Span) -> int:
        """About how many tokens a span has: of a slice that it has a part of, as its part of the pieces is."""
        before = np.interp(span, *self.edges)
        return int(before[1] - before[0])

    def row(self, piece: int) -> int:
        """The row of the index that a piece is of."""
        return int(next(self.slices(Span(piece, piece + 1))).batch.rows[0])


def cut_chunks(pieces: Pieces, *, per_token: bool = False) -> list[Span]:
    """Cut a plan into chunks of whole slices, of bounded tokens. The same plan always gives the same chunks.

    A batch that is larger than the budget of slices, because one sequence of the plan is, may go into several.

    >>> from seekset import Fasta, Plan
    >>> cut_chunks(Pieces(Plan.create(Fasta("proteins.fa"), max_tokens=40)))
    [Span(start=0, end=1), Span(start=1, end=3)]
    >>> cut_chunks(Pieces(Plan.create(Fasta("proteins.fa"), max_tokens=1000), budget=25))
    [Span(start=0, end=1), Span(start=1, end=3)]
    """
    most = _MOST_TOKENS_BY_TOKEN if per_token else _MOST_TOKENS
    budget = max(min(-(-pieces.plan.total_tokens // _CHUNKS), most), 1)
    chunks: list[Span] = []
    start = end = tokens = 0
    ends, before = pieces.edges
    for stop, more in zip(ends[1:].astype(int).tolist(), np.diff(before).astype(int).tolist(), strict=True):
        if tokens and tokens + more > budget:
            chunks.append(Span(start, end))
            start, tokens = end, 0
        end, tokens = stop, tokens + more
    return [*chunks, Span(start, end)] if end > start else chunks
