"""The ranks of a torchrun job as workers: each computes, the job's store is the queue, and rank 0 begins and ends it.

torchrun ends all ranks when one dies, so that nobody is started again here: ``--resume`` goes on with what is missing.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seekset.errors import SeeksetError
from seekset.extras import require
from seekset.inference.backends.local import threads_each
from seekset.inference.checking import EncoderCheck
from seekset.inference.devices import Device, find_gpus
from seekset.inference.hang import HangGuard
from seekset.inference.job import Job
from seekset.inference.messages import classify
from seekset.inference.preparing import prepare
from seekset.inference.queue import Verdict, WorkQueue
from seekset.inference.results import Span
from seekset.inference.runner import Runner
from seekset.inference.signals import StopSignals
from seekset.inference.supervisor import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from seekset.inference.events import Display, Events
    from seekset.inference.request import Request
    from seekset.inference.run import Summary
    from seekset.inference.runner import Done

__all__ = ["embed_as_rank"]

# How long ranks may take to find each other, and how often they look for what another says.
_PATIENCE = timedelta(hours=1)
_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class _Rank:
    """This process's place in the job, and the store that all ranks share."""

    rank: int
    size: int
    local: int
    store: Any

    @classmethod
    def joined(cls) -> _Rank:
        """Join the job that torchrun has started."""
        if missing := [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
            raise SeeksetError(
                f"the backend torchrun needs what torchrun sets, but {', '.join(missing)} is not set: start it with "
                "`torchrun --nproc-per-node N -m seekset embed ...`"
            )
        require("the backend torchrun", "torch", "torch")
        from torch.distributed import PrefixStore, rendezvous

        store, rank, size = next(rendezvous("env://", timeout=_PATIENCE))
        # Ranks that torchrun started again must not take up what those before them left in the store.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return cls(rank, size, int(os.environ.get("LOCAL_RANK", "0")), PrefixStore(f"seekset/{attempt}", store))

    def device(self, request: Request) -> Device:
        """The device of this rank: its own GPU where there are some, unless the processor is asked for."""
        gpus = [] if request.devices is not None and "cpu" in request.devices else find_gpus()
        return Device("cuda", gpus[self.local % len(gpus)]) if gpus else Device("cpu")

    def inside(self, device: Device) -> str:
        """What this process, which may see all devices, calls its own."""
        return "cpu" if device.kind == "cpu" else f"cuda:{self.local % len(find_gpus())}"

    def say(self, name: str, what: Any) -> None:
        self.store.set(name, json.dumps(what))

    def hear(self, name: str, signals: StopSignals) -> Any:
        """What another rank says, waited for in small steps: nothing else is heard while the store waits."""
        while not self.store.check([name]):
            if signals.reason is not None:
                return signals.reason
            time.sleep(_SECONDS)
        return json.loads(self.store.get(name))

    def tickets(self, spans: list[Span], schedule: str) -> Iterator[Span]:
        """The spans of this rank: whatever is next in the queue of all, or its fixed share."""
        if schedule == "stride":
            yield from spans[self.rank :: self.size]
            return
        while (ticket := self.store.add("next", 1) - 1) < len(spans):
            yield spans[ticket]


def embed_as_rank(request: Request, displays: Sequence[Display]) -> Summary:
    """Be one rank of a run; the summary is rank 0's to give, and that of others says only how they ended."""
    place = _Rank.joined()
    return _lead(request, displays, place) if place.rank == 0 else _follow(request, place)


def _lead(request: Request, displays: Sequence[Display], place: _Rank) -> Summary:
    from seekset.inference.run import begin_run, claimed, computing, finish_run, opened_events, preparing

    try:
        with claimed(request) as lock, StopSignals() as signals, opened_events(request.folder, displays) as events:
            with preparing(events, signals):
                job = prepare(request, _check(request, place))
                devices = [place.device(request).kind] * place.size
                missing = begin_run(request, job, events, lock, devices).missing(job.chunks)
            # The largest first, as the queue of a coordinator has them.
            missing.sort(key=job.pieces.tokens, reverse=True)
            place.say("spans", {"spans": missing})
            with computing(events, signals):
                with signals.gently():
                    outcome = _work(request, job, missing, place, events, signals)
                    for rank in range(1, place.size):
                        outcome.stopped = outcome.stopped or place.hear(f"done/{rank}", signals)
                outcome.complete = job.store.survey().is_complete(job.chunks)
                return finish_run(request, job, outcome, events, signals.exit_code)
    except BaseException as error:
        place.say("spans", {"error": f"{type(error).__name__}: {error}"})
        raise


def _follow(request: Request, place: _Rank) -> Summary:
    from seekset.inference.run import Summary, opened_events

    stopped: str | None = f"rank {place.rank} failed"
    with StopSignals() as signals:
        told = place.hear("spans", signals)
        if "error" in told:
            raise SeeksetError(f"rank 0 could not begin the run: {told['error']}")
        spans = [Span(*span) for span in told["spans"]]
        try:
            with signals.gently(), opened_events(request.folder, ()) as events:
                stopped = _work(request, Job.open(request.folder), spans, place, events, signals).stopped
        finally:
            place.say(f"done/{place.rank}", stopped)
        return Summary(None, 0, 0, 0, [], stopped, signals.exit_code or 0, leads=False)


def _check(request: Request, place: _Rank) -> EncoderCheck:
    device = place.device(request)
    log = request.folder / "logs" / "check.log"
    patience = (request.policy.load_timeout, request.policy.batch_timeout)
    return EncoderCheck(request.encoder, device.inside, device.environment(threads_each(1)), log, *patience)


def _work(request: Request, job: Job, spans: list[Span], place: _Rank, events: Events, signals: StopSignals) -> Outcome:
    """Compute spans until there is none left; each that fails is narrowed here, since nobody else would."""
    outcome = Outcome(complete=False)
    if not spans:
        return outcome
    device, policy = place.device(request), request.policy
    with HangGuard(lambda reason: events.tell("worker_hung", rank=place.rank, reason=reason)) as guard:
        with _loading_turn():
            guard.begin("loading the encoder", policy.load_timeout)
            runner = _Watched(job, place.inside(device), guard, policy.batch_timeout)
            guard.rest()
        events.tell("worker_started", rank=place.rank, device=device.name, pid=os.getpid())
        for ticket in place.tickets(spans, request.schedule):
            queue = WorkQueue([ticket], weigh=job.pieces.tokens)
            while outcome.stopped is None and (span := queue.take(0)) is not None:
                events.tell("chunk_begun", rank=place.rank, start=span.start, end=span.end)
                outcome.stopped = signals.reason or _attempt(runner, job, queue, span, place, events, signals)
            if outcome.stopped is not None:
                break
    return outcome


class _Watched(Runner):
    """A runner whose process ends if a batch takes too long; torchrun then ends the job."""

    def __init__(self, job: Job, device: str, guard: HangGuard, seconds: float) -> None:
        super().__init__(job, device)
        self._guard, self._seconds = guard, seconds

    def attempt(self, span: Span, stop: Callable[[], bool]) -> Done:
        """Encode a span and save what came of it."""
        try:
            return self.run(span, begin=lambda: self._guard.begin("a batch", self._seconds), stop=stop)
        finally:
            self._guard.rest()


def _attempt(
    runner: _Watched, job: Job, queue: WorkQueue, span: Span, place: _Rank, events: Events, signals: StopSignals
) -> str | None:
    """Compute one span; gives the reason to stop, if there is one."""
    try:
        done = runner.attempt(span, lambda: signals.reason is not None)
    except Exception as error:  # noqa: BLE001 (an encoder may raise anything)
        fault, reason = classify(error)
        events.tell("worker_raised", rank=place.rank, fault=fault, reason=reason)
        if fault in ("data", "room", "machine"):
            return reason
        if queue.blame(0) is Verdict.SET_ASIDE:
            events.tell("sequence_failed", **job.set_aside(span, reason)._asdict())
        return None
    queue.finish(0, done.span)
    start, end = done.span
    facts = {"start": start, "end": end, "sequences": done.sequences, "tokens": done.tokens}
    events.tell("chunk_finished", rank=place.rank, **facts)
    for failure in done.failures:
        events.tell("sequence_failed", **failure._asdict())
    return signals.reason


@contextmanager
def _loading_turn() -> Iterator[None]:
    """One after another on each machine: the first fills the cache of models that the others read."""
    path = Path(tempfile.gettempdir()) / f"seekset-loading-{os.getuid()}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # Let go of, and not only closed: what was forked while loading has it open, too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
