"""Rows of a pool that could not be read and were left out: which and why, told by all processes of a loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from seekset.datasets.shared import begin_slot, slot_of
from seekset.errors import MismatchError
from seekset.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KEPT", "LeftOut"]

KEPT = 32
"""Of so many rows each process says which they are and why; of all, how many."""

_SLOTS = 65
_BEFORE = "it was left out before the state was taken that this run goes on from"
_SLOT = np.dtype([("count", "<i8"), ("kept", [("number", "<i8"), ("reason", "S240")], (KEPT,))])


class LeftOut:
    """What was left out in a pass: the first rows of each worker in shared memory, and counts of this process' own.

    >>> rows = LeftOut(sources=2)
    >>> rows.begin(None)
    >>> rows.note(7, 1, "it is damaged")
    >>> rows.listed(), rows.by_source.tolist(), rows.state()["rows"]
    ([(7, 'it is damaged')], [0, 1], [7])
    """

    def __init__(self, sources: int, *, expected: bool = True) -> None:
        # Where nothing is to be left out there is nothing to share.
        slots = _SLOTS if expected else 2
        self._shared = torch.zeros((slots, _SLOT.itemsize), dtype=torch.uint8).share_memory_()
        self._sources = sources
        self.begin(None)

    def begin(self, before: dict[str, Any] | None) -> None:
        """Begin a pass, or go on with one in which rows were left out before."""
        begin_slot(self._shared)
        self.by_source: NDArray[np.int64] = np.zeros(self._sources, dtype=np.int64)
        self.ledger: Ledger = Ledger()
        if before is not None:
            for number in before["rows"]:
                self._keep(number, _BEFORE)
            self.by_source += before["by_source"]
            self.ledger = Ledger(int(self.by_source.sum()), before["digest"])

    def note(self, number: int, source: int, reason: str) -> None:
        """Say that a row was left out."""
        self._keep(number, reason)
        self.by_source[source] += 1
        self.ledger += Ledger.of([number])

    def _keep(self, number: int, reason: str) -> None:
        slot = self._slots[slot_of(len(self._shared))]
        if slot["count"] < KEPT:
            slot["kept"][slot["count"]] = (number, reason.encode())
            slot["count"] += 1

    @property
    def _slots(self) -> NDArray[Any]:
        slots: NDArray[Any] = self._shared.numpy().view(_SLOT)[:, 0]
        return slots

    def listed(self) -> list[tuple[int, str]]:
        """The rows that any process left out, with the reasons; of each process the first few dozen."""
        kept = [one for slot in self._slots for one in slot["kept"][: slot["count"]].tolist()]
        return sorted({number: reason.decode(errors="ignore") for number, reason in kept}.items())

    def state(self) -> dict[str, Any]:
        """What this process left out, for a state; nothing where it has left nothing out."""
        if not self.ledger.count:
            return {}
        slot = self._slots[slot_of(len(self._shared))]
        rows = slot["kept"]["number"][: slot["count"]].tolist()
        return {"by_source": self.by_source.tolist(), "digest": self.ledger.digest, "rows": rows}

    def check(self, found: Any, rows: int) -> None:
        """Refuse what is no such state, of a pool with so many rows."""
        sound = isinstance(found, dict) and all(_are_counts(found.get(name)) for name in ("by_source", "rows"))
        sound = sound and len(found["by_source"]) == self._sources and max(found["rows"], default=-1) < rows
        if not sound or not _are_counts([found.get("digest")]):
            raise MismatchError(f"state mismatch: skipped must say which rows were left out, found {found!r}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._shared.share_memory_()


def _are_counts(found: Any) -> bool:
    return isinstance(found, list) and all(type(one) is int and one >= 0 for one in found)
