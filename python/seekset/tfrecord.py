"""TFRecord files: any record by its row, and the indexes that DALI reads."""

from __future__ import annotations

import errno
import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, cast, overload

import numpy as np

from seekset import _core
from seekset.errors import SeeksetWarning
from seekset.examples import INFERRED_FROM, Columns, Feature, Features, Schema, Values, as_schema, inferred
from seekset.files import as_path, find_files
from seekset.handle import Handle
from seekset.rows import row_number, row_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from seekset.files import AnyPath

__all__ = [
    "TFRecordFile",
    "create_tfrecord_index",
    "ensure_tfrecord_indexes",
    "find_tfrecords",
    "get_tfrecord_index_entries",
    "index_tfrecord_bytes",
    "read_tfrecord_index",
]

Verify: TypeAlias = Literal["lengths", "full"] | None

# Iterating reads as many records at once as fit into this, but not more than so many.
_BYTES_AT_ONCE = 1 << 20
_ROWS_AT_ONCE = 256
# Of so many rows, both ends among them, a pickle says where they lie.
_ROWS_TOLD = 16

# What the system says of a folder that may not be written.
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}


class TFRecordFile(Handle[_core.TFRecordFile], Sequence[bytes]):
    """A TFRecord file, plain or compressed with gzip or zlib, as a sequence of payloads.

    If there is an index beside the file (``train.tfrecord.idx``), it is checked against the file and its rows are the
    rows here. If not, the file's headers are walked once; payloads are not read, nothing is written.

    A compressed file is inflated once, at its first opening; an index beside it (``train.tfrecord.gz.zidx``) then says
    where its records are and where in the file to begin inflating for each.

    Args:
        path: The file.
        index: Another index, whose rows are the rows here, in its order, whatever it leaves out or repeats; ``False``
            takes all records in file order, and neither looks at an index nor writes one.
        rebuild: Whether the ``.zidx`` of a compressed file is built if it is missing or does not fit. If not, those are
            ``StaleIndexError``.
        verify: ``"lengths"`` compares the checksums of lengths, at open and at every read. ``"full"`` compares those of
            payloads as well, at every read. ``None`` is for files that were written without checksums.
        io: ``"mmap"``, or ``"pread"`` for files that others may cut short while they are read.
        progress: Called with bytes done and bytes in all while a file is walked.

    >>> tf = TFRecordFile("train.tfrecord")
    >>> len(tf), tf[0], tf[-1]
    (3, b'first', b'the third')
    >>> tf[1:], tf.get_many([2, 0, 2])
    ([b'second', b'the third'], [b'the third', b'first', b'the third'])
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        index: AnyPath | Literal[False] | None = None,
        rebuild: bool = True,
        verify: Verify = "lengths",
        io: Literal["mmap", "pread"] = "mmap",
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        index = index if index is None or index is False else as_path(index)
        self._begin(as_path(path), {"index": index, "rebuild": rebuild, "verify": _checked(verify), "io": io})
        self._look()
        self._core = self._connect(progress)

    def _begin(self, path: Path, options: dict[str, Any], *, closed: bool = False) -> None:
        super()._begin(path, options, closed=closed)
        self._schemas: dict[bool, Schema] = {}

    def _connect(self, progress: Callable[[int, int], object] | None = None) -> _core.TFRecordFile:
        index = self._options["index"]
        core = _core.TFRecordFile(
            self._path,
            index=index or None,
            walk=index is False,
            build=self._options["rebuild"],
            verify=self._options["verify"],
            io=self._options["io"],
            progress=progress,
        )
        if core.not_written is not None:
            message = (
                f"{self._path}.zidx can't be written ({core.not_written}): the index is kept in memory and built "
                "again at each open"
            )
            warnings.warn(message, SeeksetWarning, stacklevel=3)
        return core

    def _rows_told(self, core: _core.TFRecordFile) -> str:
        # An index may list records otherwise than they lie: where some of its rows are tells it from others.
        count = len(core)
        rows = sorted({(count - 1) * k // (_ROWS_TOLD - 1) for k in range(_ROWS_TOLD)}) if count else []
        digest = hashlib.blake2b(repr([core.entry(row) for row in rows]).encode(), digest_size=4).hexdigest()
        return f"{super()._rows_told(core)} at {digest}"

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def compression(self) -> Literal["gzip", "zlib"] | None:
        """What the file is compressed with; ``None`` if it is plain.

        >>> TFRecordFile("train.tfrecord").compression is None
        True
        """
        return self._open.compression

    @property
    def index_path(self) -> Path | None:
        """The index that the rows come from; ``None`` if they come from the file itself."""
        return self._open.index_path

    def __len__(self) -> int:
        return len(self._open)

    @overload
    def __getitem__(self, key: SupportsIndex) -> bytes: ...
    @overload
    def __getitem__(self, key: slice) -> list[bytes]: ...
    def __getitem__(self, key: SupportsIndex | slice) -> bytes | list[bytes]:
        core = self._core or self._open
        if isinstance(key, slice):
            return core.read_many(np.arange(*key.indices(len(core)), dtype=np.int64))
        return core.read(self._row(key))

    def __iter__(self) -> Iterator[bytes]:
        core = self._open
        count = len(core)
        mean = self._path.stat().st_size // max(count, 1)
        step = min(max(_BYTES_AT_ONCE // max(mean, 1), 1), _ROWS_AT_ONCE)
        for start in range(0, count, step):
            yield from core.read_many(np.arange(start, min(start + step, count), dtype=np.int64))

    def _row(self, key: SupportsIndex) -> int:
        if isinstance(key, bool) or not hasattr(key, "__index__"):
            raise TypeError(f"a record is asked for by row, not by {type(key).__name__}")
        return row_number(key, len(self._open))

    def get_many(self, rows: Iterable[SupportsIndex] | ArrayLike) -> list[bytes]:
        """The payloads of many rows, in the order asked, in one call.

        >>> TFRecordFile("train.tfrecord").get_many([-1, 0])
        [b'the third', b'first']
        """
        core = self._open
        return core.read_many(row_numbers(rows, len(core)))

    def view(self, row: SupportsIndex) -> memoryview:
        """The payload of a row without a copy, read-only; with ``io="pread"`` it is a copy.

        >>> bytes(TFRecordFile("train.tfrecord").view(1)[:3])
        b'sec'
        """
        return memoryview(cast("Any", self._open.view(self._row(row))))

    def entry(self, row: SupportsIndex) -> tuple[int, int]:
        """Where a row lies: its offset, and its size with the 16 bytes around the payload.

        >>> TFRecordFile("train.tfrecord").entry(1)
        (21, 22)
        """
        return self._open.entry(self._row(row))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The bytes of each payload, found without reading one.

        >>> TFRecordFile("train.tfrecord").lengths
        array([5, 6, 9])
        """
        return self._open.lengths()

    def example(self, row: SupportsIndex) -> dict[str, Values]:
        """All features of the ``tf.train.Example`` in a row: arrays of float32 or int64, lists of bytes.

        >>> TFRecordFile("examples.records").example(1)
        {'x': array([1.5, 2.5], dtype=float32), 'label': array([1]), 'name': [b'second']}
        """
        return dict(_core.decode_example(self._open, row=self._row(row)))

    def examples(self, rows: Iterable[SupportsIndex] | ArrayLike, features: Features | Schema | None = None) -> Columns:
        """One column for each feature of the ``tf.train.Example`` in many rows, in the order asked, in one call.

        ``features`` maps names to what is wanted of them, as in :func:`seekset.decode_examples`; without, they are
        those of :meth:`infer_features`. Decoding runs in parallel, without the GIL, and straight from the mapped file.

        >>> tf = TFRecordFile("examples.records")
        >>> columns = tf.examples([2, 0], features={"x": ("float32", (2,)), "label": "int64", "name": "bytes"})
        >>> columns["x"], columns["label"], columns["name"]
        (array([[2.5, 3.5], [0.5, 1.5]], dtype=float32), array([2, 0]), [b'third', b'first'])
        """
        core = self._open
        return self._schema(features, sequences=False).columns(core, row_numbers(rows, len(core)))

    def sequence_example(self, row: SupportsIndex) -> tuple[dict[str, Values], dict[str, list[Values | None]]]:
        """The context of the ``tf.train.SequenceExample`` in a row, and its feature lists step by step."""
        core, at = self._open, self._row(row)
        context, lists = (_core.decode_example(core, row=at, sequences=sequences) for sequences in (False, True))
        return dict(context), dict(lists)

    def sequence_examples(
        self,
        rows: Iterable[SupportsIndex] | ArrayLike,
        context_features: Features | Schema | None = None,
        sequence_features: Features | Schema | None = None,
    ) -> tuple[Columns, Columns]:
        """Columns of the contexts and of the feature lists of the ``tf.train.SequenceExample`` in many rows.

        See :func:`seekset.decode_sequence_examples` for what the columns are.
        """
        core = self._open
        wanted = row_numbers(rows, len(core))
        context = self._schema(context_features, sequences=False).columns(core, wanted)
        return context, self._schema(sequence_features, sequences=True).columns(core, wanted, sequences=True)

    def infer_features(self, *, sequences: bool = False) -> dict[str, Feature]:
        """What the features of the first 100 records look like, as :func:`seekset.infer_features` has them.

        >>> TFRecordFile("examples.records").infer_features()["x"]
        Feature(dtype='float32', shape=(2,), default=None)
        """
        return dict(self._schema(None, sequences=sequences).features)

    def _schema(self, features: Features | Schema | None, *, sequences: bool) -> Schema:
        if features is not None:
            return as_schema(features)
        if sequences not in self._schemas:
            core = self._open
            first = np.arange(min(len(core), INFERRED_FROM), dtype=np.int64)
            self._schemas[sequences] = Schema(inferred(core, first, sequences=sequences))
        return self._schemas[sequences]

    def __repr__(self) -> str:
        return self._repr("records")


def create_tfrecord_index(
    tfrecord_path: AnyPath,
    index_path: AnyPath | None = None,
    *,
    verify: Verify = "lengths",
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Write the index of a TFRecord file, as DALI's ``tfrecord2idx`` does, and return the number of records.

    The index lies beside the file, with ``.idx`` added to its name, unless ``index_path`` says otherwise. It appears
    whole or not at all: if anything is wrong with the file, what was there before stays.

    >>> create_tfrecord_index("train.tfrecord")
    3
    >>> Path("train.tfrecord.idx").read_text().splitlines()
    ['0 21', '21 22', '43 25']
    """
    path = as_path(tfrecord_path)
    index = beside(path) if index_path is None else as_path(index_path)
    return _core.write_tfrecord_index(path, index, _checked(verify), progress)


def index_tfrecord_bytes(tfrecord_bytes: bytes | bytearray | memoryview, *, verify: Verify = "lengths") -> str:
    r"""The index of a TFRecord file that is in memory, as text.

    >>> index_tfrecord_bytes(Path("train.tfrecord").read_bytes())
    '0 21\n21 22\n43 25\n'
    """
    return _core.tfrecord_index_text(_as_buffer(tfrecord_bytes), _checked(verify))


def get_tfrecord_index_entries(
    tfrecord_bytes: bytes | bytearray | memoryview, *, verify: Verify = "lengths"
) -> list[tuple[int, int]]:
    """Where the records of a TFRecord file in memory lie: pairs of offset and size.

    >>> get_tfrecord_index_entries(Path("train.tfrecord").read_bytes())
    [(0, 21), (21, 22), (43, 25)]
    """
    return _core.tfrecord_entries(_as_buffer(tfrecord_bytes), _checked(verify))


def read_tfrecord_index(index_path: AnyPath) -> list[tuple[int, int]]:
    r"""Read an index: pairs of offset and size, in the order of its lines.

    What DALI would misread without a word is a ``FormatError`` with the line: what is no number, a negative one, a line
    of one or of three columns, a number that is too large.

    >>> _ = Path("some.idx").write_text("43 25\n0 21\n")
    >>> read_tfrecord_index("some.idx")
    [(43, 25), (0, 21)]
    """
    return _core.read_tfrecord_index(as_path(index_path))


def ensure_tfrecord_indexes(
    patterns: AnyPath | Iterable[AnyPath],
    *,
    verify: Verify = "lengths",
    progress: Callable[[int, int], object] | None = None,
) -> tuple[list[str], list[str]]:
    """The sorted paths of files and of their indexes, as DALI's reader takes them; what is missing or stale is made.

    ``patterns`` are files, folders or globs. An index fits if its records follow each other from the start of the file
    to its end and sampled ones have the length that the file states; times of modification play no part. An index that
    lists sound records otherwise (some only, in another order, repeated) is taken for one of your own: it is left as it
    is, with a ``SeeksetWarning``. One that merely ends early is made again, because the file has grown.

    >>> ensure_tfrecord_indexes("*.tfrecord")
    (['train.tfrecord'], ['train.tfrecord.idx'])
    """
    from seekset.indexing import Progress, side_by_side

    checked = _checked(verify)
    files = find_tfrecords(patterns)

    def one(file: Path, tell: Callable[[int, int], None]) -> tuple[Path, str]:
        try:
            how, _ = _core.ensure_tfrecord_index(file, beside(file), checked, tell)
        except OSError as error:
            if error.errno in _NOT_ALLOWED and os.access(file, os.R_OK):
                remedy = "write it elsewhere with create_tfrecord_index(path, index_path), and name it to the reader"
                raise type(error)(error.errno, f"{error.strerror}; {remedy}", str(beside(file))) from None
            raise
        tell(1, 1)
        return file, how

    for file, how in side_by_side(files, one, watch=Progress(files, progress)):
        if how == "own":
            message = f"{beside(file)} lists other rows than {file} has, or in another order; it is left as it is"
            warnings.warn(message, SeeksetWarning, stacklevel=2)
    return [str(file) for file in files], [str(beside(file)) for file in files]


def find_tfrecords(patterns: AnyPath | Iterable[AnyPath]) -> list[Path]:
    """The files that paths, folders and globs name, sorted and each once; indexes are none of them.

    Of a folder, the files with ``.tfrecord`` in their name are meant. What names no file is a ``FileNotFoundError``.

    >>> find_tfrecords([".", "train.*"])
    [PosixPath('train.tfrecord')]
    """
    kind = "file with .tfrecord in its name"
    return sorted(find_files(patterns, kind, lambda name: ".tfrecord" in name, frozenset({".idx", ".zidx"})))


def beside(path: Path) -> Path:
    """Where the index of a file is, unless somebody put it elsewhere.

    >>> beside(Path("data/train.tfrecord"))
    PosixPath('data/train.tfrecord.idx')
    """
    return path.with_name(f"{path.name}.idx")


def _as_buffer(data: bytes | bytearray | memoryview) -> bytes | NDArray[np.uint8]:
    """Bytes without a copy, as the extension takes them."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, (bytearray, memoryview)):
        raise TypeError(
            f"give the bytes of a TFRecord file, not {type(data).__name__}; create_tfrecord_index takes paths"
        )
    view = memoryview(data)
    return np.frombuffer(view.cast("B"), dtype=np.uint8) if view.nbytes else b""


def _checked(verify: Verify) -> Verify:
    if verify not in ("lengths", "full", None):
        raise ValueError(f'verify must be "lengths", "full" or None, not {verify!r}')
    return verify
