"""A map-style dataset as a stream: the iterable variant of every dataset here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import torch
from torch.utils.data import IterableDataset, get_worker_info

from seekset.loading import clock_of
from seekset.position import Position, check_state
from seekset.world import Share, World, detect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from seekset.world import Even

__all__ = ["SKIPPED", "Stream"]

_T = TypeVar("_T")
_MOST_WORKERS = 1024

SKIPPED: Any = object()
"""Stands in the place of a row that could not be read and was to be left out."""


class Stream(IterableDataset[_T], Generic[_T]):
    """The rows of a map-style dataset in its order, shared out over ranks and workers, resumable at every row.

    Worker ``w`` of ``n`` gets every n-th place of its rank's share. Each counts its own position, so that with workers
    the whole state is kept by ``torchdata``'s ``StatefulDataLoader``; without, ``state_dict`` is enough.

    Args:
        data: A map-style dataset. If it has an epoch (``epoch``, ``set_epoch``), that epoch is the stream's.
        even: What to do where rows don't divide by ranks: ``"none"``, ``"drop"`` or ``"pad"``.
        world: The rank and the number of ranks, found out if not given; and the worker, if it is one of several.
        at_once: How many rows are read in one call.

    >>> stream = Stream("abcdefg", world=World(rank=1, size=2))
    >>> rows = iter(stream)
    >>> next(rows)
    'b'
    >>> fresh = Stream("abcdefg", world=World(rank=1, size=2))
    >>> fresh.load_state_dict(stream.state_dict())
    >>> list(fresh), list(fresh)
    (['d', 'f'], ['b', 'd', 'f'])
    """

    def __init__(self, data: Any, *, even: Even = "none", world: World | None = None, at_once: int = 64) -> None:
        if at_once < 1:
            raise ValueError(f"at_once must be at least 1, but is {at_once}")
        if world is None:
            # The worker is found out where the stream is read: it is made in the main process.
            here = detect()
            world = World(here.rank, here.size)
        self.data = data
        self._share = Share(len(data), world, even)
        self._at_once = at_once
        self._clock = clock_of(data)
        setting = {"rows": len(data), "world_size": world.size, "even": even}
        self._position = Position(self._clock, setting)
        # Which workers were told that they had reached the end, and of which epoch: the next is theirs all together.
        self._ended = torch.zeros(_MOST_WORKERS, dtype=torch.int64).share_memory_()

    @property
    def epoch(self) -> int:
        """The epoch that is under way, or comes next."""
        return self._position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch, in all processes."""
        self._position.set_epoch(epoch)

    def __len__(self) -> int:
        """How many rows the rank gets, through all its workers."""
        return self._share.of_rank

    def _of_worker(self) -> Share:
        here, share = detect(), self._share
        if share.world.workers > 1:
            return share
        return Share(share.rows, share.world.at_worker(here.worker, here.workers), share.even)

    def __iter__(self) -> Iterator[_T]:
        share = self._of_worker()
        for start in range(self._position.begin(len(share)), len(share), self._at_once):
            for position, row in enumerate(self._rows(share, start), start + 1):
                self._position.advance(position)
                if row is not SKIPPED:
                    yield row

    def _rows(self, share: Share, start: int) -> Sequence[_T]:
        places: list[int] = share.places(start, start + self._at_once).tolist()
        if hasattr(self.data, "rows_at"):
            return cast("Sequence[_T]", self.data.rows_at(places))
        if hasattr(self.data, "__getitems__"):
            return cast("Sequence[_T]", self.data.__getitems__(places))
        return [self.data[place] for place in places]

    def state_dict(self) -> dict[str, Any]:
        """Epoch and position of this process, as JSON has them, and the dataset's own state."""
        state = self._position.state()
        if hasattr(self.data, "state_dict"):
            state["data"] = self.data.state_dict()
        return {**state, "workers": self._of_worker().world.workers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken, once; at the end of an epoch, with the next one."""
        share = self._of_worker()
        world = share.world
        check_state(state, {"workers": world.workers})
        # One worker's end is not the end of the epoch: the others may have rows left.
        alone = world.workers == 1 and get_worker_info() is None
        self._position.load(state, len(share), len(share.longest), turn=alone)
        if hasattr(self.data, "load_state_dict"):
            self.data.load_state_dict(state.get("data"))
        if not alone:
            self._go_to(int(state["epoch"]), world, ended=state["position"] >= len(share))

    def _go_to(self, epoch: int, world: World, *, ended: bool) -> None:
        """Go to the epoch of a state, or to the next if all workers were told that they had reached its end.

        At once, and not with the first row: a loader waits until states are loaded, but not until a row is read, before
        it may start other workers.
        """
        self._clock.set_epoch(epoch)
        if world.workers <= _MOST_WORKERS:
            self._ended[world.worker] = epoch + 1 if ended else 0
            if bool((self._ended[: world.workers] == epoch + 1).all()):
                self._clock.set_epoch(epoch + 1)
