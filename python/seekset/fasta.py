"""FASTA files: records by name, by row, by window, one at a time or many in one call."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, cast, overload

import numpy as np

from seekset import _core
from seekset.batch import Batch
from seekset.errors import SeeksetWarning, UnknownIdError
from seekset.files import is_stream, refuse_stream
from seekset.handle import Handle
from seekset.record import FastaRecord
from seekset.rows import integers, one_each, row_number, row_numbers
from seekset.tokens import TokenTable, as_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Fasta"]

_IDS_AT_ONCE = 4096
_NEAREST_AMONG = 200_000


class Fasta(Handle[_core.Fasta], Mapping[str, FastaRecord]):
    """A FASTA file, plain or compressed with bgzip, as a mapping from ids to records in file order.

    The first time a file is opened, it is scanned and an index is written beside it (``proteins.fa.sidx``). From then
    on it opens without being read through. An index whose file has changed is built anew.

    Args:
        path: The file.
        index: Where the index is, if not beside the file.
        rebuild: Whether to build an index that is missing or does not fit. If not, those are ``StaleIndexError``, and
            nothing is written; the block table of a compressed file (``.gzi``) is then made in memory if it is missing.
        duplicates: ``"error"`` refuses a file in which two records have one id; with ``"first"`` the id means the first
            of them, and the others are reached by row.
        io: ``"mmap"``, or ``"pread"`` for files that others may cut short while they are read.
        progress: Called with bytes done and bytes in all while an index is built.

    >>> with Fasta("proteins.fa") as fa:
    ...     fa["seq_2"].sequence, fa[-1].id, "seq_9" in fa
    ('MKVLAAGIVGLCAKAY', 'seq_3', False)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        index: str | os.PathLike[str] | None = None,
        rebuild: bool = True,
        duplicates: Literal["error", "first"] = "error",
        io: Literal["mmap", "pread"] = "mmap",
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        if duplicates not in ("error", "first"):
            raise ValueError(f'duplicates must be "error" or "first", not {duplicates!r}')
        if index is None and is_stream(path):
            refuse_stream(path)
        self._begin(Path(path), {"index": index, "rebuild": rebuild, "duplicates": duplicates, "io": io})
        self._look()
        self._core = self._connect(progress)

    def _connect(self, progress: Callable[[int, int], object] | None = None) -> _core.Fasta:
        options = self._options
        core = _core.Fasta(
            self._path, index=options["index"], build=options["rebuild"], io=options["io"], progress=progress
        )
        if options["duplicates"] == "error":
            core.refuse_duplicates()
        if core.remark is not None:
            warnings.warn(f"{self._path}: {core.remark}", SeeksetWarning, stacklevel=3)
        how, why = core.origin
        if how == "memory":
            message = (
                f"{core.index_path} can't be written ({why}): the index is kept in memory and built again at each "
                "open; give index= a place that can be written"
            )
            warnings.warn(message, SeeksetWarning, stacklevel=3)
        return core

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def index_path(self) -> Path | None:
        """Where the index lies; ``None`` if it is in memory only."""
        return None if self._open.origin[0] == "memory" else Path(self._open.index_path)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The lengths of all records, in file order: a view of the index, without a copy.

        >>> Fasta("proteins.fa").lengths
        array([33, 16,  5])
        """
        # Stored without a sign, read with one: `lengths - window` must be able to be negative.
        return np.frombuffer(cast("Any", self._open.lengths()), dtype="<i8")

    @property
    def repeated_ids(self) -> int:
        """How many records have an id that an earlier one has."""
        return self._open.repeated_ids

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[str]:
        core = self._open
        for start in range(0, len(core), _IDS_AT_ONCE):
            yield from core.ids(start, start + _IDS_AT_ONCE)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and _is_text(key) and self._open.find(key) is not None

    def __getitem__(self, key: str | SupportsIndex) -> FastaRecord:
        return FastaRecord(self, self.row(key))

    def values(self) -> ValuesView[FastaRecord]:
        """All records in file order, those with a repeated id too."""
        return _Records(self)

    def items(self) -> ItemsView[str, FastaRecord]:
        """All ids and records in file order, those with a repeated id too."""
        return _Items(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def row(self, key: str | SupportsIndex) -> int:
        """The row of an id, or of a row number as Python counts.

        >>> fa = Fasta("proteins.fa")
        >>> fa.row("seq_2"), fa.row(-1)
        (1, 2)
        """
        core = self._open
        if isinstance(key, str):
            row = core.find(key) if _is_text(key) else None
            if row is None:
                near = partial(core.nearest, key, 3, _NEAREST_AMONG) if _is_text(key) else ()
                raise UnknownIdError(key, str(self._path), near)
            return row
        if isinstance(key, bool) or not hasattr(key, "__index__"):
            raise TypeError(f"a record is asked for by id or row, not by {type(key).__name__}")
        return row_number(key, len(core))

    def rows(self, keys: Sequence[str | SupportsIndex] | ArrayLike) -> NDArray[np.int64]:
        """The rows of many ids, or of many row numbers."""
        if isinstance(keys, str):
            raise TypeError("give a list of ids, not one id")
        if not isinstance(keys, Iterable):
            raise TypeError(f"give a list of rows or ids, not {type(keys).__name__}")
        if isinstance(keys, Iterable) and not isinstance(keys, (np.ndarray, Sequence)):
            keys = cast("list[str | SupportsIndex]", list(keys))
        if not isinstance(keys, np.ndarray) and any(isinstance(key, str) for key in cast("Sequence[object]", keys)):
            return self._rows_of(cast("Sequence[str | SupportsIndex]", keys))
        array = np.asarray(keys)
        if array.dtype.kind in "UTSO":
            return self._rows_of((array.astype(str) if array.dtype.kind == "S" else array).tolist())
        return row_numbers(array, len(self))

    def _rows_of(self, keys: Sequence[str | SupportsIndex]) -> NDArray[np.int64]:
        if not all(isinstance(key, str) and _is_text(key) for key in keys):
            return np.array([self.row(key) for key in keys], dtype=np.int64)
        ids = cast("list[str]", list(keys))
        rows = self._open.find_many(ids)
        if (unknown := np.flatnonzero(rows < 0)).size:
            self.row(ids[unknown[0]])  # raises, and says which ids are near
        return rows

    def fetch(self, key: str | SupportsIndex, start: int = 0, end: int | None = None) -> str:
        """Letters ``start`` to ``end`` of a record: 0-based, half-open, cut where the record ends.

        >>> Fasta("genome.fa").fetch("chr1", 2, 8)
        'GTATGN'
        """
        core = self._core or self._open
        if start or end is not None:
            if start < 0 or (end is not None and end < 0):
                raise ValueError(f"positions count from 0 and are not negative, but {start} to {end} was asked for")
            start, end = min(start, sys.maxsize), None if end is None else min(end, sys.maxsize)
        if isinstance(key, str) and _is_text(key):
            letters = core.fetch_id(key, start, end)
            if letters is not None:
                return letters
        return core.fetch(self.row(key), start, end)  # an unknown id raises here, and says which ids are near

    def fetch_many(self, keys: Sequence[str | SupportsIndex] | ArrayLike) -> list[str]:
        """All letters of many records, in the order asked, in one call.

        >>> Fasta("proteins.fa").fetch_many(["seq_3", "seq_2"])
        ['MKTAY', 'MKVLAAGIVGLCAKAY']
        """
        return self._open.fetch_many(self.rows(keys))

    def gather(
        self,
        rows: Sequence[str | SupportsIndex] | ArrayLike,
        *,
        tokens: str | TokenTable | None = None,
        dtype: Any = None,
        max_length: int | None = None,
        specials: bool = True,
        one_hot: str | None = None,
        unknown: Literal["zeros", "quarter"] = "zeros",
        reverse_complement: bool | ArrayLike = False,
        out: NDArray[Any] | None = None,
    ) -> Batch:
        """Many records in one call, in the order asked, as one ragged array.

        Args:
            rows: Rows or ids.
            tokens: A token table or its name (``"esm"``, ``"dna"``, ``"nucleotide"``, ``"bytes"``); letters as they are
                without one.
            dtype: uint8, int32 or int64; one-hot also float32. Unless given, the smallest that holds the table.
            max_length: The most letters per record, specials not counted.
            specials: Whether the table's prefix and suffix are put around each record.
            one_hot: An alphabet such as ``"ACGT"``: values get one column per letter of it.
            unknown: What one-hot gives for other letters: zeros, or equal parts that add up to 1 (a quarter of ACGT).
            reverse_complement: Whether to give the reverse complement; one flag, or one per record.
            out: An array to write to, at least as long as needed; the batch's values are then a view of it.

        >>> batch = Fasta("proteins.fa").gather([2, 0], tokens="esm", max_length=4)
        >>> batch.values
        array([ 0, 20, 15, 11,  5,  2,  0, 20, 11, 15, 12,  2], dtype=uint8)
        >>> batch.offsets
        array([ 0,  6, 12])
        """
        if max_length is not None and max_length < 0:
            raise ValueError(f"max_length must not be negative, but is {max_length}")
        wanted = self.rows(rows)
        values, offsets = self._open.gather(
            wanted,
            reverse=_flags(reverse_complement, len(wanted)),
            max_length=max_length,
            specials=specials,
            out=out,
            **_encoding(tokens, one_hot, unknown, dtype, out),
        )
        return Batch(values, offsets)

    def gather_windows(
        self,
        rows: Sequence[str | SupportsIndex] | ArrayLike,
        starts: ArrayLike,
        lengths: ArrayLike,
        *,
        tokens: str | TokenTable | None = None,
        dtype: Any = None,
        specials: bool = False,
        pad: int | None = None,
        one_hot: str | None = None,
        unknown: Literal["zeros", "quarter"] = "zeros",
        reverse_complement: bool | ArrayLike = False,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Many windows in one call, one per row of a two-dimensional array.

        A window that reaches over the end of its record, or is shorter than the array is wide, is filled up with the
        table's padding. ``lengths`` may be one number for all.

        >>> fa = Fasta("genome.fa")
        >>> fa.gather_windows(["chr1", "chr2"], [4, 0], [6, 3], tokens="nucleotide")
        array([[0, 3, 2, 4, 4, 0],
               [2, 2, 0, 4, 4, 4]], dtype=uint8)
        """
        wanted = self.rows(rows)
        begin = one_each(integers(starts, "starts"), len(wanted), "starts")
        sizes = integers(lengths, "lengths")
        size = one_each(sizes, len(wanted), "lengths")
        if one_hot is not None and pad is not None:
            raise ValueError("one_hot fills up with zeros: pad can't be given with it")
        encoding = _encoding(tokens, one_hot, unknown, dtype, out)
        table = encoding["table"]
        around = len(table.prefix) + len(table.suffix) if specials and table is not None else 0
        if out is not None:
            if out.ndim != (3 if one_hot else 2):
                raise ValueError(f"out must have {3 if one_hot else 2} dimensions, not {out.ndim}")
            columns = out.shape[1]
        else:
            columns = int(sizes.max(initial=0)) + around
        values, _ = self._open.gather(
            wanted,
            starts=begin,
            lengths=size,
            reverse=_flags(reverse_complement, len(wanted)),
            columns=columns,
            specials=specials,
            pad=pad,
            out=out,
            **encoding,
        )
        return values

    def __repr__(self) -> str:
        return self._repr("records")


class _Records(ValuesView[FastaRecord]):
    """Records by row: a lookup of each id would cost time and miss those that share one."""

    _mapping: Fasta

    def __iter__(self) -> Iterator[FastaRecord]:
        return (FastaRecord(self._mapping, row) for row in range(len(self._mapping)))


class _Items(ItemsView[str, FastaRecord]):
    _mapping: Fasta

    def __iter__(self) -> Iterator[tuple[str, FastaRecord]]:
        return zip(self._mapping, self._mapping.values(), strict=True)


def _is_text(key: str) -> bool:
    """Whether a str can be an id at all: lone surrogates, as from odd file names, can't be."""
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            return False
    return True


@overload
def _flags(flags: Literal[False], count: int) -> None: ...
@overload
def _flags(flags: bool | ArrayLike, count: int) -> NDArray[np.bool_] | None: ...
def _flags(flags: bool | ArrayLike, count: int) -> NDArray[np.bool_] | None:
    """One flag per record; nothing where none is set."""
    if flags is False:
        return None
    return one_each(np.asarray(flags, dtype=np.bool_), count, "reverse_complement")


def _encoding(
    tokens: str | TokenTable | None, one_hot: str | None, unknown: str, dtype: Any, out: NDArray[Any] | None
) -> dict[str, Any]:
    """The extension's keywords for what the values are to be."""
    if unknown not in ("zeros", "quarter"):
        raise ValueError(f'unknown must be "zeros" or "quarter", not {unknown!r}')
    if out is not None and not isinstance(out, np.ndarray):
        raise TypeError(f"out must be a numpy array, not {type(out).__name__}")
    table = as_table(tokens)
    if dtype is not None:
        name = np.dtype(dtype).name
    elif out is not None:
        name = out.dtype.name
    elif one_hot is not None:
        name = "float32" if unknown == "quarter" else "uint8"
    else:
        name = "uint8" if table is None or table.largest <= np.iinfo(np.uint8).max else "int32"
    share = 1 / len(one_hot) if one_hot and unknown == "quarter" else 0.0
    return {"table": table, "one_hot": one_hot, "unknown": share, "dtype": name}
