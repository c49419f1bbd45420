"""A run: from FASTA files to one file of vectors, through whatever happens on the way."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seekset.errors import SeeksetError, StaleIndexError, in_one_line
from seekset.extras import require
from seekset.files import find_fastas
from seekset.inference.aggregate import write_embeddings
from seekset.inference.backends.local import LocalCrew, threads_each
from seekset.inference.checking import EncoderCheck
from seekset.inference.devices import parse_devices
from seekset.inference.encoders.protocol import UnknownModelError
from seekset.inference.events import Events, LogDisplay, read_events
from seekset.inference.folder import claim_folder, leave_folder
from seekset.inference.lock import FolderLock
from seekset.inference.preparing import prepare
from seekset.inference.queue import WorkQueue
from seekset.inference.request import Request
from seekset.inference.signals import StopSignals
from seekset.inference.supervisor import Outcome, Supervisor
from seekset.publishing import published

if TYPE_CHECKING:
    from seekset.inference.backends.crew import Crew
    from seekset.inference.checkpoint import Survey
    from seekset.inference.devices import Device
    from seekset.inference.events import Display
    from seekset.inference.job import Job
    from seekset.inference.preparing import Check

__all__ = ["LeaderError", "RunIncompleteError", "Summary", "embed", "run_multi_gpu_inference"]

_log = logging.getLogger("seekset")
OUTPUT = "embeddings.h5"
# What an error says may be as long as it likes; what is told of it may not.
_LONGEST = 1000


class RunIncompleteError(SeeksetError):
    """A run ended before everything was computed; it can be resumed."""


class LeaderError(SeeksetError):
    """The rank that leads a run of torchrun has failed, which it tells itself; what others raise then."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How a run ended.

    Args:
        output: The file of vectors; ``None`` if something is still missing.
        sequences: How many there are in all.
        done: How many have a vector.
        failed: How many were set aside; ``failed.jsonl`` says why.
        given_up: The ranks that died too often, or failed too often with what others could do.
        reason: What ended it early, if something did.
        exit_code: 0 if every sequence has its vector, 130 and 143 after signals, else 1.
        leads: Whether this process speaks for the run: of torchrun's ranks, only one does.
    """

    output: Path | None
    sequences: int
    done: int
    failed: int
    given_up: list[int]
    reason: str | None
    exit_code: int
    leads: bool = True


def run_multi_gpu_inference(
    fasta_files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    output_dir: str | os.PathLike[str],
    model_config: Mapping[str, Any] | None = None,
    world_size: int | None = None,
    timeout: float | None = None,
) -> tuple[Path, list[int]]:
    """Run an encoder over every sequence on all devices, and give the file of vectors and the ranks given up on.

    Sequences that the encoder can't take are left out and listed in ``failed.jsonl``. A folder that holds a run is gone
    on with if it is the same run. A run that ends early is a ``RunIncompleteError``; after Ctrl-C it is a
    ``KeyboardInterrupt`` and after SIGTERM a ``SystemExit``, as it would be elsewhere, with what is done saved.

    Args:
        fasta_files: FASTA files.
        output_dir: The folder that everything goes into.
        model_config: ``{"model": ..., "dtype": ..., "max_tokens": ..., "devices": ..., ...}``: the options of
            ``seekset embed`` by their names, ``model_args`` a dict.
        world_size: How many workers; one for each GPU, or one, if not given.
        timeout: Seconds after which the run is stopped, with a ``TimeoutError``. It can be resumed.

    >>> output, failed_ranks = run_multi_gpu_inference("proteins.fa", "out", {"model": "kmer", "devices": "cpu"})
    >>> output, failed_ranks
    (PosixPath('out/embeddings.h5'), [])
    """
    files = [fasta_files] if isinstance(fasta_files, (str, os.PathLike)) else list(fasta_files)
    options = {"resume": True, **dict(model_config or {})}
    if options.get("restart"):
        options["resume"] = False
    if world_size is not None:
        options["world_size"] = world_size
    request = Request.of(files, output_dir, options)
    end = None if timeout is None else time.monotonic() + timeout
    summary = embed(request, stop=lambda: "the time is up" if end is not None and time.monotonic() > end else None)
    if summary.exit_code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if summary.exit_code == 128 + signal.SIGTERM:
        raise SystemExit(summary.exit_code)
    if summary.output is None:
        said = f"{request.folder}: {summary.reason or 'not everything was computed'}; it can be resumed"
        raise TimeoutError(said) if end is not None and time.monotonic() > end else RunIncompleteError(said)
    return summary.output or request.folder / OUTPUT, summary.given_up


def embed(
    request: Request, displays: Sequence[Display] = (), *, stop: Callable[[], str | None] = lambda: None
) -> Summary:
    """Carry out a request, and say how that ended. What is wrong from the start is raised."""
    if request.backend == "torchrun":
        from seekset.inference.backends.torchrun import embed_as_rank

        return embed_as_rank(request, displays, stop)

    def here() -> tuple[Sequence[Device], Check]:
        devices = _devices(request)
        return devices, encoder_check(request, devices[0])

    with begun(request, displays, here, stop) as run:
        with run.signals.gently():
            outcome = _supervised(run)
        return run.finish(outcome)


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has begun.

    Args:
        request: What is wanted.
        job: What is to be done.
        survey: What was there of it already.
        devices: What it runs on.
        events: Whom to tell.
        signals: What may come meanwhile.
        ended: Why it is to stop; ``None`` while it is not.
    """

    request: Request
    job: Job
    survey: Survey
    devices: Sequence[Device]
    events: Events
    signals: StopSignals
    ended: Callable[[], str | None]

    def finish(self, outcome: Outcome) -> Summary:
        """Tell how it ended, with all results in one file if they are there."""
        return finish_run(self.request, self.job, outcome, self.events, self.signals.exit_code)


@contextmanager
def begun(
    request: Request,
    displays: Sequence[Display],
    found: Callable[[], tuple[Sequence[Device], Check]],
    stop: Callable[[], str | None],
) -> Iterator[Run]:
    """A run from its folder's lock to its end: prepared, begun, and told of, whatever ends it.

    ``found`` gives what it runs on, and what tries the encoder there.
    """
    # Said now, and not when all vectors are to be put into it.
    require("embeddings.h5", "h5py", "inference")
    with claimed(request) as lock, StopSignals() as signals, opened_events(request.folder, displays) as events:
        with preparing(events, signals):
            devices, check = found()
            job = prepare(request, check)
            survey = begin_run(request, job, events, lock, [device.name for device in devices])
        with computing(events, signals):
            ended = lambda: stop() or signals.reason or lock.lost  # noqa: E731 (asked again and again)
            yield Run(request, job, survey, devices, events, signals, ended)


@contextmanager
def claimed(request: Request) -> Iterator[FolderLock]:
    """The folder of a request, looked at and locked.

    Names of files and models that there are not were mistyped, most likely: no folder is made for such a request.
    """
    if request.files:
        find_fastas(request.files)
    made = claim_folder(request.folder, resume=request.resume, restart=request.restart)
    with FolderLock(request.folder) as lock:
        try:
            yield lock
        except UnknownModelError:
            if made is not None:
                leave_folder(request.folder, made)
            raise


@contextmanager
def preparing(events: Events, signals: StopSignals) -> Iterator[None]:
    """Tell that a run is prepared, and why that failed, if it does: there may be no manifest then that tells of it."""
    events.tell("run_preparing", pid=os.getpid())
    try:
        yield
    except BaseException as error:
        events.tell("preparing_failed", reason=_why(error, signals))
        raise


@contextmanager
def computing(events: Events, signals: StopSignals) -> Iterator[None]:
    """Tell of a run that an error ends, unless that was told: it would be taken for one that was killed."""
    try:
        yield
    except BaseException as error:
        if events.last != "run_ended":
            events.tell("run_ended", outcome=_why(error, signals))
        raise


def _why(error: BaseException, signals: StopSignals) -> str:
    return signals.reason or in_one_line(error)[:_LONGEST] or type(error).__name__


def _devices(request: Request) -> list[Device]:
    if request.backend == "ray":
        from seekset.inference.backends.ray import cluster_devices

        return cluster_devices(request.devices, request.world_size, request.address)
    return parse_devices(request.devices, count=request.world_size)


def opened_events(folder: Path, displays: Sequence[Display]) -> Events:
    """The events of a folder, with a log beside what shows them."""
    return Events(folder / "events.jsonl", [LogDisplay(folder / "logs" / "coordinator.log"), *displays])


def encoder_check(request: Request, device: Device) -> Check:
    """What tries the encoder of a request on a device, before workers start."""
    log = request.folder / "logs" / "check.log"
    patience = (request.policy.load_timeout, request.policy.batch_timeout)
    if request.backend == "ray":
        from seekset.inference.backends.ray import RayCheck

        return RayCheck(request.encoder, device, log, *patience, request.address)
    return EncoderCheck(request.encoder, device.inside, device.environment(threads_each(1)), log, *patience)


def begin_run(request: Request, job: Job, events: Events, lock: FolderLock, devices: Sequence[str]) -> Survey:
    """Look at what is there already, and say so; what writers of earlier runs left half written goes."""
    survey = job.survey(begun=lock.since)
    for path, reason in survey.damaged:
        events.tell("chunk_damaged", path=path.name, reason=reason)
    if survey.foreign:
        events.tell("chunks_foreign", count=len(survey.foreign), path=survey.foreign[0].path.name)
    done = int(survey.done(len(job.pieces)).sum())
    missing = survey.missing(job.chunks)
    total = job.plan.total_tokens
    counts = {"done": done, "done_tokens": total - sum(map(job.pieces.tokens, missing))}
    used, before = ",".join(devices) if missing else "", _devices_before(request)
    events.tell("run_started", pid=os.getpid(), sequences=len(job.pieces), tokens=total, **counts, devices=used)
    if used and before and used != before:
        events.tell("devices_changed", devices=used, before=before)
    return survey


def _devices_before(request: Request) -> str:
    """The devices of the run that is gone on with, as far as its events tell."""
    if not request.resume:
        return ""
    told = (event.get("devices") for event in read_events(request.folder / "events.jsonl"))
    return next((str(devices) for devices in reversed(list(told)) if devices), "")


def _supervised(run: Run) -> Outcome:
    missing = run.survey.missing(run.job.chunks)
    if not missing:
        return Outcome(complete=True)
    shares = len(run.devices) if run.request.schedule == "stride" else None
    queue = WorkQueue(missing, weigh=run.job.pieces.tokens, world_size=shares)
    crew = _crew(run.request, run.job, run.devices)
    return Supervisor(run.job, crew, queue, run.events, policy=run.request.policy, stop=run.ended).run()


def _crew(request: Request, job: Job, devices: Sequence[Device]) -> Crew:
    logs = request.folder / "logs"
    if request.backend == "ray":
        from seekset.inference.backends.ray import RayCrew

        return RayCrew(job.folder, devices, logs, request.address)
    return LocalCrew(job.folder, dict(enumerate(devices)), logs, threads_each(len(devices)))


def finish_run(request: Request, job: Job, outcome: Outcome, events: Events, code: int | None = None) -> Summary:
    """Say what failed, put the results into one file if they are all there, and tell how the run ended."""
    survey = job.survey()
    done = int(survey.done(len(job.pieces)).sum())
    summary = Summary(None, len(job.pieces), done, len(survey.failures), outcome.given_up, _reason(outcome), code or 1)
    output = None
    try:
        write_failures(job, survey)
    except OSError as error:
        # How the run ended is told all the same.
        _log.warning("%s; which sequences failed, events.jsonl has as well", in_one_line(error))
    if outcome.complete:
        try:
            output = write_embeddings(
                job.store,
                job.index,
                request.folder / OUTPUT,
                order=request.order,
                attributes=job.attributes,
                per_token=job.encoder.per_token,
                dtype=request.output_dtype,
                survey=survey,
            )
        except Exception as error:
            # Every vector is there, but not in one file: `seekset aggregate` or another run may do that.
            events.tell("run_ended", outcome=f"no {OUTPUT}: {error}", done=done, failed=summary.failed)
            raise
        summary = replace(summary, output=output, exit_code=1 if survey.failures else 0)
    events.tell("run_ended", outcome="complete" if output else summary.reason, done=done, failed=summary.failed)
    if outcome.fault is not None and outcome.fault[0] == "data":
        raise StaleIndexError(f"{outcome.fault[1]}; what is done is kept, and --resume goes on with it")
    return summary


def _reason(outcome: Outcome) -> str | None:
    if outcome.fault is not None:
        kind, reason = outcome.fault
        return f"there is no room to write results ({reason})" if kind == "room" else reason
    if outcome.stopped is not None:
        return outcome.stopped
    return None if outcome.complete else "all workers died too often and were given up"


def write_failures(job: Job, survey: Survey) -> None:
    """Write ``failed.jsonl``: a line for each sequence without a vector, and why; none if there is none."""
    from seekset.inference.order import ordered

    path = job.folder / "failed.jsonl"
    if not survey.failures:
        path.unlink(missing_ok=True)
        return
    # The same numbers as `rows` in the file of vectors.
    places = ordered(job.index, "input", job.folder).positions(np.array([failure.row for failure in survey.failures]))
    with published(path) as part, part.open("w", encoding="utf-8") as file:
        for failure, place in zip(survey.failures, places.tolist(), strict=True):
            entry = job.index.entry(failure.row)
            told = {"sequence_id": failure.sequence_id, "reason": failure.reason, "length": entry.length}
            file.write(json.dumps({**told, "file": entry.file_path, "row": place}) + "\n")
