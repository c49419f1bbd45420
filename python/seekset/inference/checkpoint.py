"""What a run has computed so far: a folder of chunk files, which are its results and its checkpoint in one."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from seekset.errors import FormatError
from seekset.inference.chunk_file import Chunk, encode, examine, file_name, identity_of, is_file_name
from seekset.inference.results import Failure, Result, Span
from seekset.publishing import published, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["ChunkStore", "Survey"]

# Reading waits for the disk or for a checksum, and both let others go on.
_THREADS = 4


class ChunkStore:
    """The chunk files of one run, in a folder that is made if it is not there.

    Any number of processes may write at the same time, spans that overlap and the same span too. A file is there in
    full or not at all, whatever happens, once :meth:`write` has returned.

    Args:
        folder: Where they are.
        run: What tells the run from others. It stands in each file; files of another run are not taken.

    >>> from pathlib import Path
    >>> store = ChunkStore(Path("chunks"), run="4f1d")
    >>> path = store.write(Result(Span(0, 2), np.array([0, 1]), np.zeros((2, 4), np.float32)))
    >>> path.name, store.survey().missing([Span(0, 3)])
    ('000000000000-000000000002.safetensors', [Span(start=2, end=3)])
    """

    def __init__(self, folder: Path, *, run: str) -> None:
        self.folder: Path = folder
        self.run: str = run
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, result: Result) -> Path:
        """Put a result on the disk and return its file. What is no result is a ``MismatchError``."""
        path = self.folder / file_name(result.span)
        parts = encode(result, self.run)
        with published(path) as part, part.open("wb", buffering=0) as file:
            for bytes_ in parts:
                rest = memoryview(bytes_)
                # Of a buffer, the system writes as much as it likes.
                while rest:
                    rest = rest[file.write(rest) :]
        return path

    def survey(
        self,
        progress: Callable[[int, int], object] | None = None,
        *,
        begun: float | None = None,
        tidy: bool = True,
        known: Survey | None = None,
    ) -> Survey:
        """Look at every file and compare its checksum.

        Args:
            progress: Called with bytes done and bytes in all.
            begun: Since when nobody else writes here, in seconds since 1970: older leftovers of any writer are removed.
            tidy: Whether damaged files are renamed, to ``NAME.damaged``, and what killed writers left is removed.
            known: An earlier survey. Files that it has, and that have not changed since, are not read again.
        """
        if tidy:
            sweep(self.folder, begun=begun)
        found = Survey()
        seen = {} if known is None else {(chunk.path, chunk.identity): chunk for chunk in known.looked_at}
        paths = sorted(path for path in self.folder.iterdir() if is_file_name(path.name))
        identities = [identity_of(path.stat()) for path in paths]
        done, total = 0, sum(size for size, *_ in identities)

        def look(path: Path, identity: tuple[int, int, int]) -> Chunk | str:
            return seen.get((path, identity)) or _examined(path)

        with ThreadPoolExecutor(_THREADS) as pool:
            try:
                looks = pool.map(look, paths, identities)
                for path, (size, *_), chunk in zip(paths, identities, looks, strict=True):
                    if isinstance(chunk, str):
                        found.damaged.append((path, chunk))
                    elif chunk.run != self.run:
                        found.foreign.append(chunk)
                    else:
                        found.chunks.append(chunk)
                    done += size
                    if progress is not None:
                        progress(done, total)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        if tidy:
            for path, _ in found.damaged:
                path.replace(path.with_name(f"{path.name}.damaged"))
        return found


def _examined(path: Path) -> Chunk | str:
    """What a file holds, or what is wrong with it."""
    try:
        return examine(path)
    except FormatError as error:
        return str(error)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return f"{path}: {os.strerror(errno.EIO)}"


@dataclass
class Survey:
    """What is in a folder of chunk files.

    A piece is done if a file has its vector, and has failed if a file says so and none has its vector. ``foreign`` are
    files of other runs: they lie there and are not taken.
    """

    chunks: list[Chunk] = field(default_factory=list)
    damaged: list[tuple[Path, str]] = field(default_factory=list)
    foreign: list[Chunk] = field(default_factory=list)

    @property
    def looked_at(self) -> list[Chunk]:
        """All files that are in order."""
        return [*self.chunks, *self.foreign]

    def done(self, pieces: int) -> NDArray[np.bool_]:
        """For each of a plan's pieces, of which there are so many, whether there is a vector."""
        done = np.zeros(pieces, np.bool_)
        for chunk in self.chunks:
            failed = [failure.piece for failure in chunk.failures if failure.piece < pieces]
            before = done[failed]
            done[chunk.span.start : chunk.span.end] = True
            done[failed] = before
        return done

    @cached_property
    def failures(self) -> list[Failure]:
        """What failed and has no vector in any file, by piece; where several files tell of it, as the first does."""
        told: dict[int, Failure] = {}
        for chunk in self.chunks:
            for failure in chunk.failures:
                told.setdefault(failure.piece, failure)
        pieces = np.array(sorted(told), np.int64)
        mended = np.zeros(pieces.size, np.bool_)
        for chunk in self.chunks if told else ():
            first, last = np.searchsorted(pieces, chunk.span)
            own = [failure.piece for failure in chunk.failures]
            mended[first:last] |= ~np.isin(pieces[first:last], own)
        return [told[piece] for piece in pieces[~mended].tolist()]

    def is_complete(self, chunks: Sequence[Span]) -> bool:
        """Whether every piece of a plan's chunks has a vector, or has failed."""
        return sum(span.size for span in self.missing(chunks)) == len(self.failures)

    def missing(self, chunks: Sequence[Span]) -> list[Span]:
        """What of a plan's chunks is still to be computed: spans within a chunk each, and each failed piece alone.

        >>> Survey().missing([Span(0, 3), Span(3, 5)])
        [Span(start=0, end=3), Span(start=3, end=5)]
        """
        done = self.done(max((chunk.end for chunk in chunks), default=0))
        failed = np.array([failure.piece for failure in self.failures], np.int64)
        return [span for chunk in chunks for span in _gaps(chunk, done, failed)]


def _gaps(chunk: Span, done: NDArray[np.bool_], failed: NDArray[np.int64]) -> Iterator[Span]:
    """The spans of pieces that are not done, in which those that failed stand alone."""
    pieces = np.flatnonzero(~done[chunk.start : chunk.end]) + chunk.start
    if pieces.size:
        alone = np.isin(pieces, failed)
        cuts = (np.diff(pieces) != 1) | alone[1:] | alone[:-1]
        starts, ends = pieces[np.append(True, cuts)], pieces[np.append(cuts, True)] + 1
        yield from map(Span, starts.tolist(), ends.tolist())
