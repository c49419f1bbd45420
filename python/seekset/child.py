"""Child processes of our own: a program, a connection to it, and its certain end.

They are no children of :mod:`multiprocessing`: the parent's main module is not imported in them, daemonic processes may
have them, and their environment is theirs from the first instruction on.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

__all__ = ["Child", "end_with_parent", "in_words"]

Pipe: TypeAlias = "Connection[Any, Any]"

# The path comes first: modules of one's own are found as they are in the parent.
_PROGRAM = """\
import sys
sys.path[:] = sys.argv[3:]
from importlib import import_module
from multiprocessing.connection import Connection
module, name = sys.argv[1].split(":")
getattr(import_module(module), name)(Connection(int(sys.argv[2])))
"""
_PR_SET_PDEATHSIG = 1
# How often a process looks whether its parent is there.
_SECONDS = 0.2


class Child:
    """A process that runs one function, called with its end of a connection.

    It ends when :meth:`end` is called or this object is collected.

    Args:
        target: The function, as ``module:name``.
        environment: What its environment has beside this process's, or instead.
        log: A file that all it prints is appended to.
    """

    def __init__(self, target: str, *, environment: Mapping[str, str] | None = None, log: Path | None = None) -> None:
        ours, theirs = socket.socketpair()
        output: Any = None if log is None else log.open("ab")
        try:
            self._popen = subprocess.Popen(  # noqa: S603 (our own program)
                [sys.executable, "-c", _PROGRAM, target, str(theirs.fileno()), *_paths()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=None if output is None else subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **(environment or {})},
                process_group=0,  # Ctrl-C is for the parent, which ends it
            )
        finally:
            theirs.close()
            if output is not None:
                output.close()
        self.connection: Pipe = Connection(ours.detach())
        self._finalizer = weakref.finalize(self, _end, self._popen, self.connection, os.getpid())

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._popen.pid

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; ``None`` while it runs."""
        return self._popen.poll()

    def signal(self, number: int) -> None:
        """Send a signal; one that has ended needs none."""
        self._popen.send_signal(number)

    def wait(self, seconds: float) -> int | None:
        """Wait a moment for its end; gives its exit code, ``None`` if it still runs."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        return self._popen.returncode

    def end(self, patience: float = 0) -> int:
        """Wait a moment for its end, then end it, with whatever it has started; gives its exit code."""
        self.wait(patience)
        self._finalizer()
        return self._popen.returncode


def _paths() -> Sequence[str]:
    """The module path, as absolute paths: a child may be elsewhere than the current folder when it imports."""
    return [os.path.abspath(path) for path in sys.path]  # noqa: PTH100 (an empty path is the current folder)


def _end(popen: subprocess.Popen[bytes], connection: Pipe, owner: int) -> None:
    if os.getpid() == owner:
        # All of its group: whatever it has started itself would outlive it, and keep the connection open.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.kill()
        popen.wait()
    else:
        popen.returncode = 0  # its parent waits for it
    connection.close()


def end_with_parent(*, thread: bool = True) -> None:
    """Have this process end with its parent, even where a fork of that keeps the connection open.

    The system does that by itself, also where this process hangs; but what it calls the parent is the thread that
    started it. Where that may end before, ``thread=False`` leaves it to a look now and then.
    """
    if thread:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> NoReturn:
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)


def in_words(code: int) -> str:
    """How a process ended.

    >>> in_words(-9), in_words(3)
    ('was ended by SIGKILL', 'ended with exit code 3')
    """
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
