"""The work queue: which span is next, and what becomes of one that failed. It counts and does nothing else."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from seekset.inference.results import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["Verdict", "WorkQueue"]


class Verdict(Enum):
    """What becomes of a span that failed."""

    AGAIN = "it is tried once more, by another worker if there is one"
    NARROWED = "it failed again: its halves are tried on their own"
    SET_ASIDE = "it is one sequence, which is set aside"


# A span that so often came back from workers that something outside ended is left for last: it may be what ended them.
_SUSPICIOUS = 2


@dataclass(slots=True)
class _Item:
    """A span, how often it failed, who failed with it last, and how often it came back without blame.

    What failed as a part of something larger has ``failures``, but nobody has ``failed_by`` it yet. Who failed with
    ``each`` of its sequences has got through it otherwise. One that is ``urgent`` shows whether whoever failed with it
    is to be trusted with the rest, and comes first.
    """

    span: Span
    failures: int = 0
    failed_by: int | None = None
    returns: int = 0
    each: bool = False
    urgent: bool = False

    def has_failed_elsewhere(self, rank: int) -> bool:
        """Whether another rank has failed with each of its sequences."""
        return self.failed_by not in (None, rank) and (self.each or self.span.size == 1)


class WorkQueue:
    """Spans that wait, are leased to ranks, or are done.

    The largest comes first, so that devices of different speed end together. A span that fails is tried once more, by
    another rank if there is one, whose machine may be in a better state; if it fails again, its halves are tried, and
    theirs, down to the sequence, which two ranks must have failed with if there are two, or a process that was started
    anew if there is one. What is returned without blame is as it was, and comes last if that happens again.

    Args:
        spans: What is to be done.
        weigh: How large a span is.
        world_size: With a number, every rank has a fixed share, every ``world_size``-th of ``spans``; without one, all
            ranks take from one queue.

    >>> queue = WorkQueue([Span(0, 4), Span(4, 12)], weigh=lambda span: span.size)
    >>> queue.take(0), queue.take(1), queue.take(2)
    (Span(start=4, end=12), Span(start=0, end=4), None)
    >>> queue.blame(1), queue.take(1), queue.blame(1), queue.take(1)
    (<Verdict.AGAIN: ...>, Span(start=0, end=4), <Verdict.NARROWED: ...>, Span(start=0, end=2))
    >>> queue.finish(0)
    >>> len(queue)
    2
    """

    def __init__(self, spans: Iterable[Span], *, weigh: Callable[[Span], int], world_size: int | None = None) -> None:
        self._weigh = weigh
        self._shares = world_size
        self._waiting: list[list[tuple[int, int, Span, _Item]]] = [[] for _ in range(world_size or 1)]
        self._leases: dict[int, _Item] = {}
        for number, span in enumerate(spans):
            self._put(number % len(self._waiting), _Item(span))

    def __len__(self) -> int:
        """How many spans wait or are leased."""
        return sum(map(len, self._waiting)) + len(self._leases)

    def _put(self, share: int, item: _Item) -> None:
        if item.span.size:
            place = 2 if item.returns >= _SUSPICIOUS else 0 if item.urgent else 1
            heapq.heappush(self._waiting[share], (place, -self._weigh(item.span), item.span, item))

    def share(self, rank: int) -> int:
        """Which ranks take from one queue: those of the same share."""
        return 0 if self._shares is None else rank

    def waiting(self, rank: int, *, alone: bool = True) -> int:
        """How many spans wait that a rank could take; one that is not ``alone`` leaves some to others."""
        waiting = self._waiting[self.share(rank)]
        return len(waiting) if alone else sum(entry[-1].failed_by != rank for entry in waiting)

    def leased(self, rank: int) -> Span | None:
        """What a rank is at."""
        item = self._leases.get(rank)
        return None if item is None else item.span

    def take(self, rank: int, *, alone: bool = True) -> Span | None:
        """Lease the largest span that waits for a rank; ``None`` if none does.

        A rank that is not ``alone`` leaves those to others that just failed with it.
        """
        if rank in self._leases:
            raise ValueError(f"rank {rank} has a lease already")
        waiting, passed = self._waiting[self.share(rank)], []
        taken: _Item | None = None
        while waiting and taken is None:
            entry = heapq.heappop(waiting)
            if not alone and entry[-1].failed_by == rank:
                passed.append(entry)
            else:
                taken = entry[-1]
        for entry in passed:
            heapq.heappush(waiting, entry)
        if taken is None:
            return None
        self._leases[rank] = taken
        return taken.span

    def finish(self, rank: int, done: Span | None = None, *, computed: bool = True) -> int | None:
        """End a lease; gives the other rank that had failed with this very span, if one had and it is ``computed`` now.

        If only the start of its span was done, the rest waits again.
        """
        item = self._leases.pop(rank)
        if done is not None and done.end < item.span.end:
            rest = Span(max(done.end, item.span.start), item.span.end)
            self._put(self.share(rank), replace(item, span=rest, returns=0))
            return None
        return item.failed_by if computed and item.failed_by != rank else None

    def question(self, rank: int, pieces: Iterable[int], others: Sequence[int]) -> list[Span]:
        """Have others try those sequences of a lease, in order, that a rank got through without a vector for them.

        Gives the spans that they make, before the lease is finished. There are none if nobody else is there, or another
        rank has failed with them before: then they are set aside.
        """
        if not others or self._leases[rank].has_failed_elsewhere(rank):
            return []
        spans: list[Span] = []
        for piece in pieces:
            start = spans.pop().start if spans and spans[-1].end == piece else piece
            spans.append(Span(start, piece + 1))
        for span in spans:
            self._put(self._heir(rank, span, others), _Item(span, 1, rank, each=True, urgent=True))
        return spans

    def _heir(self, rank: int, span: Span, others: Sequence[int]) -> int:
        """The share in which a span waits that a rank has failed with: of a fixed share, too, another rank tries it."""
        return self.share(others[span.start % len(others)] if others else rank)

    def release(self, rank: int) -> None:
        """Take a lease back, if there is one, without blaming its span."""
        if (item := self._leases.pop(rank, None)) is not None:
            item.returns += 1
            self._put(self.share(rank), item)

    def blame(self, rank: int, others: Sequence[int] = (), *, fresh: bool = True) -> Verdict:
        """Take a lease back because its span failed; one that is set aside is done.

        ``others`` are the ranks that may try it next. A sequence is not set aside on the word of one rank alone, if
        there are any: what fails may be the rank. If there are none, that rank's process has to be ``fresh``: it has
        done nothing else since it was started.
        """
        item = self._leases.pop(rank)
        single = item.span.size == 1
        sure = item.has_failed_elsewhere(rank) or (fresh and not others)
        if item.failures == 0 or (single and not sure):
            urgent = single and not others
            self._put(self._heir(rank, item.span, others), _Item(item.span, item.failures + 1, rank, urgent=urgent))
            return Verdict.AGAIN
        if single:
            return Verdict.SET_ASIDE
        for half in item.span.halves():
            failed_by = item.failed_by if item.each else None
            self._put(self.share(rank), _Item(half, item.failures, failed_by, each=item.each))
        return Verdict.NARROWED

    def hand_over(self, rank: int, others: list[int]) -> None:
        """Give the fixed share of a rank that was given up to others."""
        if self._shares is None or not others:
            return
        left, self._waiting[rank] = self._waiting[rank], []
        for number, (*_, item) in enumerate(sorted(left, key=lambda entry: entry[:3])):
            # Who has failed with it would leave it to others, which don't take from this share.
            takers = [other for other in others if other != item.failed_by] or others
            self._put(takers[number % len(takers)], item)
