"""The sequences of an index as text, in the order of the rows asked for."""

from __future__ import annotations

import hashlib
import os
import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from torch.utils.data import Dataset

from seekset.datasets.stream import Stream
from seekset.errors import SeeksetWarning
from seekset.limits import limit
from seekset.rows import row_number, row_numbers
from seekset.sequences import SequenceIndex
from seekset.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["IndexBasedDataset"]

# Read in one call: enough for reads of one file to be sorted, and little enough for the first item to come at once.
_ROWS_AT_ONCE = 256
_LETTERS_AT_ONCE = 16 << 20

# The most letters of a sequence unless somebody says otherwise.
_USUAL = 1024


class IndexedSequences(Dataset[dict[str, str]]):
    """Sequences by their place in ``indices``. Map style."""

    def __init__(self, index: SequenceIndex, indices: NDArray[np.int64], max_length: int | None) -> None:
        self.index = index
        self.max_length = max_length
        # Every n-th row, as a rank gets them, takes no memory in the workers.
        self._indices = _as_range(indices)
        self._files = [str(file) for file in index.files]
        self._digest = hashlib.blake2b(indices.tobytes(), digest_size=8).hexdigest()

    def __len__(self) -> int:
        return len(self._indices)

    @property
    def fingerprint(self) -> str:
        """What tells these sequences from others: the index, the rows, and where they are cut."""
        return f"{self.index.fingerprint}, {self._digest}, {self.max_length}"

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        return self.index.lengths

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lengths"}

    def _rows(self, places: Sequence[int]) -> NDArray[np.int64]:
        at = row_numbers(places, len(self))
        if isinstance(self._indices, range):
            return self._indices.start + at * self._indices.step
        return self._indices[at]

    def __getitem__(self, place: int) -> dict[str, str]:
        return self._read(self._rows([row_number(place, len(self))]))[0]

    def __getitems__(self, places: Sequence[int]) -> list[dict[str, str]]:
        """The sequences at many places, in that order, with one call."""
        return self._read(self._rows(places))

    def rows_at(self, places: Sequence[int], _epoch: int | None = None) -> list[dict[str, str]]:
        """Those at the first few places: as many as don't take much memory, and one at least."""
        rows = self._rows(places)
        letters = self._lengths[rows]
        if self.max_length is not None:
            letters = np.minimum(letters, self.max_length)
        fit = int(np.searchsorted(np.cumsum(letters), _LETTERS_AT_ONCE, side="right"))
        return self._read(rows[: max(fit, 1)])

    def _read(self, rows: NDArray[np.int64]) -> list[dict[str, str]]:
        letters = self.index.fetch_many(rows, max_length=self.max_length)
        files = (self._files[number] for number in self.index.file_numbers[rows].tolist())
        columns = zip(self.index.ids(rows), letters, files, strict=True)
        return [{"id": name, "sequence": sequence, "file": file} for name, sequence, file in columns]


def _as_range(rows: NDArray[np.int64]) -> range | NDArray[np.int64]:
    """Rows that follow each other at one distance as a range, others as they are."""
    if len(rows) > 1:
        step = int(rows[1] - rows[0])
        if step and bool((np.diff(rows) == step).all()):
            return range(int(rows[0]), int(rows[-1]) + step, step)
    return rows


def _tell_of_cuts(index: SequenceIndex, rows: NDArray[np.int64]) -> None:
    """Warn of sequences that are cut where nobody may have asked for it."""
    cut = int(np.count_nonzero(index.lengths[rows] > _USUAL))
    if cut:
        message = (
            f"{cut} of {len(rows)} sequences are longer than max_length, which is {_USUAL} unless given, and are cut; "
            "max_length=None keeps all letters"
        )
        warnings.warn(message, SeeksetWarning, stacklevel=3)


class IndexBasedDataset(Stream[dict[str, str]]):
    """Sequences of an index, in exactly the order of ``indices``, as dicts of ``id``, ``sequence`` and ``file``.

    Rows come a few at a time, read file by file, so that the first is there at once and memory stays the same however
    many there are. A loader's workers get every n-th of them.

    Args:
        index: A sequence index, or its path, in either form.
        indices: Rows of the index, such as :func:`seekset.get_worker_indices` gives a rank.
        max_length: The most letters of a sequence. Longer ones are cut to 1024 letters unless ``max_length=None`` or
            another limit is given; a warning says how many.

    >>> index = SequenceIndex.create(["proteins.fa"], "proteins.sidx")
    >>> [item["id"] for item in IndexBasedDataset("proteins.sidx", [2, 0])]
    ['seq_3', 'seq_1']
    """

    data: IndexedSequences

    def __init__(
        self,
        index: str | os.PathLike[str] | SequenceIndex,
        indices: Iterable[SupportsIndex] | ArrayLike,
        max_length: int | None = _USUAL,
    ) -> None:
        max_length = limit(max_length, "max_length")
        opened = index if isinstance(index, SequenceIndex) else SequenceIndex.load(index)
        opened.check_files()
        rows = row_numbers(indices, len(opened))
        if max_length == _USUAL:
            _tell_of_cuts(opened, rows)
        # The rows are a rank's share already: only its workers share them out.
        super().__init__(IndexedSequences(opened, rows, max_length), world=World(), at_once=_ROWS_AT_ONCE)

    @property
    def index(self) -> SequenceIndex:
        """The index they are of."""
        return self.data.index

    def __repr__(self) -> str:
        return f"<IndexBasedDataset of {len(self)} sequences of {self.index!r}>"
