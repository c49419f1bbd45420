"""The start of a run: from files and an encoder to a job, new or resumed."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from seekset.errors import FormatError, MismatchError, SeeksetWarning, StaleIndexError
from seekset.files import find_fastas
from seekset.inference.encoders.weights import digest_of, is_hugging_face
from seekset.inference.folder import remove_run
from seekset.inference.job import Job, Manifest
from seekset.sequences import SequenceIndex

if TYPE_CHECKING:
    from seekset.inference.request import Request

__all__ = ["Check", "prepare"]

# Where an index is made before it is known to be the right one.
_BESIDE = ".index.sidx"


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

    The encoder is asked before anything is computed or, with ``restart``, removed; it is tried out only if something is
    left to compute.
    """
    try:
        begun = _begun(request)
        return _new(request, check) if begun is None else _resumed(request, begun, check)
    finally:
        check.close()


def _begun(request: Request) -> Manifest | None:
    there = (request.folder / "manifest.json").exists() and not request.restart
    return Manifest.load(request.folder) if there else None


def _new(request: Request, check: Check) -> Job:
    beside = request.folder / _BESIDE
    try:
        index = SequenceIndex.create(find_fastas(request.files), beside)
        _refuse_nothing(index)
        facts = check.facts()
        job = _planned(request, index, facts)
        # Everything that can be seen to be wrong was looked at: only now an earlier run's results go.
        if request.restart:
            remove_run(request.folder)
        # The manifest first: by it, the folder's files are known as a run's.
        job.save()
        beside.replace(request.folder / "index.sidx")
    finally:
        beside.unlink(missing_ok=True)
    job = Job.open(request.folder).adopt(SequenceIndex.load(request.folder / "index.sidx"), job.plan)
    try:
        job.save_plan()
        check.try_out(job)
    except BaseException:
        remove_run(request.folder)
        raise
    if cut := job.plan.truncated:
        message = f"{cut} of {job.plan.sequences} sequences are longer than {job.plan.max_length} residues and are cut"
        warnings.warn(message, SeeksetWarning, stacklevel=2)
    return job


def _resumed(request: Request, begun: Manifest, check: Check) -> Job:
    index = _same_index(request, begun)
    # As far as that can be told without the encoder: while nothing is left to compute, it need not be loaded.
    job = _planned(request, index, {**begun.facts, "fingerprint": _fingerprint(request.encoder.model, begun)})
    _refuse_another(request.folder, begun, job.manifest)
    if request.encoder.model != begun.encoder["model"]:
        # The same model in another folder, which is where workers look for it from now on.
        begun = replace(begun, encoder={**begun.encoder, "model": request.encoder.model})
        begun.save(request.folder)
    job = Job(request.folder, begun).adopt(index, job.plan)
    job.save_plan()
    if not job.store.survey(tidy=False).missing(job.chunks):
        return job
    _refuse_another(request.folder, begun, _planned(request, index, check.facts()).manifest)
    check.try_out(job)
    return job


def _fingerprint(model: str, begun: Manifest) -> str:
    """What a model is known by, as far as that can be told without loading it: that of the run, or of its folder."""
    known: str = begun.facts["fingerprint"]
    if model == begun.encoder["model"] or not is_hugging_face(model):
        return known
    folder = Path(model).expanduser()
    return digest_of(folder) if folder.is_dir() else model


def _refuse_nothing(index: SequenceIndex) -> None:
    if not len(index):
        raise MismatchError(f"{_named(index)}: there are no sequences, so that there is nothing to compute")


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


def _refuse_another(folder: Path, begun: Manifest, wanted: Manifest) -> None:
    if differences := begun.differences(wanted):
        raise MismatchError(
            f"{folder}: it holds the results of another run, which can't go on with this: {'; '.join(differences)}. "
            "Give what was given then, another folder, or --restart to remove them and start over"
        )


def _same_index(request: Request, begun: Manifest) -> SequenceIndex:
    """The run's index, if the files hold the same sequences still, wherever they are now."""
    path = request.folder / "index.sidx"
    files = find_fastas(request.files or begun.files)
    try:
        index = SequenceIndex.load(path)
        index.check_files()
        if _absolute(index.files) == _absolute(files) and index.fingerprint == begun.index:
            return index
    except (FileNotFoundError, FormatError, StaleIndexError):
        pass  # damaged, or of files that are elsewhere now: made anew and compared
    beside = request.folder / _BESIDE
    beside.unlink(missing_ok=True)
    try:
        index = SequenceIndex.create(files, beside)
        if index.fingerprint != begun.index:
            raise MismatchError(
                f"{request.folder}: it holds the results of another run, which can't go on with this: the sequences of "
                f"{_named(index)} are not those it began with (fingerprint {begun.index}, now {index.fingerprint}). "
                "Give the files that were given then, another folder, or --restart to remove them and start over"
            )
        path.unlink(missing_ok=True)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return SequenceIndex.load(path)


def _absolute(files: list[Path]) -> list[str]:
    return [os.path.abspath(path) for path in files]  # noqa: PTH100 (a Path keeps its dots)


def _named(index: SequenceIndex) -> str:
    files = index.files
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
