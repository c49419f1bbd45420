"""The work queue: which span is next, and what becomes of one that failed. It counts and does nothing else."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from seekset.inference.results import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Verdict", "WorkQueue"]


class Verdict(Enum):
    """What becomes of a span that failed."""

    AGAIN = "it is tried once more"
    NARROWED = "it failed again: its halves are tried on their own"
    SET_ASIDE = "it is one sequence, which is set aside"


@dataclass(slots=True)
class _Lease:
    span: Span
    failures: int


class WorkQueue:
    """Spans that wait, are leased to ranks, or are done.

    The largest comes first, so that devices of different speed end together. A span that fails is tried once more; if
    it fails again, its halves are, and theirs, down to the sequence. What is returned without blame is as it was.

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
        self._waiting: list[list[tuple[int, Span, int]]] = [[] for _ in range(world_size or 1)]
        self._leases: dict[int, _Lease] = {}
        for number, span in enumerate(spans):
            self._put(number % len(self._waiting), span, 0)

    def __len__(self) -> int:
        """How many spans wait or are leased."""
        return sum(map(len, self._waiting)) + len(self._leases)

    def _put(self, share: int, span: Span, failures: int) -> None:
        if span.size:
            heapq.heappush(self._waiting[share], (-self._weigh(span), span, failures))

    def _share(self, rank: int) -> int:
        return 0 if self._shares is None else rank

    def waits_for(self, rank: int) -> bool:
        """Whether a span waits that a rank could take."""
        return bool(self._waiting[self._share(rank)])

    def leased(self, rank: int) -> Span | None:
        """What a rank is at."""
        lease = self._leases.get(rank)
        return None if lease is None else lease.span

    def take(self, rank: int) -> Span | None:
        """Lease the largest span that waits for a rank; ``None`` if none does."""
        if rank in self._leases:
            raise ValueError(f"rank {rank} has a lease already")
        waiting = self._waiting[self._share(rank)]
        if not waiting:
            return None
        _, span, failures = heapq.heappop(waiting)
        self._leases[rank] = _Lease(span, failures)
        return span

    def finish(self, rank: int, done: Span | None = None) -> None:
        """End a lease. If only the start of its span was done, the rest waits again."""
        lease = self._leases.pop(rank)
        if done is not None and done.end < lease.span.end:
            self._put(self._share(rank), Span(max(done.end, lease.span.start), lease.span.end), lease.failures)

    def release(self, rank: int) -> None:
        """Take a lease back, if there is one, without blaming its span."""
        if (lease := self._leases.pop(rank, None)) is not None:
            self._put(self._share(rank), lease.span, lease.failures)

    def blame(self, rank: int) -> Verdict:
        """Take a lease back because its span failed; one that is set aside is done."""
        lease = self._leases.pop(rank)
        share = self._share(rank)
        if lease.failures == 0:
            self._put(share, lease.span, 1)
            return Verdict.AGAIN
        if lease.span.size == 1:
            return Verdict.SET_ASIDE
        for half in lease.span.halves():
            self._put(share, half, lease.failures)
        return Verdict.NARROWED

    def hand_over(self, rank: int, others: list[int]) -> None:
        """Give the fixed share of a rank that was given up to others."""
        if self._shares is None or not others:
            return
        left, self._waiting[rank] = self._waiting[rank], []
        for number, (_, span, failures) in enumerate(sorted(left)):
            self._put(others[number % len(others)], span, failures)
