"""The ledger of an epoch, kept by all processes of a loader together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from seekset.datasets.shared import begin_slot, slot_of
from seekset.ledger import Ledger

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SharedLedger"]

_SLOTS = 1025
_MODULUS = 2**64


class SharedLedger:
    """A slot of shared memory for each worker, with one writer each, so that none waits.

    >>> shared = SharedLedger()
    >>> shared.add(0, Ledger.of([1, 2]), first=True)
    >>> shared.add(0, Ledger.of([3]))
    >>> shared.total(0) == Ledger.of([3, 2, 1])
    True
    >>> shared.total(1)
    Ledger(count=0, digest=0)
    """

    def __init__(self) -> None:
        # The main process has the first slot. Epochs count from 1 there, so that an empty slot is of none.
        self._shared = torch.zeros((_SLOTS, 3), dtype=torch.int64).share_memory_()
        self._slots: NDArray[np.int64] = self._shared.numpy()

    def _mine(self) -> NDArray[np.int64]:
        slot: NDArray[np.int64] = self._slots[slot_of(_SLOTS)]
        return slot

    def add(self, epoch: int, delivered: Ledger, *, first: bool = False) -> None:
        """Add what this process delivered; the first of an epoch begins anew."""
        if first:
            self.begin(epoch, delivered)
        else:
            slot = self._mine()
            _put(slot, epoch, _of_epoch(slot.tolist(), epoch) + delivered)

    def begin(self, epoch: int, delivered: Ledger) -> None:
        """Say what this process has delivered in all, when it begins or resumes."""
        _put(self._slots[begin_slot(self._shared)], epoch, delivered)

    def mine(self, epoch: int) -> Ledger:
        """What this process has delivered in an epoch."""
        return _of_epoch(self._mine().tolist(), epoch)

    def total(self, epoch: int) -> Ledger:
        """What all processes have delivered in an epoch."""
        return sum((_of_epoch(slot, epoch) for slot in self._slots.tolist()), Ledger())

    def __getstate__(self) -> dict[str, Any]:
        return {"_shared": self._shared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._shared = state["_shared"].share_memory_()
        self._slots = self._shared.numpy()


def _of_epoch(slot: list[int], epoch: int) -> Ledger:
    kept, count, digest = slot
    return Ledger(count, digest % _MODULUS) if kept == epoch + 1 else Ledger()


def _put(slot: NDArray[np.int64], epoch: int, ledger: Ledger) -> None:
    # A digest has 64 bits without a sign, a slot has one.
    signed = ledger.digest - _MODULUS if ledger.digest >= _MODULUS // 2 else ledger.digest
    slot[:] = (epoch + 1, ledger.count, signed)
