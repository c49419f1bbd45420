"""The results of a run in one HDF5 file: every sequence once, in the order asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seekset.errors import MismatchError
from seekset.inference.hdf5 import EmbeddingsFile, import_h5py, refuse_target
from seekset.inference.order import Order, ordered
from seekset.inference.places import Kind, Places
from seekset.inference.shards import aggregate_shards

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from seekset.inference.checkpoint import ChunkStore, Survey
    from seekset.sequences import SequenceIndex

__all__ = ["aggregate_run", "aggregate_shards", "write_embeddings"]

# Sequences of which ids and lengths are written at once: a chunk of those datasets.
_FACTS = 1 << 14


def aggregate_run(
    folder: str | os.PathLike[str],
    *,
    order: Literal["input", "length"] = "input",
    out: str | os.PathLike[str] | None = None,
    dtype: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Path:
    """Put the results of a run into one HDF5 file, and return its path.

    Every sequence that has a vector has its row; sequences that failed are left out. Nothing is computed, and memory
    does not grow with the number of sequences. A sequence that has neither a vector nor a failure is a
    ``MismatchError``: the run is not complete. The file is written beside its name and renamed, so that after an error
    what was there before still is. A file of another kind is not replaced.

    Args:
        folder: The folder of the run, as ``seekset embed`` or :func:`seekset.inference.embed` left it.
        order: The order of sequences: ``"input"``, by file and then by place in it, or ``"length"``, the longest first.
        out: The file to write; ``embeddings.h5`` in the folder, if not given.
        dtype: ``"float32"`` or ``"float16"``; what the encoder gave, if not given.
        progress: Called with bytes done and bytes in all: those of the chunk files, then those written.
    """
    from seekset.inference.job import Job

    job = Job.open(Path(folder))
    target = Path(folder) / "embeddings.h5" if out is None else Path(out)
    return write_embeddings(
        job.store,
        job.index,
        target,
        order=order,
        attributes=job.attributes,
        per_token=job.encoder.per_token,
        dtype=dtype,
        progress=progress,
    )


def write_embeddings(
    store: ChunkStore,
    index: SequenceIndex,
    out: Path,
    *,
    order: Literal["input", "length"] = "input",
    attributes: Mapping[str, Any] | None = None,
    per_token: bool | None = None,
    dtype: str | None = None,
    survey: Survey | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Path:
    """Write the vectors of every sequence of an index to an HDF5 file, in memory that does not grow with them.

    A sequence that has neither a vector nor a failure is a ``MismatchError``; so are files whose vectors are not alike.
    The file is written beside its name and renamed: after an error, what was there before still is.

    Args:
        store: Where the chunk files are.
        index: What they are about.
        out: The file to write.
        order: ``"input"``: by file, then by place in it. ``"length"``: as the index has them.
        attributes: Attributes of the file, beside ``order``, ``sequences`` and ``failed``.
        per_token: Whether there is a vector for each token; without, chunk files say so.
        dtype: ``"float32"`` or ``"float16"``; without, that of the chunk files.
        survey: What is in the store, if that was just looked at; else it is looked at here.
        progress: Called with bytes done and bytes in all: those of the chunk files, then those written.
    """
    import_h5py()
    if dtype not in (None, "float32", "float16"):
        raise ValueError(f'dtype must be "float32" or "float16", not {dtype!r}')
    refuse_target(out)
    index.verify()
    if survey is None:
        survey = store.survey(progress, tidy=False)
    kind = Kind.of(survey.chunks, per_token, dtype)
    by_input = ordered(index, "input", out.parent)
    chosen = by_input if order == "input" else ordered(index, order, out.parent)
    places = Places(survey, index, chosen, kind, out.parent)
    with EmbeddingsFile.written(out) as file:
        told = {"order": order, "sequences": len(index), "failed": len(survey.failures)}
        file.describe({**(attributes or {}), **told})
        _Aggregation(file, places, index, by_input, progress).run()
    return out


class _Aggregation:
    """One walk over the result, from its first row to its last."""

    def __init__(
        self,
        file: EmbeddingsFile,
        places: Places,
        index: SequenceIndex,
        by_input: Order,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self._file, self._places, self._index, self._by_input = file, places, index, by_input
        self._kind, self._progress = places.kind, progress
        self._height = places.tokens if places.kind.per_token else places.count
        self._written = 0

    def run(self) -> None:
        """Write all datasets."""
        count = self._places.count
        self._file.create("embeddings", (self._height, self._kind.width), self._kind.written)
        self._file.create("sequence_ids", (count,), str)
        self._file.create("lengths", (count,), "<i8")
        self._file.create("rows", (count,), "<i8")
        if self._kind.per_token:
            self._file.create("offsets", (count + 1,), "<i8")
            self._write_tokens()
        else:
            self._write_sequences()

    def _write_sequences(self) -> None:
        window = self._window()
        for positions in self._places.windows(len(window)):
            rows = np.empty(positions.size, np.int64)
            for arrays, slots, at in self._places.by_file(self._places.table[positions]):
                rows[at] = arrays.rows[slots]
                window[at] = arrays.vectors[slots]
            self._write_facts(rows)
            self._write_vectors(window[: positions.size])

    def _write_tokens(self) -> None:
        window, filled, end = self._window(), 0, 0
        self._file.append("offsets", np.zeros(1, np.int64))
        for positions in self._places.windows(_FACTS):
            places = self._places.table[positions]
            rows = np.empty(positions.size, np.int64)
            for arrays, slots, at in self._places.by_file(places):
                rows[at] = arrays.rows[slots]
            self._write_facts(rows)
            ends = end + np.cumsum(places["count"])
            self._file.append("offsets", ends)
            end = int(ends[-1])
            for number, _, first, count in places.tolist():
                vectors = self._places.files.arrays(number).vectors[first : first + count]
                # A sequence may go on in the next window, so that all but the last are full.
                while len(vectors):
                    part = vectors[: len(window) - filled]
                    window[filled : filled + len(part)] = part
                    filled, vectors = filled + len(part), vectors[len(part) :]
                    if filled == len(window):
                        self._write_vectors(window)
                        filled = 0
        self._write_vectors(window[:filled])

    def _window(self) -> NDArray[Any]:
        size = min(self._file.window("embeddings"), max(self._height, 1))
        return np.empty((size, self._kind.width), self._kind.stored)

    def _write_facts(self, rows: NDArray[np.int64]) -> None:
        for start in range(0, rows.size, _FACTS):
            some = rows[start : start + _FACTS]
            self._file.append("sequence_ids", self._index.ids(some))
            self._file.append("lengths", self._index.lengths[some])
            self._file.append("rows", self._by_input.positions(some))

    def _write_vectors(self, vectors: NDArray[Any]) -> None:
        with np.errstate(over="ignore"):
            cast = vectors.astype(self._kind.written, copy=False)
        if cast is not vectors and (np.isinf(cast) & np.isfinite(vectors)).any():
            most = np.abs(vectors, where=np.isfinite(vectors), out=np.zeros_like(vectors)).max()
            raise MismatchError(f"vectors up to {most:g} don't fit {cast.dtype.name}: take {vectors.dtype.name}")
        self._file.append("embeddings", cast)
        self._written += len(vectors)
        if self._progress is not None:
            row = self._kind.width * self._kind.written.itemsize
            self._progress(self._written * row, self._height * row)
