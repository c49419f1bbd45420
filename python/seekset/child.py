"""Child processes of our own: a program, a connection to it, and its certain end.

They are no children of :mod:`multiprocessing`: the parent's main module is not imported in them, daemonic processes may
have them, and their environment is theirs from the first instruction on.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

__all__ = ["ENDING", "Child", "end_now", "end_with_parent", "guard_group", "in_words", "tell_of_left"]

ENDING = 20.0
"""How many seconds a process may take to be gone once it was killed: much memory takes its time, a device's too."""

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
# Nothing of the packages is imported: it lives as long as whom it looks after.
_GUARD = """\
import os, signal, sys, time
leader = int(sys.argv[1])
while os.getppid() == leader:
    time.sleep(0.2)
try:
    os.killpg(leader, signal.SIGKILL)
except OSError:
    pass
"""
_PR_SET_PDEATHSIG = 1
# How often a process looks whether its parent is there.
_SECONDS = 0.2

_log = logging.getLogger("seekset")
# Those that do not end, though they were killed: kept, so that nobody waits for them.
_left: list[subprocess.Popen[bytes]] = []


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
        try:
            with theirs, nullcontext() if log is None else log.open("ab") as output:
                self._popen = subprocess.Popen(  # noqa: S603 (our own program)
                    [sys.executable, "-c", _PROGRAM, target, str(theirs.fileno()), *_paths()],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=None if output is None else subprocess.STDOUT,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, **(environment or {})},
                    process_group=0,  # Ctrl-C is for the parent, which ends it
                )
        except BaseException:
            ours.close()
            raise
        self.connection: Pipe = Connection(ours.detach())
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _end, self._popen, self.connection, self._owner)

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

    def kill(self) -> None:
        """End it at once, with whatever it has started; its end is not waited for."""
        _kill(self._popen)

    def end(self, patience: float = 0, *, limit: float | None = None) -> int:
        """Wait a moment for its end, then end it, with whatever it has started; gives its exit code.

        What waits in the system, for a device or a share that does not answer, can't be ended by anybody: after
        ``limit`` seconds, ``ENDING`` if not given, it is left behind, which is told, and its exit code will be that of
        SIGKILL.
        """
        self.wait(patience)
        if self._finalizer.detach() is not None:
            _end(self._popen, self.connection, self._owner, limit)
        code: int | None = self._popen.returncode
        return -signal.SIGKILL if code is None else code


def _paths() -> Sequence[str]:
    """The module path, as absolute paths: a child may be elsewhere than the current folder when it imports."""
    return [os.path.abspath(path) for path in sys.path]  # noqa: PTH100 (an empty path is the current folder)


def _kill(popen: subprocess.Popen[bytes]) -> None:
    # All of its group: whatever it has started itself would outlive it, and keep the connection open.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)
    popen.kill()


def _end(popen: subprocess.Popen[bytes], connection: Pipe, owner: int, limit: float | None = None) -> None:
    try:
        if os.getpid() != owner:
            popen.returncode = 0  # its parent waits for it
            return
        _kill(popen)
        popen.wait(ENDING if limit is None else limit)
    except subprocess.TimeoutExpired:
        _left.append(popen)
        tell_of_left(popen.pid)
    finally:
        connection.close()


def tell_of_left(pid: int | None) -> None:
    """Say that a process is left behind."""
    _log.warning("process %s does not end, though it was killed: it is left behind", pid)


def end_now() -> NoReturn:
    """End this process at once, and with it what it has started, if it leads a group of its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def guard_group() -> None:
    """Have what this process starts end with it, whatever ends it, if it leads a group of its own.

    Who has started this process ends its group, but may be killed itself, and this one with it by the system, at once.
    So a process in another group looks after this one.
    """
    if os.getpgrp() == os.getpid():
        # Where none can be started, there is no room for what it would look after, either.
        with suppress(OSError):
            guard = subprocess.Popen(  # noqa: S603 (our own program)
                [sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
            guard.returncode = 0  # it ends after this process, which does not wait for it


def end_with_parent(*, thread: bool = True, parent: int | None = None) -> None:
    """Have this process end with its parent, even where a fork of that keeps the connection open.

    The system does that by itself, also where this process hangs; but what it calls the parent is the thread that
    started it. Where that may end before, ``thread=False`` leaves it to a look now and then. Whoever knows who the
    ``parent`` is says so: it may be gone already.
    """
    if thread:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_watch, args=(os.getppid() if parent is None else parent,), daemon=True).start()


def _watch(parent: int) -> NoReturn:
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    end_now()


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
