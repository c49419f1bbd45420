"""Which windows were read when: a CSV file for each process that reads them."""

from __future__ import annotations

import csv
import io
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["COLUMNS", "WindowLog"]

COLUMNS = ("window_idx", "sequence_id", "sample_id", "window_in_seq_idx", "rank", "access_ts")


class WindowLog:
    """A log that each process writes to a file of its own, which it makes when it first has something to write.

    The rows of a batch are one write that ends in the file, so that nothing has to be flushed: what was read before a
    process is stopped, or killed, is there.

    Args:
        folder: Where the files are; the working folder unless given.
        split: What stands in their names.
        rank: The rank, which stands there, too.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, split: str, rank: int = 0) -> None:
        self._folder = Path.cwd() if folder is None else Path(folder).absolute()
        self._split = split
        self._rank = rank
        self._opened: tuple[int, int] | None = None

    def write(self, rows: Iterable[tuple[int, str, str, int]]) -> None:
        """Add windows, each with its sequence, sample and number in the sequence, as read now."""
        now = time.time_ns()
        _write(self._file(), _lines((*row, self._rank, now) for row in rows))

    def _file(self) -> int:
        """The file of this very process: a forked child does not write to its parent's."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"window_access_{self._split}_rank{self._rank}_{uuid.uuid4().hex[:8]}.csv"
            file = os.open(self._folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666)
            _write(file, _lines([COLUMNS]))
            self._opened = (os.getpid(), file)
        return self._opened[1]

    def close(self) -> None:
        """Let go of this process's file."""
        if self._opened is not None and self._opened[0] == os.getpid():
            os.close(self._opened[1])
        self._opened = None

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def _write(file: int, content: bytes) -> None:
    """All of it: a disk that is nearly full takes a part, and says so only when it is asked again."""
    while content:
        content = content[os.write(file, content) :]


def _lines(rows: Iterable[tuple[Any, ...]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
