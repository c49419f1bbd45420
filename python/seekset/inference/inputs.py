"""The input of a run: its FASTA files, each known by its content."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seekset import _core
from seekset.errors import MismatchError, StaleIndexError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Input", "same_inputs"]


@dataclass(frozen=True, slots=True)
class Input:
    r"""A file, and what tells whether it is still the same: a digest of all its bytes.

    An index knows lengths and places, and no letter. Size and time spare to read all of a file again.

    >>> from pathlib import Path
    >>> _ = Path("mine.fa").write_text(">a\nMKVLA\n"), Path("theirs.fa").write_text(">a\nALVKM\n")
    >>> same_inputs([Path("theirs.fa")], [Input.read(Path("mine.fa"))])
    Traceback (most recent call last):
    seekset.errors.MismatchError: the content of ...theirs.fa is not that of ...mine.fa when the run began (digest ...
    """

    path: str
    size: int
    mtime_ns: int
    digest: str

    @classmethod
    def read(cls, path: Path) -> Input:
        """A file as it is now, all of it. One that changes meanwhile is a ``StaleIndexError``."""
        size, time = _size_and_time(path)
        found = cls(_absolute(path), size, time, _core.file_digest(path))
        found.check()
        return found

    def again(self, path: Path) -> Input:
        """What is at a path now: this if it is the same path, size and time; else it is read."""
        untouched = (self.path, self.size, self.mtime_ns) == (_absolute(path), *_size_and_time(path))
        return self if untouched else Input.read(path)

    def check(self) -> None:
        """Raise a ``StaleIndexError`` if the file has another size or time by now."""
        size, time = _size_and_time(self.path)
        if (size, time) != (self.size, self.mtime_ns):
            raise StaleIndexError(
                f"{self.path}: it has changed while the run was prepared: expected {self.size} bytes of time "
                f"{self.mtime_ns}, found {size} of time {time}"
            )


def _size_and_time(path: str | Path) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 (of a text, too)
    return found.st_size, found.st_mtime_ns


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 (a Path keeps its dots)


def same_inputs(files: Sequence[Path], begun: Sequence[Input]) -> list[Input]:
    """The files of a run where and as they are now; a ``MismatchError`` names the first with another content."""
    if len(files) != len(begun):
        raise MismatchError(f"it began with the content of {len(begun)} files, and {len(files)} are given")
    found = []
    for path, then in zip(files, begun, strict=True):
        now = then.again(path)
        if now.digest != then.digest:
            has = "has changed since" if now.path == then.path else f"is not that of {then.path} when"
            raise MismatchError(
                f"the content of {now.path} {has} the run began (digest {then.digest}, now {now.digest})"
            )
        found.append(now)
    return found
