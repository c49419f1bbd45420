"""A request: what somebody wants embedded, by which encoder, where, and how patiently."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from seekset.errors import MismatchError
from seekset.inference.devices import named_devices, parse_devices
from seekset.inference.job import EncoderOptions
from seekset.inference.policy import Policy
from seekset.limits import limit, whole_number

__all__ = ["Backend", "Request", "Schedule"]

Backend = Literal["local", "ray", "torchrun"]
Schedule = Literal["queue", "stride"]
RowOrder = Literal["input", "length"]

_ENCODER = ("model", "dtype", "layer", "per_token", "trust_remote_code", "unsafe_weights")
_POLICY = ("batch_timeout", "load_timeout", "most_deaths", "backoff", "grace")


@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted. Everything that does not decide what vectors come out may change from run to run.

    Args:
        files: FASTA files; none to take those of the run that is resumed.
        folder: Where everything goes.
        encoder: Which encoder.
        max_tokens: The most tokens of a batch.
        max_length: The most letters of a sequence; the encoder's own limit if not given.
        overflow: What becomes of longer ones: they are cut, or refused.
        devices: ``"0,1"``, ``"cpu,cpu"``; every GPU, else one worker on the processor, if not given.
        world_size: How many workers, if the devices are not named.
        schedule: Whether workers take from one queue, or have fixed shares.
        backend: Where workers run.
        address: Of a Ray cluster.
        resume: Go on with what the folder holds.
        restart: Start over, and remove what the folder holds of an earlier run.
        order: The order of ``embeddings.h5``: that of the files, or by length.
        output_dtype: ``"float32"`` or ``"float16"``; what the encoder gives if not given.
        policy: How patient to be with workers.
    """

    files: tuple[str, ...]
    folder: Path
    encoder: EncoderOptions = field(default_factory=EncoderOptions)
    max_tokens: int = 16384
    max_length: int | None = None
    overflow: Literal["truncate", "error"] = "truncate"
    devices: str | tuple[str, ...] | None = None
    world_size: int | None = None
    schedule: Schedule = "queue"
    backend: Backend = "local"
    address: str | None = None
    resume: bool = False
    restart: bool = False
    order: RowOrder = "input"
    output_dtype: str | None = None
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        # Numbers of numpy become Python's, which a manifest can hold.
        object.__setattr__(self, "max_tokens", whole_number(self.max_tokens, "max_tokens"))
        object.__setattr__(self, "max_length", limit(self.max_length, "max_length"))
        for name, kinds in (("schedule", Schedule), ("backend", Backend), ("order", RowOrder)):
            if getattr(self, name) not in (known := get_args(kinds)):
                raise MismatchError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        if self.overflow not in ("truncate", "error"):
            raise MismatchError(f"overflow must be truncate or error, not {self.overflow!r}")
        if self.output_dtype not in (None, "float32", "float16"):
            raise MismatchError(f"output_dtype must be float32 or float16, not {self.output_dtype!r}")
        if not isinstance(self.encoder.model, str) or not self.encoder.model:
            raise MismatchError(f"model must be kmer, a folder or name, or MODULE:NAME, not {self.encoder.model!r}")
        self._check_devices()
        if self.resume and self.restart:
            raise MismatchError("a run is resumed or started over, not both")
        if not self.files and not self.resume:
            raise MismatchError("no FASTA file was given")

    def _check_devices(self) -> None:
        """Refuse devices that can't be had here, as far as that can be told before anything is started."""
        if self.backend == "torchrun" and self.devices not in (None, "cpu", "cuda", ("cpu",), ("cuda",)):
            raise MismatchError(
                f"under torchrun, each rank has the GPU of its number: devices is cpu, or not given, not {self.devices}"
            )
        if self.backend == "ray" and self.devices is not None:
            named_devices(self.devices, count=self.world_size)
        if self.backend == "local" and (self.devices, self.world_size) != (None, None):
            parse_devices(self.devices, count=self.world_size)

    @classmethod
    def of(
        cls, files: Sequence[str | os.PathLike[str]], folder: str | os.PathLike[str], config: Mapping[str, Any]
    ) -> Request:
        """A request from a flat mapping of options, named as on the command line.

        >>> request = Request.of(["proteins.fa"], "out", {"model": "kmer", "model_args": {"k": 3}, "devices": ["cpu"]})
        >>> request.encoder.model, request.encoder.arguments, request.devices
        ('kmer', {'k': '3'}, ('cpu',))
        >>> Request.of(["proteins.fa"], "out", {"modle": "kmer"})
        Traceback (most recent call last):
        seekset.errors.MismatchError: there is no option 'modle'; the nearest is 'model'
        """
        options = dict(config)
        given = options.pop("model_args", {})
        if not isinstance(given, Mapping):
            raise MismatchError(f"model_args must be a mapping such as {{'k': 3}}, not {given!r}")
        if names := [name for name in given if not isinstance(name, str)]:
            raise TypeError(f"model_args must have names that are text, not {names[0]!r}")
        arguments = {name: str(value) for name, value in given.items()}
        encoder = {name: options.pop(name) for name in _ENCODER if name in options}
        policy = {name: options.pop(name) for name in _POLICY if options.get(name) is not None}
        known = set(cls.__dataclass_fields__) - {"files", "folder", "encoder", "policy"}
        _refuse_unknown(options, known | set(_ENCODER) | set(_POLICY) | {"model_args"})
        if isinstance(options.get("devices"), (list, tuple)):
            options["devices"] = tuple(map(str, options["devices"]))
        if isinstance(encoder.get("model"), os.PathLike):
            encoder["model"] = os.fspath(encoder["model"])
        return cls(
            tuple(os.fspath(file) for file in files),
            Path(folder),
            EncoderOptions(**encoder, arguments=arguments),
            policy=Policy(**policy),
            **{name: value for name, value in options.items() if name in known},
        )


def _refuse_unknown(options: Mapping[str, Any], known: set[str]) -> None:
    from difflib import get_close_matches

    for name in options:
        if name not in known:
            near = get_close_matches(name, sorted(known), 1)
            hint = f"the nearest is {near[0]!r}" if near else f"there are {', '.join(sorted(known))}"
            raise MismatchError(f"there is no option {name!r}; {hint}")
