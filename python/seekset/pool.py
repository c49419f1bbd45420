"""Pools: rows of many shards, read in the background and drawn in the order of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from seekset import _core
from seekset.mixing import Stretch
from seekset.pool_size import cost, pooled
from seekset.shards.loader import Loaded, ShardLoader, check_rows
from seekset.shards.packed import in_core_units
from seekset.shards.rows import as_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seekset.mixing import MixPlan
    from seekset.pool_size import PoolSize
    from seekset.shards.rows import Field
    from seekset.world import World

__all__ = ["Drawn", "Fault", "Pool", "begin_pool"]


@dataclass(slots=True)
class Fault:
    """A row that could not be read, and why."""

    shard: int
    row: int
    reason: str
    error: Exception | None = None


@dataclass(slots=True)
class Drawn:
    """Rows that were drawn: columns or objects, the shard and row of each, and which could not be read, by place."""

    shards: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: dict[str, NDArray[Any]] | None = None
    objects: list[Any] | None = None
    faults: dict[int, Fault] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)


class Pool(Protocol):
    """What rows are drawn from."""

    def draw(self, count: int) -> Drawn:
        """The next rows; fewer at the end."""

    def facts(self) -> dict[str, int]:
        """How many rows and bytes it holds."""

    def close(self) -> None:
        """Let go of threads, processes and memory."""


def begin_pool(plan: MixPlan, world: World, seed: int, epoch: int, order: _core.Mixing) -> Pool:
    """The pool of one reader, where an order is."""
    if plan.mixing == "global":
        return _Everything(plan, world, seed, epoch, order)
    stretches = [stretch for of_source in plan.stretches(world) for stretch in of_source]
    filling = _Filling(plan, stretches, plan.sized(world))
    return _Objects(filling, order) if plan.fields is None else _Rows(filling, order, plan.fields)


class Upcoming(Protocol):
    """What knows which readings are needed."""

    def next_reading(self) -> int | None:
        """The reading that is opened next, of those that were not told of before."""

    def stretch(self, reading: int) -> int:
        """The stretch that a reading is of."""

    def is_open(self, reading: int) -> bool:
        """Whether rows of it are still to be pooled."""


class _Filling:
    """What is read for a pool, ahead of its need and within its bytes."""

    def __init__(self, plan: MixPlan, stretches: Sequence[Stretch], size: PoolSize) -> None:
        self.plan = plan
        self.stretches = stretches
        self.shards = np.array([stretch.shard for stretch in stretches], dtype=np.int64)
        self.starts = np.array([stretch.start for stretch in stretches], dtype=np.int64)
        self.room = size.room
        self.loader = ShardLoader(plan, plan.decoders)
        self.loaded = 0
        self.peak = 0
        self.largest = max((pooled(plan, stretch) for stretch in stretches), default=0)
        # By reading: what was asked for and has not come.
        self.coming: dict[int, Stretch] = {}
        # By reading, too: where a source begins anew, a stretch is read again, and once may fail and once not.
        self.faults: dict[int, Exception | dict[int, str]] = {}

    @property
    def reserved(self) -> int:
        """The most bytes that what is on its way takes."""
        return sum(cost(self.plan, stretch) for stretch in self.coming.values())

    def facts(self) -> dict[str, int]:
        """What has been read and is being read, and how long that was waited for."""
        return {
            "reading_bytes": self.reserved,
            "peak_bytes": self.peak,
            "shards_read": self.loaded,
            "waited_us": int(self.loader.waited * 1e6),
        }

    def note(self, used: int) -> None:
        """Take note of the bytes that the pool and what waits for it take, beside what is on its way."""
        self.peak = max(self.peak, used + self.reserved)

    def ask(self, reading: int, stretch: int) -> None:
        """Have a stretch read."""
        self.coming[reading] = self.stretches[stretch]
        self.loader.ask(reading, self.stretches[stretch])

    def again(self, readings: Sequence[int], upcoming: Upcoming) -> Iterator[tuple[int, Loaded]]:
        """Read what is pooled in the middle of an epoch, as many at a time as there are decoders and not more."""
        for place, reading in enumerate(readings):
            for ahead in readings[place : place + self.plan.decoders]:
                if ahead not in self.coming:
                    self.ask(ahead, upcoming.stretch(ahead))
            yield reading, self.took(reading, self.loader.wait(reading))

    def look_ahead(self, used: int, upcoming: Upcoming) -> None:
        """Ask for what is needed next, as far as there is room for its rows beside those that are there or come.

        What has been drawn leaves room, so that shards for the next filling are read while the pool is being emptied.
        """
        # One that waits for a thread is enough: more would only wait longer.
        while len(self.coming) <= self.plan.decoders:
            promised = used + sum(pooled(self.plan, stretch) for stretch in self.coming.values())
            # Which one is next is known only once it is promised: there must be room for any.
            if promised + self.largest > self.room or (needed := upcoming.next_reading()) is None:
                return
            self.ask(needed, upcoming.stretch(needed))

    def want(self, reading: int, upcoming: Upcoming) -> None:
        """Ask for what is needed now, though there was no room to look ahead; no more than there are bytes for."""
        # What comes before it is needed, too; and none is told of twice.
        while reading not in self.coming and len(self.coming) <= self.plan.decoders:
            if (needed := upcoming.next_reading()) is None:
                return
            self.ask(needed, upcoming.stretch(needed))

    def until(self, reading: int, upcoming: Upcoming) -> Iterator[tuple[int, Loaded]]:
        """What is needed now, waited for if need be, and before it what has to make room for it on its way."""
        taken = None
        while taken != reading:
            self.want(reading, upcoming)
            taken = reading if reading in self.coming else next(iter(self.coming))
            yield taken, self.took(taken, self.loader.wait(taken))

    def took(self, reading: int, loaded: Loaded) -> Loaded:
        """Take note of what came."""
        del self.coming[reading]
        self.loaded += 1
        if loaded.error is not None:
            self.faults[reading] = loaded.error
        elif loaded.bad:
            self.faults[reading] = loaded.bad
        return loaded

    def drawn(self, stretches: NDArray[np.int64], readings: NDArray[np.int64], rows: NDArray[np.int64]) -> Drawn:
        """Rows of stretches as rows of shards, with what is wrong with them."""
        found = Drawn(self.shards[stretches], self.starts[stretches] + rows)
        if self.faults:
            for place, (reading, row) in enumerate(zip(readings.tolist(), rows.tolist(), strict=True)):
                fault = self.faults.get(reading)
                at = (int(found.shards[place]), int(found.rows[place]))
                if isinstance(fault, Exception):
                    found.faults[place] = Fault(*at, str(fault) or type(fault).__name__, fault)
                elif fault is not None and row in fault:
                    found.faults[place] = Fault(*at, fault[row])
        return found

    def close(self) -> None:
        """End what reads."""
        self.loader.close()


class _Rows:
    """A pool of packed rows."""

    def __init__(self, filling: _Filling, order: _core.Mixing, fields: tuple[Field, ...]) -> None:
        self._filling = filling
        self._fields = fields
        kinds = [in_core_units(np.dtype(one.dtype)) for one in fields]
        values = [one.row_bytes // kind.itemsize for one, kind in zip(fields, kinds, strict=True)]
        described = [(kind.itemsize, count, kind.kind == "f") for kind, count in zip(kinds, values, strict=True)]
        self._pool = _core.MixedPool(order, described)
        self._resume()

    def _resume(self) -> None:
        """In the middle of an epoch, read what is pooled there, and what is partly so."""
        for reading, loaded in self._filling.again(self._pool.resume(), self._pool):
            self._put(reading, loaded)

    def draw(self, count: int) -> Drawn:
        """The next rows, unpacked; fewer at the end."""
        columns = {one.name: np.empty((count, *one.shape), dtype=one.dtype) for one in self._fields}
        flat = [column.reshape(-1).view("u1") for column in columns.values()]
        parts: list[tuple[NDArray[np.int64], ...]] = []
        done = 0
        while done < count:
            self._provide()
            rest = [array[len(array) * done // count :] for array in flat]
            *part, missing = self._pool.fill(count - done, rest)
            parts.append(tuple(part))
            done += len(part[0])
            if missing is None:
                break
            # It is read from now on; only rows that are wanted now wait for it.
            self._filling.want(missing, self._pool)
            if done < count:
                for reading, loaded in self._filling.until(missing, self._pool):
                    self._put(reading, loaded)
        found = self._filling.drawn(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        found.columns = {name: column[:done] for name, column in columns.items()}
        return found

    def _provide(self) -> None:
        """Hand over what has been read, and ask for what comes next."""
        for reading in list(self._filling.coming):
            if (loaded := self._filling.loader.done(reading)) is not None:
                self._put(reading, self._filling.took(reading, loaded))
        self._filling.look_ahead(self._pool.bytes[0], self._pool)
        self._filling.note(self._pool.bytes[1])

    def _put(self, reading: int, loaded: Loaded) -> None:
        if loaded.packed is None:
            rows = self._filling.stretches[self._pool.stretch(reading)].rows
            self._pool.provide(reading, b"", np.zeros(rows, dtype=np.uint64))
        else:
            self._pool.provide(reading, loaded.packed.content, loaded.packed.ends)
        self._filling.note(self._pool.bytes[1])

    def facts(self) -> dict[str, int]:
        """How many rows and bytes it holds."""
        rows, allocated, waiting = self._pool.bytes
        return {
            "pooled": self._pool.held,
            "row_bytes": rows,
            "pool_bytes": allocated,
            "waiting_bytes": waiting,
            **self._filling.facts(),
        }

    def close(self) -> None:
        """Let go of threads, processes and memory."""
        self._filling.close()


class _Objects:
    """A pool of Python objects."""

    def __init__(self, filling: _Filling, order: _core.Mixing) -> None:
        self._filling = filling
        self._order = order
        self._row_bytes = max((shard.census.row_bytes for _, shard in filling.plan.shards), default=0)
        self._slots: dict[int, Any] = {}
        # By reading: what was read and is not yet pooled.
        self._blocks: dict[int, Sequence[Any]] = {}
        if order.drawn:
            wanted: dict[int, list[tuple[int, int]]] = {}
            for slot, reading, row in zip(*(column.tolist() for column in order.pooled()), strict=True):
                wanted.setdefault(reading, []).append((slot, row))
            for reading, loaded in filling.again(order.resume(), order):
                self._keep(reading, loaded)
                self._slots.update((slot, self._blocks[reading][row]) for slot, row in wanted.get(reading, ()))
                self._drop_used()

    def draw(self, count: int) -> Drawn:
        """The next objects; fewer at the end."""
        readings: list[int] = []
        rows: list[int] = []
        objects: list[Any] = []
        while len(rows) < count:
            self._load()
            slots, of, drawn = (column.tolist() for column in self._order.draw(count - len(rows)))
            if not slots:
                break
            objects += [self._slots.pop(slot) for slot in slots]
            readings += of
            rows += drawn
        stretches = [self._order.stretch(reading) for reading in readings]
        found = self._filling.drawn(*(np.array(part, dtype=np.int64) for part in (stretches, readings, rows)))
        found.objects = objects
        return found

    def _load(self) -> None:
        self._filling.look_ahead(self._bytes(), self._order)
        self._filling.note(self._bytes())
        for slot, reading, row in zip(*(column.tolist() for column in self._order.load()), strict=True):
            self._slots[slot] = self._block(reading)[row]
        self._drop_used()

    def _bytes(self) -> int:
        waiting = (pooled(self._filling.plan, self._stretch(reading)) for reading in self._blocks)
        return len(self._slots) * self._row_bytes + sum(waiting)

    def _stretch(self, reading: int) -> Stretch:
        return self._filling.stretches[self._order.stretch(reading)]

    def _block(self, reading: int) -> Sequence[Any]:
        if reading not in self._blocks:
            for taken, loaded in self._filling.until(reading, self._order):
                self._keep(taken, loaded)
            self._filling.look_ahead(self._bytes(), self._order)
        return self._blocks[reading]

    def _keep(self, reading: int, loaded: Loaded) -> None:
        objects = None if loaded.rows is None else loaded.rows.objects
        self._blocks[reading] = [None] * self._stretch(reading).rows if objects is None else objects
        self._filling.note(self._bytes())

    def _drop_used(self) -> None:
        for reading in [reading for reading in self._blocks if not self._order.is_open(reading)]:
            del self._blocks[reading]

    def facts(self) -> dict[str, int]:
        """How many rows and bytes it holds, as far as objects' bytes are known."""
        return {
            "pooled": self._order.held,
            "row_bytes": 0,
            "pool_bytes": self._bytes(),
            "waiting_bytes": 0,
            **self._filling.facts(),
        }

    def close(self) -> None:
        """Let go of threads, processes and memory."""
        self._filling.close()
        self._slots.clear()
        self._blocks.clear()


class _Everything:
    """No pool at all: rows are drawn from all shards of a source, and read by themselves."""

    def __init__(self, plan: MixPlan, world: World, seed: int, epoch: int, order: _core.Mixing) -> None:
        self._plan = plan
        self._world, self._seed, self._epoch, self._order = world, seed, epoch, order

    def draw(self, count: int) -> Drawn:
        """The next rows; fewer at the end."""
        places = self._order.order(count)
        return self._read(*self._plan.placed(*places, self._world, self._seed, self._epoch))

    def _read(self, shards: NDArray[np.int64], rows: NDArray[np.int64]) -> Drawn:
        found = Drawn(shards, rows)
        by_shard = np.argsort(shards, kind="stable")
        groups = np.split(by_shard, np.flatnonzero(np.diff(shards[by_shard])) + 1) if len(rows) else []
        for group in groups:
            number = int(shards[group[0]])
            source, shard = self._plan.shards[number]
            try:
                shard.check()
                read: Any = source.reader_of(shard)
                try:
                    part = as_rows(read.read_rows(shard.path, rows[group]), shard.path)
                finally:
                    shard.check()
                check_rows(part, Stretch(number, int(rows[group[0]]), len(group)), shard)
            except Exception as error:  # noqa: BLE001 (raised where the rows are delivered)
                for place in group.tolist():
                    found.faults[place] = Fault(number, int(rows[place]), str(error) or type(error).__name__, error)
                continue
            for at, reason in part.bad.items():
                found.faults[int(group[at])] = Fault(number, int(rows[group[at]]), reason)
            _put(found, group, part)
        return found

    def facts(self) -> dict[str, int]:
        """Nothing is held."""
        return dict.fromkeys(
            ("pooled", "row_bytes", "pool_bytes", "waiting_bytes", "reading_bytes", "shards_read", "waited_us"), 0
        )

    def close(self) -> None:
        """Nothing is open."""


def _put(found: Drawn, places: NDArray[np.int64], part: Any) -> None:
    """Put what was read of one shard where it belongs among the rows drawn."""
    if part.columns is None:
        found.objects = [None] * len(found) if found.objects is None else found.objects
        for place, one in zip(places.tolist(), part.objects, strict=True):
            found.objects[place] = one
        return
    if found.columns is None:
        empty = {name: np.zeros((len(found), *one.shape[1:]), dtype=one.dtype) for name, one in part.columns.items()}
        found.columns = empty
    for name, column in part.columns.items():
        found.columns[name][places] = column
