"""HDF5 files of several ranks in one: every id once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seekset.errors import DuplicateIdError, FormatError, MismatchError
from seekset.inference.hdf5 import WINDOW_BYTES, EmbeddingsFile, import_h5py, refuse_target

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

__all__ = ["aggregate_shards"]

# Ids that are read together.
_BLOCK = 1 << 14
_NAMED = 10


def aggregate_shards(
    shards: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    expected: Iterable[str] | None = None,
) -> Path:
    """Put HDF5 files with ``embeddings`` (n, D) and ``sequence_ids`` (n,) into one, in the order given.

    Files without rows, of shape (0, 0) too, are taken as such. An id that comes twice is a ``DuplicateIdError``, ids
    that are missing of ``expected`` or not among them a ``MismatchError``, a file that is no such shard a
    ``FormatError``. The result is written beside its name and renamed: after an error, what was there before still is.
    It takes 8 bytes of memory for each id, and a window of vectors.

    Args:
        shards: The files.
        out: The file to write; none of the shards.
        expected: The ids that must be there.
    """
    import_h5py()
    target = Path(out)
    refuse_target(target)
    found = [_Shard.examined(Path(path)) for path in shards]
    for shard in found:
        if target.exists() and target.samefile(shard.path):
            raise MismatchError(f"{target}: it is one of the shards, which are not written over")
    first = _alike(found)
    hashes = _hashes(found)
    _refuse_repeated(found, hashes)
    if expected is not None:
        _refuse_unexpected(found, hashes, expected)
    rows = sum(shard.rows for shard in found)
    width, dtype = (0, np.dtype("<f4")) if first is None else (first.width, first.dtype)
    with EmbeddingsFile.written(target) as file:
        file.create("embeddings", (rows, width), dtype)
        file.create("sequence_ids", (rows,), str)
        for shard in found:
            for ids in shard.ids():
                file.append("sequence_ids", ids)
            for vectors in shard.vectors():
                file.append("embeddings", vectors)
    return target


@dataclass(frozen=True, slots=True)
class _Shard:
    """What is known of a shard."""

    path: Path
    rows: int
    width: int
    dtype: np.dtype[Any]

    @classmethod
    def examined(cls, path: Path) -> _Shard:
        """A shard, if it is one."""
        h5py = import_h5py()
        with _opened(path) as file:
            data = []
            for name in ("embeddings", "sequence_ids"):
                if not isinstance(file.get(name), h5py.Dataset):
                    raise FormatError(f"{path}: it has no dataset {name!r}, but {', '.join(map(repr, file)) or 'none'}")
                data.append(file[name])
            vectors, ids = data
            rows = vectors.shape[0] if vectors.shape else 0
            if ids.shape != (rows,):
                raise FormatError(f"{path}: sequence_ids have the shape {ids.shape}, embeddings {vectors.shape}")
            if rows == 0:
                return cls(path, 0, 0, np.dtype("<f4"))
            if vectors.ndim != 2 or vectors.dtype.kind != "f":  # noqa: PLR2004 (vectors stand in rows)
                kind = f"{vectors.dtype} of shape {vectors.shape}"
                raise FormatError(f"{path}: embeddings are {kind}, expected rows of floating-point numbers")
            if h5py.check_string_dtype(ids.dtype) is None:
                raise FormatError(f"{path}: sequence_ids are {ids.dtype}, expected text")
            for one in data:
                _refuse_unwritten(one, path)
            return cls(path, rows, vectors.shape[1], vectors.dtype)

    def ids(self) -> Iterator[list[str]]:
        """Its ids, some at a time."""
        with _opened(self.path) as file:
            texts = file["sequence_ids"]
            for start in range(0, self.rows, _BLOCK):
                try:
                    yield [text.decode() for text in texts[start : min(start + _BLOCK, self.rows)].tolist()]
                except UnicodeDecodeError as error:
                    raise FormatError(f"{self.path}: an id after row {start} is no UTF-8: {error}") from None
                except OSError as error:
                    raise FormatError(f"{self.path}: ids after row {start} can't be read: {error}") from error

    def vectors(self) -> Iterator[NDArray[Any]]:
        """Its vectors, a window at a time, which is not kept."""
        if self.rows == 0:
            return
        size = max(min(WINDOW_BYTES // (self.width * self.dtype.itemsize or 1), self.rows), 1)
        window = np.empty((size, self.width), self.dtype)
        with _opened(self.path) as file:
            for start in range(0, self.rows, size):
                part = window[: min(size, self.rows - start)]
                try:
                    file["embeddings"].read_direct(part, np.s_[start : start + len(part)])
                except OSError as error:
                    raise FormatError(f"{self.path}: vectors after row {start} can't be read: {error}") from error
                yield part


def _opened(path: Path) -> Any:
    try:
        return import_h5py().File(path, "r")
    except OSError as error:
        # A file that is missing or may not be read has a number; what HDF5 finds wrong has none.
        if error.errno is not None:
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise FormatError(f"{path}: it is no HDF5 file: {error}") from error


def _refuse_unwritten(data: Any, path: Path) -> None:
    """Refuse a dataset of which parts were never written: HDF5 would give zeros for them."""
    if data.is_virtual or data.external:
        return
    if data.chunks is not None:
        needed = int(np.prod([-(-size // step) for size, step in zip(data.shape, data.chunks, strict=True)]))
        stored = data.id.get_num_chunks()
        what = "chunks"
    else:
        needed, stored, what = data.nbytes, data.id.get_storage_size(), "bytes"
    if stored < needed:
        name = data.name.strip("/")
        raise FormatError(f"{path}: {name} was not written to its end: expected {needed} {what}, found {stored}")


def _alike(shards: list[_Shard]) -> _Shard | None:
    """The first shard that has rows, if all others have vectors like its."""
    first = None
    for shard in shards:
        if shard.rows:
            first = first or shard
            if (shard.width, shard.dtype) != (first.width, first.dtype):
                raise MismatchError(
                    f"{shard.path} has vectors of {shard.width} {shard.dtype.name}, {first.path} of {first.width} "
                    f"{first.dtype.name}"
                )
    return first


def _hashes(shards: list[_Shard]) -> NDArray[np.int64]:
    """The hashes of all ids, in order. This process alone knows them, so that nobody can make ids that collide."""
    hashes = np.empty(sum(shard.rows for shard in shards), np.int64)
    at = 0
    for shard in shards:
        for ids in shard.ids():
            hashes[at : at + len(ids)] = list(map(hash, ids))
            at += len(ids)
    hashes.sort()
    return hashes


def _refuse_repeated(shards: list[_Shard], hashes: NDArray[np.int64]) -> None:
    """Raise if an id comes twice. Ids with equal hashes are compared."""
    suspects = set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
    if not suspects:
        return
    seen: dict[str, Path] = {}
    twice = []
    for shard in shards:
        for ids in shard.ids():
            for name in ids:
                if hash(name) not in suspects:
                    continue
                if name in seen:
                    twice.append(f"{name!r} in {seen[name]} and {shard.path}")
                seen.setdefault(name, shard.path)
    if twice:
        more = f" and {len(twice) - _NAMED} more" if len(twice) > _NAMED else ""
        raise DuplicateIdError(f"{len(twice)} ids come again: {', '.join(twice[:_NAMED])}{more}")


def _refuse_unexpected(shards: list[_Shard], hashes: NDArray[np.int64], expected: Iterable[str]) -> None:
    """Raise if ids are not those expected. Of ids that none collide with, the hashes tell."""
    if isinstance(expected, str):
        raise TypeError("expected must be ids, not one text")
    wanted = expected if isinstance(expected, Collection) else list(expected)
    known = np.fromiter(map(hash, wanted), np.int64, len(wanted))
    known.sort()
    named = ((name, "") for name in wanted)
    placed = ((name, f" in {shard.path}") for shard in shards for ids in shard.ids() for name in ids)
    told = [
        _strangers(named, hashes, "are missing"),
        _strangers(placed, known, "are not among those expected"),
    ]
    if any(told):
        raise MismatchError("; ".join(filter(None, told)))


def _strangers(names: Iterator[tuple[str, str]], known: NDArray[np.int64], what: str) -> str:
    """Which names have hashes that are not known, in words."""
    count = 0
    named: list[str] = []
    while block := list(islice(names, _BLOCK)):
        hashes = np.array([hash(name) for name, _ in block], np.int64)
        places = np.searchsorted(known, hashes)
        found = known[np.minimum(places, known.size - 1)] == hashes if known.size else np.zeros(hashes.size, np.bool_)
        strange = np.flatnonzero(~found)
        count += strange.size
        named += [f"{block[at][0]!r}{block[at][1]}" for at in strange[: _NAMED - len(named)].tolist()]
    more = f" and {count - len(named)} more" if count > len(named) else ""
    return f"{count} ids {what}: {', '.join(named)}{more}" if count else ""
