"""The file of a chunk: the rows and vectors of a span in one safetensors file, with a checksum over all of it."""

from __future__ import annotations

import json
import mmap
import os
import re
import stat
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from seekset.errors import CorruptRecordError, FormatError, MismatchError, StaleIndexError
from seekset.inference.results import Failure, Result, Span

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Arrays", "Chunk", "encode", "examine", "file_name", "identity_of", "is_file_name"]

_NAME = re.compile(r"[0-9]{12,18}-[0-9]{12,18}\.safetensors", re.ASCII)
# The checksum stands first, so that it is found without reading the rest of the header as JSON.
_OPENING = b'{"__metadata__":{"seekset.check":"'
_ZEROS = b"00000000"
_CHECK_AT = 8 + len(_OPENING)
_START = _CHECK_AT + len(_ZEROS)
# Far more than headers have, and less than a process would miss.
_LONGEST_HEADER = 64 << 20
_LONGEST_REASON = 1000
_WIDEST = 2**31 - 1
_BLOCK = 1 << 20
_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2")}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


class Arrays(NamedTuple):
    """The tensors of a chunk file, as views of its pages; ``mapping`` is what they are views of."""

    rows: NDArray[np.int64]
    counts: NDArray[np.int64] | None
    vectors: NDArray[Any]
    mapping: mmap.mmap


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is known of a chunk file that was read from its first byte to its last, and found in order."""

    path: Path
    run: str
    span: Span
    failures: tuple[Failure, ...]
    dtype: np.dtype[Any]
    # Sequences that have vectors, vectors, and numbers of a vector.
    count: int
    height: int
    width: int
    per_token: bool
    # Where the tensors start.
    data: int
    # Size, time and number of the file.
    identity: tuple[int, int, int]

    def arrays(self) -> Arrays:
        """Its tensors, without a copy. A file that is not the one examined is a ``StaleIndexError``."""
        with _opened(self.path) as file:
            found = identity_of(os.fstat(file.fileno()))
            if found != self.identity:
                raise StaleIndexError(
                    f"{self.path}: it has changed since it was examined: expected {self.identity[0]} bytes of time "
                    f"{self.identity[1]}, found {found[0]} of time {found[1]}"
                )
            mapping = mmap.mmap(file.fileno(), self.identity[0], access=mmap.ACCESS_READ)
        at, size = self.data, 8 * self.count
        rows = np.frombuffer(mapping, "<i8", self.count, at)
        counts = np.frombuffer(mapping, "<i8", self.count, at + size) if self.per_token else None
        at += 2 * size if self.per_token else size
        vectors = np.frombuffer(mapping, self.dtype, self.height * self.width, at)
        return Arrays(rows, counts, vectors.reshape(self.height, self.width), mapping)


def file_name(span: Span) -> str:
    """What the file of a span is called: names in order are spans in order.

    >>> file_name(Span(0, 128))
    '000000000000-000000000128.safetensors'
    """
    return f"{span.start:012d}-{span.end:012d}.safetensors"


def is_file_name(name: str) -> bool:
    """Whether a file may be a chunk's, by its name."""
    return _NAME.fullmatch(name) is not None


def encode(result: Result, run: str) -> list[bytes | memoryview]:
    """The bytes of a chunk file, in parts. A result that is none is a ``MismatchError``."""
    rows = np.ascontiguousarray(result.rows, "<i8")
    counts = None if result.counts is None else np.ascontiguousarray(result.counts, "<i8")
    dtype = result.vectors.dtype.newbyteorder("<")
    if dtype not in _NAMES:
        raise MismatchError(f"vectors must be float32 or float16, but are {result.vectors.dtype}")
    vectors = np.ascontiguousarray(result.vectors, dtype)
    wrong = _contradiction(result.span, rows, counts, vectors.shape, result.failures)
    if wrong is not None:
        raise MismatchError(f"pieces {result.span.start} to {result.span.end}: {wrong}")
    tensors = {"rows": ("I64", rows), "counts": ("I64", counts), "vectors": (_NAMES[dtype], vectors)}
    described: dict[str, Any] = {"__metadata__": _metadata(result, run)}
    at, parts = 0, []
    for name, (kind, array) in tensors.items():
        if array is None:
            continue
        described[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
        parts.append(array.reshape(-1).view(np.uint8).data)
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _LONGEST_HEADER:
        raise MismatchError(f"pieces {result.span.start} to {result.span.end}: failures fill {len(text)} bytes")
    header = len(text).to_bytes(8, "little") + text
    check = zlib.crc32(header)
    for part in parts:
        check = zlib.crc32(part, check)
    return [header[:_CHECK_AT], b"%08x" % check, header[_START:], *parts]


def _metadata(result: Result, run: str) -> dict[str, str]:
    failures = [[piece, row, name, reason[:_LONGEST_REASON]] for piece, row, name, reason in result.failures]
    return {
        "seekset.check": _ZEROS.decode(),
        "seekset.kind": "chunk",
        "seekset.version": "1",
        "seekset.run": run,
        "seekset.span": f"{result.span.start} {result.span.end}",
        "seekset.failures": json.dumps(failures, separators=(",", ":")),
    }


def examine(path: Path) -> Chunk:
    """Read a chunk file, all of it, and say what it holds. Whatever is wrong with it is a ``FormatError``.

    Nothing is allocated by what the file says of itself before that was compared with its size, and nothing in it is
    believed before its checksum was compared.
    """
    with _opened(path) as file:
        return _examined(file, path)


def _examined(file: FileIO, path: Path) -> Chunk:
    identity = identity_of(os.fstat(file.fileno()))
    length = _compare_check(file, identity[0], path)
    try:
        chunk = _described(path, identity, json.loads(os.pread(file.fileno(), length, 8)), 8 + length)
    except FormatError:
        raise
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: its header is not that of a chunk file: {error}") from error
    rows = _integers(file, chunk.data, chunk.count)
    counts = _integers(file, chunk.data + rows.nbytes, chunk.count) if chunk.per_token else None
    wrong = _contradiction(chunk.span, rows, counts, (chunk.height, chunk.width), chunk.failures)
    if wrong is not None:
        raise FormatError(f"{path}: {wrong}")
    if path.name != file_name(chunk.span):
        raise FormatError(f"{path}: it holds {chunk.span}, whose file is called {file_name(chunk.span)}")
    return chunk


def _compare_check(file: FileIO, size: int, path: Path) -> int:
    """Compare the checksum with all bytes, and return the length of the header."""
    start = file.read(_START)
    length = int.from_bytes(start[:8], "little")
    if len(start) < _START or length > size - 8:
        raise FormatError(f"{path}: it is cut: its header ends at byte {8 + length}, the file has {size}")
    if length > _LONGEST_HEADER:
        raise FormatError(f"{path}: its header has {length} bytes, expected at most {_LONGEST_HEADER}")
    if start[8:_CHECK_AT] != _OPENING:
        raise FormatError(f"{path}: it is no chunk file: expected {_OPENING!r} at byte 8, found {start[8:_CHECK_AT]!r}")
    check, block = zlib.crc32(_ZEROS, zlib.crc32(start[:_CHECK_AT])), memoryview(bytearray(_BLOCK))
    read = _START
    while count := file.readinto(block):
        check, read = zlib.crc32(block[:count], check), read + count
    if b"%08x" % check != start[_CHECK_AT:]:
        raise CorruptRecordError(
            f"{path}: the checksum at byte {_CHECK_AT} is {start[_CHECK_AT:]!r}, but that of its {read} bytes is "
            f"{check:08x}"
        )
    return length


def _described(path: Path, identity: tuple[int, int, int], header: Any, data: int) -> Chunk:
    """A chunk as its header describes it, if that fits the file's size; what its numbers are is not looked at."""
    told = header["__metadata__"]
    if told["seekset.kind"] != "chunk" or told["seekset.version"] != "1":
        found = f"{told['seekset.kind']!r} of version {told['seekset.version']!r}"
        raise FormatError(f"{path}: expected a 'chunk' of version '1', found a {found}")
    [start, end] = [int(number) for number in told["seekset.span"].split(" ")]
    per_token = "counts" in header
    [count] = _tensor(path, header, "rows", {"I64"}, 1)
    height, width = _tensor(path, header, "vectors", set(_TYPES), 2)
    dtype = _TYPES[header["vectors"]["dtype"]]
    sizes = {"rows": 8 * count, "vectors": height * width * dtype.itemsize}
    if per_token:
        sizes = {"rows": sizes["rows"], "counts": 8 * _tensor(path, header, "counts", {"I64"}, 1)[0], **sizes}
        if sizes["counts"] != sizes["rows"]:
            raise FormatError(f"{path}: it has {sizes['counts'] // 8} counts for {count} rows")
    at = 0
    for name, size in sizes.items():
        if header[name]["data_offsets"] != [at, at + size]:
            raise FormatError(f"{path}: {name} are expected at {at} to {at + size}, not {header[name]['data_offsets']}")
        at += size
    if set(header) != {"__metadata__", *sizes} or data + at != identity[0] or data % 8:
        raise FormatError(f"{path}: tensors {sorted(sizes)} end at byte {data + at}, the file at {identity[0]}")
    failures = tuple(map(_failure, json.loads(told["seekset.failures"])))
    run = told["seekset.run"]
    if not isinstance(run, str):
        raise FormatError(f"{path}: seekset.run is {run!r}, expected text")
    return Chunk(path, run, Span(start, end), failures, dtype, count, height, width, per_token, data, identity)


def _tensor(path: Path, header: Any, name: str, types: set[str], axes: int) -> list[int]:
    """The shape of a tensor, if it is one that a chunk can have."""
    kind, shape = header[name]["dtype"], header[name]["shape"]
    if kind not in types:
        raise FormatError(f"{path}: {name} are {kind}, expected {' or '.join(sorted(types))}")
    if not isinstance(shape, list) or len(shape) != axes or not all(_is_number(size) for size in shape):
        raise FormatError(f"{path}: {name} have the shape {shape}, expected {axes} numbers")
    if shape[-1] > _WIDEST:
        raise FormatError(f"{path}: {name} have the shape {shape}, expected at most {_WIDEST} columns")
    return shape


def _failure(told: Any) -> Failure:
    piece, row, name, reason = told
    if not (_is_number(piece) and _is_number(row) and isinstance(name, str) and isinstance(reason, str)):
        raise ValueError(f"no failure: {told!r}")
    return Failure(piece, row, name, reason)


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _contradiction(
    span: Span,
    rows: NDArray[np.int64],
    counts: NDArray[np.int64] | None,
    shape: tuple[int, ...],
    failures: list[Failure] | tuple[Failure, ...],
) -> str | None:
    """What is wrong with a result, if its parts don't belong together."""
    pieces = [failure.piece for failure in failures]
    inside = [span.start - 1, *pieces, span.end]
    if not 0 <= span.start < span.end < 2**59 or any(a >= b for a, b in pairwise(inside)):
        return f"its failures are those of pieces {pieces[:10]}, which are not in order within {span}"
    if rows.ndim != 1 or rows.size + len(failures) != span.size:
        return f"{rows.size} rows and {len(failures)} failures don't make the {span.size} pieces of {span}"
    every = np.concatenate([rows, np.array([failure.row for failure in failures], np.int64)])
    every.sort()
    if every[0] < 0 or (every[1:] == every[:-1]).any():
        return "its rows are not from 0 on and each once"
    return _contradiction_of_vectors(rows.size, counts, shape)


def _contradiction_of_vectors(rows: int, counts: NDArray[np.int64] | None, shape: tuple[int, ...]) -> str | None:
    if len(shape) != 2 or (shape[0] > 0 and shape[1] == 0):  # noqa: PLR2004 (vectors stand in rows)
        return f"its vectors have the shape {shape}"
    if counts is None:
        return None if shape[0] == rows else f"it has {shape[0]} vectors for {rows} rows"
    if counts.shape != (rows,) or (counts < 0).any() or _total(counts) != shape[0]:
        return f"its {counts.size} counts of vectors for {rows} rows don't make {shape[0]}"
    return None


def _total(counts: NDArray[np.int64]) -> int:
    """The sum of numbers from 0 on, whatever they are: by halves, which can't overflow."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def _opened(path: Path) -> FileIO:
    """A file, unbuffered; a pipe in its place would be waited for, without end."""
    try:
        file = open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    except IsADirectoryError:
        raise FormatError(f"{path}: it is a folder") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise FormatError(f"{path}: it is no file")
    return file


def identity_of(found: os.stat_result) -> tuple[int, int, int]:
    """What tells a file from another that comes to lie under its name, without reading it."""
    return found.st_size, found.st_mtime_ns, found.st_ino


def _integers(file: FileIO, at: int, count: int) -> NDArray[np.int64]:
    """Integers from a place that was found to lie in the file."""
    numbers = np.empty(count, "<i8")
    rest = numbers.view(np.uint8).data
    while rest:
        read = os.preadv(file.fileno(), [rest], at)
        if read == 0:
            raise FormatError(f"{file.name}: it was cut while it was read, at byte {at}")
        rest, at = rest[read:], at + read
    return numbers
