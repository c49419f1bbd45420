"""Rows that could not be read and were left out, counted over all processes of a loader."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from seekset.datasets.shared import slot_of

__all__ = ["Skipped", "SkippedPlace", "Skips"]

_SLOTS = 256
_KEPT = 64


class SkippedPlace(NamedTuple):
    """Where a record that was left out lies."""

    path: Path
    record: int
    offset: int


@dataclass(frozen=True)
class Skipped:
    """How often records were left out, and where the first ones of each process lie."""

    count: int
    places: list[SkippedPlace]


class Skips:
    """A counter and a list of rows for each worker, in shared memory: each has one writer, so that none waits.

    >>> skips = Skips()
    >>> skips.note(7)
    >>> skips.note(7)
    >>> skips.count, skips.rows()
    (2, [7])
    """

    def __init__(self) -> None:
        # A slot for the main process and one for each worker: how often, how many kept, and those.
        self._shared = torch.zeros((_SLOTS, 2 + _KEPT), dtype=torch.int64).share_memory_()

    def note(self, row: int) -> None:
        """Say that a row was left out."""
        slot = self._shared[slot_of(_SLOTS)]
        slot[0] += 1
        kept = int(slot[1])
        if kept < _KEPT and row not in slot[2 : 2 + kept].tolist():
            slot[2 + kept] = row
            slot[1] += 1

    @property
    def count(self) -> int:
        """How often any row was left out."""
        return int(self._shared[:, 0].sum())

    def rows(self) -> list[int]:
        """The rows that were left out, sorted; of each process the first few dozen."""
        return sorted({row for slot in self._shared.tolist() for row in slot[2 : 2 + slot[1]]})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._shared.share_memory_()
