"""The supervisor: gives spans to workers, and starts again, ends, blames or gives up on those that fail."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from seekset.errors import MismatchError
from seekset.inference.messages import Begun, Died, Finished, Raised, Ready, SetAside, Started
from seekset.inference.queue import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from seekset.inference.backends.crew import Crew
    from seekset.inference.events import Events
    from seekset.inference.job import Job
    from seekset.inference.messages import Event, Fault
    from seekset.inference.queue import WorkQueue

__all__ = ["TRANSITIONS", "Outcome", "Policy", "State", "Supervisor"]


class State(Enum):
    """What a worker is at."""

    WAITING = "waits to be started, for the first time or again"
    STARTING = "loads its encoder"
    IDLE = "waits for a span"
    BUSY = "encodes a span"
    STOPPING = "finishes its batch, saves what is done, and ends"
    ENDED = "is gone, and was to be"
    GIVEN_UP = "died too often and is not started again"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.WAITING: frozenset({State.STARTING}),
    State.STARTING: frozenset({State.IDLE, State.STOPPING, State.WAITING, State.GIVEN_UP, State.ENDED}),
    State.IDLE: frozenset({State.BUSY, State.STOPPING, State.WAITING, State.GIVEN_UP, State.ENDED}),
    State.BUSY: frozenset({State.IDLE, State.STOPPING, State.WAITING, State.GIVEN_UP, State.ENDED}),
    State.STOPPING: frozenset({State.ENDED}),
    State.ENDED: frozenset(),
    State.GIVEN_UP: frozenset(),
}
"""Where a worker may go from each state."""

_ALIVE = (State.STARTING, State.IDLE, State.BUSY, State.STOPPING)
# How long nothing may be said before clocks are looked at.
_TICK = 0.2


@dataclass(frozen=True, slots=True)
class Policy:
    """How patient a supervisor is.

    Args:
        batch_timeout: Seconds that one batch may take before its worker counts as hung.
        load_timeout: Seconds that loading the encoder may take.
        most_deaths: How often a worker may die in a row without a finished span before it is given up.
        backoff: Seconds before a worker that died is started again; doubled with each death in a row.
        longest_backoff: The most that they become.
        grace: Seconds that workers have to finish their batches when a run is stopped.
    """

    batch_timeout: float = 600.0
    load_timeout: float = 1800.0
    most_deaths: int = 5
    backoff: float = 0.5
    longest_backoff: float = 60.0
    grace: float = 60.0

    def __post_init__(self) -> None:
        for name in ("batch_timeout", "load_timeout"):
            if not getattr(self, name) > 0:
                raise MismatchError(f"{name} must be more than 0 seconds, but is {getattr(self, name)!r}")

    def delay(self, deaths: int) -> float:
        """How long to wait after so many deaths in a row.

        >>> [Policy().delay(deaths) for deaths in (1, 2, 3, 20)]
        [0.5, 1.0, 2.0, 60.0]
        """
        return min(self.backoff * 2.0 ** (deaths - 1), self.longest_backoff)


@dataclass(slots=True)
class _Worker:
    """What is known of a worker."""

    state: State = State.WAITING
    # When it last began something, or when it is to be started.
    since: float = 0.0
    deaths: int = 0
    hung: bool = False

    def become(self, state: State, now: float) -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"a worker that is {self.state.name} can't become {state.name}")
        self.state, self.since = state, now


@dataclass(slots=True)
class Outcome:
    """How a run ended: whether everything is done, whom it gave up on, and what stopped it, if something did."""

    complete: bool
    given_up: list[int] = field(default_factory=list)
    stopped: str | None = None
    fault: tuple[Fault, str] | None = None


class Supervisor:
    """Runs a queue through a crew until nothing is left, nobody is left, or it is told to stop.

    Args:
        job: Whose spans they are; what is set aside is saved there.
        crew: The workers.
        queue: What is to be done.
        events: Whom to tell.
        policy: How patient to be.
        stop: Asked now and then; once it gives a reason, workers finish their batches and the run ends.
    """

    def __init__(
        self,
        job: Job,
        crew: Crew,
        queue: WorkQueue,
        events: Events,
        *,
        policy: Policy | None = None,
        stop: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job, self._crew, self._queue, self._events = job, crew, queue, events
        self._policy, self._stop, self._clock = policy or Policy(), stop, clock
        self._workers = [_Worker() for _ in range(len(crew))]
        self._stopped: str | None = None
        self._stop_by = 0.0
        self._fault: tuple[Fault, str] | None = None

    def run(self) -> Outcome:
        """Run until the end, whatever it is; no worker is left behind."""
        try:
            while not self._over():
                self._look_for_stop()
                self._start_workers()
                self._assign_spans()
                self._end_idle()
                for event in self._crew.poll(_TICK):
                    self._handle(event)
                self._end_hung()
        finally:
            self._crew.close()
        given_up = [rank for rank, worker in enumerate(self._workers) if worker.state is State.GIVEN_UP]
        return Outcome(not len(self._queue), given_up, self._stopped, self._fault)

    def _over(self) -> bool:
        alive = self._in(*_ALIVE)
        if self._stopped is not None:
            return not alive
        return not alive and not (len(self._queue) and self._in(State.WAITING))

    def _in(self, *states: State) -> list[int]:
        return [rank for rank, worker in enumerate(self._workers) if worker.state in states]

    # --- what is done ---------------------------------------------------------------------------------------------

    def _look_for_stop(self) -> None:
        now = self._clock()
        if self._stopped is None:
            reason = self._stop() if self._fault is None else self._fault[1]
            if reason is None:
                return
            self._stopped, self._stop_by = reason, now + self._policy.grace
            self._events.tell("run_stopping", reason=reason)
            for rank in self._in(State.STARTING, State.IDLE, State.BUSY):
                self._end(rank)
        elif now > self._stop_by:
            for rank in self._in(State.STOPPING):
                self._crew.kill(rank)

    def _end(self, rank: int) -> None:
        # One that is still loading has nothing to finish, and does not listen.
        loading = self._workers[rank].state is State.STARTING
        self._workers[rank].become(State.STOPPING, self._clock())
        (self._crew.kill if loading else self._crew.stop)(rank)

    def _start_workers(self) -> None:
        if self._stopped is not None:
            return
        now = self._clock()
        for rank in self._in(State.WAITING):
            worker, share = self._workers[rank], self._queue.share(rank)
            # No more than there is work for: the others would load an encoder for nothing.
            free = [other for other in self._in(State.STARTING, State.IDLE) if self._queue.share(other) == share]
            if worker.since <= now and self._queue.waiting(rank) > len(free):
                worker.become(State.STARTING, now)
                self._crew.start(rank)

    def _assign_spans(self) -> None:
        if self._stopped is not None:
            return
        for rank in self._in(State.IDLE):
            others = set(self._in(State.WAITING, State.STARTING, State.IDLE, State.BUSY)) - {rank}
            if (span := self._queue.take(rank, alone=not others)) is not None:
                self._workers[rank].become(State.BUSY, self._clock())
                self._events.tell("chunk_begun", rank=rank, start=span.start, end=span.end)
                self._crew.assign(rank, span)

    def _end_idle(self) -> None:
        # While spans are leased, they may come back: whoever waits is needed then.
        if self._stopped is None and not len(self._queue):
            for rank in self._in(State.IDLE, State.STARTING):
                self._end(rank)

    def _end_hung(self) -> None:
        now = self._clock()
        for rank in self._in(State.BUSY, State.STARTING):
            worker = self._workers[rank]
            busy = worker.state is State.BUSY
            limit = self._policy.batch_timeout if busy else self._policy.load_timeout
            if not worker.hung and now - worker.since > limit:
                worker.hung = True
                what = "a batch" if busy else "loading the encoder"
                self._events.tell("worker_hung", rank=rank, reason=f"{what} took longer than {limit:g} s")
                self._crew.kill(rank)

    # --- what is heard --------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        match event:
            case Started():
                self._events.tell("worker_started", rank=event.rank, device=event.device, pid=event.pid)
            case Ready():
                self._free(event.rank)
            case Begun():
                self._workers[event.rank].since = self._clock()
            case SetAside():
                self._events.tell("sequence_failed", **event.failure._asdict())
            case Finished():
                self._finished(event)
                self._free(event.rank)
            case Raised():
                self._raised(event)
                # One that can't go on says so, and dies.
                if not event.ends:
                    self._free(event.rank)
            case Died():
                self._died(event)

    def _free(self, rank: int) -> None:
        """Have a worker wait for the next span; not one that is to end, or was hung and has just been ended."""
        worker = self._workers[rank]
        if worker.state is not State.STOPPING and not worker.hung:
            worker.become(State.IDLE, self._clock())

    def _finished(self, event: Finished) -> None:
        self._workers[event.rank].deaths = 0
        self._queue.finish(event.rank, event.span)
        self._events.tell(
            "chunk_finished",
            rank=event.rank,
            start=event.span.start,
            end=event.span.end,
            sequences=event.sequences,
            tokens=event.tokens,
        )

    def _raised(self, event: Raised) -> None:
        self._events.tell("worker_raised", rank=event.rank, fault=event.fault, reason=event.reason)
        if event.fault in ("data", "room"):
            # Neither this span's fault nor something that another worker could do better.
            self._fault = self._fault or (event.fault, event.reason)
            self._queue.release(event.rank)
        elif event.fault == "encoder":
            self._blame(event.rank, event.reason)
        else:
            self._queue.release(event.rank)

    def _died(self, event: Died) -> None:
        worker, now = self._workers[event.rank], self._clock()
        stopping = worker.state is State.STOPPING
        how = "was hung and ended" if worker.hung else event.how
        self._events.tell("worker_ended" if stopping else "worker_died", rank=event.rank, how=how)
        if self._queue.leased(event.rank) is None or event.innocent or stopping:
            self._queue.release(event.rank)
        else:
            self._blame(event.rank, f"the worker that encoded it {how}")
        worker.hung = False
        if stopping:
            worker.become(State.ENDED, now)
            return
        if event.lost:
            # Whoever runs the machines finds another place for it, which takes its time.
            worker.become(State.WAITING, now)
            worker.since = now + self._policy.longest_backoff / 10
            return
        worker.deaths += 1
        if worker.deaths > self._policy.most_deaths:
            worker.become(State.GIVEN_UP, now)
            self._events.tell("worker_given_up", rank=event.rank, deaths=worker.deaths)
            self._queue.hand_over(event.rank, self._in(State.WAITING, State.STARTING, State.IDLE, State.BUSY))
            return
        worker.become(State.WAITING, now)
        worker.since = now + self._policy.delay(worker.deaths)

    def _blame(self, rank: int, reason: str) -> None:
        span = self._queue.leased(rank)
        if span is None:
            return
        verdict = self._queue.blame(rank)
        self._events.tell(
            "chunk_failed", rank=rank, start=span.start, end=span.end, reason=reason, verdict=verdict.name.lower()
        )
        if verdict is Verdict.AGAIN:
            return
        # Whatever it does to workers, it is dealt with: that they died of it does not count against them.
        self._workers[rank].deaths = 0
        if verdict is Verdict.SET_ASIDE:
            failure = self._job.set_aside(span, reason)
            self._events.tell("sequence_failed", **failure._asdict())
