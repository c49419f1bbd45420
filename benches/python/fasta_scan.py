"""The bare scan, timed by the binary of ``benches/rust``, which holds helicase and the core of seekset."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from contest import Row, Times
from data import BENCHES, Size

_BINARY = BENCHES / "rust" / "target" / "release" / "seekset-bench"
REPEATS = 7

# Threads of helicase, threads of seekset, and how many times faster seekset is to be.
_PAIRS = ((1, 1, 1.0), (1, 2, 1.7), (2, 2, None))


def rows(size: Size) -> list[Row]:
    """Scan both files."""
    return [*_rows("Bare scan, proteins", size.proteins_path), *_rows("Bare scan, genome", size.genome_path)]


def _rows(title: str, path: Path) -> list[Row]:
    if not _BINARY.exists():
        raise FileNotFoundError(f"{_BINARY} is not there: run `make bench-rust`")
    # The binary itself lets the contestants take turns, and fails if they do not agree.
    output = subprocess.run([_BINARY, path, str(REPEATS)], check=True, stdout=subprocess.PIPE).stdout
    times = {(found["name"], found["threads"]): Times(found["seconds"]) for found in json.loads(output)["contestants"]}
    return [
        Row(f"{title}, {_threads(ours)}", f"helicase, {_threads(theirs)}", times["helicase", theirs], own, goal)
        for theirs, ours, goal in _PAIRS
        for own in [times["seekset", ours]]
    ]


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
