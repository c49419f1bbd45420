"""The tally of a run: what is done, how quickly, by whom, and how long the rest will take. Counted from its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Tally", "WorkerTally"]


@dataclass(slots=True)
class WorkerTally:
    """What one worker has done since the run began."""

    rank: int
    device: str = ""
    pid: int | None = None
    state: str = "waiting"
    sequences: int = 0
    tokens: int = 0
    started: float = 0.0
    restarts: int = -1

    def start(self, event: dict[str, Any]) -> None:
        """Take note of its start."""
        self.device, self.pid = str(event.get("device", "")), event.get("pid")
        self.state, self.restarts = "starting", self.restarts + 1
        self.started = self.started or event["time"]


@dataclass(slots=True)
class Tally:
    """What a run has come to, as its events tell.

    >>> tally = Tally()
    >>> begun = {"sequences": 100, "tokens": 5000, "done": 20, "done_tokens": 1000}
    >>> tally.add({"event": "run_started", "time": 0.0, **begun})
    >>> tally.add({"event": "worker_started", "time": 1.0, "rank": 0, "device": "cpu", "pid": 7})
    >>> tally.add({"event": "chunk_finished", "time": 11.0, "rank": 0, "sequences": 40, "tokens": 2000})
    >>> tally.done, tally.tokens_per_second(11.0), tally.remaining(11.0)
    (60, 200.0, 10.0)
    """

    sequences: int = 0
    tokens: int = 0
    done: int = 0
    done_tokens: int = 0
    failed: int = 0
    started: float | None = None
    ended: float | None = None
    heard: float = 0.0
    pid: int | None = None
    preparing: bool = False
    outcome: str = ""
    workers: dict[int, WorkerTally] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[dict[str, Any]], holder: Mapping[str, Any] | None) -> Tally:
        """The tally of a folder: its events, and who has it now, if somebody does."""
        tally = cls()
        for event in events:
            tally.add(event)
        tally.settle(None if holder is None else holder.get("pid"))
        return tally

    def add(self, event: dict[str, Any]) -> None:
        """Count an event; the start of a run begins anew."""
        self.heard = event["time"]
        match event["event"]:
            case "run_started":
                self.__init__()  # type: ignore[misc] # a folder's events are those of all its runs
                self.started = self.heard = event["time"]
                self.pid = event.get("pid")
                self.sequences, self.tokens = event["sequences"], event["tokens"]
                self.done, self.done_tokens = event["done"], event["done_tokens"]
            case "worker_started":
                self._worker(event).start(event)
            case "chunk_begun":
                self._worker(event).state = "busy"
            case "chunk_finished":
                self._finished(event)
            case "worker_died" | "worker_ended" | "worker_given_up" | "worker_hung":
                self._worker(event).state = event["event"].removeprefix("worker_").replace("_", " ")
            case "sequence_failed":
                self.failed += 1
            case "run_ended":
                self.ended, self.outcome = event["time"], event.get("outcome", "")

    def _worker(self, event: dict[str, Any]) -> WorkerTally:
        return self.workers.setdefault(event["rank"], WorkerTally(event["rank"]))

    def _finished(self, event: dict[str, Any]) -> None:
        worker = self._worker(event)
        worker.state = "idle"
        worker.sequences += event["sequences"]
        worker.tokens += event["tokens"]
        self.done += event["sequences"]
        self.done_tokens += event["tokens"]

    def settle(self, holder: int | None) -> None:
        """Take note of which process has the folder, if one has: a run that was killed has no event that says so.

        >>> tally = Tally(sequences=100, started=0.0, heard=11.0, pid=7)
        >>> tally.settle(7)
        >>> tally.state
        'running'
        >>> tally.settle(None)
        >>> tally.state, tally.ended
        ('ended (killed)', 11.0)
        >>> tally.settle(8)
        >>> tally.state
        'preparing'
        """
        if holder is None:
            if self.started is not None and self.ended is None:
                self.ended, self.outcome = self.heard, "killed"
                for worker in self.workers.values():
                    # They end with whom they work for.
                    worker.state = "ended" if worker.state in ("starting", "idle", "busy") else worker.state
        elif holder != self.pid:
            # Files are indexed, or the encoder is loaded: what events tell is of the run before.
            self.__init__(preparing=True)  # type: ignore[misc]

    @property
    def state(self) -> str:
        """Whether it runs, or how it ended."""
        if self.started is None:
            return "preparing" if self.preparing else "not started"
        return "running" if self.ended is None else f"ended ({self.outcome})"

    def sequences_per_second(self, now: float) -> float:
        """Over the whole run so far, from the first worker's start on."""
        return self._speed(sum(worker.sequences for worker in self.workers.values()), now)

    def tokens_per_second(self, now: float) -> float:
        """Over the whole run so far, from the first worker's start on."""
        return self._speed(sum(worker.tokens for worker in self.workers.values()), now)

    def _speed(self, amount: int, now: float) -> float:
        begun = min((worker.started for worker in self.workers.values() if worker.started), default=None)
        seconds = 0.0 if begun is None else (self.ended or now) - begun
        return amount / seconds if seconds > 0 else 0.0

    def remaining(self, now: float) -> float | None:
        """How many seconds are left at this speed; ``None`` while that can't be told, and once it has ended."""
        speed = self.tokens_per_second(now) if self.ended is None else 0.0
        return max(self.tokens - self.done_tokens, 0) / speed if speed else None
