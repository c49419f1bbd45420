"""A job: which sequences, in which batches, through which encoder, into which folder."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from seekset.errors import FormatError, MismatchError
from seekset.inference.checkpoint import ChunkStore, Survey
from seekset.inference.encoders.weights import is_hugging_face
from seekset.inference.inputs import Input
from seekset.inference.pieces import Pieces, cut_chunks
from seekset.inference.results import Failure, Result, Span
from seekset.limits import flag, whole_number
from seekset.plan import Plan
from seekset.publishing import published
from seekset.sequences import SequenceIndex

__all__ = ["EncoderOptions", "Job", "Manifest"]

_VERSION = 2
_MANIFEST, _INDEX, _PLAN, _CHUNKS = "manifest.json", "index.sidx", "plan.arrow", "chunks"


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """Which encoder, and what it is told: all that decides what vectors come out."""

    model: str = "kmer"
    arguments: dict[str, str] = field(default_factory=dict)
    dtype: str | None = None
    layer: int | None = None
    per_token: bool = False
    trust_remote_code: bool = False
    unsafe_weights: bool = False

    def __post_init__(self) -> None:
        # As a manifest has them: what is equal but of another type could not be read from it again.
        for name in ("per_token", "trust_remote_code", "unsafe_weights"):
            object.__setattr__(self, name, flag(getattr(self, name), name))
        if self.layer is not None:
            object.__setattr__(self, "layer", whole_number(self.layer, "layer", least=-(2**31)))
        if not isinstance(self.dtype, str | None):
            raise TypeError(f"dtype must be fp32, bf16 or fp16, or None, not {type(self.dtype).__name__}")

    def loading(self) -> dict[str, Any]:
        """The keywords of ``load_encoder`` beside the device."""
        options = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"spec": options.pop("model"), **options}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run is known by: its files, index, plan and encoder, by digests, and the options that matter.

    Where files lie, how old they are and when it was made are told, but don't count.
    """

    files: list[Input]
    index: str
    plan: str
    rules: dict[str, Any]
    encoder: dict[str, Any]
    facts: dict[str, Any]
    created: str = ""
    version: int = _VERSION

    @property
    def paths(self) -> list[str]:
        """Where the files are."""
        return [one.path for one in self.files]

    @property
    def run(self) -> str:
        """A digest of what counts: results of runs with one digest may stand side by side."""
        return hashlib.blake2b(json.dumps(self._counted(), sort_keys=True).encode(), digest_size=16).hexdigest()

    def _counted(self) -> dict[str, Any]:
        # A model of Hugging Face is what its fingerprint says, wherever its folder is.
        aside = {"model"} if is_hugging_face(self.encoder["model"]) and self.facts["fingerprint"] else set()
        return {
            "version": self.version,
            "files": [one.digest for one in self.files],
            "sequences": self.index,
            "plan": self.plan,
            **{f"plan: {name}": value for name, value in self.rules.items()},
            **{f"encoder: {name}": value for name, value in self.encoder.items() if name not in aside},
            **{f"encoder: {name}": value for name, value in self.facts.items()},
        }

    def differences(self, other: Manifest) -> list[str]:
        """What counts and differs, in words."""
        mine, theirs = self._counted(), other._counted()
        if ("encoder: model" in mine) != ("encoder: model" in theirs):
            mine["encoder: model"], theirs["encoder: model"] = self.encoder["model"], other.encoder["model"]
        changed = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        # Everything that makes a plan shows in its digest, too: the cause is told, not that it shows.
        causes = [name for name in changed if name != "plan"]
        told = [f"{name}: it was {mine.get(name)!r} and is {theirs.get(name)!r}" for name in causes or changed]
        models = self.encoder["model"], other.encoder["model"]
        if "encoder: fingerprint" in changed and "encoder: model" not in changed and models[0] != models[1]:
            told.insert(0, f"encoder: model: it was {models[0]!r} and is {models[1]!r}, whose content is another")
        return told

    def save(self, folder: Path) -> None:
        """Write it, beside and renamed."""
        with published(folder / _MANIFEST) as part, part.open("w", encoding="utf-8") as file:
            json.dump(asdict(self), file, indent=1)

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """The manifest of a folder; what is none is a ``FormatError``."""
        path = folder / _MANIFEST
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path}: expected a manifest of a run as JSON, found something else ({error})") from None
        # First: another version may have other keys.
        if type(found) is dict and type(other := found.get("version")) is int and other != _VERSION:
            raise FormatError(
                f"{path}: expected version {_VERSION}, found {other}: another version of seekset began this run, and "
                "can go on with it; --restart removes its results and starts over"
            )
        _check_keys(path, "a manifest", found, {one.name: _KINDS[one.name] for one in fields(cls)})
        _check_keys(path, "rules", found["rules"], _RULE_KINDS)
        _check_keys(path, "encoder", found["encoder"], _ENCODER_KINDS)
        _check_keys(path, "facts", found["facts"], _FACT_KINDS)
        for file in found["files"]:
            _check_keys(path, "files", file, _INPUT_KINDS)
        return cls(**{**found, "files": [Input(**file) for file in found["files"]]})


_KINDS: dict[str, tuple[type, ...]] = {
    "files": (list,),
    "index": (str,),
    "plan": (str,),
    "rules": (dict,),
    "encoder": (dict,),
    "facts": (dict,),
    "created": (str,),
    "version": (int,),
}
_INPUT_KINDS: dict[str, tuple[type, ...]] = {
    "path": (str,),
    "size": (int,),
    "mtime_ns": (int,),
    "digest": (str,),
}
_RULE_KINDS: dict[str, tuple[type, ...]] = {
    "max_tokens": (int,),
    "max_length": (int, type(None)),
    "layout": (str,),
    "overflow": (str,),
}
_ENCODER_KINDS: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "arguments": (dict,),
    "dtype": (str, type(None)),
    "layer": (int, type(None)),
    "per_token": (bool,),
    "trust_remote_code": (bool,),
    "unsafe_weights": (bool,),
}
_FACT_KINDS: dict[str, tuple[type, ...]] = {
    "tokens": (str, type(None)),
    "layout": (str,),
    "max_length": (int, type(None)),
    "specials": (bool,),
    "dim": (int, type(None)),
    "fingerprint": (str,),
    "around": (int,),
}


def _check_keys(path: Path, what: str, found: Any, kinds: Mapping[str, tuple[type, ...]]) -> None:
    """Refuse what has not exactly these keys, each with a value of one of its types."""
    if type(found) is not dict or set(found) != set(kinds):
        raise FormatError(f"{path}: {what}: expected the keys {', '.join(sorted(kinds))}, found others")
    for name, allowed in kinds.items():
        if type(found[name]) not in allowed:
            expected = " or ".join(kind.__name__ for kind in allowed)
            raise FormatError(f"{path}: {name}: expected {expected}, found {type(found[name]).__name__}")


class Job:
    """A folder of results, and everything that is needed to compute those that are missing.

    Workers open it by the path of its folder and share the pages of its index and plan.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._survey: Survey | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Job, (self.folder.absolute(), self.manifest)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Job:
        """The job of a folder that a run has begun in."""
        path = Path(folder)
        if not (path / _MANIFEST).exists():
            raise MismatchError(f"{path}: there is no manifest.json here: it is not a folder of `seekset embed`")
        return cls(path, Manifest.load(path))

    @classmethod
    def begin(
        cls,
        folder: Path,
        files: Sequence[Input],
        index: SequenceIndex,
        encoder: EncoderOptions,
        facts: Mapping[str, Any],
        *,
        max_tokens: int,
        max_length: int | None,
        overflow: str,
    ) -> Job:
        """Plan a job; the folder is not touched until :meth:`save`."""
        plan = _planned(index, facts, max_tokens=max_tokens, max_length=max_length, overflow=overflow)
        rules = {name: getattr(plan, name) for name in ("max_length", "layout", "overflow")}
        rules["max_tokens"] = max_tokens
        created = time.strftime("%FT%T%z")
        manifest = Manifest(list(files), index.fingerprint, plan.digest, rules, asdict(encoder), dict(facts), created)
        return cls(folder, manifest).adopt(index, plan)

    def adopt(self, index: SequenceIndex, plan: Plan) -> Job:
        """The same job with an index and a plan that are at hand, so that they are not opened again."""
        self.__dict__.update(index=index, plan=plan)
        return self

    def save_plan(self) -> None:
        """Write the plan, unless it is there already; one that is damaged is replaced."""
        path = self.folder / _PLAN
        try:
            if Plan.load(path).digest == self.plan.digest:
                return
        except (FileNotFoundError, FormatError):
            path.unlink(missing_ok=True)
        self.plan.save(path)

    def save(self) -> None:
        """Write the manifest: from here on, the folder is one of a run."""
        self.manifest.save(self.folder)

    @property
    def index_path(self) -> Path:
        """Where the index of the sequences is."""
        return self.folder / _INDEX

    @cached_property
    def index(self) -> SequenceIndex:
        """The index of the sequences."""
        index = SequenceIndex.load(self.index_path)
        if index.fingerprint != self.manifest.index:
            raise MismatchError(
                f"{self.index_path}: it is another index than the run's: expected {self.manifest.index}, "
                f"found {index.fingerprint}"
            )
        return index

    @cached_property
    def plan(self) -> Plan:
        """Which sequences share a batch."""
        plan = Plan.load(self.folder / _PLAN, self.index)
        if plan.digest != self.manifest.plan:
            raise MismatchError(
                f"{self.folder / _PLAN}: it is another plan than the run's: expected {self.manifest.plan}, "
                f"found {plan.digest}"
            )
        return plan

    @cached_property
    def pieces(self) -> Pieces:
        """The pieces of the plan, in batches of as many tokens as were asked for."""
        return Pieces(self.plan, self.manifest.rules["max_tokens"])

    @cached_property
    def store(self) -> ChunkStore:
        """Where results are."""
        return ChunkStore(self.folder / _CHUNKS, run=self.manifest.run)

    @cached_property
    def encoder(self) -> EncoderOptions:
        """Which encoder."""
        return EncoderOptions(**self.manifest.encoder)

    @cached_property
    def chunks(self) -> list[Span]:
        """All of the work."""
        return cut_chunks(self.pieces, per_token=self.encoder.per_token)

    def survey(self, *, begun: float | None = None, tidy: bool = True) -> Survey:
        """What is in the store now; of files that were looked at before, those are read that have changed since.

        ``begun`` and ``tidy`` are as for :meth:`ChunkStore.survey`.
        """
        self._survey = self.store.survey(begun=begun, tidy=tidy, known=self._survey)
        return self._survey

    def set_aside(self, span: Span, reason: str) -> Failure:
        """Save that a sequence, which is all of a span, has no vector, and why."""
        row = self.pieces.row(span.start)
        failure = Failure(span.start, row, self.index.ids([row])[0], reason)
        self.store.write(Result.of_failures(span, [failure], per_token=self.encoder.per_token))
        return failure

    @property
    def attributes(self) -> dict[str, Any]:
        """What the file of results says of where it comes from."""
        encoder = self.manifest.encoder
        told = {name: encoder[name] for name in ("model", "dtype", "layer") if encoder[name] is not None}
        return {
            **told,
            "model_arguments": json.dumps(encoder["arguments"], sort_keys=True),
            "index": self.manifest.index,
            "plan": self.manifest.plan,
            "run": self.manifest.run,
            "created": self.manifest.created,
            "files": json.dumps(self.manifest.paths),
            "seekset": version("seekset"),
        }


def _planned(
    index: SequenceIndex, facts: Mapping[str, Any], *, max_tokens: int, max_length: int | None, overflow: str
) -> Plan:
    most = facts["max_length"] if max_length is None else max_length
    specials = facts["around"]
    longest = int(index.lengths[0]) if len(index) else 0
    if overflow == "error" and most is not None and longest > most:
        raise MismatchError(
            f"{index.entry(0).file_path}: sequence {index.entry(0).id} has {longest} residues, but at most {most} are "
            "allowed; with overflow truncate, longer ones are cut"
        )
    longest = longest if most is None else min(longest, most)
    return Plan.by_rules(
        index,
        # No batch of a plan is smaller than the longest sequence. When it is computed it is cut to what was asked for
        # (`Pieces`), so that one long sequence does not make all batches as large as itself.
        max_tokens=max(max_tokens, longest + specials),
        max_length=most,
        specials=specials,
        overflow=overflow,
        overlap=0,
        layout=facts["layout"],
    )
