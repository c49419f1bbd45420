"""Epochs of several readers, each in a process of its own: how long rows, first batches and gaps take, and memory."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contest import MEMORY, REPEATS, TIME, Answers, DisagreementError, Row, Task, Times, apart
from pool_shards import FIELDS

# An epoch that takes longer, in seconds, is not repeated.
_PATIENCE = 30

_MEASURED = (
    ("per_row", "Pool: time of an epoch by row", TIME),
    ("first", "Pool: first batch in a new process, from the data set's construction on", TIME),
    ("gap", "Pool: wait for a batch, the slowest of a hundred (p99)", TIME),
    ("peak", "Pool: peak of anonymous memory, with child processes, above what imports take", MEMORY),
)


class Reader(NamedTuple):
    """Who takes part. ``enter`` opens the data, in the reader's own process, and gives what begins an epoch.

    ``goal`` is how many times faster than this reader seekset is to be.
    """

    name: str
    enter: Callable[[], Callable[[], Iterable[Any]]]
    goal: float | None = None


class Epochs(NamedTuple):
    """What was measured of a reader in one process."""

    rows: int
    digest: int
    first: float
    per_row: float
    gap: float
    peak: int


def hold(title: str, readers: Sequence[Reader], count: int) -> list[Row]:
    """Let all readers take turns, and compare the first with each other one."""
    found: list[list[Epochs]] = [[] for _ in readers]
    for _ in range(REPEATS):
        for reader, mine in zip(readers, found, strict=True):
            if not mine or mine[0].per_row * count < _PATIENCE:
                mine.append(apart(_measured, reader.enter))
        _check(title, readers, [mine[-1] for mine in found], count)
    rows = []
    for what, section, measure in _MEASURED:
        own, *others = (Times([getattr(epochs, what) for epochs in mine]) for mine in found)
        for reader, theirs in zip(readers[1:], others, strict=True):
            goal = reader.goal if what == "per_row" else None
            rows.append(Row(title, reader.name, theirs, own, goal, section, measure))
    return rows


def first_epoch(enter: Callable[[], Callable[[], Iterable[Any]]], count: int) -> Task:
    """One epoch with the opening of its data, timed by row, for a contest of the usual kind."""
    import torch

    assert torch  # imported, so that it is no part of the first batch
    # Opened once before, so that imports are no part of it either; and let go of, because what is mapped stays cached.
    enter()
    gc.collect()

    def answers(_: int) -> Answers:
        rows, digests = zip(*map(_digest, enter()()), strict=True)
        return {"number of rows": str(sum(rows)), "rows": str(sum(digests) % 2**64)}

    return Task(lambda: sum(1 for _ in enter()()), answers, calls=count)


def _check(title: str, readers: Sequence[Reader], found: list[Epochs], count: int) -> None:
    for reader, epochs in zip(readers, found, strict=True):
        if epochs.rows != count:
            raise DisagreementError(f"{title}: {reader.name} gave {epochs.rows} rows of {count}")
        if epochs.digest != found[0].digest:
            raise DisagreementError(f"{title}: {reader.name} and {readers[0].name} do not agree on the rows")


def _measured(enter: Callable[[], Callable[[], Iterable[Any]]]) -> Epochs:
    """Two epochs: one for the first batch, the memory and the answers, one for the times."""
    import torch

    assert torch
    # Opened twice, so that neither time nor memory are those of imports.
    enter()
    before = _anonymous(os.getpid())
    start = time.perf_counter()
    begin = enter()
    first, peak, rows, digest = 0.0, 0, 0, 0
    for batch in begin():
        first = first or time.perf_counter() - start
        peak = max(peak, _anonymous_of_all(os.getpid()))
        count, digests = _digest(batch)
        rows, digest = rows + count, (digest + digests) % 2**64
    waits, last = [], time.perf_counter()
    start = last
    for batch in begin():
        now = time.perf_counter()
        waits.append(now - last)
        del batch  # who reads holds one batch, not two
        last = time.perf_counter()
    seconds = time.perf_counter() - start
    # What comes before the first batch is told apart.
    gap = float(np.quantile(waits[1:], 0.99))
    return Epochs(rows, digest, first, seconds / rows, gap, peak - before)


def _digest(batch: Any) -> tuple[int, int]:
    """How many rows there are, and a sum of hashes of them, which doesn't depend on their order."""
    from pool import as_columns

    columns = as_columns(batch)
    rows = len(columns["value"])
    flat = [columns[name].reshape(rows, -1).astype(np.float32).view(np.uint32) for name in FIELDS]
    words = np.concatenate(flat, axis=1).astype(np.uint64)
    weights = np.random.default_rng(1).integers(2**64, size=words.shape[1], dtype=np.uint64) | np.uint64(1)
    hashes = (words * weights).sum(axis=1, dtype=np.uint64)
    # A plain sum of sums would not see two rows that exchanged a field.
    hashes = (hashes ^ (hashes >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    hashes ^= hashes >> np.uint64(29)
    return rows, int(hashes.sum(dtype=np.uint64))


# --- memory -----------------------------------------------------------------------------------------------------------


def _anonymous_of_all(process: int) -> int:
    """Bytes of anonymous memory of a process and all below it: mapped files are not counted."""
    children = set()
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children |= {int(child) for child in path.read_text().split()}
        except OSError:
            continue
    return _anonymous(process) + sum(_anonymous_of_all(child) for child in children)


def _anonymous(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0  # it has just ended
    return next((1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")), 0)
