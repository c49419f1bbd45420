"""The supervisor: gives spans to workers, and starts again, ends, blames or gives up on those that fail."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from seekset.errors import StaleIndexError, in_one_line
from seekset.inference.messages import (
    Begun,
    Died,
    Finished,
    MachineError,
    Raised,
    Ready,
    SetAside,
    Started,
    classify,
)
from seekset.inference.policy import Policy
from seekset.inference.queue import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from seekset.inference.backends.crew import Crew
    from seekset.inference.events import Events
    from seekset.inference.job import Job
    from seekset.inference.messages import Event, Fault
    from seekset.inference.queue import WorkQueue
    from seekset.inference.results import Failure, Span

__all__ = ["TRANSITIONS", "Outcome", "State", "Supervisor"]


class State(Enum):
    """What a worker is at."""

    WAITING = "waits to be started, for the first time or again"
    STARTING = "loads its encoder"
    IDLE = "waits for a span"
    BUSY = "encodes a span"
    STOPPING = "finishes its batch, saves what is done, and ends"
    ENDED = "is gone, and was to be"
    GIVEN_UP = "died too often, or failed too often with what others could do, and is not started again"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.WAITING: frozenset({State.STARTING, State.GIVEN_UP}),
    State.STARTING: frozenset({State.IDLE, State.STOPPING, State.WAITING, State.GIVEN_UP}),
    State.IDLE: frozenset({State.BUSY, State.STOPPING, State.WAITING, State.GIVEN_UP}),
    State.BUSY: frozenset({State.IDLE, State.STOPPING, State.WAITING, State.GIVEN_UP}),
    State.STOPPING: frozenset({State.ENDED, State.GIVEN_UP}),
    State.ENDED: frozenset(),
    State.GIVEN_UP: frozenset(),
}
"""Where a worker may go from each state."""

_ALIVE = (State.STARTING, State.IDLE, State.BUSY, State.STOPPING)
# How long nothing may be said before clocks are looked at.
_TICK = 0.2
# After so many failures in a row, a process that nobody else can stand in for is started anew before anything else is
# narrowed: one sequence that the encoder can't take makes for three at most.
_MOST_FAILED = 4
# So often in a row, without a finished span in between, a worker may be lost with what it ran in: from then on, that is
# a death like others.
_MOST_LOST = 3


@dataclass(slots=True)
class _Worker:
    """What is known of a worker."""

    state: State = State.WAITING
    # When it last began something, or when it is to be started.
    since: float = 0.0
    deaths: int = 0
    losses: int = 0
    # How often in a row others could do what it had failed with, without a span finished by itself in between.
    disproved: int = 0
    # Whether its process has done nothing yet, and how often that failed in a row.
    fresh: bool = True
    failed: int = 0
    # What it has said so far of the span it is at: sequences without a vector.
    lacking: list[Failure] = field(default_factory=list)
    # Why it was killed, if it was: it is heard no more, and its end follows.
    ending: str = ""
    barred: bool = False
    # Whether it was killed to be started anew, which is no death, and how often in a row, without a finished span in
    # between: from so many deaths on, its failures are those of what it fails with.
    renewed: bool = False
    renewals: int = 0
    # Whether others may leave spans to it: not after its death, until it is there again.
    helps: bool = True

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
        # What could not be set aside is in no queue any more, and not done either.
        complete = not len(self._queue) and self._fault is None
        return Outcome(complete, given_up, self._stopped, self._fault)

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
            self._end_stubborn(self._in(State.STOPPING))

    def _end_stubborn(self, ranks: list[int]) -> None:
        for rank in ranks:
            if not self._workers[rank].ending:
                self._workers[rank].ending = "did not end when it was asked to, and was ended"
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
            if worker.since <= now and self._offered(rank) > len([other for other in free if self._offered(other)]):
                worker.become(State.STARTING, now)
                try:
                    self._crew.start(rank)
                except OSError as error:
                    # There is no room for another process, say. Those that work go on, and it is tried again.
                    self._died(Died(rank, f"could not be started: {in_one_line(error)}", innocent=True))

    def _offered(self, rank: int) -> int:
        """How many spans a worker would take now."""
        return self._queue.waiting(rank, alone=not self._others(rank))

    def _others(self, rank: int) -> list[int]:
        """Who else may try what a worker has failed with."""
        working = self._in(State.WAITING, State.STARTING, State.IDLE, State.BUSY)
        return [other for other in working if other != rank and self._workers[other].helps]

    def _assign_spans(self) -> None:
        if self._stopped is not None:
            return
        for rank in self._in(State.IDLE):
            if self._workers[rank].ending:
                continue
            if (span := self._queue.take(rank, alone=not self._others(rank))) is not None:
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
        # At the end of a run, too, a worker may not come to its own: a thread of the encoder's that goes on, say.
        stopping = self._in(State.STOPPING)
        self._end_stubborn([rank for rank in stopping if now - self._workers[rank].since > self._policy.grace])
        for rank in self._in(State.BUSY, State.STARTING):
            worker = self._workers[rank]
            busy = worker.state is State.BUSY
            limit = self._policy.batch_timeout if busy else self._policy.load_timeout
            if not worker.ending and now - worker.since > limit:
                worker.ending = "was hung and ended"
                what = "a batch" if busy else "loading the encoder"
                self._events.tell("worker_hung", rank=rank, reason=f"{what} took longer than {limit:g} s")
                self._crew.kill(rank)

    # --- what is heard --------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        match event:
            case Started():
                self._events.tell("worker_started", rank=event.rank, device=event.device, pid=event.pid)
            case Ready():
                worker = self._workers[event.rank]
                worker.helps, worker.fresh, worker.failed = True, True, 0
                self._free(event.rank)
            case Begun():
                self._workers[event.rank].since = self._clock()
            case SetAside():
                self._workers[event.rank].lacking.append(event.failure)
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
        """Have a worker wait for the next span; not one that is to end, or has just been killed."""
        worker = self._workers[rank]
        if worker.state is not State.STOPPING and not worker.ending:
            worker.become(State.IDLE, self._clock())

    def _finished(self, event: Finished) -> None:
        worker = self._workers[event.rank]
        worker.deaths = worker.losses = worker.failed = worker.renewals = 0
        worker.fresh = False
        lacking, worker.lacking = worker.lacking, []
        if not lacking:
            worker.disproved = 0
        again = self._queue.question(event.rank, [one.piece for one in lacking], self._others(event.rank))
        disproved = self._queue.finish(event.rank, event.span, computed=event.sequences > 0)
        self._events.tell(
            "chunk_finished",
            rank=event.rank,
            start=event.span.start,
            end=event.span.end,
            sequences=event.sequences,
            tokens=event.tokens,
        )
        self._tell_lacking(event.rank, lacking, again)
        if disproved is not None:
            self._doubt(disproved)

    def _tell_lacking(self, rank: int, lacking: list[Failure], again: list[Span]) -> None:
        """Tell of sequences without a vector: which of them others try, and which are set aside."""
        if not again:
            for failure in lacking:
                self._events.tell("sequence_failed", **failure._asdict())
        reasons = {failure.piece: failure.reason for failure in lacking}
        for start, end in again:
            self._events.tell(
                "chunk_failed",
                rank=rank,
                start=start,
                end=end,
                reason=reasons[start],
                verdict=Verdict.AGAIN.name.lower(),
            )

    def _doubt(self, rank: int) -> None:
        """Count against a worker that another could do what it had failed with; who fails so again and again goes."""
        worker = self._workers[rank]
        if worker.barred:
            return  # It is on its way out for just that, whatever else others show meanwhile.
        worker.disproved += 1
        if worker.disproved <= self._policy.most_deaths or worker.ending:
            return
        if worker.state is State.WAITING:
            self._give_up(rank)
        elif worker.state in (State.STARTING, State.IDLE, State.BUSY):
            worker.ending, worker.barred = "was ended: others could do what it failed with", True
            self._crew.kill(rank)

    def _give_up(self, rank: int) -> None:
        worker, most = self._workers[rank], self._policy.most_deaths
        worker.become(State.GIVEN_UP, self._clock())
        doubted = f"it failed {worker.disproved} times in a row with what other workers could do"
        died = f"it died {worker.deaths} times in a row"
        self._events.tell("worker_given_up", rank=rank, reason=doubted if worker.disproved > most else died)
        self._queue.hand_over(rank, self._in(State.WAITING, State.STARTING, State.IDLE, State.BUSY))

    def _raised(self, event: Raised) -> None:
        self._events.tell("worker_raised", rank=event.rank, fault=event.fault, reason=event.reason)
        if event.fault in ("data", "room", "width"):
            # Neither this span's fault nor something that another worker could do better.
            self._fault = self._fault or (event.fault, event.reason)
            self._queue.release(event.rank)
        elif event.fault == "encoder":
            if self._blame(event.rank, event.reason) and not event.ends:
                self._renew(event.rank)
        else:
            self._queue.release(event.rank)

    def _renew(self, rank: int) -> None:
        """End a process that nobody else can stand in for: one that is started anew takes what it failed with."""
        worker = self._workers[rank]
        if worker.state is State.BUSY and not worker.ending and self._stopped is None:
            worker.ending, worker.renewed = "was ended, to see whether its process was broken", True
            worker.renewals += 1
            self._crew.kill(rank)

    def _died(self, event: Died) -> None:
        worker, now = self._workers[event.rank], self._clock()
        # One that was ended for what it failed with is given up, also if all is done by now.
        stopping = worker.state is State.STOPPING and not worker.barred
        how = event.how if event.left or not worker.ending else worker.ending
        self._events.tell("worker_ended" if stopping else "worker_died", rank=event.rank, how=how)
        innocent = event.innocent or stopping or worker.barred
        if self._queue.leased(event.rank) is None or innocent:
            self._queue.release(event.rank)
        else:
            self._blame(event.rank, f"the worker that encoded it {how}")
        renewed = worker.renewed
        worker.ending, worker.helps, worker.renewed = "", False, False
        worker.lacking.clear()
        if stopping:
            worker.become(State.ENDED, now)
            return
        if event.lost and not worker.barred and worker.losses < _MOST_LOST:
            # Whoever runs the machines finds another place for it, which takes its time.
            worker.losses += 1
            worker.become(State.WAITING, now)
            worker.since = now + self._policy.longest_backoff / 10
            return
        if renewed:
            worker.become(State.WAITING, now)
            return
        worker.deaths += 1
        if worker.barred or worker.deaths > self._policy.most_deaths:
            self._give_up(event.rank)
            return
        worker.become(State.WAITING, now)
        worker.since = now + self._policy.delay(worker.deaths)

    def _blame(self, rank: int, reason: str) -> bool:
        """Take a span back that failed; says whether it may be the process that is broken, and nobody else can tell."""
        span, worker, others = self._queue.leased(rank), self._workers[rank], self._others(rank)
        if span is None:
            return False
        sure = worker.renewals >= self._policy.most_deaths
        verdict = self._queue.blame(rank, others, fresh=worker.fresh or sure)
        worker.fresh, worker.failed = False, worker.failed + 1
        worker.lacking.clear()
        self._events.tell(
            "chunk_failed", rank=rank, start=span.start, end=span.end, reason=reason, verdict=verdict.name.lower()
        )
        alone = not others and not sure
        doubtful = alone and worker.failed >= _MOST_FAILED
        if verdict is Verdict.AGAIN:
            return doubtful or (alone and span.size == 1)
        # Whatever it does to workers, it is dealt with: that they died of it does not count against them.
        worker.deaths = 0
        if verdict is Verdict.SET_ASIDE:
            self._set_aside(span, reason)
        return doubtful

    def _set_aside(self, span: Span, reason: str) -> None:
        try:
            failure = self._job.set_aside(span, reason)
        except (OSError, StaleIndexError) as error:
            # As if a worker had said so: the others finish their batches, and the run ends in order.
            failed = MachineError(f"results can't be saved: {error}")
            failed.__cause__ = error
            self._fault = self._fault or classify(failed)
        else:
            self._events.tell("sequence_failed", **failure._asdict())
