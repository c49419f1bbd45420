"""The SQLite stores of BioNeMo's Sharded Eden: contigs in one database per sample, windows of them in one per split.

>>> path = create_sample_database("A.B", [("x__y-A-B__1", "ACGTACGTAC"), ("x__y-A-B__2", "ACG")], "dbs")
>>> path
PosixPath('dbs/A.B/glm_dataset_A.B.sqlite')
>>> find_sample_databases("dbs")
{'A.B': PosixPath('dbs/A.B/glm_dataset_A.B.sqlite')}
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seekset import _core
from seekset.errors import DuplicateIdError, FormatError, MismatchError
from seekset.extras import missing
from seekset.files import AnyPath, as_path
from seekset.limits import MOST_LETTERS, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = [
    "WindowReport",
    "compute_num_windows",
    "create_sample_database",
    "extract_sample_id",
    "find_sample_databases",
    "precompute_window_database",
    "sample_database_path",
]

# SQLite's own mutexes are shared by all connections of a process: no fork is made while a thread may hold one.
os.register_at_fork(before=_core.hold_sqlite, after_in_parent=_core.release_sqlite, after_in_child=_core.release_sqlite)

# The special tokens of a window as ShardedEdenDataset reads it unless told otherwise: bos and eos.
_SPECIALS = 2

# Rows of a Parquet file that are in memory at a time.
_ROWS = 1 << 16


class WindowReport(NamedTuple):
    """What a window database holds."""

    path: Path
    windows: int
    sequences: int
    left_out: int  # contigs that are shorter than the threshold


def extract_sample_id(sequence_id: str) -> str:
    """The sample that a contig's id names.

    >>> extract_sample_id("BCR__ECT-A-B-C__CT1-1")
    'A.B.C'

    An id of another form is a ``ValueError``.

    >>> extract_sample_id("chr1")
    Traceback (most recent call last):
    ValueError: the id 'chr1' names no sample: expected the form PROJECT__PREFIX-SAMPLE__CONTIG, ...
    """
    sample = _core.sample_of(sequence_id)
    if sample is None:
        raise ValueError(
            f"the id {sequence_id!r} names no sample: expected the form PROJECT__PREFIX-SAMPLE__CONTIG, as in "
            "'BCR__ECT-SAMPLE1__CT1-1'"
        )
    return sample


def compute_num_windows(seq_len: int, window_size: int = 8192, stride: int = 7992) -> int:
    """How many windows a contig of so many letters has: one if it is shorter than a window.

    >>> [compute_num_windows(length) for length in (0, 8192, 16183, 16184)]
    [1, 1, 1, 2]
    """
    for name, value, least in (("seq_len", seq_len, 0), ("window_size", window_size, 1), ("stride", stride, 1)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value}")
    return _core.count_windows(seq_len, window_size=window_size, stride=stride)


def sample_database_path(folder: AnyPath, sample_id: str) -> Path:
    """Where the database of a sample is in a folder of many.

    >>> sample_database_path("dbs", "A.B")
    PosixPath('dbs/A.B/glm_dataset_A.B.sqlite')
    """
    if not sample_id or sample_id in {".", ".."} or "/" in sample_id or "\0" in sample_id:
        raise ValueError(f"the sample id {sample_id!r} can't be the name of a folder")
    return as_path(folder) / sample_id / f"glm_dataset_{sample_id}.sqlite"


def create_sample_database(sample_id: str, sequences: Iterable[tuple[str, str]], output_dir: AnyPath) -> Path:
    """Write the database of a sample from pairs of contig ids and letters.

    It is written beside its name and renamed; a sample database that is there already is replaced without a question,
    any other file is not. Returns where it is. (``seekset eden build`` asks for ``--replace``.)

    >>> create_sample_database("S", [("x__y-S__1", "ACGT")], "dbs")
    PosixPath('dbs/S/glm_dataset_S.sqlite')
    >>> create_sample_database("S", [("a", "ACGT"), ("a", "AC")], "dbs")
    Traceback (most recent call last):
    seekset.errors.DuplicateIdError: contig 'a' is there twice, in rows 0 and 1 (from 0); each contig must have ...
    """
    path = sample_database_path(output_dir, sample_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = _core.SampleWriter(path)
    try:
        for contig, letters in sequences:
            writer.add(contig, letters)
        return writer.finish()
    finally:
        writer.abandon()


def find_sample_databases(folder: AnyPath) -> dict[str, Path]:
    """The databases of all samples in a folder, by sample.

    >>> _ = create_sample_database("S", [("x__y-S__1", "ACGT")], "dbs")
    >>> find_sample_databases("dbs")["S"]
    PosixPath('dbs/S/glm_dataset_S.sqlite')
    """
    folder = as_path(folder)
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            # Not sample_database_path: what else a folder holds is no error.
            path = folder / entry.name / f"glm_dataset_{entry.name}.sqlite"
            if path.is_file():
                found[entry.name] = path
    if not found:
        raise ValueError(
            f"No SQLite files in {folder}: expected one for each sample, as in SAMPLE/glm_dataset_SAMPLE.sqlite"
        )
    return dict(sorted(found.items()))


def precompute_window_database(
    parquet: AnyPath,
    db: AnyPath,
    window_size: int = 8192,
    stride: int = 7992,
    window_min_length_threshold: int = 0,
    *,
    id_column: str = "contig_id",
    length_column: str = "length",
    progress: Callable[[int, int], object] | None = None,
) -> WindowReport:
    """Write the window database of the contigs that a Parquet file lists by id and length.

    Windows stand in the order of ids; window ``k`` of a contig begins at letter ``k * stride``. Windows with fewer
    letters than ``window_min_length_threshold`` are left out. The database is written beside its name and renamed;
    one that is there already is replaced, any other file is not.

    Items have ``bos`` and ``eos`` beside letters: where ``stride`` is more than ``window_size`` less these two, a
    warning says how many letters are in no window.

    >>> import pyarrow as pa, pyarrow.parquet
    >>> table = pa.table({"contig_id": ["x__y-S__2", "x__y-S__1"], "length": [20_000, 500]})
    >>> pa.parquet.write_table(table, "contigs.parquet")
    >>> precompute_window_database("contigs.parquet", "train.sqlite")
    WindowReport(path=PosixPath('train.sqlite'), windows=3, sequences=2, left_out=0)
    """
    import numpy as np

    whole_number(window_size, "window_size", most=MOST_LETTERS)
    whole_number(stride, "stride", most=MOST_LETTERS)
    whole_number(window_min_length_threshold, "window_min_length_threshold", least=0, most=MOST_LETTERS)
    source, path = as_path(parquet), as_path(db)
    if not path.parent.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder; make it first", str(path.parent))
    writer = _core.EdenWindowsWriter(path, window_size=window_size, stride=stride, shortest=window_min_length_threshold)
    unseen = _Unseen(window_size, stride, window_min_length_threshold)
    row = 0
    for ids, lengths in _contigs(source, id_column, length_column):
        _refuse_nulls(source, row, {id_column: ids, length_column: lengths})
        numbers = np.ascontiguousarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
        if (numbers < 0).any():
            at = int(np.argmax(numbers < 0))
            raise MismatchError(
                f"{source}: row {row + at}: contig {ids[at].as_py()!r} has the length {numbers[at]}, which is negative"
            )
        if (numbers > MOST_LETTERS).any():
            at = int(np.argmax(numbers > MOST_LETTERS))
            raise MismatchError(
                f"{source}: row {row + at}: contig {ids[at].as_py()!r} has the length {numbers[at]}, but SQLite "
                f"holds no more than {MOST_LETTERS} letters of a contig"
            )
        writer.add(ids.to_pylist(), numbers)
        unseen.add(numbers)
        row += len(ids)
    # Before hundreds of millions of windows are written: whoever meant something else can stop here.
    unseen.warn()
    try:
        return WindowReport(path, *writer.finish(progress=progress))
    except DuplicateIdError as error:
        raise DuplicateIdError(f"{source}: {error}") from error


class _Unseen:
    """The letters of contigs that are in no window, counted where windows begin further apart than they are long."""

    def __init__(self, window_size: int, stride: int, threshold: int) -> None:
        # A window of nothing but specials can only be meant to be read without them.
        self._content = window_size - _SPECIALS if window_size > _SPECIALS else window_size
        self._rule = (window_size, self._content, stride, "drop", threshold, None)
        # With a threshold beyond the window there are no windows at all, whatever the stride.
        self._counts = stride > self._content and threshold <= window_size
        self._unseen = self._letters = 0

    def add(self, lengths: NDArray[np.int64]) -> None:
        if self._counts:
            self._unseen += _core.window_ends(self._rule, lengths)[1]
            self._letters += int(lengths.sum())

    def warn(self) -> None:
        from seekset.windows import warn_of_unseen

        beside = " beside bos and eos" if self._content < self._rule[0] else ""
        warn_of_unseen(
            self._unseen,
            self._letters,
            stride=self._rule[2],
            content=self._content,
            beside=beside,
            drops=True,
            stacklevel=4,
        )


def _contigs(source: Path, id_column: str, length_column: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Ids as text and lengths as int64, some rows at a time."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise missing("reading Parquet", "pyarrow", "eden") from None

    if not source.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
    if source.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(source))
    try:
        with pq.ParquetFile(source) as file:
            _refuse_columns(source, file.schema_arrow, id_column, length_column)
            for batch in file.iter_batches(_ROWS, columns=[id_column, length_column]):
                # As strings, whatever they are stored as: dictionaries and the like.
                yield batch.column(id_column).cast(pa.string()), batch.column(length_column).cast(pa.int64())
    except pa.ArrowException as error:
        raise FormatError(f"{source}: not a Parquet file that can be read: {error}") from error


def _refuse_columns(source: Path, schema: Any, id_column: str, length_column: str) -> None:
    import pyarrow as pa

    for name in (id_column, length_column):
        if name not in schema.names:
            raise MismatchError(f"{source}: expected a column {name!r}, found {', '.join(schema.names)}")
    kind = schema.field(length_column).type
    if not pa.types.is_integer(kind):
        raise MismatchError(f"{source}: expected whole numbers in column {length_column!r}, found {kind}")


def _refuse_nulls(source: Path, row: int, columns: dict[str, pa.Array]) -> None:
    for name, values in columns.items():
        if values.null_count:
            at = row + values.is_null().index(True).as_py()
            raise MismatchError(f"{source}: row {at}: column {name!r} has no value")
