"""Signals that end a run: while workers compute, the first asks it to finish what it is at."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["StopSignals", "kept_handler"]


class StopSignals:
    """Listens to Ctrl-C and SIGTERM while it is entered, where that can be done: in a program's main thread.

    Within :meth:`gently`, the first one is only noted. Elsewhere, and the second time, it ends what is being done with
    ``KeyboardInterrupt`` or ``SystemExit``. A Ctrl-C that was ignored from the start stays so.

    >>> with StopSignals() as signals, signals.gently():
    ...     signals.reason, signals.exit_code
    (None, None)
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._gentle = False
        self._before: dict[int, Any] = {}

    @property
    def reason(self) -> str | None:
        """Which signal came, in words; ``None`` if none did."""
        return None if self._number is None else f"{signal.Signals(self._number).name} was received"

    @property
    def exit_code(self) -> int | None:
        """The exit code that says so: 130 for Ctrl-C, 143 for SIGTERM."""
        return None if self._number is None else 128 + self._number

    @contextmanager
    def gently(self) -> Iterator[None]:
        """Note the first signal, and leave it to who asks for :attr:`reason` to end in order."""
        self._gentle = True
        try:
            yield
        finally:
            self._gentle = False

    def _come(self, number: int, _: FrameType | None) -> None:
        again, self._number = self._number is not None, number
        if self._gentle and not again:
            return
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                # What is not Python's handler could not be put back.
                if handler not in (None, signal.SIG_IGN):
                    self._before[number] = signal.signal(number, self._come)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextmanager
def kept_handler(number: int) -> Iterator[None]:
    """Put back what handles a signal, after what sets a handler of its own and does not ask.

    >>> with kept_handler(signal.SIGTERM):
    ...     _ = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    >>> signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    False
    """
    handler = signal.getsignal(number)
    try:
        yield
    finally:
        # Elsewhere nobody can have set one, and what is not Python's could not be put back.
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(number, handler)
