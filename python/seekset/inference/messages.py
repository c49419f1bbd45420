"""What workers and their coordinator say to each other, whichever way it travels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from seekset.inference.results import Failure, Span

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Begun",
    "Died",
    "Event",
    "Fault",
    "Finished",
    "Order",
    "Raised",
    "Ready",
    "Start",
    "Started",
    "Stop",
    "Work",
    "classify",
]

Fault = Literal["encoder", "loading", "data", "room"]
"""Whose fault an error is: the encoder's with these sequences, the encoder's at all, the data's, or the disk's."""


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


Order: TypeAlias = Start | Work | Stop


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


class Finished(NamedTuple):
    """A span, or its start, is saved."""

    rank: int
    span: Span
    sequences: int
    tokens: int
    failures: list[Failure]


class Raised(NamedTuple):
    """Something went wrong. With ``ends``, the worker can't go on, either."""

    rank: int
    fault: Fault
    reason: str
    ends: bool = False


class Died(NamedTuple):
    """The worker is gone. Its exit code, or how else it ended; ``innocent`` if its span can't have been the cause."""

    rank: int
    how: str
    innocent: bool


Event: TypeAlias = Started | Ready | Begun | Finished | Raised | Died


def classify(error: BaseException) -> tuple[Fault, str]:
    """Whose fault an error is, and what it says in one line."""
    import errno

    from seekset.errors import StaleIndexError

    text = " ".join(str(error).split())[:1000]
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, StaleIndexError):
        return "data", text
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "room", text
    return "encoder", reason
