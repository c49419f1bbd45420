"""Reading shards in the background, in the order in which they are needed."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from seekset.errors import SeeksetError, StaleIndexError
from seekset.shards.decoder import Decoder
from seekset.shards.packed import PackedShard, pack_shard, read_shard
from seekset.shards.rows import Rows

if TYPE_CHECKING:
    from pathlib import Path

    from seekset.mixing import MixPlan, Stretch
    from seekset.shards.census import Shard
    from seekset.shards.readers import ShardReader

__all__ = ["Loaded", "ShardLoader", "check_rows"]

# How long a wait lasts before it is begun anew, so that Ctrl-C is heard.
_SECONDS = 0.2


@dataclass(slots=True)
class Loaded:
    """What was read of a stretch: packed columns, objects, or why it could not be read."""

    packed: PackedShard | None = None
    rows: Rows | None = None
    error: Exception | None = None

    @property
    def bad(self) -> dict[int, str]:
        """Which of its rows could not be read, and why."""
        found = self.rows if self.packed is None else self.packed
        return {} if found is None else found.bad


class ShardLoader:
    """Threads that read stretches of a plan's shards; where a reader holds the GIL, in processes of their own.

    Threads and processes end when it is closed or collected.

    Args:
        plan: Whose shards they are.
        threads: How many are read at a time.
    """

    def __init__(self, plan: MixPlan, threads: int) -> None:
        self._shared = _Shared(plan)
        self.waited: float = 0.0
        self._threads = [
            threading.Thread(target=_work, args=(self._shared,), name=f"seekset-shards-{k}", daemon=True)
            for k in range(threads)
        ]
        for thread in self._threads:
            thread.start()
        self._finalizer = weakref.finalize(self, self._shared.end)

    def ask(self, ticket: int, stretch: Stretch) -> None:
        """Have a stretch read, after all that were asked for before. What it gives is called for by its ticket."""
        with self._shared.changed:
            self._shared.wanted.append((ticket, stretch))
            self._shared.changed.notify_all()

    def done(self, ticket: int) -> Loaded | None:
        """What was read for a ticket, if it has been read; it can be had once."""
        with self._shared.changed:
            return self._shared.found.pop(ticket, None)

    def wait(self, ticket: int) -> Loaded:
        """What was read for a ticket, as soon as it has been read."""
        start = monotonic()
        with self._shared.changed:
            while (found := self._shared.found.pop(ticket, None)) is None:
                if not any(thread.is_alive() for thread in self._threads):
                    raise SeeksetError("the threads that read shards have ended, as at the end of the program")
                self._shared.changed.wait(_SECONDS)
        self.waited += monotonic() - start
        return found

    def close(self) -> None:
        """End threads and processes; what is being read is not waited for longer than a moment."""
        self._finalizer()
        for thread in self._threads:
            thread.join(_SECONDS * 5)


class _Shared:
    """What the threads know. They don't know the loader, so that it can be collected while they wait."""

    def __init__(self, plan: MixPlan) -> None:
        self.plan = plan
        self.owner = os.getpid()
        self.changed = threading.Condition()
        self.wanted: deque[tuple[int, Stretch]] = deque()
        self.found: dict[int, Loaded] = {}
        self.ended = False
        self.decoders: list[Decoder] = []

    def end(self) -> None:
        if os.getpid() != self.owner:
            return  # a fork has none of the threads, and one of them may have held the lock for good
        with self.changed:
            self.ended = True
            self.wanted.clear()
            self.found.clear()
            self.changed.notify_all()
            decoders, self.decoders = self.decoders, []
        for decoder in decoders:
            decoder.close()

    def next(self) -> tuple[int, Stretch] | None:
        with self.changed:
            while not self.wanted and not self.ended:
                self.changed.wait()
            return None if self.ended else self.wanted.popleft()

    def decoder(self) -> Decoder:
        """A process for a thread, which ends with the loader. Nobody waits while it is started."""
        decoder = Decoder()
        with self.changed:
            if not self.ended:
                self.decoders.append(decoder)
                return decoder
        decoder.close()
        raise SeeksetError("nothing is read any more")


def _work(shared: _Shared) -> None:
    reading = _Reading(shared)
    while (asked := shared.next()) is not None:
        ticket, stretch = asked
        loaded = reading.loaded(stretch)
        with shared.changed:
            if not shared.ended:
                shared.found[ticket] = loaded
                shared.changed.notify_all()


class _Reading:
    """How one thread reads stretches: by itself or, where a reader holds the GIL, in a process that it starts then."""

    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._decoder: Decoder | None = None

    def loaded(self, stretch: Stretch) -> Loaded:
        """What was read, or what was raised: a reader of one's own may raise anything, and somebody waits for it."""
        try:
            return self._read(stretch)
        except Exception as error:  # noqa: BLE001 (raised where its rows are delivered)
            return Loaded(error=error)
        except BaseException as error:  # noqa: BLE001 (what would end the thread, and leave whoever waits for ever)
            return Loaded(error=RuntimeError(f"{type(error).__name__}: {error}"))

    def _read(self, stretch: Stretch) -> Loaded:
        source, shard = self._shared.plan.shards[stretch.shard]
        reader = source.reader_of(shard)
        rows: Any = None if stretch.rows == shard.census.rows else (stretch.start, stretch.start + stretch.rows)
        shard.check()
        try:
            if getattr(reader, "holds_gil", False):
                loaded = self._read_apart(reader, shard.path, rows)
            elif shard.census.fields is None:
                loaded = Loaded(rows=read_shard(reader, shard.path, rows))
            else:
                loaded = Loaded(packed=pack_shard(reader, shard.path, rows))
        finally:
            # Once more: of one that was replaced while it was read, neither rows nor errors tell anything.
            shard.check()
        check_rows(loaded.packed if loaded.packed is not None else loaded.rows, stretch, shard)
        return loaded

    def _read_apart(self, reader: ShardReader, path: Path, rows: tuple[int, int] | None) -> Loaded:
        """What a process of its own reads. Objects come as pickles, and are made here, where they are pooled."""
        self._decoder = self._decoder or self._shared.decoder()
        packed = self._decoder.pack(reader, path, rows)
        if packed.fields is not None:
            return Loaded(packed=packed)
        return Loaded(rows=Rows(objects=packed.objects(), bad=packed.bad))


def check_rows(found: PackedShard | Rows | None, stretch: Stretch, shard: Shard) -> None:
    """Refuse rows that are not those which were counted: too few, too many, or with other fields."""
    path, fields = shard.path, shard.census.fields
    if found is None or len(found) != stretch.rows:
        count = 0 if found is None else len(found)
        raise StaleIndexError(
            f"{path}: {stretch.rows} rows were counted from row {stretch.start} on, {count} were read"
        )
    if found.fields != fields:
        raise StaleIndexError(f"{path}: its fields were {fields}, but {found.fields} were read")
