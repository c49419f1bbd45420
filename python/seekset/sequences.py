"""Many FASTA files as one list of sequences, the longest first: what length-sorted training and inference read from."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, TypeAlias, cast

import numpy as np

from seekset import _core
from seekset.errors import SeeksetWarning
from seekset.handle import Handle, made
from seekset.rows import integers, one_each, row_number, row_numbers
from seekset.tokens import TokenTable, needed_table
from seekset.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from seekset.plan import PlannedBatch

    Rows: TypeAlias = Iterable[SupportsIndex] | ArrayLike

__all__ = [
    "PackedSequences",
    "PaddedSequences",
    "SequenceEntry",
    "SequenceIndex",
    "create_sequence_index",
    "get_worker_indices",
    "load_sequence_index",
]

_log = logging.getLogger("seekset")

_MEMORY = Path("<sequence index in memory>")

# The version of the readable form, which the dict of `load_sequence_index` is in.
_VERSION = "1.0"


@dataclass(frozen=True, slots=True)
class SequenceEntry:
    """One sequence of an index: its id, its letters, its file, and the byte at which its ``>`` stands."""

    sequence_id: str
    length: int
    file_path: str
    byte_offset: int

    @property
    def id(self) -> str:
        """The id, by its short name."""
        return self.sequence_id


class PackedSequences(NamedTuple):
    """Token ids of sequences one after another: sequence ``i`` is ``input_ids[cu_seqlens[i]:cu_seqlens[i + 1]]``."""

    input_ids: NDArray[Any]
    cu_seqlens: NDArray[np.int32]
    position_ids: NDArray[np.int64]
    sequence_ids: list[str]
    max_seqlen: int


class PaddedSequences(NamedTuple):
    """Token ids of sequences, one row each; where ``attention_mask`` is 0 is padding."""

    input_ids: NDArray[Any]
    attention_mask: NDArray[np.int64]
    sequence_ids: list[str]


class SequenceIndex(Handle[_core.SequenceIndex]):
    """An index over many FASTA files, the longest sequence first; sequences of one length stay in the order of files.

    It is made once (:meth:`create`) and opens without being read through (:meth:`load`); all processes share its pages.
    Rows here are places in the order of lengths. Ids may repeat across files: rows keep them apart.

    >>> index = SequenceIndex.create(["proteins.fa"], "proteins.sidx")
    >>> len(index), index.total_tokens, index.lengths
    (3, 54, array([33, 16,  5]))
    >>> index.entry(1).id, index.fetch_many([2, 1], max_length=5)
    ('seq_2', ['MKTAY', 'MKVLA'])
    """

    _what = ("index", "load it again")

    def __init__(self, path: str | os.PathLike[str], *, progress: Callable[[int, int], object] | None = None) -> None:
        self._begin(Path(path), {})
        self._core = self._connect(progress)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, progress: Callable[[int, int], object] | None = None
    ) -> SequenceIndex:
        """Open an index, Arrow or JSON.

        JSON is read once; an Arrow file beside it (``index.json.sidx``) then stands for it until it changes. The FASTA
        files are not looked at: :meth:`check_files` does that, and every read of letters.

        >>> _ = create_sequence_index(["proteins.fa"], "index.json")
        >>> SequenceIndex.load("index.json")
        <SequenceIndex 'index.json', 3 sequences>
        """
        return cls(path, progress=progress)

    @classmethod
    def create(
        cls,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        path: str | os.PathLike[str] | None = None,
        *,
        duplicates: Literal["keep", "error"] = "keep",
        force: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> SequenceIndex:
        """The index of FASTA files, plain or compressed with bgzip.

        The one at ``path`` is taken if it is about these files, in this order, and none of them has changed in size,
        modification time or sampled content; else it is made anew and the log (``"seekset"``) says why. Another file
        than a sequence index is not replaced. Each file's own index (``proteins.fa.sidx``) is used, or made.

        Args:
            files: The files.
            path: Where the index is to be: readable JSON if it ends in ``.json``, else Arrow. Without one, the index is
                made in memory, for this process alone.
            duplicates: ``"error"`` refuses files in which two sequences have one id; what is at ``path`` stays.
            force: Whether to make the index, and those of the files, even if there are good ones.
            progress: Called with bytes done and bytes in all while files are scanned.
        """
        if duplicates not in ("keep", "error"):
            raise ValueError(f'duplicates must be "keep" or "error", not {duplicates!r}')
        given = [files] if isinstance(files, (str, os.PathLike)) else list(files)
        core = _core.SequenceIndex.create(given, path, unique=duplicates == "error", force=force, progress=progress)
        where = _MEMORY if path is None else Path(path)
        _tell(core, where)
        return made(cls, where, {}, core)

    def _connect(self, progress: Callable[[int, int], object] | None = None) -> _core.SequenceIndex:
        core = _core.SequenceIndex.open(self._path, progress=progress)
        _tell(core, self._path)
        return core

    def _told(self, core: _core.SequenceIndex) -> str:
        return core.fingerprint

    @property
    def path(self) -> Path | None:
        """Where the index is; ``None`` if it is in memory."""
        return None if self._path is _MEMORY else self._path

    @property
    def files(self) -> list[Path]:
        """The FASTA files."""
        return self._open.files()

    @property
    def created(self) -> str:
        """When the index was made."""
        return self._open.created

    @property
    def total_tokens(self) -> int:
        """The sum of all lengths."""
        return self._open.total_tokens

    @property
    def fingerprint(self) -> str:
        """The same for the same sequences in the same order, whatever the files are called, in either form."""
        return self._open.fingerprint

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The lengths of all sequences: a view of the index, without a copy."""
        return self._column(self._open.lengths(), "<i8")

    @property
    def rows(self) -> NDArray[np.int64]:
        """Each sequence's row in its own file, without a copy; -1 where it is not known, as after reading JSON."""
        return self._column(self._open.rows(), "<i8")

    @property
    def file_numbers(self) -> NDArray[np.uint32]:
        """Each sequence's file, as its place in :attr:`files`, without a copy."""
        return self._column(self._open.file_numbers(), "<u4")

    @property
    def byte_offsets(self) -> NDArray[np.int64]:
        """Where in its file each sequence's ``>`` stands, without a copy."""
        return self._column(self._open.byte_offsets(), "<i8")

    @staticmethod
    def _column(view: _core.View, dtype: str) -> NDArray[Any]:
        # Stored without a sign, read with one: `lengths - window` must be able to be negative.
        return np.frombuffer(cast("Any", view), dtype=dtype)

    def __len__(self) -> int:
        return len(self._open)

    def shard(self, rank: int, world_size: int) -> NDArray[np.int64]:
        """The rows of one rank of ``world_size``: every ``world_size``-th from the ``rank``-th on.

        >>> SequenceIndex.create(["proteins.fa"]).shard(0, 2)
        array([0, 2])
        """
        World(rank, world_size)
        return np.arange(rank, len(self), world_size, dtype=np.int64)

    def entry(self, row: SupportsIndex) -> SequenceEntry:
        """One sequence, by its row.

        >>> entry = SequenceIndex.create(["proteins.fa"]).entry(-1)
        >>> entry.id, entry.length, entry.byte_offset
        ('seq_3', 5, 90)
        """
        core = self._open
        name, length, file, offset = core.entry(row_number(row, len(core)))
        return SequenceEntry(name, length, str(file), offset)

    def ids(self, rows: Rows) -> list[str]:
        """The ids of many sequences, in the order asked."""
        core = self._open
        return core.ids(row_numbers(rows, len(core)))

    def fetch_many(self, rows: Rows, max_length: int | None = None) -> list[str]:
        """The letters of many sequences, in the order asked, in one call; of each, the first ``max_length``."""
        core = self._open
        return core.fetch_many(row_numbers(rows, len(core)), max_length=_not_negative(max_length))

    def packed(
        self,
        rows: Rows,
        tokens: str | TokenTable,
        *,
        starts: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        max_length: int | None = None,
        specials: bool = True,
        dtype: Any = "int64",
    ) -> PackedSequences:
        """The token ids of many sequences one after another, as attention over sequences of varying length takes them.

        Args:
            rows: Rows of the index, in the order wanted.
            tokens: A token table or its name.
            starts: The first letter of each, or one for all.
            lengths: The most letters of each, or one for all.
            max_length: The most letters of any; specials are not counted.
            specials: Whether the table's prefix and suffix are put around each sequence.
            dtype: uint8, int32 or int64.

        >>> batch = SequenceIndex.create(["proteins.fa"]).packed([2, 1], "esm", max_length=3)
        >>> batch.input_ids, batch.cu_seqlens, batch.max_seqlen
        (array([ 0, 20, 15, 11,  2,  0, 20, 15,  7,  2]), array([ 0,  5, 10], dtype=int32), 5)
        >>> batch.position_ids, batch.sequence_ids
        (array([0, 1, 2, 3, 4, 0, 1, 2, 3, 4]), ['seq_3', 'seq_2'])
        """
        core, wanted = self._open, row_numbers(rows, len(self._open))
        found = core.packed(
            wanted,
            needed_table(tokens),
            **_windows(wanted, starts, lengths, max_length),
            specials=specials,
            dtype=_name(dtype),
        )
        return PackedSequences(*found)

    def padded(
        self,
        rows: Rows,
        tokens: str | TokenTable,
        *,
        starts: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        max_length: int | None = None,
        columns: int | None = None,
        specials: bool = True,
        dtype: Any = "int64",
    ) -> PaddedSequences:
        """The token ids of many sequences, one row each, filled up with the table's padding.

        There are as many columns as the longest needs, or ``columns``. A table without a pad id is a ``MismatchError``.

        >>> batch = SequenceIndex.create(["proteins.fa"]).padded([2, 1], "esm", lengths=[2, 3])
        >>> batch.input_ids, batch.attention_mask
        (array([[ 0, 20, 15,  2,  1],
               [ 0, 20, 15,  7,  2]]), array([[1, 1, 1, 1, 0],
               [1, 1, 1, 1, 1]]))
        """
        core, wanted = self._open, row_numbers(rows, len(self._open))
        found = core.padded(
            wanted,
            needed_table(tokens),
            **_windows(wanted, starts, lengths, max_length),
            columns=_not_negative(columns, "columns"),
            specials=specials,
            dtype=_name(dtype),
        )
        return PaddedSequences(*found)

    def packed_batch(self, batch: PlannedBatch, tokens: TokenTable, *, specials: bool = True) -> PackedSequences:
        """:meth:`packed` for a batch of a plan of this index, whose rows need no second look."""
        rows, starts, lengths = batch
        return PackedSequences(*self._open.packed(rows, tokens, starts=starts, lengths=lengths, specials=specials))

    def padded_batch(self, batch: PlannedBatch, tokens: TokenTable, *, specials: bool = True) -> PaddedSequences:
        """:meth:`padded` for a batch of a plan of this index."""
        rows, starts, lengths = batch
        return PaddedSequences(*self._open.padded(rows, tokens, starts=starts, lengths=lengths, specials=specials))

    def save(self, path: str | os.PathLike[str], *, progress: Callable[[int, int], object] | None = None) -> None:
        """Write the index to another path: as JSON if it ends in ``.json``, else as Arrow."""
        self._open.save(path, progress=progress)

    def check_files(self) -> None:
        """Raise ``FileNotFoundError`` or ``StaleIndexError`` if a FASTA file is missing or has another size or time.

        Contents are not looked at here: :meth:`create` samples them, and so does a read when it opens a file.
        """
        self._open.check_files()

    def verify(self) -> None:
        """Read all of the index and raise ``FormatError`` where it is damaged."""
        self._open.verify()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is _MEMORY:
            raise TypeError(
                "a sequence index in memory can't be pickled: create it with a path, or save it and load that"
            )
        return super().__reduce__()

    def __repr__(self) -> str:
        return self._repr("sequences")


def create_sequence_index(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    duplicates: Literal["keep", "error"] = "keep",
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Path:
    """Make the index of FASTA files at ``path``, unless a good one is there, and return the path.

    See :meth:`SequenceIndex.create` for what a good one is. The log (``"seekset"``) tells what was made.

    >>> create_sequence_index(["proteins.fa"], "index.json")
    PosixPath('index.json')
    """
    SequenceIndex.create(files, path, duplicates=duplicates, force=force, progress=progress).close()
    return Path(path)


def load_sequence_index(path: str | os.PathLike[str]) -> dict[str, Any]:
    """All of an index, Arrow or JSON, as a dict with the keys of its JSON form.

    Everything is turned into Python objects: for millions of sequences, :class:`SequenceIndex` is the quicker way.

    >>> _ = create_sequence_index(["proteins.fa"], "index.json")
    >>> index = load_sequence_index("index.json")
    >>> index["total_sequences"], index["total_tokens"], index["sequences"][0]["sequence_id"]
    (3, 54, 'seq_1')
    """
    with SequenceIndex.load(path) as index:
        core = index._open  # noqa: SLF001 (this module's own)
        files = [str(file) for file in core.files()]
        columns = zip(
            index.ids(range(len(index))),
            index.lengths.tolist(),
            index.file_numbers.tolist(),
            index.byte_offsets.tolist(),
            strict=True,
        )
        sequences = [
            {"sequence_id": name, "length": length, "file_path": files[file], "byte_offset": offset}
            for name, length, file, offset in columns
        ]
        return {
            "version": _VERSION,
            "created": core.created,
            "fasta_mtimes": dict(zip(files, core.mtimes(), strict=True)),
            "total_sequences": len(sequences),
            "total_tokens": core.total_tokens,
            "sequences": sequences,
        }


def get_worker_indices(path: str | os.PathLike[str], rank: int, world_size: int) -> list[int]:
    """The rows of one rank of ``world_size``: every ``world_size``-th, so that all get long and short ones alike.

    The log (``"seekset"``) tells how many sequences and tokens each rank has.

    >>> _ = create_sequence_index(["proteins.fa"], "index.json")
    >>> get_worker_indices("index.json", rank=1, world_size=2)
    [1]
    """
    World(rank, world_size)
    with SequenceIndex.load(path) as index:
        if _log.isEnabledFor(logging.INFO):
            _log.info("%s: %s", path, _shares(index.lengths, world_size))
        return list(range(rank, len(index), world_size))


def _tell(core: _core.SequenceIndex, path: Path) -> None:
    """Say how an index came about and what is odd about it."""
    how, why = core.origin
    for remark in core.remarks:
        warnings.warn(f"{path}: {remark}", SeeksetWarning, stacklevel=4)
    if how == "found":
        return
    if how == "memory" and path is not _MEMORY:
        message = f"{path}.sidx can't be written ({why}): the index is kept in memory and read again at each open"
        warnings.warn(message, SeeksetWarning, stacklevel=4)
    elif how == "built" and why is not None:
        _log.warning("%s: made anew: %s", path, why)
    if _log.isEnabledFor(logging.INFO):
        _log.info("%s: %s", path, _summary(core))


def _summary(core: _core.SequenceIndex) -> str:
    lengths = SequenceIndex._column(core.lengths(), "<i8")  # noqa: SLF001 (this module's own)
    spread = (
        f"lengths {lengths[-1]} to {lengths[0]}, median {np.median(lengths):g}; {_shares(lengths, 4)}"
        if lengths.size
        else "no sequences"
    )
    return f"{len(core.files())} files, {len(core)} sequences, {core.total_tokens} tokens; {spread}"


def _shares(lengths: NDArray[np.int64], world_size: int) -> str:
    """Sequences and tokens of each rank, and its part of all tokens."""
    total = max(int(lengths.sum()), 1)
    shares = [lengths[rank::world_size] for rank in range(world_size)]
    told = [
        f"rank {rank}: {share.size} sequences, {share.sum()} tokens ({share.sum() / total:.2%})"
        for rank, share in enumerate(shares)
    ]
    return "; ".join(told)


def _name(dtype: Any) -> str:
    return str(np.dtype(dtype).name)


def _not_negative(number: int | None, name: str = "max_length") -> int | None:
    if number is not None and number < 0:
        raise ValueError(f"{name} must not be negative, but is {number}")
    return number


def _windows(
    rows: NDArray[np.int64], starts: ArrayLike | None, lengths: ArrayLike | None, max_length: int | None
) -> dict[str, Any]:
    """The extension's keywords for which letters of each row are wanted."""

    def each(values: ArrayLike | None, name: str) -> NDArray[np.int64] | None:
        return None if values is None else one_each(integers(values, name), len(rows), name)

    return {
        "starts": each(starts, "starts"),
        "lengths": each(lengths, "lengths"),
        "max_length": _not_negative(max_length),
    }
