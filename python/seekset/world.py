"""Who reads what: the ranks of a job, the workers of a loader, and their shares of a dataset's rows.

A :class:`World` is a value; only :func:`detect` looks around. Shares are arithmetic on it, so that they can be looked
at for any world without starting a process.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Even", "Share", "World", "detect"]

Even = Literal["none", "drop", "pad"]
"""What to do where rows don't divide by ranks: leave it, drop the rest, or repeat rows from the start."""


@dataclass(frozen=True, slots=True)
class World:
    """One reader's place: rank ``rank`` of ``size``, and there worker ``worker`` of ``workers``.

    >>> World(rank=1, size=4)
    World(rank=1, size=4, worker=0, workers=1)
    """

    rank: int = 0
    size: int = 1
    worker: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        for (name, place), (of, count) in (
            (("rank", self.rank), ("world size", self.size)),
            (("worker", self.worker), ("number of workers", self.workers)),
        ):
            if count < 1:
                raise ValueError(f"the {of} must be at least 1, but is {count}")
            if not 0 <= place < count:
                raise ValueError(f"the {name} must be from 0 to {count - 1}, for a {of} of {count}, but is {place}")

    def at_worker(self, worker: int, workers: int) -> Self:
        """The same rank, as one of its loader's workers."""
        return replace(self, worker=worker, workers=workers)


@dataclass(frozen=True, slots=True)
class Share:
    """The places, in an order of ``rows`` rows, that fall to one reader of a world: every n-th.

    With ``even="none"``, the shares of all readers together are all places, each once; ranks' shares may differ by one.
    ``"drop"`` leaves out the last few so that all ranks have as many, ``"pad"`` gives the first places a second time.

    >>> share = Share(10, World(rank=1, size=4))
    >>> len(share), share.places()
    (3, array([1, 5, 9]))
    >>> Share(10, World(rank=3, size=4), even="pad").places()
    array([3, 7, 1])
    """

    rows: int
    world: World
    even: Even = "none"

    def __post_init__(self) -> None:
        if self.rows < 0:
            raise ValueError(f"a dataset has no fewer than 0 rows, but {self.rows} were given")
        if self.even not in get_args(Even):
            raise ValueError(f'even must be "none", "drop" or "pad", not {self.even!r}')

    @property
    def of_rank(self) -> int:
        """How many places all workers of the rank have together."""
        rows, size = self.rows, self.world.size
        if self.even == "drop":
            return rows // size
        if self.even == "pad":
            return -(-rows // size)
        return _every_nth(rows, self.world.rank, size)

    @property
    def longest(self) -> Share:
        """The share of the rank that has most: the first."""
        return replace(self, world=replace(self.world, rank=0))

    def at_worker(self, worker: int, workers: int) -> Share:
        """The same rank's, as one of its loader's workers."""
        return replace(self, world=self.world.at_worker(worker, workers))

    def __len__(self) -> int:
        return _every_nth(self.of_rank, self.world.worker, self.world.workers)

    def place(self, position: int) -> int:
        """The reader's ``position``-th place."""
        place = self.world.rank + (self.world.worker + position * self.world.workers) * self.world.size
        return place % self.rows if self.even == "pad" else place

    def places(self, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
        """The reader's places from its ``start``-th to before its ``stop``-th."""
        stop = len(self) if stop is None else min(stop, len(self))
        world = self.world
        of_rank = world.worker + np.arange(start, max(start, stop), dtype=np.int64) * world.workers
        places = world.rank + of_rank * world.size
        return places % self.rows if self.even == "pad" and self.rows else places


def _every_nth(count: int, first: int, step: int) -> int:
    """How many of ``count`` things are met from the ``first`` on, ``step`` at a time."""
    return max(0, -(-(count - first) // step))


def detect() -> World:
    """The world this process is in, as far as it can be seen.

    The rank is that in Megatron's data-parallel group where there is one, so that ranks which hold parts of one model
    read the same rows; else that of ``torch.distributed``; else that in the variables ``RANK`` and ``WORLD_SIZE``, as
    ``torchrun`` sets them; else there is one rank. Inside a loader's worker process, the worker's number too.

    >>> detect()
    World(rank=0, size=1, worker=0, workers=1)
    """
    rank, size = _rank()
    torch_data = sys.modules.get("torch.utils.data")
    info = torch_data.get_worker_info() if torch_data is not None else None
    if info is None:
        return World(rank, size)
    return World(rank, size, info.id, info.num_workers)


def _rank() -> tuple[int, int]:
    # What was never imported was never initialised: nothing heavy is imported here.
    megatron: Any = sys.modules.get("megatron.core.parallel_state")
    if megatron is not None and megatron.model_parallel_is_initialized():
        return megatron.get_data_parallel_rank(), megatron.get_data_parallel_world_size()
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None or size is None:
        return 0, 1
    try:
        return int(rank), int(size)
    except ValueError:
        raise ValueError(f"RANK and WORLD_SIZE must be numbers, but are {rank!r} and {size!r}") from None
