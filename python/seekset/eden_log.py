"""Which windows a run has read, from the logs that its processes wrote."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from seekset.errors import FormatError, MismatchError
from seekset.files import AnyPath, as_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Coverage", "LogFile", "RankReads", "find_logs", "read_coverage"]

_NAME = re.compile(r"window_access_(?P<split>.+)_rank(?P<rank>\d+)_[0-9A-Za-z]{8}\.csv")

# Rows that are in memory at a time.
_ROWS = 1 << 16


class LogFile(NamedTuple):
    """A log, and what its name says."""

    path: Path
    split: str
    rank: int


class RankReads(NamedTuple):
    """What a rank has read."""

    rank: int
    files: int
    reads: int
    windows: int  # different ones


class Coverage(NamedTuple):
    """How often each window was read, and by whom."""

    counts: NDArray[np.uint32]
    ranks: list[RankReads]
    cut: list[Path]  # logs whose last line is not all there

    @property
    def reads(self) -> int:
        """All reads."""
        return int(self.counts.sum(dtype=np.int64))

    @property
    def seen(self) -> int:
        """Windows that were read at all."""
        return int(np.count_nonzero(self.counts))

    def times(self) -> dict[int, int]:
        """How many windows were read how often."""
        often, windows = np.unique(self.counts, return_counts=True)
        return dict(zip(often.tolist(), windows.tolist(), strict=True))


def find_logs(folder: AnyPath) -> list[LogFile]:
    """The logs in a folder, by split and rank.

    >>> from pathlib import Path
    >>> Path("window_access_train_rank0_0123abcd.csv").touch()
    >>> find_logs(".")
    [LogFile(path=PosixPath('window_access_train_rank0_0123abcd.csv'), split='train', rank=0)]
    """
    found = []
    for path in as_path(folder).iterdir():
        name = _NAME.fullmatch(path.name)
        if name is not None:
            found.append(LogFile(path, name["split"], int(name["rank"])))
    return sorted(found, key=lambda log: (log.split, log.rank, log.path))


def read_coverage(logs: list[LogFile], windows: int) -> Coverage:
    r"""How often each of so many windows was read, from logs of one split.

    A last line that was cut is left out: whoever wrote it was stopped.

    >>> from pathlib import Path
    >>> log = Path("window_access_train_rank0_0123abcd.csv")
    >>> _ = log.write_text("window_idx,sequence_id\n2,a\n0,a\n2,a\n1")
    >>> coverage = read_coverage(find_logs("."), windows=4)
    >>> coverage.counts.tolist(), coverage.cut
    ([1, 0, 2, 0], [PosixPath('window_access_train_rank0_0123abcd.csv')])
    """
    counts = np.zeros(windows, dtype=np.uint32)
    ranks, cut = [], []
    for rank in sorted({log.rank for log in logs}):
        # One rank at a time: a mark for each window is all that is in memory besides the counts.
        met = np.zeros(windows, dtype=np.bool_)
        mine = [log.path for log in logs if log.rank == rank]
        reads = 0
        for path in mine:
            whole = _Lines(path)
            for numbers in _numbers(path, whole, windows):
                np.add.at(counts, numbers, np.uint32(1))
                met[numbers] = True
                reads += len(numbers)
            if whole.cut:
                cut.append(path)
        ranks.append(RankReads(rank, len(mine), reads, int(np.count_nonzero(met))))
    return Coverage(counts, ranks, cut)


class _Lines:
    """The lines of a log that are whole."""

    def __init__(self, path: Path) -> None:
        self.path, self.cut = path, False

    def __iter__(self) -> Iterator[str]:
        with self.path.open(encoding="utf-8", errors="replace", newline="") as file:
            for line in file:
                if not line.endswith("\n"):
                    self.cut = True
                    return
                yield line


def _numbers(path: Path, lines: _Lines, windows: int) -> Iterator[NDArray[np.int64]]:
    """The windows of a log, some at a time."""
    rows = csv.reader(lines)
    heads = next(rows, None)
    if heads is None:
        return
    if "window_idx" not in heads:
        raise FormatError(f"{path}: line 1: expected a column window_idx, found {', '.join(heads)}")
    column = heads.index("window_idx")
    some: list[int] = []
    for row in rows:
        try:
            number = int(row[column])
        except (IndexError, ValueError):
            found = ",".join(row)
            raise FormatError(
                f"{path}: line {rows.line_num}: expected the number of a window, found {found!r}"
            ) from None
        if not 0 <= number < windows:
            raise MismatchError(
                f"{path}: line {rows.line_num}: window {number} is none of the database, which has {windows}; the log "
                "is of another one"
            )
        some.append(number)
        if len(some) == _ROWS:
            yield np.array(some, dtype=np.int64)
            some.clear()
    yield np.array(some, dtype=np.int64)
