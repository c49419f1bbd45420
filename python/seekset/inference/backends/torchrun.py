"""The ranks of a torchrun job as workers: each computes, the job's store is the queue, and rank 0 begins and ends it.

torchrun ends all ranks when one dies, so that nobody is started again here: ``--resume`` goes on with what is missing.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seekset.errors import SeeksetError
from seekset.extras import require
from seekset.inference.devices import Device, find_gpus
from seekset.inference.hang import HangGuard
from seekset.inference.job import Job
from seekset.inference.messages import classify, is_lasting
from seekset.inference.queue import Verdict, WorkQueue
from seekset.inference.results import Span
from seekset.inference.runner import Runner
from seekset.inference.signals import StopSignals
from seekset.inference.supervisor import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from seekset.inference.events import Display, Events
    from seekset.inference.preparing import Check
    from seekset.inference.request import Request
    from seekset.inference.run import Run, Summary
    from seekset.inference.runner import Done

__all__ = ["embed_as_rank"]

# How long ranks may take to find each other, and how often they look for what another says.
_PATIENCE = timedelta(hours=1)
_SECONDS = 0.2
# How long rank 0 waits for others once a signal has come: torchrun itself waits for half a minute.
_SIGNALLED = 10.0
# How long others wait for rank 0 to put all results into one file: it ends with this process, unless it hangs.
_LAST_WORD = 24 * 3600.0
# How long rank 0 waits until all have heard its last word, and how long others then leave it to it to end first:
# torchrun ends all with the first that fails, which is to be the one that says why.
_HEARD, _COURTESY = 3.0, 5.0


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

    def hear(self, name: str, late: Callable[[], bool] = lambda: False) -> Any:
        """What another rank says, waited for in small steps, since nothing else is heard while the store waits.

        ``None`` once it is too ``late``.
        """
        while not self.store.check([name]):
            if late():
                return None
            time.sleep(_SECONDS)
        return json.loads(self.store.get(name))

    def part(self, word: dict[str, Any]) -> None:
        """Say rank 0's last word, and give others the time to hear it: the store may be gone with this process."""
        heard = [f"heard/{rank}" for rank in range(1, self.size)]
        end = time.monotonic() + _HEARD
        with suppress(RuntimeError):  # the store is gone already
            self.say("end", word)
            while heard and time.monotonic() < end and not self.store.check(heard):
                time.sleep(_SECONDS)

    def last_word(self, seconds: float) -> dict[str, Any]:
        """Hear rank 0's last word."""
        end = time.monotonic() + seconds
        told: dict[str, Any] | None = None
        with suppress(RuntimeError):  # the store is gone, and so is rank 0
            told = self.hear("end", lambda: time.monotonic() > end)
            self.say(f"heard/{self.rank}", True)
        return told or {"error": "it has not said how the run ended"}

    def tickets(self, spans: list[Span], schedule: str) -> Iterator[Span]:
        """The spans of this rank: whatever is next in the queue of all, or its fixed share."""
        if schedule == "stride":
            yield from spans[self.rank :: self.size]
            return
        while (ticket := self.store.add("next", 1) - 1) < len(spans):
            yield spans[ticket]


def embed_as_rank(request: Request, displays: Sequence[Display], stop: Callable[[], str | None]) -> Summary:
    """Be one rank of a run. All give the summary of rank 0, which alone leads; where that fails, others do, too."""
    place = _Rank.joined()
    return _lead(request, displays, stop, place) if place.rank == 0 else _follow(request, stop, place)


def _lead(request: Request, displays: Sequence[Display], stop: Callable[[], str | None], place: _Rank) -> Summary:
    from seekset.inference.run import begun, encoder_check

    def here() -> tuple[Sequence[Device], Check]:
        device = place.device(request)
        return [Device(device.kind)] * place.size, encoder_check(request, device)

    try:
        with begun(request, displays, here, stop) as run:
            # The largest first, as the queue of a coordinator has them.
            missing = sorted(run.survey.missing(run.job.chunks), key=run.job.pieces.tokens, reverse=True)
            place.say("spans", {"spans": missing})
            with run.signals.gently():
                outcome = _work(request, run.job, missing, place, run.events, run.ended)
                outcome.stopped = _others_end(run, place, outcome.stopped)
            outcome.complete = run.job.survey().is_complete(run.job.chunks)
            summary = run.finish(outcome)
    except BaseException as error:
        word = {"error": f"{type(error).__name__}: {error}"}
        with suppress(RuntimeError):
            place.say("spans", word)
        place.part(word)
        raise
    place.part({"summary": {**asdict(summary), "output": summary.output and str(summary.output)}})
    return summary


def _others_end(run: Run, place: _Rank, stopped: str | None) -> str | None:
    """Wait for the ends of other ranks; gives why the run is stopped, if it is."""
    since: float | None = None

    def late() -> bool:
        nonlocal since
        if run.ended() is None:
            return False
        since = time.monotonic() if since is None else since
        patience = min(_SIGNALLED if run.signals.reason else math.inf, run.request.policy.grace)
        return time.monotonic() - since > patience

    for rank in range(1, place.size):
        told = place.hear(f"done/{rank}", late)
        stopped = stopped or run.ended() or told
    return stopped


def _follow(request: Request, stop: Callable[[], str | None], place: _Rank) -> Summary:
    from seekset.inference.run import OUTPUT, LeaderError, Summary, opened_events

    stopped: str | None = f"rank {place.rank} failed"
    with StopSignals() as signals:
        told = place.hear("spans")
        if "spans" in told:
            spans = [Span(*span) for span in told["spans"]]
            try:
                with signals.gently(), opened_events(request.folder, ()) as events:
                    ended = lambda: stop() or signals.reason  # noqa: E731 (asked again and again)
                    stopped = _work(request, Job.open(request.folder), spans, place, events, ended).stopped
            finally:
                place.say(f"done/{place.rank}", stopped)
        told = place.last_word(_LAST_WORD if signals.reason is None else 2 * _SIGNALLED)
        summary = told.get("summary")
        output = request.folder / OUTPUT if summary is not None and summary["output"] else None
        if output is None:
            time.sleep(_COURTESY)
    if summary is not None:
        # That some sequences have no vector, rank 0 says with its exit code.
        code = signals.exit_code or (summary["exit_code"] if output is None else 0)
        return Summary(**{**summary, "output": output, "exit_code": code, "leads": False})
    if signals.exit_code is not None:
        return Summary(None, 0, 0, 0, [], signals.reason, signals.exit_code, leads=False)
    raise LeaderError(f"{request.folder}: rank 0 has failed: {told['error']}")


def _work(
    request: Request, job: Job, spans: list[Span], place: _Rank, events: Events, stop: Callable[[], str | None]
) -> Outcome:
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
                outcome.stopped = stop() or _attempt(runner, job, queue, span, place, events, stop)
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
    runner: _Watched,
    job: Job,
    queue: WorkQueue,
    span: Span,
    place: _Rank,
    events: Events,
    stop: Callable[[], str | None],
) -> str | None:
    """Compute one span; gives the reason to stop, if there is one."""
    try:
        done = runner.attempt(span, lambda: stop() is not None)
    except Exception as error:
        fault, reason = classify(error)
        events.tell("worker_raised", rank=place.rank, fault=fault, reason=reason)
        if fault in ("data", "room", "machine", "width"):
            return reason
        if is_lasting(error):
            # It would fail with all that is left, which nobody else could do then.
            raise SeeksetError(
                f"rank {place.rank} can't use its device any more ({reason}); --resume goes on with what is missing"
            ) from error
        if queue.blame(0) is Verdict.SET_ASIDE:
            events.tell("sequence_failed", **job.set_aside(span, reason)._asdict())
        return None
    queue.finish(0, done.span)
    start, end = done.span
    facts = {"start": start, "end": end, "sequences": done.sequences, "tokens": done.tokens}
    events.tell("chunk_finished", rank=place.rank, **facts)
    for failure in done.failures:
        events.tell("sequence_failed", **failure._asdict())
    return stop()


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
