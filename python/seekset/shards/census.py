"""The census of shards: rows, fields and sizes of each, taken in parallel and kept in a cache beside them."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from seekset.errors import SeeksetError, StaleIndexError
from seekset.files import AnyPath, as_path, state_of
from seekset.limits import limit
from seekset.progress import progress_bar
from seekset.shards.cache import ShardCache
from seekset.shards.packed import census_of
from seekset.shards.readers import ShardReader, is_exhaustion, shared_reader
from seekset.shards.rows import Census, Field

if TYPE_CHECKING:
    from seekset.shards.decoder import Decoder

__all__ = ["Shard", "take_census"]

Progress: TypeAlias = Callable[[int, int], object]

_ENDS = 4096
# Less than this is counted before a process would have started.
_FEW_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard, and what is known of it.

    ``digest`` is one of its first and last 4 KiB: it tells contents apart, and stays when a folder is moved. ``own``
    are the fields that it has by itself, where its census is that of a pool whose rows have others. ``inode`` is that
    of the file whose content is known, here; another one has its ends looked at.
    """

    path: Path
    size: int
    mtime_ns: int
    digest: str
    census: Census
    own: tuple[Field, ...] | None = None
    inode: int = field(default=0, compare=False)

    def check(self) -> None:
        """Raise a ``StaleIndexError`` if the file is gone, or not what it was when the census was taken.

        Where it can't be looked at for another reason, such as a mount that has dropped, that is an ``OSError``.

        >>> _ = Path("short.fa").write_text(">a")
        >>> [shard], _ = take_census(["short.fa"])
        >>> shard.check()
        >>> _ = Path("short.fa").write_text(">abc")
        >>> shard.check()
        Traceback (most recent call last):
        seekset.errors.StaleIndexError: short.fa: it has changed since its rows were counted: ...
        """
        try:
            difference = self._difference()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise StaleIndexError(f"{self.path}: it has gone since its rows were counted") from error
        if difference is not None:
            raise StaleIndexError(f"{self.path}: it has changed since its rows were counted: {difference}")

    def _difference(self) -> str | None:
        """In words, what is not as it was."""
        size, mtime_ns, inode = state_of(self.path)
        if (size, mtime_ns) != (self.size, self.mtime_ns):
            return f"expected {self.size} bytes of time {self.mtime_ns}, found {size} of time {mtime_ns}"
        if inode != self.inode:
            # Machines and mounts number files as they please: it is another file only if its bytes are others.
            if digest_of(self.path) != self.digest:
                return "its size and time are the same, but its first or last bytes are not"
            object.__setattr__(self, "inode", inode)
        return None


def take_census(
    paths: Iterable[AnyPath],
    reader: ShardReader | None = None,
    *,
    processes: int | None = None,
    progress: Progress | Literal[False] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> tuple[list[Shard], list[tuple[Path, str]]]:
    """What is known of shards, in the order given; and those that can't be read, with what is wrong.

    Formats that say how many rows they have are asked; pickles are read once, several at a time. What was found is
    kept in ``.seekset-shards.json`` beside the shards, or in the user's cache folder where that can't be written, and
    holds as long as a shard has its size and time of modification.

    Args:
        paths: The shards.
        reader: What reads them; by their names, unless given.
        processes: How many shards are read at once; as many as there are cores, unless given.
        progress: Called with bytes done and bytes in all; without, a bar is drawn on a terminal. ``False`` for none.
        on_error: ``"raise"`` the first error, or ``"skip"`` shards that can't be read and list them: those at which a
            ``SeeksetError`` or ``OSError`` was raised. All else that a reader raises is, as is what the system lacks,
            such as memory; a process of ours that is killed lacked it, too.

    >>> shards, faults = take_census(["proteins.fa", "train.tfrecord"])
    >>> [shard.census.rows for shard in shards], faults
    ([3, 3], [])
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip", not {on_error!r}')
    limit(processes, "processes")
    files = [as_path(path) for path in paths]
    cache = ShardCache(files)
    found: dict[Path, Shard] = {}
    faults: dict[Path, str] = {}
    uncounted: list[_Work] = []
    for path in dict.fromkeys(files):
        with _noting(faults, path, on_error):
            work = _Work(path, shared_reader(path) if reader is None else reader, path.stat())
            if (known := cache.get(path, work.identity, work.stat)) is None:
                uncounted.append(work)
            else:
                found[path] = work.counted(*known)
    try:
        with closing(_counted(uncounted, processes, progress)) as counted:
            for work, future in counted:
                with _noting(faults, work.path, on_error):
                    shard = future.result()
                    # What was counted of one that is being written may be of other bytes than its size and time say.
                    if state_of(work.path) == work.state:
                        cache.add(shard.path, work.identity, shard.size, shard.mtime_ns, shard.digest, shard.census)
                    found[work.path] = shard
    finally:
        cache.write()
    listed = [(path, faults[path]) for path in dict.fromkeys(files) if path in faults]
    return [found[path] for path in files if path in found], listed


class _Work:
    """A shard that is to be counted, by whom."""

    def __init__(self, path: Path, reader: ShardReader, stat: os.stat_result) -> None:
        self.path, self.reader, self.stat = path, reader, stat
        self.state = state_of(path, stat)
        self.identity: str | None = getattr(reader, "identity", None)

    def counted(self, digest: str, census: Census) -> Shard:
        """The shard, as it was when it was first looked at."""
        stat = self.stat
        return Shard(self.path, stat.st_size, stat.st_mtime_ns, digest, census, inode=stat.st_ino)

    @property
    def apart(self) -> bool:
        """Whether it is to be read in a process of its own."""
        return bool(getattr(self.reader, "holds_gil", False))


class _noting:  # noqa: N801 (a context, as functions are)
    """Keep errors of shards that are to be skipped; not those that are no fault of a shard."""

    def __init__(self, faults: dict[Path, str], path: Path, on_error: str) -> None:
        self.faults, self.path, self.skip = faults, path, on_error == "skip"

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if not self.skip or not isinstance(error, (SeeksetError, OSError)) or is_exhaustion(error):
            return False
        self.faults[self.path] = str(error)
        return True


def _counted(
    works: Sequence[_Work], processes: int | None, progress: Progress | Literal[False] | None
) -> Generator[tuple[_Work, Future[Shard]]]:
    """Count shards side by side, and give them in order, so that the first error is the same on every run."""
    if not works:
        return
    total = sum(work.stat.st_size for work in works)
    at_once = max(1, min(len(works), processes or len(os.sched_getaffinity(0))))
    decoders = _Decoders(used=total > _FEW_BYTES)
    with ExitStack() as stack:
        tell = stack.enter_context(_bar(progress))
        stack.callback(decoders.close)
        pool = stack.enter_context(ThreadPoolExecutor(at_once, "seekset-census"))
        # Before the pool is waited for, so that Ctrl-C is quick: what is under way ends, what waits never starts.
        stack.callback(decoders.close)
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        waiting = [(work, pool.submit(_count, work, decoders)) for work in works]
        done = 0
        for work, future in waiting:
            yield work, future
            done += work.stat.st_size
            if tell:
                tell(done, total)


def _bar(progress: Progress | Literal[False] | None) -> Any:
    if progress is not None:
        return nullcontext(progress or None)
    return progress_bar("counting shards", quiet=False)


class _Decoders:
    """A decoder for each thread that needs one."""

    def __init__(self, *, used: bool) -> None:
        self.used = used
        self._own = threading.local()
        self._all: list[Decoder] = []

    @property
    def mine(self) -> Decoder:
        """The decoder of this thread."""
        from seekset.shards.decoder import Decoder

        if not hasattr(self._own, "decoder"):
            self._own.decoder = Decoder()
            self._all.append(self._own.decoder)
        return self._own.decoder  # type: ignore[no-any-return]

    def close(self) -> None:
        """End them all."""
        for decoder in self._all:
            decoder.close()


def _count(work: _Work, decoders: _Decoders) -> Shard:
    """Count one shard. Its size and time are those from before: one that is being written is counted anew next time."""
    apart = work.apart and decoders.used
    try:
        census = decoders.mine.count(work.reader, work.path) if apart else census_of(work.reader, work.path)
    except Exception as error:
        _tell_of(work, error)
        raise
    return work.counted(digest_of(work.path), census)


def _tell_of(work: _Work, error: Exception) -> None:
    """Let an error name the shard: a reader of one's own may raise anything, without a word of where."""
    if str(work.path) in str(error):
        return
    if isinstance(error, SeeksetError) and error.args == (str(error),):
        error.args = (f"{work.path}: {error}",)
    else:
        error.add_note(f"{work.path}: raised while its rows were counted by {type(work.reader).__name__}")


def digest_of(path: Path) -> str:
    """A digest of the first and the last 4 KiB of a file.

    >>> digest_of(Path("proteins.fa"))
    '9da33238a91f84a0'
    """
    digest = hashlib.blake2b(digest_size=8)
    with path.open("rb") as file:
        digest.update(file.read(_ENDS))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _ENDS, min(size, _ENDS)))
        digest.update(file.read(_ENDS))
    return digest.hexdigest()
