"""Samplers whose position can be saved: with any loader, over any map-style dataset, at any batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from torch.utils.data import Sampler, default_collate

from seekset.datasets.columns import Columns
from seekset.datasets.order import Order
from seekset.position import HasEpoch, Position
from seekset.world import Share, World, detect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Sized

    from seekset.position import Clock
    from seekset.world import Even

__all__ = ["ResumableBatchSampler", "ResumableSampler", "collate"]

_T = TypeVar("_T")


class _Resumable(HasEpoch, Sampler[_T]):
    """What both samplers share: a rank's places, one after another, and how far they were handed out."""

    def __init__(self, data: Sized, even: Even, world: World | None, **setting: Any) -> None:
        world = detect() if world is None else world
        self._share = Share(len(data), World(world.rank, world.size), even)
        setting |= {"rows": len(data), "world_size": world.size, "even": even}
        # What tells datasets of one length apart, where they know it: the files they read.
        if hasattr(data, "fingerprint"):
            setting["files"] = data.fingerprint
        self._position = Position(clock_of(data), setting)

    def __len__(self) -> int:
        return self._count(self._share)

    def _count(self, share: Share) -> int:
        raise NotImplementedError

    def _item(self, position: int) -> _T:
        raise NotImplementedError

    def __iter__(self) -> Iterator[_T]:
        # A generator, so that nothing is taken up before the first item: loaders call `iter` more often than they mean.
        for position in range(self._position.begin(len(self)), len(self)):
            self._position.advance(position + 1)
            yield self._item(position)

    def state_dict(self, position: int | None = None) -> dict[str, Any]:
        """The epoch and how much of it was handed out, as JSON has it; the same on all ranks.

        A ``DataLoader`` with workers asks for batches ahead of those it has delivered. ``torchdata``'s
        ``StatefulDataLoader`` knows about that; with any other, give the ``position``: how many you have received.
        """
        return self._position.state(position, len(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken, once; at the end of an epoch, with the next one.

        A state of other files, of another setting, or of a place that is none is a ``MismatchError``.
        """
        self._position.load(state, len(self), self._count(self._share.longest))


class ResumableSampler(_Resumable[int]):
    """A rank's places in a dataset, one by one, resumable at every one.

    It does not shuffle: datasets of seekset do that themselves, in constant memory.

    Args:
        data: A dataset with a length. If it has an epoch (``epoch``, ``set_epoch``), that epoch is this sampler's.
        even: What to do where rows don't divide by ranks: ``"none"``, ``"drop"`` or ``"pad"``.
        world: The rank and the number of ranks; found out if not given.

    >>> sampler = ResumableSampler("abcdefg", world=World(rank=1, size=2))
    >>> places = iter(sampler)
    >>> next(places), next(places)
    (1, 3)
    >>> state = sampler.state_dict()
    >>> fresh = ResumableSampler("abcdefg", world=World(rank=1, size=2))
    >>> fresh.load_state_dict(state)
    >>> list(fresh), list(fresh)
    ([5], [1, 3, 5])
    """

    def __init__(self, data: Sized, *, even: Even = "none", world: World | None = None) -> None:
        super().__init__(data, even, world)

    def _count(self, share: Share) -> int:
        return len(share)

    def _item(self, position: int) -> int:
        return self._share.place(position)


class ResumableBatchSampler(_Resumable[list[int]]):
    """A rank's places in a dataset, a batch at a time, resumable at every batch. Positions count batches.

    Args:
        data: A dataset with a length. If it has an epoch (``epoch``, ``set_epoch``), that epoch is this sampler's.
        batch_size: Places per batch.
        drop_last: Whether to leave out a last batch that is not full.
        even: What to do where rows don't divide by ranks: ``"none"``, ``"drop"`` or ``"pad"``. With the latter two, all
            ranks have as many batches.
        world: The rank and the number of ranks; found out if not given.

    >>> list(ResumableBatchSampler("abcdefg", 3))
    [[0, 1, 2], [3, 4, 5], [6]]
    """

    def __init__(
        self,
        data: Sized,
        batch_size: int,
        *,
        drop_last: bool = False,
        even: Even = "none",
        world: World | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, but is {batch_size}")
        super().__init__(data, even, world, batch_size=batch_size, drop_last=drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last

    def _count(self, share: Share) -> int:
        whole, rest = divmod(len(share), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def _item(self, position: int) -> list[int]:
        start = position * self.batch_size
        places: list[int] = self._share.places(start, start + self.batch_size).tolist()
        return places


def collate(items: Sequence[Any]) -> Any:
    """A batch of a dataset with columns: tensors as they were decoded, without a copy of each item.

    Features with any number of values come as :class:`seekset.Batch` of tensors, byte strings as they are. Items of
    other datasets, and those that a ``transform`` made, are collated as torch does.
    """
    return items.columns if isinstance(items, Columns) else default_collate(items)


def clock_of(data: object) -> Clock:
    """What knows a dataset's epoch: itself, or a counter made for it, which all processes share."""
    if hasattr(data, "epoch") and hasattr(data, "set_epoch"):
        return data
    return Order(0)
