"""What workers and their coordinator say to each other, whichever way it travels."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from seekset.errors import SeeksetError, StaleIndexError
from seekset.inference.results import Failure, Span

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Begun",
    "Command",
    "Died",
    "Event",
    "Fault",
    "Finished",
    "MachineError",
    "Raised",
    "Ready",
    "SetAside",
    "Start",
    "Started",
    "Stop",
    "WidthError",
    "Work",
    "classify",
    "is_lasting",
]

Fault = Literal["encoder", "loading", "data", "room", "machine", "width"]
"""Whose fault an error is: the encoder's with these sequences, the encoder's at all, the data's, the disk's, which is
full, the machine's, which can't read sequences or save results, or the encoder's whose vectors differ in width."""


class Start(NamedTuple):
    """Be a worker: the job's folder, the device as the worker sees it, and its rank."""

    folder: Path
    device: str
    rank: int


class Work(NamedTuple):
    """Encode a span."""

    span: Span


class Stop(NamedTuple):
    """Finish the batch, save what is done, and end."""


Command: TypeAlias = Start | Work | Stop


class Started(NamedTuple):
    """The worker's process is there, and loads the encoder."""

    rank: int
    device: str
    pid: int


class Ready(NamedTuple):
    """The encoder is loaded."""

    rank: int


class Begun(NamedTuple):
    """A batch begins: the worker is not hung."""

    rank: int


class SetAside(NamedTuple):
    """A sequence has no vector."""

    rank: int
    failure: Failure


class Finished(NamedTuple):
    """A span, or its start, is saved."""

    rank: int
    span: Span
    sequences: int
    tokens: int


class Raised(NamedTuple):
    """Something went wrong. With ``ends``, the worker can't go on, either."""

    rank: int
    fault: Fault
    reason: str
    ends: bool = False


class Died(NamedTuple):
    """The worker is gone, and how it ended; ``innocent`` if its span can't have been the cause.

    With ``lost``, it was not even the worker's process that ended, but what it ran in; with ``left``, it does not end,
    though it was killed, and is left behind.
    """

    rank: int
    how: str
    innocent: bool
    lost: bool = False
    left: bool = False


Event: TypeAlias = Started | Ready | Begun | SetAside | Finished | Raised | Died


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class MachineError(SeeksetError):
    """Sequences can't be read, or results can't be saved; the encoder has nothing to do with it."""


class WidthError(SeeksetError):
    """Vectors of different widths: no sequence is at fault, and no file could hold them all."""


def classify(error: BaseException) -> tuple[Fault, str]:
    """Whose fault an error is, and what it says in one short line.

    >>> classify(ValueError("not this one"))
    ('encoder', 'ValueError: not this one')
    """
    text = " ".join(str(error).split())[:1000]
    if isinstance(error, MachineError):
        cause = error.__cause__
        if isinstance(cause, (StaleIndexError, FileNotFoundError)):
            return "data", text
        return "room" if isinstance(cause, OSError) and cause.errno in _NO_ROOM else "machine", text
    if isinstance(error, WidthError):
        return "width", text
    return "encoder", f"{type(error).__name__}: {text}" if text else type(error).__name__


# How drivers and libraries say it, of Nvidia's devices and of AMD's; torch, JAX and CuPy pass it on as it is.
_BROKEN = re.compile(
    r"\b((cuda|hip)([ _]?error|[ _]failure)|(cudnn|miopen)[ _]?(error|status)|(cublas|hipblas)_status)", re.IGNORECASE
)


def is_lasting(error: BaseException | None) -> bool:
    """Whether every batch of this process would fail from now on: what it has on a device does not get over an error.

    That is told by what an error says, or one that it was raised for.

    >>> is_lasting(RuntimeError("CUDA error: device-side assert triggered")), is_lasting(RuntimeError("no such layer"))
    (True, False)
    """
    seen = set[int]()
    while error is not None and id(error) not in seen:
        if _BROKEN.search(str(error)):
            return True
        seen.add(id(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False
