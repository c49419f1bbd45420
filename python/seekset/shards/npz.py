"""Shards that numpy wrote with ``savez`` or ``savez_compressed``: one member for each column."""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.lib import format as npy

from seekset.errors import FormatError, MemoryLimitError
from seekset.files import SUFFIXES, AnyPath, as_path, state_of
from seekset.limits import whole_number
from seekset.rows import row_numbers
from seekset.shards.packed import measured
from seekset.shards.rows import Census, Field, Rows, bounded_census, is_numeric, little_endian, piece_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["NpzShards"]

_LOCAL_HEADER = struct.Struct("<4s22xHH")
_ENCRYPTED = 1
_MOST_LAYOUTS = 1024
_RETRIES = 8
# The versions of numpy's header that hold plain numbers.
_HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}


@dataclass(frozen=True, slots=True)
class _Member:
    """An array in a shard: what its header says, and where its values are in the file if they are not compressed."""

    info: zipfile.ZipInfo
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    header: int
    start: int | None

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * prod(self.shape)

    @property
    def field(self) -> Field:
        return Field(self.info.filename.removesuffix(".npy"), self.dtype.newbyteorder("<").str, self.shape[1:])


@dataclass(frozen=True, slots=True)
class _Layout:
    """What is in a shard, as long as it is the file it was."""

    state: tuple[int, ...]
    members: tuple[_Member, ...]
    dropped: tuple[str, ...]

    @property
    def rows(self) -> int:
        return self.members[0].shape[0]

    @property
    def inflated(self) -> int:
        """What its compressed members take."""
        return sum(member.header + member.nbytes for member in self.members if member.start is None)


class NpzShards:
    """Reads ``.npz`` shards: every array of numbers is a column, whose first axis is the row.

    Members that are not compressed are read by rows, from a memory map; zip's checksum of a member is compared only
    where it is read whole, because it is compressed. Arrays of strings, and those without an axis, are dropped; arrays
    of objects are refused, since they would be pickles.

    Args:
        max_bytes: The most that the compressed members of a shard may take inflated.
        measure: Whether a shard is read once when it is counted, to see what its rows take packed. Without, headers are
            enough, and a row is taken for as long as it is unpacked: a pool is smaller then than its bytes allow.

    >>> np.savez("a.npz", x=np.arange(6).reshape(3, 2), y=np.ones(3), note="from a run")
    >>> rows = NpzShards().read_rows("a.npz", [2, 0])
    >>> rows.columns["x"].tolist(), rows.columns["y"].tolist()
    ([[4, 5], [0, 1]], [1.0, 1.0])
    >>> NpzShards().count("a.npz").dropped
    ('note',)
    """

    suffixes: tuple[str, ...] = SUFFIXES["npz"]

    def __init__(self, *, max_bytes: int = 4 << 30, measure: bool = True) -> None:
        self.max_bytes: int = whole_number(max_bytes, "max_bytes")
        self.measure: bool = measure
        self.identity = "npz/2" if measure else "npz/2 bounded"
        self._layouts: dict[Path, _Layout] = {}

    def count(self, path: AnyPath) -> Census:
        """What is known of a shard: from its headers, and from its rows, which are packed to measure them."""
        path = as_path(path)
        layout = self._layout(path)
        fields = tuple(member.field for member in layout.members)
        known = bounded_census(layout.rows, fields, decoded_bytes=2 * layout.inflated, dropped=layout.dropped)
        if not self.measure:
            return known
        return measured(known, self._pieces(path, piece_rows(known)), path)

    def _pieces(self, path: Path, rows: int) -> Iterator[Rows]:
        """All rows, so many at a time."""
        arrays = self._arrays(path)
        for start in range(0, self._layout(path).rows, rows):
            columns = {name: little_endian(array[start : start + rows]) for name, array in arrays.items()}
            yield Rows(columns=columns)

    def read(self, path: AnyPath) -> Rows:
        """All rows of a shard."""
        path = as_path(path)
        # A copy of a map: rows must outlive the file as it is now.
        arrays = self._arrays(path)
        return Rows(columns={name: little_endian(np.array(array, order="C")) for name, array in arrays.items()})

    def read_rows(self, path: AnyPath, rows: Any) -> Rows:
        """The rows with these numbers, in that order."""
        path = as_path(path)
        wanted = row_numbers(rows, self._layout(path).rows)
        return Rows(columns={name: little_endian(array[wanted]) for name, array in self._arrays(path).items()})

    def _arrays(self, path: Path) -> dict[str, NDArray[Any]]:
        layout = self._layout(path)
        with ExitStack() as stack:
            archive = stack.enter_context(_opened(path)) if layout.inflated else None
            return {member.field.name: _values(archive, member, path) for member in layout.members}

    def _layout(self, path: Path) -> _Layout:
        """Where the members of a shard are; kept, because rows are read many times."""
        state = state_of(path)
        known = self._layouts.get(path)
        if known is None or known.state != state:
            known = _layout(path, state)
            if len(self._layouts) >= _MOST_LAYOUTS:
                self._layouts.clear()
            self._layouts[path] = known
        if known.inflated > self.max_bytes:
            raise MemoryLimitError(
                f"{path}: its members take {known.inflated} bytes inflated, but {self.max_bytes} are allowed; "
                "give the reader a larger max_bytes if that is right"
            )
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.max_bytes, self.measure)

    def __repr__(self) -> str:
        return f"NpzShards(max_bytes={self.max_bytes}, measure={self.measure})"


def _made(max_bytes: int, measure: bool) -> NpzShards:
    return NpzShards(max_bytes=max_bytes, measure=measure)


def _layout(path: Path, state: tuple[int, ...]) -> _Layout:
    with _opened(path) as archive:
        infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        found = [_member(archive, info, path) for info in infos]
    members = [member for member in found if member.shape and is_numeric(member.dtype)]
    if not members:
        raise FormatError(f"{path}: expected arrays of numbers with a row on the first axis, found none")
    first = members[0]
    for member in members:
        if member.shape[0] != first.shape[0]:
            raise FormatError(
                f"{path}: {member.field.name!r}: expected {first.shape[0]} rows, as {first.field.name!r} has, "
                f"found {member.shape[0]}"
            )
    if len({member.field.name for member in members}) < len(members):
        raise FormatError(f"{path}: expected members with different names, found two with the same")
    dropped = tuple(member.field.name for member in found if member not in members)
    return _Layout(state, tuple(members), dropped)


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
        raise FormatError(f"{path}: expected a zip archive of arrays, as numpy.savez writes it: {error}") from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> _Member:
    """What the header of an array says, checked against the archive."""
    name = info.filename
    if info.flag_bits & _ENCRYPTED:
        raise FormatError(f"{path}: {name!r} is encrypted")
    stored = info.compress_type == zipfile.ZIP_STORED
    with _reading(path, name), archive.open(info) as file:
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"version {version[0]}.{version[1]} of numpy's header is for fields with names")
        shape, fortran, dtype = _header(version, file)
        header = file.tell()
    if dtype.hasobject:
        raise FormatError(f"{path}: {name!r} holds objects, which would be pickles: only numbers and strings are read")
    nbytes = dtype.itemsize * prod(shape)
    if any(size < 0 for size in shape) or header + nbytes != info.file_size:
        raise FormatError(
            f"{path}: {name!r}: expected {header} bytes and {dtype} of shape {shape} after them, "
            f"found {info.file_size} bytes in all"
        )
    with _reading(path, name):
        start = _stored_at(info, path) + header if stored else None
    return _Member(info, dtype, shape, fortran, header, start)


def _header(version: tuple[int, int], file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """What the header of an array says: its shape, whether it is in Fortran's order, and its dtype."""
    start = file.tell()
    for _ in range(_RETRIES):
        # numpy reads headers as Python's syntax, whose depth Pythons before 3.13 count for all threads in one: where
        # two read at once, one may be told of a mismatch, which is none.
        with suppress(SystemError):
            return _HEADERS[version](file)
        file.seek(start)
    return _HEADERS[version](file)


def _stored_at(info: zipfile.ZipInfo, path: Path) -> int:
    """Where the bytes of a member begin: after a header of its own, which the archive's directory does not measure."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        found = file.read(_LOCAL_HEADER.size)
        size = file.seek(0, 2)
    if len(found) == _LOCAL_HEADER.size:
        magic, name, extra = _LOCAL_HEADER.unpack(found)
        start: int = info.header_offset + _LOCAL_HEADER.size + name + extra
        if magic == b"PK\3\4" and info.compress_size == info.file_size and start + info.file_size <= size:
            return start
    raise FormatError(
        f"{path}: {info.filename!r}: expected its header at byte {info.header_offset}, found something else"
    )


def _values(archive: zipfile.ZipFile | None, member: _Member, path: Path) -> NDArray[Any]:
    order: Literal["F", "C"] = "F" if member.fortran else "C"
    if archive is not None and member.start is None:
        with _reading(path, member.info.filename):
            content = archive.read(member.info)
            return np.frombuffer(content, member.dtype, offset=member.header).reshape(member.shape, order=order)
    if not member.nbytes:
        return np.empty(member.shape, member.dtype)  # nothing can't be mapped
    return np.memmap(path, member.dtype, "r", member.start or 0, member.shape, order)


class _reading:  # noqa: N801 (a context, as functions are)
    """Turn what zipfile and numpy say of damaged bytes into an error with the file's name."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        wrong = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError, SyntaxError)
        # An offset that is none is an error of the system.
        nowhere = isinstance(error, OSError) and error.errno == errno.EINVAL
        if nowhere or (isinstance(error, wrong) and not isinstance(error, FormatError)):
            raise FormatError(f"{self.path}: {self.name!r}: expected an array as numpy writes it: {error}") from None
