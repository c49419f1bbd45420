"""Indexes for many files at once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from seekset import _core
from seekset.errors import SeeksetError

__all__ = ["IndexFault", "IndexReport", "Progress", "index_files", "side_by_side"]

_T = TypeVar("_T")


class IndexReport(NamedTuple):
    """What became of one file."""

    path: Path
    index_path: Path
    records: int
    letters: int
    file_bytes: int
    seconds: float
    built: bool
    repeated_ids: int
    remark: str | None


class IndexFault(NamedTuple):
    """Why one file got no index."""

    path: Path
    error: SeeksetError | OSError


class Progress:
    """Bytes done over all files; also how the workers are told to stop."""

    def __init__(self, files: Sequence[Path], told: Callable[[int, int], object] | None) -> None:
        # What is no file is told by whoever tries to read it.
        self.sizes: dict[Path, int] = {file: file.stat().st_size if file.is_file() else 0 for file in files}
        self.stop = False
        self._told = told
        self._done: dict[Path, int] = {}
        self._lock = threading.Lock()

    def of(self, path: Path) -> Callable[[int, int], None]:
        """The callback for one file, whose bytes may be inflated ones."""

        def tell(done: int, total: int) -> None:
            if self.stop:
                raise KeyboardInterrupt
            with self._lock:
                self._done[path] = self.sizes[path] * done // max(total, 1)
                if self._told is not None:
                    self._told(sum(self._done.values()), sum(self.sizes.values()))

        return tell


def side_by_side(
    files: Sequence[Path],
    work: Callable[[Path, Callable[[int, int], None]], _T],
    *,
    watch: Progress,
    jobs: int | None = None,
) -> Iterator[_T]:
    """Do ``work(file, tell)`` for several files at a time and yield what comes; the first error ends it."""
    with ThreadPoolExecutor(max_workers=max(1, min(len(files), jobs or _core.threads()))) as pool:
        waiting = [pool.submit(work, file, watch.of(file)) for file in files]
        try:
            for ready in as_completed(waiting):
                yield ready.result()
        finally:
            watch.stop = True
            for future in waiting:
                future.cancel()


def index_files(
    paths: Sequence[str | os.PathLike[str]],
    *,
    index: str | os.PathLike[str] | None = None,
    force: bool = False,
    verify: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[IndexReport | IndexFault]:
    """Make what indexes are missing or stale and yield a report per file, as they get ready.

    Files are worked on side by side and each by several threads. ``force`` builds every index anew, ``verify`` reads
    each one through and compares its checksums. A file that can't be indexed is a fault among the reports and does not
    keep the others from theirs.

    >>> [(report.path.name, report.records) for report in index_files(["proteins.fa"])]
    [('proteins.fa', 3)]
    """
    files = [Path(path) for path in paths]
    watch = Progress(files, progress)

    def one(file: Path, tell: Callable[[int, int], None]) -> IndexReport | IndexFault:
        try:
            return report(file, tell)
        except (SeeksetError, OSError) as error:
            return IndexFault(file, error)

    def report(file: Path, tell: Callable[[int, int], None]) -> IndexReport:
        start = time.perf_counter()
        core = _core.Fasta(file, index=index, force=force, allow_memory=False, progress=tell)
        seconds = time.perf_counter() - start
        if verify:
            core.verify()
        tell(1, 1)
        letters = int(np.frombuffer(cast("Any", core.lengths()), dtype="<i8").sum())
        return IndexReport(
            path=file,
            index_path=core.index_path,
            records=len(core),
            letters=letters,
            file_bytes=watch.sizes[file],
            seconds=seconds,
            built=core.origin[0] == "built",
            repeated_ids=core.repeated_ids,
            remark=core.remark,
        )

    yield from side_by_side(files, one, watch=watch)
