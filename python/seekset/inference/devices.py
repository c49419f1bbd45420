"""The devices that workers run on: which there are, and what a process must be told to see just one."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from seekset.errors import MismatchError, SeeksetWarning, in_one_line
from seekset.limits import whole_number

__all__ = ["Device", "find_gpus", "named_devices", "parse_devices"]

_VISIBLE = "CUDA_VISIBLE_DEVICES"
# What libraries ask for how many threads to use.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "SEEKSET_THREADS")
# How many seconds the driver's program may take.
_PATIENCE = 30


class Device(NamedTuple):
    """One worker's device: a processor, or a GPU by the name that CUDA knows it by.

    >>> Device("cuda", "3").name, Device("cuda", "3").inside, Device("cpu").name
    ('cuda:3', 'cuda:0', 'cpu')
    """

    kind: Literal["cpu", "cuda"]
    id: str | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return self.kind if self.id is None else f"{self.kind}:{self.id}"

    @property
    def inside(self) -> str:
        """What it is called in the process that sees no other."""
        return "cpu" if self.kind == "cpu" else "cuda:0"

    def environment(self, threads: int) -> dict[str, str]:
        """What a process has to find in its environment, before torch is imported, to see this device alone.

        >>> Device("cuda", "3").environment(4)["CUDA_VISIBLE_DEVICES"]
        '3'
        """
        counted = dict.fromkeys(_THREADS, str(max(threads, 1)))
        # Numbers from the driver are in the order of the bus; whoever has set which are visible has an order of theirs.
        order = {} if _VISIBLE in os.environ else {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return {_VISIBLE: self.id or "", **order, **counted}


def parse_devices(wanted: str | Sequence[str | int] | None, *, count: int | None = None) -> list[Device]:
    """The devices that words such as ``2,3``, ``cuda:0`` or ``cpu,cpu`` name; all GPUs, else one processor, if none do.

    GPUs are counted among those that ``CUDA_VISIBLE_DEVICES`` leaves visible. ``count`` takes the first so many of what
    is there, or as many processes on the processor where there is no GPU.

    >>> [device.name for device in parse_devices("cpu,cpu")]
    ['cpu', 'cpu']
    """
    if wanted is None:
        gpus = [Device("cuda", name) for name in find_gpus()]
        if count is None:
            return gpus or [Device("cpu")]
        if gpus and whole_number(count, "world_size") > len(gpus):
            raise MismatchError(f"{count} workers were asked for, but there are {len(gpus)} GPUs: {_listed(gpus)}")
        return gpus[:count] or [Device("cpu")] * whole_number(count, "world_size")
    return _checked([_parsed(word) for word in _words(wanted)], wanted, count)


def named_devices(wanted: str | Sequence[str | int], *, count: int | None = None) -> list[Device]:
    """What words such as ``cpu,cpu``, ``cuda,cuda`` or ``0,1`` ask for where others decide which GPU that is.

    >>> [device.name for device in named_devices("cpu,cuda,3")]
    ['cpu', 'cuda', 'cuda']
    """
    return _checked([Device(_kind(word)) for word in _words(wanted)], wanted, count)


def _words(wanted: str | Sequence[str | int]) -> list[str]:
    words = wanted.split(",") if isinstance(wanted, str) else list(map(str, wanted))
    return [word.strip() for word in words if word.strip()]


def _checked(devices: list[Device], wanted: object, count: int | None) -> list[Device]:
    if not devices:
        raise MismatchError(f"expected devices such as 0,1 or cpu,cpu, found {wanted!r}")
    if count is not None and count != len(devices):
        raise MismatchError(f"{count} workers were asked for, but {len(devices)} devices are named: {_listed(devices)}")
    return devices


def _kind(word: str) -> Literal["cpu", "cuda"]:
    if word.lower() == "cpu":
        return "cpu"
    name = word.removeprefix("cuda:")
    if word == "cuda" or name.isdigit() or name.startswith(("GPU-", "MIG-")):
        return "cuda"
    raise _unknown(word)


def _unknown(word: str) -> MismatchError:
    return MismatchError(f"device {word!r}: expected cpu, a number, cuda:NUMBER or the UUID of a GPU")


def _parsed(word: str) -> Device:
    if _kind(word) == "cpu":
        return Device("cpu")
    name = word.removeprefix("cuda:")
    there = find_gpus()
    if name.isdigit():
        if int(name) >= len(there):
            found = f"there are {len(there)}: 0 to {len(there) - 1}" if there else "there is none: use cpu"
            raise MismatchError(f"device {word!r}: there is no such GPU; {found}")
        return Device("cuda", there[int(name)])
    if name.startswith(("GPU-", "MIG-")):
        return Device("cuda", name)
    raise _unknown(word)


def find_gpus(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The GPUs that a process started here may use, by the names that CUDA knows them by; torch is not asked.

    >>> find_gpus({"CUDA_VISIBLE_DEVICES": "4,6"}), find_gpus({"CUDA_VISIBLE_DEVICES": ""})
    (['4', '6'], [])
    """
    visible = environment.get(_VISIBLE)
    if visible is not None:
        names = [name.strip() for name in visible.split(",")]
        # CUDA takes what comes before the first that is none.
        end = next((k for k, name in enumerate(names) if not name or name.startswith("-")), len(names))
        return names[:end]
    program = shutil.which("nvidia-smi")
    return [] if program is None else list(_listed_by(program))


@cache
def _listed_by(program: str) -> tuple[str, ...]:
    """The GPUs that the driver's program tells of. It is asked once: all who ask are told the same, a failure too."""
    try:
        told = subprocess.run(  # noqa: S603 (found on the path, no words of others)
            [program, "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        warnings.warn(
            f"{program} is there, but does not say which GPUs there are ({_why(error)}): none is used. "
            f"Name them in {_VISIBLE}, such as 0,1, or give --devices cpu to do without",
            SeeksetWarning,
            stacklevel=3,
        )
        return ()
    return tuple(line.strip() for line in told.stdout.splitlines() if line.strip().isdigit())


def _why(error: Exception) -> str:
    """What is wrong with a program that failed, in a few words."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it took longer than {_PATIENCE} s"
    if isinstance(error, subprocess.CalledProcessError):
        said = f"{error.stdout}\n{error.stderr}".strip().splitlines()[:1]
        return ": ".join([f"exit code {error.returncode}", *said])
    return getattr(error, "strerror", None) or in_one_line(error)


def _listed(devices: Sequence[Device]) -> str:
    return ", ".join(device.name for device in devices)
