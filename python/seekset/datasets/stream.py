"""Streams: shared out over ranks and workers, resumable. Any map-style dataset can be one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import torch
from torch.utils.data import IterableDataset, get_worker_info

from seekset.loading import clock_of, files_of
from seekset.position import HasEpoch, Position, check_state
from seekset.workers import refuse_cuda_in_worker
from seekset.world import Share, World, detect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from seekset.mixing import MixShare
    from seekset.position import Clock
    from seekset.world import Even

__all__ = ["SKIPPED", "SharedStream", "Stream", "of_rank"]

_T = TypeVar("_T")
_MOST_WORKERS = 1024

SKIPPED: Any = object()
"""Stands in the place of a row that could not be read and was to be left out."""


class SharedStream(HasEpoch, IterableDataset[_T], Generic[_T]):
    """What all streams share: places that are shared out over ranks and workers, and how far each reader has come.

    Args:
        share: All places there are, for the rank.
        clock: What knows the epoch.
        setting: What must be the same where a state is loaded, by name, beside ranks and workers.
        part: Where a place has parts: what states call them.
    """

    def __init__(
        self, share: Share | MixShare, clock: Clock, setting: dict[str, Any], *, part: str | None = None
    ) -> None:
        self._share: Any = share
        self._clock = clock
        self._position = Position(clock, {**setting, "world_size": share.world.size}, part=part)
        # Which workers were told that they had reached the end, and of which epoch: the next is theirs all together.
        self._ended = torch.zeros(_MOST_WORKERS, dtype=torch.int64).share_memory_()

    def _of_worker(self) -> Any:
        here, share = detect(), self._share
        if share.world.workers > 1:
            return share
        return share.at_worker(here.worker, here.workers)

    def _begin(self) -> tuple[Any, int]:
        """The places of this process, and from which of them on it is to read."""
        refuse_cuda_in_worker()
        share = self._of_worker()
        return share, self._position.begin(len(share))

    def state_dict(self) -> dict[str, Any]:
        """Epoch and position of this process, as JSON has them."""
        return self._with_data(self._position.state())

    def upcoming_state(self) -> dict[str, Any]:
        """The state with which the next iteration of this process starts, however far the last one came."""
        return self._with_data(self._position.upcoming_state())

    def _with_data(self, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "workers": self._of_worker().world.workers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken, once; at the end of an epoch, with the next one."""
        share = self._of_worker()
        world = share.world
        check_state(state, {"workers": world.workers})
        # One worker's end is not the end of the epoch: the others may have rows left.
        alone = world.workers == 1 and get_worker_info() is None
        longest = len(share.longest)
        # Whatever refuses does so before anything is changed: the data are the last to be asked, and the first to go.
        self._position.checked(state, longest)
        self._load_data(state)
        self._position.load(state, len(share), longest, turn=alone)
        if not alone:
            self._go_to(int(state["epoch"]), world, ended=state["position"] >= len(share))

    def _load_data(self, state: dict[str, Any]) -> None:
        """Take up what a state says of the data, if it says anything."""

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


class Stream(SharedStream[_T]):
    """The rows of a map-style dataset in its order, shared out over ranks and workers, resumable at every row.

    Worker ``w`` of ``n`` gets every n-th place of its rank's share. Each counts its own position, so that with workers
    the whole state is kept by ``torchdata``'s ``StatefulDataLoader``; without, ``state_dict`` is enough.

    Args:
        data: A map-style dataset. If it has an epoch (``epoch``, ``set_epoch``), that epoch is the stream's.
        even: What to do where rows don't divide by ranks: ``"none"``, ``"drop"`` or ``"pad"``.
        world: The rank and the number of ranks, found out if not given; and the worker, if it is one of several.
        at_once: How many rows are read in one call, at most. A dataset's ``rows_at(places, epoch)`` is used where it
            has one; it may give fewer, but one at least.

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
        world = of_rank() if world is None else world
        setting = {**files_of(data), "rows": len(data), "even": even}
        super().__init__(Share(len(data), world, even), clock_of(data), setting)
        self.data = data
        self._at_once = at_once

    def __len__(self) -> int:
        """How many rows the rank gets, through all its workers."""
        return int(self._share.of_rank)

    def __iter__(self) -> Iterator[_T]:
        share, position = self._begin()
        while position < len(share):
            # As many as were asked for, or fewer where those are long.
            for row in self._rows(share, position):
                self._note(position, row)
                position += 1
                self._position.advance(position)
                if row is not SKIPPED:
                    yield row

    def _note(self, position: int, row: _T) -> None:
        """Take note of a row that is about to be delivered: a place for subclasses."""

    def _rows(self, share: Share, start: int) -> Iterable[_T]:
        places: list[int] = share.places(start, start + self._at_once).tolist()
        if hasattr(self.data, "rows_at"):
            # Of the epoch that was begun: whoever sets another one means the next iteration.
            return cast("Iterable[_T]", self.data.rows_at(places, self._position.under_way))
        if hasattr(self.data, "__getitems__"):
            return cast("Iterable[_T]", self.data.__getitems__(places))
        return [self.data[place] for place in places]

    def _with_data(self, state: dict[str, Any]) -> dict[str, Any]:
        data = {"data": self.data.state_dict()} if hasattr(self.data, "state_dict") else {}
        return {**super()._with_data(state), **data}

    def _load_data(self, state: dict[str, Any]) -> None:
        if hasattr(self.data, "load_state_dict"):
            self.data.load_state_dict(state.get("data"))


def of_rank() -> World:
    """The rank this process is in. The worker is found out where a stream is read: it is made in the main process."""
    here = detect()
    return World(here.rank, here.size)
