"""The start of a run: from files and an encoder to a job, new or resumed."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Protocol

from seekset.errors import MismatchError, SeeksetWarning, StaleIndexError
from seekset.files import find_fastas
from seekset.inference.job import Job, Manifest
from seekset.sequences import SequenceIndex

if TYPE_CHECKING:
    from pathlib import Path

    from seekset.inference.request import Request

__all__ = ["Check", "prepare"]


class Check(Protocol):
    """What asks an encoder what it wants, and tries it out: where the device is."""

    def facts(self) -> dict[str, Any]:
        """What the encoder wants."""

    def try_out(self, job: Job) -> None:
        """Encode a few sequences."""

    def close(self) -> None:
        """End whatever was started for it."""


def prepare(request: Request, check: Check) -> Job:
    """The job of a request. One that is resumed must be the one that was begun, or what differs is told.

    The encoder is asked before anything is computed, and tried out only if something is left to compute.
    """
    begun = Manifest.load(request.folder) if (request.folder / "manifest.json").exists() else None
    index = _new_index(request) if begun is None else _same_index(request, begun)
    if not len(index):
        raise MismatchError(f"{_named(index)}: there are no sequences, so that there is nothing to compute")
    # An encoder that was not named again is the one of the run; its answers don't change while nothing is to be done.
    if begun is not None and (job := _finished(request, begun)) is not None:
        return job
    try:
        job = _planned(request, index, check.facts())
        if begun is None:
            job.save_plan()
        else:
            _refuse_another(request.folder, begun, job.manifest)
            job = Job(request.folder, begun)
        check.try_out(job)
    finally:
        check.close()
    if begun is None:
        if cut := job.plan.truncated:
            message = f"{cut} of {len(index)} sequences are longer than {job.plan.max_length} residues and are cut"
            warnings.warn(message, SeeksetWarning, stacklevel=2)
        job.save()
    return job


def _planned(request: Request, index: SequenceIndex, facts: dict[str, Any]) -> Job:
    return Job.begin(
        request.folder,
        index,
        request.encoder,
        facts,
        max_tokens=request.max_tokens,
        max_length=request.max_length,
        overflow=request.overflow,
    )


def _finished(request: Request, begun: Manifest) -> Job | None:
    """The job, if all of it is done: then the encoder need not be loaded to see whether it is the same."""
    planned = _planned(request, Job(request.folder, begun).index, begun.facts)
    _refuse_another(request.folder, begun, planned.manifest)
    job = Job(request.folder, begun)
    return None if job.store.survey(tidy=False).missing(job.chunks) else job


def _refuse_another(folder: Path, begun: Manifest, wanted: Manifest) -> None:
    if differences := begun.differences(wanted):
        raise MismatchError(
            f"{folder}: it holds the results of another run, which can't go on with this: {'; '.join(differences)}. "
            "Give what was given then, another folder, or --restart to remove them and start over"
        )


def _new_index(request: Request) -> SequenceIndex:
    return SequenceIndex.create(find_fastas(request.files), request.folder / "index.sidx")


def _same_index(request: Request, begun: Manifest) -> SequenceIndex:
    """The run's index, if the files hold the same sequences still, wherever they are now."""
    path = request.folder / "index.sidx"
    files = find_fastas(request.files or begun.files)
    try:
        index = SequenceIndex.load(path)
        index.check_files()
        if _absolute(index.files) == _absolute(files) and index.fingerprint == begun.index:
            return index
    except (FileNotFoundError, StaleIndexError):
        pass
    beside = request.folder / ".index.sidx"
    beside.unlink(missing_ok=True)
    try:
        index = SequenceIndex.create(files, beside)
        if index.fingerprint != begun.index:
            raise MismatchError(
                f"{request.folder}: it holds the results of another run, which can't go on with this: the sequences of "
                f"{_named(index)} are not those it began with (fingerprint {begun.index}, now {index.fingerprint}). "
                "Give the files that were given then, another folder, or --restart to remove them and start over"
            )
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return SequenceIndex.load(path)


def _absolute(files: list[Path]) -> list[str]:
    return [os.path.abspath(path) for path in files]  # noqa: PTH100 (a Path keeps its dots)


def _named(index: SequenceIndex) -> str:
    files = index.files
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
