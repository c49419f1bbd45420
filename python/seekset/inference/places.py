"""Where the vectors of each sequence are: which chunk file, and where in it, by position in a result."""

from __future__ import annotations

import resource
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seekset.errors import MismatchError, StaleIndexError
from seekset.inference.order import Order, blocks, scratch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from seekset.inference.checkpoint import Survey
    from seekset.inference.chunk_file import Arrays, Chunk
    from seekset.sequences import SequenceIndex

__all__ = ["Kind", "Places"]

# File numbers in the table count from 1.
_NOWHERE, _FAILED = 0, 0xFFFFFFFF
_PLACE = [("file", "<u4"), ("slot", "<u4")]
_PLACE_OF_TOKENS = [*_PLACE, ("first", "<i8"), ("count", "<i8")]
_NAMED = 10
_MOST_OPEN = 4096


class Kind(NamedTuple):
    """What vectors are like."""

    per_token: bool
    width: int
    stored: np.dtype[Any]
    written: np.dtype[Any]

    @classmethod
    def of(cls, chunks: list[Chunk], per_token: bool | None, dtype: str | None) -> Kind:
        """What the vectors of all files are like. Two files that differ are named."""
        # Whoever writes of failures alone need not know what vectors would have been like.
        filled = [chunk for chunk in chunks if chunk.count]
        if per_token is None:
            per_token = any(chunk.per_token for chunk in filled[:1] or chunks)
        first = None
        for chunk in filled:
            if chunk.per_token != per_token:
                what = ("sequence", "token") if per_token else ("token", "sequence")
                raise MismatchError(
                    f"{chunk.path}: it has a vector for each {what[0]}, expected one for each {what[1]}"
                )
            if chunk.height == 0:
                continue
            first = first or chunk
            if (chunk.width, chunk.dtype) != (first.width, first.dtype):
                raise MismatchError(
                    f"{chunk.path} has vectors of {chunk.width} {chunk.dtype.name}, {first.path} of {first.width} "
                    f"{first.dtype.name}"
                )
        stored = np.dtype("<f4") if first is None else first.dtype
        width = max((chunk.width for chunk in chunks), default=0) if first is None else first.width
        return cls(per_token, width, stored, stored if dtype is None else np.dtype(dtype).newbyteorder("<"))


class Places:
    """Where the vectors of each sequence are: the number of a file and a slot of it, by position in the result.

    The table is in a file that is mapped. Of files that have the same sequence, the first by name counts.
    """

    def __init__(self, survey: Survey, index: SequenceIndex, order: Order, kind: Kind, folder: Path) -> None:
        self.table: NDArray[Any] = scratch(folder, len(index), _PLACE_OF_TOKENS if kind.per_token else _PLACE)
        self.kind: Kind = kind
        self.order: Order = order
        self.files: _Files = _Files(survey.chunks)
        self.count: int = 0
        self.tokens: int = 0
        for number, chunk in enumerate(survey.chunks, 1):
            self._add(number, chunk, len(index))
        failed = np.array([failure.row for failure in survey.failures], np.int64)
        if failed.size:
            _within(failed, len(index), survey.failures[int(failed.argmax())].sequence_id)
            self._take(order.positions(failed), _FAILED)
        self._refuse_missing(index, survey)

    def _add(self, number: int, chunk: Chunk, sequences: int) -> None:
        rows, counts, _, _ = self.files.arrays(number)
        _within(rows, sequences, str(chunk.path))
        positions = self.order.positions(rows)
        fresh = self._take(positions, number)
        self.count += fresh.size
        self.table["slot"][positions[fresh]] = fresh
        if counts is not None:
            self.tokens += int(counts[fresh].sum())
            self.table["first"][positions[fresh]] = (np.cumsum(counts) - counts)[fresh]
            self.table["count"][positions[fresh]] = counts[fresh]

    def _take(self, positions: NDArray[np.int64], number: int) -> NDArray[np.int64]:
        """Take positions that nobody has, and say which of these those were."""
        fresh = np.flatnonzero(self.table["file"][positions] == _NOWHERE)
        self.table["file"][positions[fresh]] = number
        return fresh

    def _refuse_missing(self, index: SequenceIndex, survey: Survey) -> None:
        count = 0
        named: list[str] = []
        for block in blocks(len(index)):
            rows = np.arange(block.start, block.stop)
            rows = rows[self.table["file"][self.order.positions(rows)] == _NOWHERE]
            count += rows.size
            named += index.ids(rows[: _NAMED - len(named)])
        if count:
            wrong = "".join(f"; {why}" for _, why in survey.damaged[:_NAMED])
            if survey.foreign:
                wrong += f"; files of another run: {len(survey.foreign)}, the first is {survey.foreign[0].path}"
            more = f" and {count - len(named)} more" if count > len(named) else ""
            raise MismatchError(
                f"{index.path or 'the index'}: {count} of {len(index)} sequences have neither a vector nor a failure: "
                f"{', '.join(map(repr, named))}{more}{wrong}"
            )

    def windows(self, size: int) -> Iterator[NDArray[np.int64]]:
        """Positions that have vectors, in order, so many at a time."""
        kept: list[NDArray[np.int64]] = []
        held = 0
        for block in blocks(self.table.size):
            files = self.table["file"][block]
            kept.append(np.flatnonzero((files != _NOWHERE) & (files != _FAILED)) + block.start)
            held += kept[-1].size
            if held >= size:
                joined = np.concatenate(kept)
                for start in range(0, held - held % size, size):
                    yield joined[start : start + size]
                kept = [joined[held - held % size :]]
                held %= size
        if held:
            yield np.concatenate(kept)

    def by_file(self, places: NDArray[Any]) -> Iterator[tuple[Arrays, NDArray[np.int64], NDArray[np.int64]]]:
        """The files of some places, each once: its tensors, the slots of it, and which of the places those are."""
        order = np.argsort(places["file"], kind="stable")
        numbers, slots = places["file"][order], places["slot"][order]
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), numbers.size]
        for start, end in pairwise(cuts):
            yield self.files.arrays(int(numbers[start])), slots[start:end], order[start:end]


def _within(rows: NDArray[np.int64], sequences: int, what: str) -> None:
    if rows.size and rows.max() >= sequences:
        raise MismatchError(f"{what}: it is about row {rows.max()} of an index of {sequences} sequences")


class _Files:
    """Chunk files by number from 1 on, mapped. A mapping holds a file open, so that only so many are kept.

    The first ones that are asked for are. Every window asks for all of them in turn: whoever keeps the last ones has
    always just let go of the next.
    """

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks
        self._kept: dict[int, Arrays] = {}
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = _MOST_OPEN if allowed == resource.RLIM_INFINITY else min(allowed // 2, _MOST_OPEN)

    def arrays(self, number: int) -> Arrays:
        """The tensors of a file, if it is still the one that was examined."""
        chunk = self._chunks[number - 1]
        arrays = self._kept.get(number)
        if arrays is None:
            arrays = chunk.arrays()
            if len(self._kept) < self._most:
                self._kept[number] = arrays
        elif arrays.mapping.size() != chunk.identity[0]:
            raise StaleIndexError(f"{chunk.path}: it was cut while it was read")
        return arrays
