"""What is computed: a span of a plan's pieces, and the vectors and failures that came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Failure", "Result", "Span"]


class Span(NamedTuple):
    """Pieces of a plan, in the order of its batches: from ``start`` to before ``end``.

    >>> Span(10, 14).size, Span(10, 14).halves()
    (4, (Span(start=10, end=12), Span(start=12, end=14)))
    """

    start: int
    end: int

    @property
    def size(self) -> int:
        """How many pieces it has."""
        return self.end - self.start

    def halves(self) -> tuple[Span, Span]:
        """The same pieces in two spans."""
        middle = (self.start + self.end) // 2
        return Span(self.start, middle), Span(middle, self.end)


class Failure(NamedTuple):
    """A sequence that has no vector: its piece in the plan, its row in the index, its id, and why."""

    piece: int
    row: int
    sequence_id: str
    reason: str


@dataclass(slots=True)
class Result:
    """What came of a span: a row of ``vectors`` for each of ``rows``, and a failure for each sequence without.

    With ``counts``, vectors are by token: the first ``counts[0]`` rows of ``vectors`` are those of ``rows[0]``, and so
    on. Pieces stand in the order of the plan.
    """

    span: Span
    rows: NDArray[np.int64]
    vectors: NDArray[Any]
    counts: NDArray[np.int64] | None = None
    failures: list[Failure] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of_failures(cls, span: Span, failures: list[Failure], *, per_token: bool) -> Result:
        """A result without a vector."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(span, nothing, np.empty((0, 0), dtype=np.float32), nothing if per_token else None, failures)
