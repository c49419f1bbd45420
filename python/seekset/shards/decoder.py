"""Decoders: processes that read shards and send back packed rows, for readers that hold the GIL."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from seekset.child import Child, end_with_parent, in_words
from seekset.errors import MismatchError, SeeksetError
from seekset.shards.packed import PackedShard, census_of, pack_shard
from seekset.shards.readers import EndedError, ShardReader
from seekset.shards.rows import Census

if TYPE_CHECKING:
    from seekset.child import Pipe

__all__ = ["Decoder", "serve"]

# What comes from outside, and not of what is read: the system's own SIGKILL, where memory runs out, and people's.
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
# How often a decoder looks whether its process is there.
_SECONDS = 0.2
# What a decoder takes by itself, most of which is addresses that its allocator reserves and never uses.
_HEADROOM = 3 << 29
# A decoder works on one core, and keeps some memory from shard to shard: measured, a fifth more rows.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}


class Decoder:
    """A process that reads shards and sends back packed rows, one request after another.

    It is no child of :mod:`multiprocessing`, so that workers of a DataLoader may have it, too. It ends when it is
    closed or collected, and by itself when its parent has ended. One that has died is started again when it is next
    needed.

    >>> import numpy as np
    >>> from seekset.shards import NpzShards
    >>> np.savez("b.npz", x=np.arange(100))
    >>> with Decoder() as decoder:
    ...     decoder.count(NpzShards(), Path("b.npz")).rows
    100
    """

    def __init__(self) -> None:
        self._closed = False
        self._begin(_started())

    def _begin(self, process: _Process | None) -> None:
        self._lock, self._owner, self._process = threading.Lock(), os.getpid(), process

    def pack(self, reader: ShardReader, path: Path, rows: tuple[int, int] | None = None) -> PackedShard:
        """Rows of a shard, from the first to before the second, or all.

        Raises what reading raised, or a ``SeeksetError`` if the process died of it: an ``EndedError`` where it was
        ended from outside.
        """
        return self._ask("pack", reader, path, rows)  # type: ignore[no-any-return]

    def count(self, reader: ShardReader, path: Path) -> Census:
        """What is known of a shard."""
        return self._ask("count", reader, path, None)  # type: ignore[no-any-return]

    def _ask(self, what: Literal["pack", "count"], reader: ShardReader, path: Path, rows: Any) -> Any:
        request = pickle.dumps((what, Path.cwd(), sys.path, path, rows)), _pickled(reader)
        if os.getpid() != self._owner:
            self._begin(None)  # a fork leaves its parent's process alone, and its lock may be taken for good
        with self._lock:
            if self._closed:
                raise ValueError("this decoder is closed")
            process = self._process = self._process or _started()
            try:
                return process.answer(request)
            except BaseException as error:
                if not process.busy:
                    raise  # what reading raised
                # Whatever came in between question and answer, the next answer would be that to another question.
                self._process = None
                died = isinstance(error, (EOFError, OSError))
                code = process.end(patience=_SECONDS if died else 0)
                if not died:
                    raise
                if self._closed:
                    raise SeeksetError(f"{path}: the process that read it was closed") from None
                kind = EndedError if code in _FROM_OUTSIDE else SeeksetError
                raise kind(f"{path}: the process that read it {in_words(code)}") from None

    def close(self) -> None:
        """End the process at once, also from another thread while it is at work."""
        self._closed = True
        if os.getpid() != self._owner:
            return
        while True:
            if self._process is not None:
                self._process.kill()  # whoever waits for its answer sees it end, and lets go of the lock
            if self._lock.acquire(timeout=_SECONDS):
                break
        try:
            if self._process is not None:
                self._process.end()
                self._process = None
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Decoder], tuple[()]]:
        return Decoder, ()


def _pickled(reader: ShardReader) -> bytes:
    try:
        return pickle.dumps(reader)
    except Exception as error:
        raise MismatchError(
            f"the reader {type(reader).__name__} can't be sent to a decoder process: it can't be pickled ({error})"
        ) from error


def _started() -> _Process:
    try:
        return _Process()
    except OSError as error:
        # No fault of a shard, which could be skipped: the machine or its limits have nothing left.
        raise RuntimeError(f"a process to read shards could not be started: {error}") from error


class _Process:
    """A running decoder and the connection to it."""

    def __init__(self) -> None:
        self._child = Child("seekset.shards.decoder:serve", environment=_ENVIRONMENT)
        self._connection = self._child.connection
        self._connection.send(os.getpid())
        self.busy = False

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._child.pid

    def answer(self, request: tuple[bytes, bytes]) -> Any:
        """Ask and wait for the answer; an error in it is raised."""
        self.busy = True
        self._send(request)
        how, found = pickle.loads(self._receive())  # noqa: S301 (from our own process)
        if how == "packed":
            content, ends = self._receive(), self._receive()
            found = PackedShard(content, np.frombuffer(ends, dtype=np.uint64), *found)
        self.busy = False
        if how == "error":
            raise found
        return found

    def _send(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            self._connection.send_bytes(part)

    def _receive(self) -> bytes:
        # A fork may hold the other end of the connection: the process is looked at, too.
        while not self._connection.poll(_SECONDS):
            if self._child.code is not None and not self._connection.poll(0):
                raise EOFError
        return self._connection.recv_bytes()

    def kill(self) -> None:
        """End it, and leave the connection to whoever waits for its answer."""
        self._child.signal(signal.SIGKILL)

    def end(self, patience: float = 0) -> int:
        """End it, wait for its end and give its exit code. One that dies closes its connection a moment before."""
        return self._child.end(patience)


def serve(connection: Pipe) -> None:
    """Answer requests until the connection is closed; what a decoder process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The thread that started it may end long before the process that it belongs to.
    end_with_parent(thread=False)
    try:
        parent = connection.recv()
    except (EOFError, ConnectionResetError):
        os._exit(0)
    if parent != os.getppid():
        os._exit(0)  # it was gone before anybody looked
    # Shards are many objects without cycles: looking for those takes a third of the time.
    gc.disable()
    gc.freeze()
    try:
        while True:
            request, reader = connection.recv_bytes(), connection.recv_bytes()
            for part in _answered(request, reader):
                connection.send_bytes(part)
            gc.collect(0)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(0)


def _answered(request: bytes, pickled: bytes) -> list[Any]:
    try:
        what, folder, sys.path[:], path, rows = pickle.loads(request)  # noqa: S301 (from our own parent)
        os.chdir(folder)
        reader = _unpickled(pickled)
        _limit_memory(getattr(reader, "max_bytes", None))
        if what == "count":
            return [pickle.dumps(("census", census_of(reader, path)))]
        packed = pack_shard(reader, path, rows)
        return [pickle.dumps(("packed", (packed.bad, packed.fields))), packed.content, packed.ends.tobytes()]
    except Exception as error:  # noqa: BLE001 (whatever it is, it is raised over there)
        return [_as_answer(error)]


def _limit_memory(max_bytes: int | None) -> None:
    """Let a hostile shard have a few times what its reader may inflate, and not all memory of the machine."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    soft = most
    if max_bytes is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        soft = pages * resource.getpagesize() + 4 * max_bytes + _HEADROOM
        soft = soft if most == resource.RLIM_INFINITY else min(soft, most)
    resource.setrlimit(resource.RLIMIT_AS, (soft, most))


def _unpickled(pickled: bytes) -> Any:
    try:
        return pickle.loads(pickled)  # noqa: S301 (from our own parent)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 (whatever a module does when it is imported)
        raise MismatchError(
            f"the reader can't be imported in a decoder process ({type(error).__name__}: {error}): its class must be "
            "in a module, not in the script itself or in a notebook"
        ) from None


def _as_answer(error: Exception) -> bytes:
    if not isinstance(error, (SeeksetError, OSError)):
        error.add_note("".join(["In a decoder process:\n", *traceback.format_exception(error)]).rstrip())
    try:
        answer = pickle.dumps(("error", error))
        pickle.loads(answer)  # noqa: S301 (some errors pickle, but can't be made again)
    except Exception:  # noqa: BLE001
        kind = MemoryError if isinstance(error, MemoryError) else SeeksetError
        return pickle.dumps(("error", kind(f"{type(error).__name__}: {error}")))
    return answer
