"""Pickled shards, plain or compressed with gzip: ``{"examples": [...]}`` or a list."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

from seekset.errors import FormatError, MemoryLimitError
from seekset.files import AnyPath, as_path
from seekset.limits import whole_number
from seekset.shards.columns import stack_examples
from seekset.shards.packed import measured_census
from seekset.shards.rows import Census, Rows
from seekset.shards.unpickling import load_pickle, with_arrays

__all__ = ["PickleShards"]

_GZIP = b"\x1f\x8b"
# What the objects of an example take beside its numbers, roughly: dicts, small numbers, strings.
_EXAMPLE_BYTES = 2048


class _Found(NamedTuple):
    rows: Rows
    dropped: tuple[str, ...]
    absent: tuple[str, ...]
    inflated: int


class PickleShards:
    """Reads pickled shards, plain or gzip'd: a list of examples, or a dict with such a list in ``"examples"``.

    Examples that are dicts become columns, one for each field that holds numbers: arrays keep dtype and shape, floats
    become float32, integers int64. A field that is ``None`` somewhere (a policy may always be) is zeros there, and a
    column ``has_policy`` says where it is not. Fields of other things are dropped. All other examples are objects.

    Nothing that a pickle holds is run: names beside numpy's arrays and plain Python values are refused.

    Args:
        max_bytes: The most that a shard may take inflated, and its columns.

    >>> import gzip, pickle
    >>> import numpy as np
    >>> game = {"board": np.zeros((3, 13, 13), dtype="f4"), "policy": None, "value": 1.0, "metadata": {"game": 7}}
    >>> with gzip.open("shuffled_0000.pkl.gz", "wb") as file:
    ...     pickle.dump({"examples": [{**game, "policy": np.ones(169, dtype="f4")}, game]}, file)
    >>> rows = PickleShards().read("shuffled_0000.pkl.gz")
    >>> {name: column.shape for name, column in rows.columns.items()}
    {'board': (2, 3, 13, 13), 'policy': (2, 169), 'value': (2,), 'has_policy': (2,)}
    >>> PickleShards().count("shuffled_0000.pkl.gz").dropped
    ('metadata',)
    """

    suffixes = (".pkl", ".pickle", ".pkl.gz", ".pickle.gz")
    holds_gil = True
    identity = "pickle/1"

    def __init__(self, *, max_bytes: int = 4 << 30) -> None:
        self.max_bytes = whole_number(max_bytes, "max_bytes")

    def count(self, path: AnyPath) -> Census:
        """What is known of a shard; a pickle has to be read for it."""
        path = as_path(path)
        rows, dropped, absent, inflated = self._load(path)
        decoded = path.stat().st_size + 2 * inflated + _EXAMPLE_BYTES * len(rows) + rows.nbytes
        return measured_census(rows, path, decoded_bytes=decoded, dropped=dropped, absent=absent)

    def read(self, path: AnyPath) -> Rows:
        """All rows of a shard."""
        return self._load(as_path(path)).rows

    def _load(self, path: Path) -> _Found:
        content = inflated(path, self.max_bytes)
        size = len(content)
        found, has_arrays = load_pickle(content, path, max_bytes=self.max_bytes)
        del content
        examples = found.get("examples") if type(found) is dict else found
        if not isinstance(examples, (list, tuple)):
            raise FormatError(
                f"{path}: expected a list of examples, or a dict that has one in 'examples', found {_what(found)}"
            )
        try:
            stacked = stack_examples(examples, path, max_bytes=self.max_bytes)
            if stacked is not None:
                return _Found(*stacked, size)
            return _Found(Rows(objects=with_arrays(examples, path) if has_arrays else examples), (), (), size)
        except UnpicklingError as error:
            raise FormatError(f"{path}: expected a pickle, but it can't be read: {error}") from None

    def __repr__(self) -> str:
        return f"PickleShards(max_bytes={self.max_bytes})"


def _what(found: Any) -> str:
    if type(found) is not dict:
        return type(found).__name__
    return (
        f"a dict with {type(found['examples']).__name__} in it" if "examples" in found else "a dict without 'examples'"
    )


def inflated(path: Path, max_bytes: int) -> bytes:
    """The bytes of a file, inflated if it is gzip'd; never more than ``max_bytes``, whatever it claims.

    >>> Path("a.pkl").write_bytes(b"12345")
    5
    >>> inflated(Path("a.pkl"), 4)
    Traceback (most recent call last):
    seekset.errors.MemoryLimitError: a.pkl: it has more than 4 bytes ...
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(size, max_bytes) + 1)
    if len(content) > max_bytes:
        raise _too_large(path, max_bytes)
    if not content.startswith(_GZIP):
        return content
    parts: list[bytes] = []
    left = max_bytes
    while content:
        part, content = _member(content, path, left, len(parts))
        left -= len(part)
        if left < 0:
            raise _too_large(path, max_bytes)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _member(content: bytes, path: Path, left: int, number: int) -> tuple[bytes, bytes]:
    """One gzip member, and the bytes after it; padding with zeros is none, as gzip has it."""
    member = zlib.decompressobj(wbits=31)
    try:
        part = member.decompress(content, left + 1)
    except zlib.error as error:
        raise FormatError(f"{path}: gzip member {number}: expected deflated bytes, found others ({error})") from None
    if len(part) <= left and not member.eof:
        raise FormatError(
            f"{path}: gzip member {number} ends early: {len(content)} bytes give {len(part)}, and more was to come"
        )
    rest = member.unused_data.lstrip(b"\0")
    if rest and not rest.startswith(_GZIP):
        raise FormatError(f"{path}: expected the end or another gzip member after member {number}, found {rest[:8]!r}")
    return part, rest


def _too_large(path: Path, max_bytes: int) -> MemoryLimitError:
    return MemoryLimitError(
        f"{path}: it has more than {max_bytes} bytes inflated; give the reader a larger max_bytes if that is right"
    )
