"""The lock of a run's folder: one run at a time, on this machine and on others that share it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from seekset.errors import SeeksetError
from seekset.publishing import is_running

__all__ = ["FolderLock", "FolderLockedError", "holder"]

_NAME = "run.lock"
# How often whoever holds it says that it is still there, and after how long without a word others may take it.
_BEAT, _STALE = 5.0, 60.0


class FolderLockedError(SeeksetError):
    """Another run has this folder."""


class FolderLock:
    """A lock on a folder that ends with its holder.

    On one machine it is an ``flock``, which the system lets go of with the process, however it ends. Other machines may
    not see that on a shared folder, so the file also says who holds it, and is touched while it is held: what another
    host touched within a minute is held.

    >>> with FolderLock(Path(".")):
    ...     with FolderLock(Path(".")):
    ...         pass
    Traceback (most recent call last):
    seekset.inference.lock.FolderLockedError: .: another run is using this folder: process ... on ...
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / _NAME
        self._descriptor: int | None = None
        self._own = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%FT%T%z")}
        # When it was taken, by the clock of the folder's files; and who has taken it from us, if somebody did.
        self.since: float = 0.0
        self.lost: str | None = None
        self._ended = threading.Event()
        self._beats: threading.Thread | None = None

    def __enter__(self) -> Self:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._take(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        self._beats = threading.Thread(target=self._beat, name="seekset-lock", daemon=True)
        self._beats.start()
        return self

    def _take(self, descriptor: int) -> None:
        held = _holder(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._refused(held) from None
        elsewhere = held.get("host") not in (None, socket.gethostname())
        self.since = _dated(self._folder)
        if elsewhere and self.since - os.fstat(descriptor).st_mtime < _STALE:
            raise self._refused(held)
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{json.dumps(self._own)}\n".encode(), 0)
        except OSError as error:
            error.filename = str(self._path)  # which the system does not say
            raise
        if (found := _holder(descriptor)) != self._own:
            raise self._refused(found)

    def _refused(self, held: dict[str, Any]) -> FolderLockedError:
        who = f"process {held.get('pid', 'unknown')} on {held.get('host', 'an unknown host')}"
        return FolderLockedError(
            f"{self._folder}: another run is using this folder: {who}, since {held.get('since', 'a moment ago')}; "
            "wait for it or end it, or give another folder"
        )

    def _beat(self) -> None:
        while not self._ended.wait(_BEAT):
            # A share that does not answer for a moment is no reason to stop; the next beat comes.
            with suppress(OSError):
                if self._descriptor is not None:
                    os.utime(self._descriptor)
                    found = _holder(self._descriptor)
                    if found != self._own:
                        self.lost = f"process {found.get('pid')} on {found.get('host')} has taken the folder"

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._beats is not None:
            self._beats.join()
        if self._descriptor is not None:
            # Emptied, so that another host need not wait until it is stale. It is not removed: whoever opened it
            # meanwhile would lock a file that nobody else sees.
            # A share that does not answer is no reason to hide how the run ended.
            if self.lost is None:
                with suppress(OSError):
                    os.ftruncate(self._descriptor, 0)
            # Let go of, and not only closed: a process that was forked meanwhile has it open, too.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None


def holder(folder: Path) -> dict[str, Any] | None:
    """Who runs in a folder, with ``pid``, ``host`` and ``since``; ``None`` if nobody does. Nothing is locked for it.

    >>> with FolderLock(Path(".")):
    ...     holder(Path("."))["pid"] == os.getpid()
    True
    >>> holder(Path(".")) is None
    True
    """
    try:
        descriptor = os.open(folder / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        held, touched = _holder(descriptor), os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
    if not held:
        return None
    # One that nobody has waited for yet still has its number, but touches nothing.
    gone = _now(folder) - touched >= _STALE
    if held.get("host") == socket.gethostname():
        gone = gone or not is_running(held.get("pid"))
    return None if gone else held


def _dated(folder: Path) -> float:
    """The time by the clock that dates a folder's files, which may be another machine's."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".run.lock.") as file:
        return os.fstat(file.fileno()).st_mtime


def _now(folder: Path) -> float:
    """The same for whoever only looks, and may have to do with the clock of this machine."""
    try:
        return _dated(folder)
    except OSError:
        return time.time()


def _holder(descriptor: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
