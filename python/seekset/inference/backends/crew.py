"""A crew: the workers of a run, as its coordinator sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from seekset.inference.messages import Event
    from seekset.inference.results import Span

__all__ = ["Crew"]


class Crew(Protocol):
    """Workers by rank. It starts, tells and ends them, and decides nothing."""

    def __len__(self) -> int:
        """How many workers there are."""

    def start(self, rank: int) -> None:
        """Start a worker, or start it again; ``Started`` and ``Ready`` follow, or a ``Died``.

        One that the system has no room for is an ``OSError``.
        """

    def assign(self, rank: int, span: Span) -> None:
        """Have a worker that is ready encode a span."""

    def stop(self, rank: int) -> None:
        """Have a worker finish its batch, save what is done, and end."""

    def kill(self, rank: int) -> None:
        """End a worker at once; a ``Died`` follows, also of one that can't be ended and is left behind."""

    def poll(self, seconds: float) -> list[Event]:
        """What workers have said since the last call; waits so long if they have said nothing."""

    def close(self) -> None:
        """End all workers at once and wait for their end, but not for ever."""
