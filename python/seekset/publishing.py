"""Results on their way to the disk: written beside their name, made sure of, then renamed."""

from __future__ import annotations

import errno
import os
import platform
import re
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from seekset.errors import MismatchError
from seekset.files import is_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["is_running", "published", "refuse_to_replace", "sweep"]

# Who writes it is in the name, so that what a killed process left is told from what another is writing.
_PART = re.compile(r"\.(?P<target>.+)\.(?P<host>[^.]+)\.(?P<pid>[1-9][0-9]{0,9})\.[0-9a-f]{8}\.part", re.ASCII)
# A name has at most 255 bytes, and so much of it is the writer's.
_LONGEST = 120
# So much of a file tells what it is.
_START = 1 << 12
# What the system says of writing alone, and without a name.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def published(target: Path) -> Iterator[Path]:
    """A path to write to, beside ``target``; what was written there then takes its place, or after an error goes away.

    The file is on the disk before it is renamed, and its name is when this ends. Any number of processes may do so for
    one target: each has a path of its own, and the last one's file stays.

    >>> with published(Path("a.txt")) as part:
    ...     _ = part.write_text("all of it")
    >>> Path("a.txt").read_text()
    'all of it'
    """
    part = target.with_name(f".{_short(target.name)}.{_host()}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        yield part
        _sync(part)
        part.replace(target)
    except BaseException as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        _tell_of(target, part, error)
        raise
    _sync(target.parent)


def _tell_of(target: Path, part: Path, error: BaseException) -> None:
    """Let an error name the file that was wanted: of the one beside it, nobody else knows."""
    error.args = tuple(arg.replace(str(part), str(target)) if isinstance(arg, str) else arg for arg in error.args)
    if not isinstance(error, OSError):
        return
    if isinstance(error.strerror, str):
        error.strerror = error.strerror.replace(str(part), str(target))
    no_room = error.filename is None and error.errno in _NO_ROOM
    if no_room or (error.filename is not None and os.fspath(error.filename) == str(part)):
        error.filename, error.filename2 = str(target), None


def refuse_to_replace(target: Path, kind: str, ours: Callable[[bytes], bool]) -> None:
    """Raise a ``MismatchError`` if what is at ``target`` would be lost: what is there, not empty, and not ``ours``.

    Args:
        target: Where something is to be written.
        kind: What it is to be, for the message.
        ours: Whether a file that begins with these bytes is of that kind.

    >>> refuse_to_replace(Path("proteins.fa"), "picture", lambda start: start.startswith(b"GIF"))
    Traceback (most recent call last):
    seekset.errors.MismatchError: proteins.fa: it is there, is no picture, and is not replaced; give another path
    """
    if not os.path.lexists(target):
        return
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if target.is_file() and not is_stream(target):
        with target.open("rb") as file:
            start = file.read(_START)
        if not start or ours(start):
            return
    raise MismatchError(f"{target}: it is there, is no {kind}, and is not replaced; give another path")


def sweep(folder: Path, *, target: str | None = None, begun: float | None = None) -> list[Path]:
    """Remove what killed writers left in a folder, and list it.

    A writer is gone if it was on this machine and its process is not there any more. Of writers elsewhere, and of
    processes whose number has been given to another, nothing is known: what they left is removed if nobody has written
    to it since ``begun``, the time at which whoever asks made sure to be alone.

    Args:
        folder: Where to look.
        target: Only what would have become this file.
        begun: Seconds since 1970; without, only processes of this machine are asked for.
    """
    gone = []
    wanted = None if target is None else _short(target)
    for path in sorted(folder.iterdir()):
        found = _PART.fullmatch(path.name)
        if found is None or wanted not in (None, found["target"]):
            continue
        # Another one may sweep as well.
        with suppress(FileNotFoundError):
            ended = found["host"] == _host() and not is_running(int(found["pid"]))
            if ended or (begun is not None and path.stat().st_mtime < begun):
                path.unlink()
                gone.append(path)
    return gone


def _short(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:_LONGEST])


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "_", platform.node())[:64] or "_"


def is_running(pid: object) -> bool:
    """Whether there is a process of this number on this machine."""
    if not isinstance(pid, int) or pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    except OSError as error:
        # Some file systems have nothing to wait for in a folder, and say so.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            error.filename = str(path)
            raise
    finally:
        os.close(number)
