"""An end for a process that hangs, where no supervisor looks after it."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HangGuard"]

# How often it looks.
_SECONDS = 0.2
# So long after its time, a process that lets no other thread run, either, is ended without a word.
_GRACE = 30.0
# More than this, a month, is no limit.
_LONGEST = 30 * 86400.0


class HangGuard:
    """Ends this process, with exit code 1, once something takes too long.

    Args:
        tell: Called before that with what took too long.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._ended = threading.Event()
        # What is going on, since when, and how long it may take.
        self._now: tuple[str, float, float] | None = None

    def begin(self, what: str, seconds: float) -> None:
        """Something begins, and whatever was going on before has ended."""
        self._now = (what, time.monotonic(), seconds)
        # A thread of the system's own, which needs no lock of the interpreter.
        longest = min(seconds + _GRACE, _LONGEST)
        faulthandler.dump_traceback_later(longest, exit=longest < _LONGEST, file=sys.__stderr__ or 2)

    def rest(self) -> None:
        """Nothing is going on."""
        self._now = None
        faulthandler.cancel_dump_traceback_later()

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="seekset-hang", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.rest()
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS):
            now = self._now
            if now is not None and time.monotonic() - now[1] > now[2]:
                try:
                    self._tell(f"{now[0]} took longer than {now[2]:g} s")
                    faulthandler.dump_traceback(file=sys.__stderr__ or 2, all_threads=True)
                finally:
                    os._exit(1)
