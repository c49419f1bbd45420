"""Workers as processes of this machine."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import wait
from pickle import UnpicklingError
from typing import TYPE_CHECKING

from seekset.child import ENDING, Child, in_words
from seekset.inference.messages import Died, Start, Started, Stop, Work
from seekset.inference.post import Post

if TYPE_CHECKING:
    from pathlib import Path

    from seekset.inference.devices import Device
    from seekset.inference.messages import Command, Event
    from seekset.inference.results import Span

__all__ = ["LocalCrew", "threads_each"]

# How long a process may take to be gone after it has closed its connection.
_PATIENCE = 1.0
# Whom these end was not ended by what it was computing.
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, 128 + signal.SIGTERM)


def threads_each(workers: int) -> int:
    """How many threads each of some workers may use: they share the processor."""
    return max(len(os.sched_getaffinity(0)) // max(workers, 1), 1)


class LocalCrew:
    """A process for each device, which sees no other.

    Args:
        folder: The job's folder.
        devices: The device of each rank.
        logs: Where each worker's output is appended to, in ``worker_{rank}.log``.
        threads: How many threads each may use.
    """

    def __init__(self, folder: Path, devices: Mapping[int, Device], logs: Path, threads: int) -> None:
        self._folder = folder.absolute()
        self._devices = devices
        self._logs = logs
        self._threads = threads
        self._children: dict[int, Child] = {}
        self._posts: dict[int, Post] = {}
        self._killed: set[int] = set()
        # By rank, until when a worker that was killed may take to be gone.
        self._ends: dict[int, float] = {}
        self._news: list[Event] = []

    def __len__(self) -> int:
        return len(self._devices)

    def start(self, rank: int) -> None:
        """Start a worker, or start it again."""
        device = self._devices[rank]
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"worker_{rank}.log"
        child = Child("seekset.inference.worker:work", environment=device.environment(self._threads), log=log)
        self._children[rank], self._posts[rank] = child, Post(child.connection)
        self._killed.discard(rank)
        self._say(rank, Start(self._folder, device.inside, rank))
        self._news.append(Started(rank, device.name, child.pid))

    def assign(self, rank: int, span: Span) -> None:
        """Have a worker encode a span."""
        self._say(rank, Work(span))

    def stop(self, rank: int) -> None:
        """Have a worker finish its batch, save what is done, and end."""
        self._say(rank, Stop())

    def _say(self, rank: int, command: Command) -> None:
        # One that is gone can't be told; that it is gone, the next poll tells.
        with suppress(OSError, KeyError):
            self._posts[rank].send(command)

    def kill(self, rank: int) -> None:
        """End a worker at once."""
        self._killed.add(rank)
        if rank in self._children:
            self._children[rank].kill()
            self._ends.setdefault(rank, time.monotonic() + ENDING)

    def poll(self, seconds: float) -> list[Event]:
        """What workers have said; of each that has ended, that comes last."""
        events, self._news = self._news, []
        wait([post.fileno() for post in self._posts.values()], 0 if events else seconds)
        for rank in list(self._children):
            events += self._heard(rank)
        return events

    def _heard(self, rank: int) -> list[Event]:
        child, post, events = self._children[rank], self._posts.get(rank), list["Event"]()
        # Asked before it is listened to: what it said before it ended is heard first. A process that it left behind may
        # keep the connection open, so that the connection alone does not tell of its end.
        code = child.code
        try:
            while post is not None and post.poll(0):
                events.append(post.receive())
        except (EOFError, OSError, UnpicklingError):
            # It says nothing more.
            del self._posts[rank]
            code = child.wait(_PATIENCE)
            if code is None:
                self.kill(rank)
        if code is not None:
            child.end()
            innocent = code in _FROM_OUTSIDE and rank not in self._killed
            events.append(Died(rank, in_words(code), innocent))
        elif time.monotonic() > self._ends.get(rank, math.inf):
            # It waits for something in the system that does not come, which no span is to be blamed for.
            child.end(limit=0)
            how = f"does not end, though it was killed (process {child.pid} is left behind)"
            events.append(Died(rank, how, innocent=True, left=True))
        else:
            return events
        for known in (self._children, self._posts, self._ends):
            known.pop(rank, None)
        return events

    def close(self) -> None:
        """End all workers at once."""
        for child in self._children.values():
            child.kill()
        end = time.monotonic() + ENDING
        for child in self._children.values():
            child.end(limit=max(end - time.monotonic(), 0))
        for known in (self._children, self._posts, self._ends):
            known.clear()
