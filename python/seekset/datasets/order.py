"""The order of an epoch, shared by all processes of a loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from seekset._core import BalancedOrder, Permutation
from seekset.limits import whole_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Order"]


class Order:
    """Which row stands at which place: as in the files, or a permutation that seed and epoch give.

    Seed and epoch lie in shared memory, so that workers which were started in one epoch see the next.

    Args:
        count: How many rows there are.
        shuffle: Whether to permute them.
        seed: What the permutation is drawn from, with the epoch.
        ranks: Where neighbours are alike (batches sorted by tokens): among how many ranks these are shared out, so that
            every rank gets one of each.

    >>> import numpy as np
    >>> order = Order(10, shuffle=True, seed=0)
    >>> order.rows(np.arange(10))
    array([7, 3, 1, 8, 5, 4, 9, 2, 0, 6])
    >>> order.epoch = 1
    >>> order.rows(np.arange(10))
    array([3, 7, 5, 0, 1, 8, 9, 2, 4, 6])
    """

    def __init__(self, count: int, *, shuffle: bool = False, seed: int = 0, ranks: int | None = None) -> None:
        self._count = count
        self._shuffle = shuffle
        self._ranks = ranks
        self._shared = torch.zeros(2, dtype=torch.int64).share_memory_()
        self.seed = seed

    def of_other_rows(self, count: int) -> Order:
        """An order of another number of rows that has the same seed and epoch, whenever they change."""
        other = Order(count, shuffle=self._shuffle)
        other._shared = self._shared
        return other

    @property
    def shuffle(self) -> bool:
        """Whether the order is a permutation."""
        return self._shuffle

    @property
    def seed(self) -> int:
        """What the permutation is drawn from, with the epoch."""
        return int(self._shared[0])

    @seed.setter
    def seed(self, seed: int) -> None:
        self._shared[0] = whole_number(seed, "seed", least=0)

    @property
    def epoch(self) -> int:
        """The epoch, from 0."""
        return int(self._shared[1])

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._shared[1] = whole_number(epoch, "epoch", least=0)

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch, in all processes."""
        self.epoch = epoch

    def rows(self, places: NDArray[np.int64], epoch: int | None = None) -> NDArray[np.int64]:
        """The rows at some places; in another epoch than that under way, if it is given."""
        if not self._shuffle:
            return places
        seed, under_way = self._shared.tolist()
        epoch = under_way if epoch is None else epoch
        if self._ranks is None:
            return Permutation(self._count, seed, epoch).take(places)
        return BalancedOrder(self._count, self._ranks, seed, epoch).take(places)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Between processes of a loader it stays shared; a copy that was pickled otherwise has an epoch of its own.
        self._shared.share_memory_()
