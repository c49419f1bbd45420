"""The page cache: files are dropped from it, and what is still in it is counted.

``posix_fadvise`` is a wish: pages that are dirty or that a process has mapped and touched stay where they are. So files
are synced first, and ``mincore`` is asked afterwards. Nothing counts as cold that was not seen to be.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

# Pages that a process had mapped until a moment ago, or that are being read ahead, are not dropped at the first try.
_TRIES, _PAUSE = 50, 0.1

# A reader that has opened its files keeps the pages that it touched by that: so many of a file, or this share of it.
_SPARED, _SHARE = 32, 0.01

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class NotColdError(Exception):
    """A file could not be dropped from the page cache, so that nothing cold can be measured."""


def drop(paths: Iterable[Path]) -> None:
    """Ask for files, and all files of folders, to be dropped; who wants to know whether they were asks ``check``."""
    for path in _files(paths):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def make_cold(paths: Iterable[Path]) -> None:
    """Drop files until all but the few pages that opening touched are gone."""
    waiting = list(_files(paths))
    for _ in range(_TRIES):
        drop(waiting)
        waiting = [path for path in waiting if not is_cold(path)]
        if not waiting:
            return
        time.sleep(_PAUSE)
    here, pages = resident(waiting[0])
    raise NotColdError(f"not cold: {here} of the {pages} pages of {waiting[0].name} stay in the page cache")


def is_cold(path: Path) -> bool:
    """Whether next to nothing of a file is in the page cache."""
    here, pages = resident(path)
    return here <= max(_SPARED, _SHARE * pages)


def resident(path: Path) -> tuple[int, int]:
    """How many pages of a file are in the page cache, and how many it has.

    Of a file that is neither its own nor writable, the kernel tells a process that all of it is.
    """
    size = path.stat().st_size
    if not size:
        return 0, 0
    found = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    # A private map that could be written to: only of such a one does Python tell the address. Nobody touches it.
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        first = ctypes.c_ubyte.from_buffer(mapped)
        failed = _libc.mincore(ctypes.addressof(first), size, found)
        del first  # a map that is pointed into can't be closed
    if failed:
        raise OSError(ctypes.get_errno(), f"mincore: {os.strerror(ctypes.get_errno())}", str(path))
    return sum(page & 1 for page in bytes(found)), len(found)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from (inner for inner in path.rglob("*") if inner.is_file())
        elif path.exists():
            yield path
