"""The ledger of an epoch, kept by all processes of a loader together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

from seekset.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SharedLedger"]

_SLOTS = 1025
_EPOCH, _COUNT, _DIGEST = range(3)


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

    @property
    def _slots(self) -> NDArray[np.int64]:
        slots: NDArray[np.int64] = self._shared.numpy()
        return slots

    def _mine(self) -> NDArray[np.int64]:
        worker = get_worker_info()
        slot: NDArray[np.int64] = self._slots[0 if worker is None else 1 + worker.id % (_SLOTS - 1)]
        return slot

    def add(self, epoch: int, delivered: Ledger, *, first: bool = False) -> None:
        """Add what this process delivered; the first of an epoch begins anew."""
        if first:
            self.begin(epoch, delivered)
            return
        slot = self._mine()
        before = _ledger(slot) if slot[_EPOCH] == epoch + 1 else Ledger()
        _put(slot, epoch, before + delivered)

    def begin(self, epoch: int, delivered: Ledger) -> None:
        """Say what this process has delivered in all, when it begins or resumes.

        Then the main process and workers don't both deliver: what the others did before is of another pass.
        """
        worker = get_worker_info()
        if worker is None:
            self._slots[1:] = 0
        else:
            self._slots[0] = 0
            self._slots[1 + worker.num_workers :] = 0
        _put(self._mine(), epoch, delivered)

    def mine(self, epoch: int) -> Ledger:
        """What this process has delivered in an epoch."""
        slot = self._mine()
        return _ledger(slot) if slot[_EPOCH] == epoch + 1 else Ledger()

    def total(self, epoch: int) -> Ledger:
        """What all processes have delivered in an epoch."""
        return sum((_ledger(slot) for slot in self._slots if slot[_EPOCH] == epoch + 1), Ledger())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._shared.share_memory_()


def _put(slot: NDArray[np.int64], epoch: int, ledger: Ledger) -> None:
    slot[:] = (epoch + 1, ledger.count, np.uint64(ledger.digest).astype(np.int64))


def _ledger(slot: NDArray[np.int64]) -> Ledger:
    return Ledger(int(slot[_COUNT]), int(slot[_DIGEST].astype(np.uint64)))
