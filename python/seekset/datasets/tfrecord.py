"""TFRecord files as torch datasets: any record of many files by its place in a shuffled epoch."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch.utils.data import Dataset

from seekset.datasets.columns import NoItems, as_tensors
from seekset.datasets.order import Order
from seekset.datasets.ordered import Ordered
from seekset.datasets.skips import Skipped, SkippedPlace, Skips
from seekset.datasets.stream import SKIPPED, Stream
from seekset.errors import FormatError, SeeksetError
from seekset.examples import Schema
from seekset.files import content_samples, fingerprint
from seekset.rows import row_number, row_numbers
from seekset.tfrecord import TFRecordFile, find_tfrecords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from seekset.examples import Features
    from seekset.files import AnyPath
    from seekset.tfrecord import Verify
    from seekset.world import Even, World

__all__ = ["TFRecordDataset", "TFRecordIterableDataset"]

# Lines of an index that are looked at together.
_ENTRIES_AT_ONCE = 1 << 16


class TFRecordDataset(Ordered, Dataset[Any]):
    """The records of many TFRecord files, in a global order of their own for every epoch. Map style.

    A place is turned into a row by a permutation that is computed, not stored, so that a shuffle over all records of
    all files costs no memory and no time. A batch is read with one call per file, and decoded with one call.

    Which places a rank gets, and how far it has come, is the business of the sampler:
    :class:`seekset.loading.ResumableBatchSampler`. Seed and epoch belong to the dataset; all processes share them.

    Args:
        paths: Files, folders or globs; they are sorted, and each counts once.
        features: What is wanted of each ``tf.train.Example``, by name, as :func:`seekset.decode_examples` takes it.
            Items are then dicts of tensors; without, they are payloads as bytes.
        shuffle: Whether places are shuffled; if not, they are rows in the order of the sorted files.
        seed: What the shuffle is drawn from, with the epoch.
        verify: Which checksums are compared: ``"lengths"``, ``"full"`` (payloads, too) or ``None``.
        on_error: ``"raise"``, or ``"skip"`` to leave out records whose bytes are not sound: batches are shorter by
            them, and :meth:`skipped` has them. Of a batch with no sound record, :func:`seekset.loading.collate` makes
            one without rows, and torch's own collate can make none: that is an error, with the record. A file that is
            cut is an error at open all the same.
        transform: Called with each item; what it returns takes the item's place.

    >>> ds = TFRecordDataset("train.tfrecord", seed=1)
    >>> len(ds), ds[0], ds.__getitems__([2, 1])
    (3, b'second', [b'first', b'the third'])
    >>> ds.set_epoch(1)
    >>> ds.__getitems__([0, 1, 2])
    [b'the third', b'second', b'first']
    """

    def __init__(
        self,
        paths: AnyPath | Iterable[AnyPath],
        features: Features | None = None,
        *,
        shuffle: bool = True,
        seed: int = 0,
        verify: Verify = "lengths",
        on_error: Literal["raise", "skip"] = "raise",
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise ValueError(f'on_error must be "raise" or "skip", not {on_error!r}')
        self.files: list[TFRecordFile] = [TFRecordFile(path, verify=verify) for path in find_tfrecords(paths)]
        if not self.files:
            raise ValueError("there are no TFRecord files: paths is empty")
        self.transform = transform
        self._schema = None if features is None else Schema(features)
        self._features = None if features is None else dict(features)
        self._skip = on_error == "skip"
        self._skips = Skips()
        # Rows of all files in one count: file k has those from _starts[k] on.
        self._starts = np.cumsum([0, *map(len, self.files)], dtype=np.int64)
        self._order = Order(len(self), shuffle=shuffle, seed=seed)
        samples = content_samples([file.path for file in self.files])
        self._fingerprint = fingerprint(
            [
                [file.path.name, file.path.stat().st_size, len(file), sample, *_own(file)]
                for file, sample in zip(self.files, samples, strict=True)
            ]
        )

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def fingerprint(self) -> str:
        """What tells these files from others: names without folders, sizes, numbers of records, sampled content.

        Where an index lists records otherwise than they lie in the file, its order counts, too.

        >>> TFRecordDataset("train.tfrecord").fingerprint
        'train.tfrecord, 818da9ec6e591b5f'
        """
        return self._fingerprint

    def state_dict(self) -> dict[str, Any]:
        """Seed and epoch. The position is in the sampler: here, loaders would skip it twice.

        >>> TFRecordDataset("train.tfrecord").state_dict()
        {'version': 1, 'seed': 0, 'epoch': 0, 'shuffle': True, 'rows': 3, 'files': 'train.tfrecord, 818da9ec6e591b5f'}
        """
        return super().state_dict()

    @property
    def _content(self) -> dict[str, Any]:
        return {"rows": len(self), "files": self._fingerprint}

    def __getitem__(self, place: int) -> Any:
        item = self._one(int(self._rows([row_number(place, len(self))])[0]))
        return item if self.transform is None else self.transform(item)

    def __getitems__(self, places: Sequence[int]) -> Sequence[Any]:
        """The items at many places, in that order, with one call for each file and one to decode."""
        rows = self._rows(places)
        _, items = self._read(rows)
        if len(rows) and not items:
            return NoItems(items if self.transform is None else [], self._nothing_left(int(rows[0])))
        return items if self.transform is None else [self.transform(item) for item in items]

    def _nothing_left(self, row: int) -> str:
        path, record, offset = self._place(row)
        return (
            f"{path}: record {record}, byte {offset}: neither it nor any other record of its batch can be read, so "
            "that there is nothing to collate; read a TFRecordIterableDataset, which goes on with the next record, or "
            "give collate_fn=seekset.loading.collate, which makes an empty batch"
        )

    def rows_at(self, places: Sequence[int], epoch: int | None = None) -> list[Any]:
        """The items at many places, one for each: a stream counts places, those that are left out, too."""
        kept, items = self._read(self._rows(places, epoch))
        found: list[Any] = [SKIPPED] * len(places)
        for at, item in zip(kept, items, strict=True):
            found[at] = item if self.transform is None else self.transform(item)
        return found

    def skipped(self) -> Skipped:
        """How often records were left out so far, in all processes, and where they lie."""
        return Skipped(self._skips.count, [self._place(row) for row in self._skips.rows()])

    def _place(self, row: int) -> SkippedPlace:
        file, record = self._at(row)
        return SkippedPlace(file.path, record, file.entry(record)[0])

    def _rows(self, places: Sequence[int], epoch: int | None = None) -> NDArray[np.int64]:
        return self._order.rows(row_numbers(places, len(self)), epoch)

    def _at(self, row: int) -> tuple[TFRecordFile, int]:
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self.files[number], row - int(self._starts[number])

    def _read(self, rows: NDArray[np.int64]) -> tuple[range | list[int], Sequence[Any]]:
        """Which of the rows could be read, and their items."""
        try:
            return range(len(rows)), self._decoded(rows)
        except SeeksetError:
            # One by one, which finds the wrong ones and names their files.
            kept = [at for at, row in enumerate(rows.tolist()) if self._is_sound(row)]
            return kept, self._decoded(rows[kept])

    def _is_sound(self, row: int) -> bool:
        try:
            self._one(row)
        except FormatError:
            if not self._skip:
                raise
            self._skips.note(row)
            return False
        return True

    def _one(self, row: int) -> Any:
        file, record = self._at(row)
        return file[record] if self._schema is None else as_tensors(file.examples([record], self._schema), 1)[0]

    def _decoded(self, rows: NDArray[np.int64]) -> Sequence[Any]:
        payloads = self._payloads(rows)
        return payloads if self._schema is None else as_tensors(self._schema.columns(payloads), len(rows))

    def _payloads(self, rows: NDArray[np.int64]) -> list[bytes]:
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        payloads: list[bytes] = [b""] * len(rows)
        for group in np.split(order, cuts) if len(rows) else ():
            number = numbers[group[0]]
            read = self.files[number].get_many(rows[group] - self._starts[number])
            for at, payload in zip(group.tolist(), read, strict=True):
                payloads[at] = payload
        return payloads

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_schema": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._schema = None if self._features is None else Schema(self._features)

    def __repr__(self) -> str:
        order = f"seed {self._order.seed}, epoch {self.epoch}" if self._order.shuffle else "in file order"
        return f"<TFRecordDataset of {len(self.files)} files, {len(self)} records, {order}>"


def _own(file: TFRecordFile) -> list[str]:
    """A digest of where rows lie, if they come from an index and not one after another from the start of the file."""
    index = file.index_path
    if index is None or index.suffix == ".zidx":
        return []
    digest, end, in_order = hashlib.blake2b(digest_size=8), 0, True
    with index.open("rb") as lines:
        # In pieces, so that an index of many millions of records takes no memory.
        while len(entries := np.fromfile(lines, dtype=np.int64, count=_ENTRIES_AT_ONCE * 2, sep=" ")):
            offsets, sizes = entries.reshape(-1, 2).T
            ends = np.cumsum(sizes) + end
            in_order = in_order and bool((offsets == ends - sizes).all())
            end = int(ends[-1])
            digest.update(entries.tobytes())
    return [] if in_order else [digest.hexdigest()]


class TFRecordIterableDataset(Stream[Any]):
    """The records of many TFRecord files as a stream, shared out over ranks and workers. Iterable style.

    The order is that of :class:`TFRecordDataset`, which is its ``data`` and has the same arguments; ``even``, ``world``
    and ``at_once`` are those of :class:`Stream`.

    >>> list(TFRecordIterableDataset("train.tfrecord", shuffle=False))
    [b'first', b'second', b'the third']
    """

    data: TFRecordDataset

    def __init__(
        self,
        paths: AnyPath | Iterable[AnyPath],
        features: Features | None = None,
        *,
        even: Even = "none",
        world: World | None = None,
        at_once: int = 64,
        **options: Any,
    ) -> None:
        super().__init__(TFRecordDataset(paths, features, **options), even=even, world=world, at_once=at_once)
