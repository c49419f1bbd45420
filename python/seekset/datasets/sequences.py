"""FASTA files as a stream of sequences, without an index."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seekset import _core
from seekset.datasets.order import Order
from seekset.datasets.stream import SharedStream, of_rank
from seekset.errors import SeeksetWarning
from seekset.files import find_fastas, fingerprint
from seekset.limits import limit, whole_number
from seekset.world import Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from seekset.files import AnyPath
    from seekset.world import World

__all__ = ["SequenceDataset"]


class _File(NamedTuple):
    """A file as it was when the dataset was made."""

    path: Path
    size: int
    seen: tuple[int, int, int]


class SequenceDataset(SharedStream[dict[str, str]]):
    """The sequences of FASTA files, in file order, shared out over ranks and workers. Iterable style, without an index.

    Files are read in chunks of ``chunk_bytes``; a record belongs to the chunk in which its header starts. Reader ``w``
    of ``n``, over all ranks and workers, reads every n-th chunk, so that all of them together deliver every record
    once, from one large file as from many small ones. What comes next depends on nothing but the files and the world.

    Items are dicts of ``id``, ``sequence`` and ``file``. Memory is that of a chunk's records, each cut at
    ``max_length``.

    The state counts chunks and the records delivered from the last one. It is that of one reader: ranks save their own,
    and with workers ``torchdata``'s ``StatefulDataLoader`` keeps that of each.

    Args:
        fasta_files: Files, folders or globs, plain or compressed with bgzip. They are read in the order given, those
            of a folder or a glob sorted, and each once.
        max_length: How many residues of a sequence are delivered at most. Longer ones are cut to 1024 unless
            ``max_length=None`` or another limit is given, without a warning: lengths are not known beforehand.
        world: The rank and the number of ranks, found out if not given; and the worker, if it is one of several.
        chunk_bytes: Bytes of text per chunk. Where there are more readers than chunks, some have nothing to do.

    >>> ds = SequenceDataset("proteins.fa", max_length=8)
    >>> records = iter(ds)
    >>> next(records)
    {'id': 'seq_1', 'sequence': 'MTKIALSD', 'file': 'proteins.fa'}
    >>> fresh = SequenceDataset("proteins.fa", max_length=8)
    >>> fresh.load_state_dict(ds.state_dict())
    >>> [record["id"] for record in fresh]
    ['seq_2', 'seq_3']
    """

    def __init__(
        self,
        fasta_files: AnyPath | Iterable[AnyPath],
        max_length: int | None = 1024,
        *,
        world: World | None = None,
        chunk_bytes: int = 1 << 20,
    ) -> None:
        self.max_length: int | None = limit(max_length, "max_length")
        self._chunk_bytes = whole_number(chunk_bytes, "chunk_bytes")
        self._files = [_look_at(path) for path in find_fastas(fasta_files)]
        if not self._files:
            raise ValueError("there are no FASTA files: fasta_files is empty")
        # Chunks of all files in one count: file k has those from _starts[k] on.
        chunks = [-(-file.size // self._chunk_bytes) for file in self._files]
        self._starts = np.cumsum([0, *chunks], dtype=np.int64)
        self._reading: tuple[int, _core.FastaStream] | None = None
        world = of_rank() if world is None else world
        # How many records a chunk has is known when it is read: no rank can tell from its own state where another is.
        setting = {"files": self.fingerprint, "chunk_bytes": self._chunk_bytes, "rank": world.rank}
        super().__init__(Share(int(self._starts[-1]), world), Order(0), setting, part="records")

    @property
    def files(self) -> list[Path]:
        """The files, in the order in which they are read."""
        return [file.path for file in self._files]

    @property
    def fingerprint(self) -> str:
        """What tells these files from others: their names without folders, sizes and some of their bytes, in short."""
        return fingerprint([[file.path.name, file.seen[0], file.seen[2]] for file in self._files])

    def __iter__(self) -> Iterator[dict[str, str]]:
        share, start = self._begin()
        records = self._records(share, start, self._position.parts)
        # One record ahead, because the state after the last record is the end of the epoch, whatever chunks follow.
        here = next(records, None)
        while True:
            following = next(records, None) if here is not None else None
            self._position.advance(*((len(share), 0) if following is None else following[:2]))
            if here is None:
                return
            yield here[2]
            here = following

    def _records(self, share: Share, start: int, skip: int) -> Iterator[tuple[int, int, dict[str, str]]]:
        """Records with the position of their chunk and their number in it, from the ``skip``-th of a chunk on."""
        for position in range(start, len(share)):
            number, file, begin = self._place(share.place(position))
            end = min(begin + self._chunk_bytes, file.size)
            found = self._open(number).records(begin, end, self.max_length)
            name, first = str(file.path), skip if position == start else 0
            for at, (record_id, sequence) in enumerate(found[first:], first):
                yield position, at, {"id": record_id, "sequence": sequence, "file": name}

    def _place(self, chunk: int) -> tuple[int, _File, int]:
        """The number of the file that a chunk is in, the file, and where the chunk starts."""
        number = int(np.searchsorted(self._starts, chunk, side="right")) - 1
        return number, self._files[number], (chunk - int(self._starts[number])) * self._chunk_bytes

    def _open(self, number: int) -> _core.FastaStream:
        # One file at a time: there may be more files than a process may have open.
        if self._reading is None or self._reading[0] != number:
            file = self._files[number]
            self._reading = None
            self._reading = (number, _core.FastaStream(file.path, seen=file.seen))
        return self._reading[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reading": None}

    def __repr__(self) -> str:
        return f"<SequenceDataset of {len(self._files)} files, {self._starts[-1]} chunks of {self._chunk_bytes} bytes>"


def _look_at(path: Path) -> _File:
    stream = _core.FastaStream(path)
    if stream.remark is not None:
        warnings.warn(f"{path}: {stream.remark}", SeeksetWarning, stacklevel=4)
    return _File(path, len(stream), stream.seen)
