"""Signals that end a run: the first asks it to finish what it is at, a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["StopSignals"]


class StopSignals:
    """Listens to Ctrl-C and SIGTERM while it is entered, where that can be done: in a program's main thread.

    >>> with StopSignals() as signals:
    ...     signals.reason, signals.exit_code
    (None, None)
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def reason(self) -> str | None:
        """Which signal came, in words; ``None`` if none did."""
        return None if self._number is None else f"{signal.Signals(self._number).name} was received"

    @property
    def exit_code(self) -> int | None:
        """The exit code that says so: 130 for Ctrl-C, 143 for SIGTERM."""
        return None if self._number is None else 128 + self._number

    def _come(self, number: int, _: FrameType | None) -> None:
        if self._number is not None:
            raise KeyboardInterrupt
        self._number = number

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._come)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
