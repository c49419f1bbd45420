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

    What is done and what failed is of the whole folder; workers and speeds are those of one run: of the last in which
    workers were started, so that one with nothing left to do does not hide how quickly it was done.

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
    # How the last run ended, if that was before it had begun to compute: others' results may be there all the same.
    refused: str = ""
    outcome: str = ""
    workers: dict[int, WorkerTally] = field(default_factory=dict)
    # The workers of the run before that had some, and its end.
    former: tuple[dict[int, WorkerTally], float | None] = field(default_factory=lambda: ({}, None))

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
        self._end_killed(by=event["event"])
        self.heard = event["time"]
        match event["event"]:
            case "run_preparing" | "preparing_failed":
                self.preparing, self.refused = event["event"] == "run_preparing", str(event.get("reason", ""))
                self.pid = event.get("pid", self.pid)
            case "run_started":
                self.__init__(former=self.computed)  # type: ignore[misc] # a folder's events are those of all its runs
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
                self._run_ended(event)

    def _run_ended(self, event: dict[str, Any]) -> None:
        self.ended, self.outcome = event["time"], str(event.get("outcome") or "")
        counts = event.get("done"), event.get("failed")
        # All results were looked at for these: a part that was computed twice counts once.
        if all(type(count) is int for count in counts):
            self.done, self.failed = counts  # type: ignore[assignment]

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
            if self.preparing:
                self.preparing, self.refused = False, "killed"
            self._end_killed()
        elif self.preparing or holder != self.pid:
            # Files are indexed, or the encoder is loaded: what events tell is of the run before.
            self.__init__(preparing=True)  # type: ignore[misc]

    def _end_killed(self, by: str = "run_preparing") -> None:
        """Note the end of a run that did not tell of it: nobody has the folder, or somebody else does."""
        if by not in ("run_preparing", "run_started") or self.started is None or self.ended is not None:
            return
        self.ended, self.outcome = self.heard, "killed"
        for worker in self.workers.values():
            # They end with whom they work for.
            worker.state = "ended" if worker.state in ("starting", "idle", "busy") else worker.state

    @property
    def state(self) -> str:
        """Whether it runs, or how it ended."""
        if self.preparing:
            return "preparing"
        if self.started is None:
            return f"ended (while preparing: {self.refused})" if self.refused else "not started"
        return "running" if self.ended is None else f"ended ({self.outcome})"

    def conclude(self, outcome: str, at: float, sequences: int = 0, failed: int = 0) -> None:
        """Take from elsewhere than from events how it ended."""
        self.started, self.ended, self.outcome = self.started or at, at, outcome
        self.sequences, self.done, self.failed = sequences, sequences - failed, failed

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come of it."""
        return not self.preparing and (self.started is None or self.ended is not None)

    @property
    def computed(self) -> tuple[dict[int, WorkerTally], float | None]:
        """The workers that speeds are of, and when their run ended: the run before if this one ended without any."""
        return self.former if not self.workers and self.ended is not None else (self.workers, self.ended)

    def sequences_per_second(self, now: float) -> float:
        """Over :meth:`seconds`."""
        return self._speed(sum(worker.sequences for worker in self.computed[0].values()), now)

    def tokens_per_second(self, now: float) -> float:
        """Over :meth:`seconds`."""
        return self._speed(sum(worker.tokens for worker in self.computed[0].values()), now)

    def seconds(self, now: float) -> float:
        """The time that speeds are over: from the first worker's start to the end of that run, or until now."""
        workers, ended = self.computed
        begun = min((worker.started for worker in workers.values() if worker.started), default=None)
        return 0.0 if begun is None else max((ended or now) - begun, 0.0)

    def _speed(self, amount: int, now: float) -> float:
        seconds = self.seconds(now)
        return amount / seconds if seconds > 0 else 0.0

    def remaining(self, now: float) -> float | None:
        """How many seconds are left at this speed; ``None`` while that can't be told, and once it has ended."""
        speed = self.tokens_per_second(now) if self.ended is None else 0.0
        return max(self.tokens - self.done_tokens, 0) / speed if speed else None
