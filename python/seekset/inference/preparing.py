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
from seekset.inference.inputs import Input, same_inputs
from seekset.inference.job import Job, Manifest
from seekset.sequences import SequenceIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        files = [Input.read(path) for path in index.files]
        _refuse_changes(index, files)
        job = _planned(request, files, index, facts)
        # Everything that can be seen to be wrong was looked at: only now an earlier run's results go.
        if request.restart:
            remove_run(request.folder)
        # The manifest first: by it, the folder's files are known as a run's.
        job.save()
        beside.replace(request.folder / "index.sidx")
    finally:
        beside.unlink(missing_ok=True)
    try:
        job = Job.open(request.folder).adopt(SequenceIndex.load(request.folder / "index.sidx"), job.plan)
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
    paths = find_fastas(request.files or begun.paths)
    files = _same_files(request.folder, paths, begun)
    index = _same_index(request.folder, paths, begun)
    _refuse_changes(index, files)
    # As far as that can be told without the encoder: while nothing is left to compute, it need not be loaded.
    facts = {**begun.facts, "fingerprint": _fingerprint(request.encoder.model, begun)}
    job = _planned(request, files, index, facts)
    _refuse_another(request.folder, begun, job.manifest)
    # The same files, or the same model, in another place: there they are looked for from now on.
    now = replace(begun, files=files, encoder={**begun.encoder, "model": request.encoder.model})
    if now != begun:
        now.save(request.folder)
    job = Job(request.folder, now).adopt(index, job.plan)
    job.save_plan()
    if not job.survey(tidy=False).missing(job.chunks):
        return job
    _refuse_another(request.folder, begun, _planned(request, files, index, check.facts()).manifest)
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


def _refuse_changes(index: SequenceIndex, files: Sequence[Input]) -> None:
    """Raise if files have changed since they were indexed, or since they were read: those are two looks at them."""
    index.check_files()
    for file in files:
        file.check()


def _planned(request: Request, files: Sequence[Input], index: SequenceIndex, facts: dict[str, Any]) -> Job:
    return Job.begin(
        request.folder,
        files,
        index,
        request.encoder,
        facts,
        max_tokens=request.max_tokens,
        max_length=request.max_length,
        overflow=request.overflow,
    )


def _refuse_another(folder: Path, begun: Manifest, wanted: Manifest) -> None:
    if differences := begun.differences(wanted):
        raise _another(folder, "; ".join(differences), "Give what was given then")


def _another(folder: Path, why: str, remedy: str) -> MismatchError:
    return MismatchError(
        f"{folder}: it holds the results of another run, which can't go on with this: {why}. {remedy}, another folder, "
        "or --restart to remove them and start over"
    )


def _same_files(folder: Path, paths: list[Path], begun: Manifest) -> list[Input]:
    """The run's files, if their content is what it was, wherever they are now."""
    try:
        return same_inputs(paths, begun.files)
    except MismatchError as error:
        raise _another(folder, str(error), "Give the files of then, in their order") from None


def _same_index(folder: Path, files: list[Path], begun: Manifest) -> SequenceIndex:
    """The run's index, if the files hold the same sequences still, wherever they are now."""
    path = folder / "index.sidx"
    try:
        index = SequenceIndex.load(path)
        index.check_files()
        if _absolute(index.files) == _absolute(files) and index.fingerprint == begun.index:
            return index
    except (FileNotFoundError, FormatError, StaleIndexError):
        pass  # damaged, or of files that are elsewhere now: made anew and compared
    beside = folder / _BESIDE
    beside.unlink(missing_ok=True)
    try:
        index = SequenceIndex.create(files, beside)
        if index.fingerprint != begun.index:
            others = f"the sequences of {_named(index)} are not those it began with"
            numbers = f"fingerprint {begun.index}, now {index.fingerprint}"
            raise _another(folder, f"{others} ({numbers})", "Give the files of then, in their order")
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
