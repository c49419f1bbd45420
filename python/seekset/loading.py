"""Loaders that read ahead, and samplers whose position can be saved."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from seekset.extras import missing

try:
    import torch
    from torch.utils.data import DataLoader, IterableDataset, Sampler, default_collate
except ModuleNotFoundError as error:
    raise missing("seekset.loading", "torch", "torch") from error

from seekset.datasets.columns import Columns, NoItems
from seekset.datasets.order import Order
from seekset.packing import PackingStream, VarlenCollator
from seekset.position import HasEpoch, Position
from seekset.workers import cuda_safe_worker_init, refuse_cuda_in_worker
from seekset.world import Share, World, detect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Sized

    from seekset.position import Clock
    from seekset.world import Even

__all__ = [
    "PackingStream",
    "ResumableBatchSampler",
    "ResumableSampler",
    "VarlenCollator",
    "collate",
    "create_async_dataloader",
    "cuda_safe_worker_init",
    "refuse_cuda_in_worker",
]

_T = TypeVar("_T")


class _Resumable(HasEpoch, Sampler[_T]):
    """What both samplers share: a rank's places, one after another, and how far they were handed out."""

    def __init__(self, data: Sized, even: Even, world: World | None, **setting: Any) -> None:
        if isinstance(data, Sampler):
            # Trainers that put a sampler of their own around one would share out what is a rank's share already.
            raise TypeError(
                f"{type(self).__name__} takes a dataset and shares it out over ranks itself, but was given a "
                f"{type(data).__name__}; with Lightning, give Trainer(use_distributed_sampler=False)"
            )
        world = detect() if world is None else world
        self._share = Share(len(data), World(world.rank, world.size), even)
        setting |= {"rows": len(data), "world_size": world.size, "even": even}
        setting |= files_of(data)
        self._position = Position(clock_of(data), setting, drawn=partial(drawn_of, data))

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

        It holds what the dataset's order is drawn from, its seed and whether it shuffles, as they are now.

        A ``DataLoader`` with workers asks for batches ahead of those it has delivered. ``torchdata``'s
        ``StatefulDataLoader`` knows about that; with any other, give the ``position``: how many you have received.
        """
        return self._position.state(position, len(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken, once; at the end of an epoch, with the next one.

        A state of other files, of another setting, or of a place that is none is a ``MismatchError``; one of a dataset
        with another seed or shuffle is so when the first place is asked for: until then, the dataset's own state may
        bring its seed. Whatever is refused changes nothing.
        """
        self._position.load(state, len(self), self._count(self._share.longest))

    def check_state_dict(self, state: dict[str, Any]) -> None:
        """Raise what :meth:`load_state_dict` would raise, and load nothing."""
        self._position.checked(state, self._count(self._share.longest))


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

    @property
    def sampler(self) -> ResumableBatchSampler:
        """Itself: this is where trainers look for whom to tell of an epoch."""
        return self

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
    other datasets, and those that a ``transform`` made, are collated as torch does. Where ``on_error="skip"`` left
    nothing of a batch, its columns have no rows; without columns it is an empty list.
    """
    return items.columns if isinstance(items, (Columns, NoItems)) else default_collate(items)


def create_async_dataloader(
    dataset: Any,
    num_workers: int = 2,
    collator: Callable[[Any], Any] | None = None,
    *,
    prefetch_factor: int = 2,
    pin_memory: bool | None = None,
    stateful: bool = False,
    multiprocessing_context: Any = "spawn",
    persistent_workers: bool = True,
    worker_init_fn: Callable[[int], object] | None = None,
    **options: Any,
) -> DataLoader[Any]:
    """A loader of whole batches whose workers read ahead and stay from epoch to epoch.

    A dataset that yields whole batches (``yields_batches`` is true for it, as for ``PackingStream``) is taken as it is.
    Of any other, map style or iterable, the items are packed: a :class:`VarlenCollator` must be given, and a
    :class:`PackingStream` is put around the dataset. Nothing is lost at the end, and batches need not be flushed.

    Args:
        dataset: What to read.
        num_workers: Worker processes; with 0, everything is done in this one.
        collator: What makes a batch of a list of items.
        prefetch_factor: Batches that each worker reads ahead.
        pin_memory: Whether tensors are put into pinned memory; if not given, where there is CUDA.
        stateful: Whether the loader is ``torchdata``'s ``StatefulDataLoader``, which resumes at every batch.
        multiprocessing_context: How workers are started. ``"fork"`` is quicker, and wrong where CUDA is in use.
        persistent_workers: Whether workers stay from epoch to epoch.
        worker_init_fn: Called in each worker after :func:`cuda_safe_worker_init`.
        options: Whatever else the loader takes.

    >>> from seekset.datasets import SequenceDataset
    >>> collator = VarlenCollator("esm", max_tokens_per_batch=48)
    >>> loader = create_async_dataloader(SequenceDataset("proteins.fa"), num_workers=0, collator=collator)
    >>> [(batch["sequence_ids"], len(batch["input_ids"])) for batch in loader]
    [(['seq_1', 'seq_3'], 42), (['seq_2'], 18)]
    """
    if taken := sorted({"batch_size", "collate_fn", "sampler", "shuffle"} & set(options)):
        raise TypeError(
            f"{', '.join(taken)} can't be given: batches come whole, as the dataset or the collator makes them"
        )
    workers: dict[str, Any] = {}
    if num_workers > 0:
        init = cuda_safe_worker_init if worker_init_fn is None else partial(_init_worker, then=worker_init_fn)
        workers = {
            "prefetch_factor": prefetch_factor,
            "persistent_workers": persistent_workers,
            "multiprocessing_context": multiprocessing_context,
            "worker_init_fn": init,
        }
    return _loader_class(stateful=stateful)(
        _in_batches(dataset, collator),
        batch_size=None,
        collate_fn=_as_it_is if collator is None else collator,
        num_workers=num_workers,
        pin_memory=torch.cuda.is_available() if pin_memory is None else pin_memory,
        **workers,
        **options,
    )


def _in_batches(dataset: Any, collator: Any) -> Any:
    """The dataset as a stream of whole batches."""
    if getattr(dataset, "yields_batches", False):
        if isinstance(collator, VarlenCollator) and not isinstance(dataset, PackingStream):
            raise TypeError(f"{type(dataset).__name__} makes its batches itself: give no collator")
        return dataset
    if not isinstance(collator, VarlenCollator):
        kind = "none was given" if collator is None else f"not {type(collator).__name__}"
        raise TypeError(
            f"{type(dataset).__name__} yields items, not batches: give a VarlenCollator to pack them with, {kind}"
        )
    if not isinstance(dataset, IterableDataset):
        from seekset.datasets.stream import Stream

        dataset = Stream(dataset)
    return PackingStream(dataset, collator.max_tokens_per_batch, collator.cost)


def _loader_class(*, stateful: bool) -> Any:
    if not stateful:
        return DataLoader
    try:
        from torchdata.stateful_dataloader import StatefulDataLoader
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "stateful=True needs torchdata's StatefulDataLoader: pip install torchdata", name=error.name
        ) from error
    return StatefulDataLoader


def _init_worker(worker_id: int, then: Callable[[int], object]) -> None:
    cuda_safe_worker_init(worker_id)
    then(worker_id)


def _as_it_is(batch: Any) -> Any:
    return batch


def files_of(data: object) -> dict[str, Any]:
    """What tells datasets of one length apart in a state, where they know it: the files they read."""
    return {"files": data.fingerprint} if hasattr(data, "fingerprint") else {}


def drawn_of(data: object) -> dict[str, Any]:
    """What a dataset's order is drawn from at this time, by name, where it says so."""
    return dict(getattr(data, "drawn", {}))


def clock_of(data: object) -> Clock:
    """What knows a dataset's epoch: itself, or a counter made for it, which all processes share."""
    if hasattr(data, "epoch") and hasattr(data, "set_epoch"):
        return data
    return Order(0)
