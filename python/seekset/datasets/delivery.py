"""Delivering rows of a mixed pool: from what was drawn to items and batches, with what is wrong with them told."""

# ruff: noqa: SLF001 (what delivers is a part of the dataset, in a class of its own)

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from seekset.errors import FormatError, MemoryLimitError, SeeksetError, StaleIndexError, UnknownIdError
from seekset.ledger import Ledger
from seekset.mixing import mixed, mixed_all
from seekset.shards.readers import is_of_the_system

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seekset.datasets.mixed import MixedShardDataset
    from seekset.pool import Drawn, Fault, Pool

__all__ = ["Delivery", "anonymous_memory", "like"]

_log = logging.getLogger("seekset")

# Rows are drawn so many at a time where they are delivered one by one.
_AT_ONCE = 256
_MASK = 2**64 - 1


class Delivery:
    """One pass over a reader's rows: from what was drawn to items."""

    def __init__(self, data: MixedShardDataset, pool: Pool, epoch: int, start: int, length: int) -> None:
        self.data: MixedShardDataset = data
        self.pool: Pool = pool
        self.epoch: int = epoch
        self.position: int = start
        self.length: int = length
        # Where a last batch with fewer rows begins that is to be left out.
        self.end: int = length - length % (data._batch_size or 1) if data._drop_last else length
        self._sources = data._source_of
        self._logged = 0

    def close(self) -> None:
        """Let go of the pool."""
        self.pool.close()

    def items(self, skip: int) -> Iterator[Any]:
        """Items from the position on; of the first row, from the part on that was not delivered."""
        size = self.data._batch_size
        while self.position < self.end:
            count = min(size or _AT_ONCE, self.length - self.position)
            drawn = self.pool.draw(count)
            if len(drawn) != count:
                raise SeeksetError(f"{count} rows were planned from position {self.position} on, {len(drawn)} came")
            self._check_memory()
            yield from self._batch(drawn) if size else self._singly(drawn, skip)
            skip = 0

    def _batch(self, drawn: Drawn) -> Iterator[Any]:
        kept = self._sound(drawn)
        items: Any = None
        if len(kept):
            items = self._columns(drawn, kept) if drawn.columns is not None else self._objects(drawn, kept)
        # What augmentation left nothing of is no batch. Whatever is raised is raised before anything counts as
        # delivered or left out: a state that is taken then goes on with this batch.
        made = [self._transformed(items)] if items else []
        for _, fault in sorted(drawn.faults.items()):
            self._leave_out(fault)
        self._advance(drawn, kept, len(drawn))
        yield from made

    def _sound(self, drawn: Drawn) -> NDArray[np.int64]:
        """The places of rows that could be read; what is wrong with others is raised unless it may be skipped."""
        for place, fault in sorted(drawn.faults.items()):
            self._meet(fault, self.position + place)
        return np.setdiff1d(np.arange(len(drawn)), list(drawn.faults), assume_unique=True)

    def _meet(self, fault: Fault, position: int) -> None:
        """Raise what is wrong with a row, unless it is to be left out."""
        data = self.data
        _, shard = data.mix.shards[fault.shard]
        if data._skip and _is_of_the_data(fault.error):
            return
        reason = fault.reason.removeprefix(f"{shard.path}: ")
        message = f"{self._place(fault.shard, fault.row, position)}: {reason}"
        raise like(FormatError() if fault.error is None else fault.error, message) from fault.error

    def _leave_out(self, fault: Fault) -> None:
        data = self.data
        number = int(data.mix.firsts[fault.shard]) + fault.row
        data._left_out.note(number, int(self._sources[fault.shard]), fault.reason)

    def _place(self, shard: int, row: int, position: int) -> str:
        source, found = self.data.mix.shards[shard]
        return f"{found.path}: row {row} of source {source.name!r} (epoch {self.epoch}, stream position {position})"

    def _columns(self, drawn: Drawn, kept: NDArray[np.int64]) -> dict[str, Any]:
        columns = drawn.columns or {}
        chosen = columns if len(kept) == len(drawn) else {name: column[kept] for name, column in columns.items()}
        batch: dict[str, Any] = {name: torch.from_numpy(column) for name, column in chosen.items()}
        if self.data._augment is not None:
            batch, kept = self._augmented_batch(batch, drawn, kept)
        if self.data._return_provenance and batch:
            batch["provenance"] = _tensors(self._where(drawn, kept))
        return batch

    def _objects(self, drawn: Drawn, kept: NDArray[np.int64]) -> Any:
        objects = [(drawn.objects or [])[place] for place in kept.tolist()]
        if self.data._augment is not None:
            made = [self._made(item, drawn, place) for item, place in zip(objects, kept.tolist(), strict=True)]
            objects, kept = (
                [one for several in made for one in several],
                np.repeat(kept, [len(several) for several in made]),
            )
        if self.data._return_provenance and objects:
            return {"items": objects, "provenance": _tensors(self._where(drawn, kept))}
        return objects

    def _augmented_batch(
        self, batch: dict[str, Any], drawn: Drawn, kept: NDArray[np.int64]
    ) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """What augmentation makes of a batch, and the place that each of its rows is from."""
        whole = self._augmented_at_once(batch, drawn, kept)
        if whole is not None:
            return whole, kept
        items = ({name: column[at] for name, column in batch.items()} for at in range(len(kept)))
        made = [self._made(item, drawn, place) for item, place in zip(items, kept.tolist(), strict=True)]
        rows = [one for several in made for one in several]
        if not rows:
            return {}, kept[:0]
        stacked = {name: torch.stack([torch.as_tensor(one[name]) for one in rows]) for name in rows[0]}
        return stacked, np.repeat(kept, [len(several) for several in made])

    def _augmented_at_once(
        self, columns: dict[str, Any], drawn: Drawn, kept: NDArray[np.int64]
    ) -> dict[str, Any] | None:
        """Many rows augmented in one call; ``None`` where they can't be, or one is at fault that is still to be met."""
        augment: Any = self.data._augment
        if not hasattr(augment, "augment_batch"):
            return None
        try:
            return dict(augment.augment_batch(columns, self._draws(self._numbers(drawn)[kept])))
        except SeeksetError:
            return None

    def _singly(self, drawn: Drawn, skip: int) -> Iterator[Any]:
        columns: dict[str, Any] = {name: torch.from_numpy(column) for name, column in (drawn.columns or {}).items()}
        whole = None
        if columns and self.data._augment is not None and not drawn.faults:
            whole = self._augmented_at_once(columns, drawn, np.arange(len(drawn)))
        for place in range(len(drawn)):
            if place in drawn.faults:
                self._meet(drawn.faults[place], self.position)
                self._leave_out(drawn.faults[place])
                self._advance_one(drawn, place, sound=False)
            elif whole is not None:
                yield from self._parts([{name: column[place] for name, column in whole.items()}], drawn, place, skip)
            else:
                item: Any = (
                    {name: column[place] for name, column in columns.items()}
                    if columns
                    else (drawn.objects or [])[place]
                )
                made = [item] if self.data._augment is None else self._made(item, drawn, place, at=self.position)
                yield from self._parts(made, drawn, place, skip)
            skip = 0

    def _parts(self, made: list[Any], drawn: Drawn, place: int, skip: int) -> Iterator[Any]:
        """What became of a row, from the part on that was not delivered."""
        left = made[skip:]
        if not left:
            self._advance_one(drawn, place, sound=True)
        for part, one in enumerate(left, skip + 1):
            item = one
            if self.data._return_provenance:
                where = {name: int(values[place]) for name, values in self._where(drawn, None).items()}
                item = {**one, "provenance": where} if isinstance(one, dict) else {"item": one, "provenance": where}
            item = self._transformed(item)
            if part == len(made):
                self._advance_one(drawn, place, sound=True)
            else:
                self.data._position.advance(self.position, part)
            yield item

    def _made(self, item: Any, drawn: Drawn, place: int, *, at: int | None = None) -> list[Any]:
        """What augmentation makes of one row; what it raises says which row that is."""
        augment: Any = self.data._augment
        draws = self._draws(self._numbers(drawn)[place : place + 1])
        try:
            if hasattr(augment, "augment_batch") and isinstance(item, dict):
                batch = augment.augment_batch({name: value[None] for name, value in item.items()}, draws)
                return [{name: value[0] for name, value in batch.items()}]
            made = augment(item, _generator(int(draws[0])))
        except SeeksetError as error:
            position = self.position + place if at is None else at
            where = self._place(int(drawn.shards[place]), int(drawn.rows[place]), position)
            raise like(error, f"{where}: {error}") from error
        return made if isinstance(made, list) else [made]

    def _draws(self, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """A random number for each row: of seed, epoch and row alone, so that every reader draws the same."""
        key = mixed(mixed(self.data.seed) + self.epoch & _MASK)
        return mixed_all(numbers.astype(np.uint64) + np.uint64(key))

    def _numbers(self, drawn: Drawn) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.data.mix.firsts[drawn.shards] + drawn.rows
        return found

    def _where(self, drawn: Drawn, kept: NDArray[np.int64] | None) -> dict[str, NDArray[np.int64]]:
        shards, rows = (drawn.shards, drawn.rows) if kept is None else (drawn.shards[kept], drawn.rows[kept])
        return {"source": self._sources[shards], "shard": shards, "row": rows}

    def _transformed(self, item: Any) -> Any:
        return item if self.data._transform is None else self.data._transform(item)

    def _advance(self, drawn: Drawn, kept: NDArray[np.int64], count: int) -> None:
        """Say that rows are being delivered."""
        self.position += count
        data = self.data
        # A batch that is left out is no reason to begin again for nothing.
        data._position.advance(self.position if self.position < self.end else self.length)
        data._ledger.add(self.epoch, Ledger.of(self._numbers(drawn)[kept]))
        self._tell(drawn.shards[kept], count - len(kept))

    def _advance_one(self, drawn: Drawn, place: int, *, sound: bool) -> None:
        self.position += 1
        data = self.data
        data._position.advance(self.position)
        if sound:
            number = data.mix.firsts[drawn.shards[place]] + drawn.rows[place]
            data._ledger.add(self.epoch, Ledger.of([number]))
        # Shared memory is written once for many rows: nobody looks as often.
        if place + 1 == len(drawn) or not sound:
            whole = place + 1 == len(drawn)
            shards = np.delete(drawn.shards, list(drawn.faults)) if whole else drawn.shards[:0]
            self._tell(shards, int(not sound))

    def _tell(self, shards: NDArray[np.int64], skipped: int) -> None:
        data = self.data
        rows = np.bincount(self._sources[shards], minlength=len(data.mix.sources)) if len(shards) else 0
        facts = self.pool.facts()
        data._gauges.note(facts, rows, skipped=skipped)  # type: ignore[arg-type]
        if data._verbose and facts["shards_read"] != self._logged:
            self._logged = facts["shards_read"]
            _log.info(
                "pool: %d shards read, %d rows pooled in %.1f MB, position %d of %d in epoch %d",
                facts["shards_read"], facts["pooled"], facts["pool_bytes"] / 1e6,
                self.position, self.length, self.epoch,
            )  # fmt: skip

    def _check_memory(self) -> None:
        most = self.data._max_process
        if most is None:
            return
        used = anonymous_memory()
        if used > most:
            facts = self.pool.facts()
            raise MemoryLimitError(
                f"the process has {used} bytes of anonymous memory, and {most} are allowed: the pool has "
                f"{facts['pool_bytes']} ({facts['waiting_bytes']} of them read ahead), what is being read "
                f"{facts['reading_bytes']}, everything else "
                f"{used - facts['pool_bytes']}; stopped at position {self.position} of "
                f"{self.length} in epoch {self.epoch}, where a state goes on"
            )


def anonymous_memory() -> int:
    """The bytes of this process that are no mapped file."""
    with Path("/proc/self/status").open(encoding="ascii") as lines:
        found = next((line for line in lines if line.startswith("RssAnon:")), "RssAnon: 0 kB")
    return int(found.split()[1]) * 1024


def like(error: Exception, message: str) -> Exception:
    """An error of the same kind with another message; of what is no error of seekset's, a ``SeeksetError``."""
    plain = isinstance(error, (SeeksetError, FileNotFoundError)) and not isinstance(error, UnknownIdError)
    return type(error)(message) if plain else SeeksetError(message)


def _is_of_the_data(error: Exception | None) -> bool:
    """Whether a row can't be read because of its bytes: not of a file that changed or went, nor of the system."""
    if isinstance(error, StaleIndexError) or is_of_the_system(error):
        return False
    return error is None or isinstance(error, (SeeksetError, OSError))


def _generator(draw: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=draw))


def _tensors(arrays: Mapping[str, NDArray[np.int64]]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
