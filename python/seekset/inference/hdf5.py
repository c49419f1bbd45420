"""Embeddings in one HDF5 file, written from the first row to the last."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from seekset.errors import MismatchError, MissingExtraError
from seekset.extras import missing
from seekset.publishing import published, refuse_to_replace, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["WINDOW_BYTES", "EmbeddingsFile", "import_h5py", "read_attributes", "refuse_target"]

# What is gathered before it is written: the memory that an aggregation takes, whatever its size.
WINDOW_BYTES = 32 << 20
# Large enough that their number costs little, small enough that a reader of one row reads little beside.
_CHUNK_BYTES = 1 << 18
_CHUNK_NUMBERS = 1 << 14
# Chunks of HDF5 are smaller than 4 GiB.
_WIDEST = 1 << 24
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def import_h5py() -> Any:
    """h5py, or an error that says how to get it."""
    try:
        import h5py
    except ImportError:
        raise missing("embeddings.h5", "h5py", "inference") from None
    return h5py


def read_attributes(path: Path) -> dict[str, Any] | None:
    """What a file of embeddings says of itself; ``None`` if it is none, or nobody here can read it."""
    try:
        with import_h5py().File(path) as file:
            return dict(file.attrs)
    except (OSError, MissingExtraError):
        return None


class _Disk:
    """The file that HDF5 writes to. An error is kept until it is asked for.

    HDF5 can't close a file to which it can't write, and ends the process when it tries again at its exit. So it is told
    that all went well; whoever uses it asks after every write, and throws the file away.
    """

    def __init__(self, part: Path, path: Path) -> None:
        self._number = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._path, self._at, self._end = path, 0, 0
        self._error: OSError | None = None

    def check(self) -> None:
        """Raise what went wrong, if something did."""
        if self._error is not None:
            raise OSError(self._error.errno, self._error.strerror, str(self._path)) from None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._end}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def write(self, data: memoryview) -> int:
        rest = data
        try:
            while self._error is None and len(rest):
                rest = rest[os.pwrite(self._number, rest, self._at + len(data) - len(rest)) :]
        except OSError as error:
            self._error = error
        self.seek(len(data), os.SEEK_CUR)
        self._end = max(self._end, self._at)
        return len(data)

    def readinto(self, buffer: memoryview) -> int:
        read = os.preadv(self._number, [buffer], self._at)
        # What was not written is read as nothing.
        buffer[read:] = bytes(len(buffer) - read)
        self.seek(len(buffer), os.SEEK_CUR)
        return len(buffer)

    def read(self, size: int) -> bytes:
        buffer = bytearray(size)
        self.readinto(memoryview(buffer))
        return bytes(buffer)

    def truncate(self, size: int) -> int:
        try:
            os.ftruncate(self._number, size)
        except OSError as error:
            self._error = self._error or error
        self._end = size
        return size

    def flush(self) -> None:
        """Nothing is kept back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._number)


def refuse_target(path: Path) -> None:
    """Raise what would keep a file of embeddings from being written, while nothing has been done for it yet.

    What is there and no HDF5 file is refused: whoever named it meant something else.

    >>> from pathlib import Path
    >>> refuse_target(Path("nowhere/embeddings.h5"))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] there is no such folder: 'nowhere'
    """
    folder = path.parent
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(folder))
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "it is a file, but a folder is needed", str(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "this folder can't be written to", str(folder))
    refuse_to_replace(path, "HDF5 file", lambda start: start.startswith(_SIGNATURE))


class EmbeddingsFile:
    """An HDF5 file with ``embeddings``, ``sequence_ids`` and other numbers of each sequence, under way."""

    def __init__(self, file: Any, path: Path, disk: _Disk) -> None:
        self._file, self._path, self._disk = file, path, disk
        self._filled: dict[str, int] = {}

    @classmethod
    @contextmanager
    def written(cls, path: Path) -> Iterator[EmbeddingsFile]:
        """A file to be filled. It is at ``path`` when this ends; after an error, what was there before still is."""
        h5py = import_h5py()
        refuse_target(path)
        sweep(path.parent, target=path.name)
        with published(path) as part, _Disk(part, path) as disk:
            file = h5py.File(disk, "w")
            try:
                yield cls(file, path, disk)
            finally:
                try:
                    file.close()
                finally:
                    disk.check()

    def create(self, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        """Begin a dataset of so many rows, numbers or (``str``) texts."""
        kind = import_h5py().string_dtype("utf-8") if dtype is str else np.dtype(dtype)
        chunks = None
        if 0 not in shape:
            row = kind.itemsize * int(np.prod(shape[1:]))
            rows = _CHUNK_BYTES // row if len(shape) > 1 else _CHUNK_NUMBERS
            chunks = (min(shape[0], max(rows, 1)), *(min(size, _WIDEST) for size in shape[1:]))
        self._file.create_dataset(name, shape, kind, chunks=chunks)
        self._filled[name] = 0

    def window(self, name: str) -> int:
        """How many rows of a dataset are best written at once: whole chunks, within what a window may take."""
        data = self._file[name]
        if data.chunks is None:
            return 1
        row = data.dtype.itemsize * int(np.prod(data.shape[1:]))
        rows = max(WINDOW_BYTES // row, 1)
        return int(rows - rows % data.chunks[0] or rows)

    def append(self, name: str, values: NDArray[Any] | Sequence[str]) -> None:
        """Write the next rows of a dataset."""
        at = self._filled[name]
        self._filled[name] = at + len(values)
        if len(values) == 0:
            return
        if not isinstance(values, np.ndarray):
            for text in values:
                if "\0" in text:
                    raise MismatchError(f"{self._path}: HDF5 has no texts with a NUL in them, such as the id {text!r}")
            values = np.array(values, dtype=object)
        self._file[name][at : at + len(values)] = values
        self._disk.check()

    def describe(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes of the file."""
        for name, value in attributes.items():
            self._file.attrs[name] = value
