"""Sources of a mixed pool: shards by the name of where they are from, whose rows must be alike."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from seekset.errors import MismatchError, SeeksetWarning
from seekset.shards.fit import FittedShards, fits, fitted_census, flag_of
from seekset.shards.readers import reader_name, shared_reader

if TYPE_CHECKING:
    from pathlib import Path

    from seekset.shards.census import Shard
    from seekset.shards.readers import ShardReader
    from seekset.shards.rows import Field

__all__ = ["Source", "alike", "warn_of_repeats"]


@dataclass(frozen=True)
class Source:
    """A source of shards, by name, in the order in which they are read."""

    name: str
    shards: tuple[Shard, ...]
    reader: ShardReader | None = None

    @cached_property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(shard.census.rows for shard in self.shards)

    def reader_of(self, shard: Shard) -> ShardReader:
        """What reads one of its shards, with the fields that the pool's rows have."""
        reader = self._reader(shard)
        return reader if shard.own is None else FittedShards(reader, shard.own, shard.census.fields or ())

    def _reader(self, shard: Shard) -> ShardReader:
        if self.reader is not None:
            return self.reader
        reader = shared_reader(shard.path)
        self._shared[type(reader)] = reader
        return reader

    @cached_property
    def _shared(self) -> dict[type, ShardReader]:
        """Readers by suffix that were used: what they keep, such as open files, is of use as long as the source is."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        # Another process has files of its own.
        return {name: value for name, value in self.__dict__.items() if name != "_shared"}

    def reads_singly(self, shard: Shard) -> bool:
        """Whether rows of a shard can be read by themselves."""
        return hasattr(self._reader(shard), "read_rows") and not shard.census.decoded_bytes

    @property
    def read_by(self) -> list[str]:
        """The names of what reads its shards: other readers make other rows of the same bytes."""
        return sorted({reader_name(self._reader(shard)) for shard in self.shards})


def alike(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Sources whose rows have the same fields in the same order; a ``MismatchError`` if they can't, with both shards.

    A field that is ``None`` in all of a shard has there the dtype and shape that it has in others. Shards without rows
    don't tell: they may have no columns.
    """
    found = tuple(sources)
    filled = [(source, shard) for source in found for shard in source.shards if shard.census.rows]
    if not filled or all(shard.census.fields is None for _, shard in filled):
        return found
    wanted = _wanted(filled)
    return tuple(replace(one, shards=tuple(_fitted(shard, wanted) for shard in one.shards)) for one in found)


def warn_of_repeats(sources: Iterable[Source], stacklevel: int = 2) -> None:
    """Warn of files that are in a pool more than once: it may be meant, but their rows come as often."""
    places: dict[Path, list[str]] = {}
    for source in sources:
        for shard in source.shards:
            places.setdefault(shard.path.resolve(), []).append(source.name)
    repeated = {path: names for path, names in places.items() if len(names) > 1}
    if not repeated:
        return
    path, names = next(iter(repeated.items()))
    others = f"; files like it: {len(repeated)}" if len(repeated) > 1 else ""
    warnings.warn(
        f"{path}: its rows come {len(names)} times, because it is in sources {', '.join(map(repr, names))}{others}",
        SeeksetWarning,
        stacklevel=stacklevel + 1,
    )


def _fitted(shard: Shard, wanted: tuple[Field, ...]) -> Shard:
    if shard.census.fields == wanted or not shard.census.rows:
        return shard
    return replace(shard, census=fitted_census(shard.census, wanted), own=shard.census.fields)


def _wanted(filled: Sequence[tuple[Source, Shard]]) -> tuple[Field, ...]:
    """The fields that all rows are to have: those of a shard that has all of them, or as they come."""
    known = _known(filled)
    for place, (_, shard) in enumerate(filled):
        for field, owner in known.values():
            if not fits(shard.census, field):
                raise _unlike(filled, owner, place)
    whole = (shard.census.fields for _, shard in filled if len(shard.census.fields or ()) == len(known))
    return next(whole, None) or tuple(field for field, _ in known.values())


def _known(filled: Sequence[tuple[Source, Shard]]) -> dict[str, tuple[Field, int]]:
    """Every field that any shard has, or needs to say that it has nothing; with the place of the first such shard."""
    known: dict[str, tuple[Field, int]] = {}
    for place, (_, shard) in enumerate(filled):
        if (shard.census.fields is None) != (filled[0][1].census.fields is None):
            raise _unlike(filled, 0, place)
        for field in shard.census.fields or ():
            known.setdefault(field.name, (field, place))
    for place, (_, shard) in enumerate(filled):
        for name in shard.census.absent:
            if name in known:
                flag = flag_of(name)
                if known.setdefault(flag.name, (flag, place))[0] != flag:
                    raise _unlike(filled, known[name][1], place)
    return known


def _unlike(filled: Sequence[tuple[Source, Shard]], one: int, other: int) -> MismatchError:
    (_, first), (source, shard) = filled[min(one, other)], filled[max(one, other)]
    return MismatchError(
        f"{shard.path} (source {source.name!r}): its rows have {_listed(shard)}, but those of {first.path} "
        f"have {_listed(first)}; sources of one pool must be alike"
    )


def _listed(shard: Shard) -> str:
    fields = shard.census.fields
    if fields is None:
        return "objects"
    columns = [f"{one.name} {one.dtype.lstrip('<|')}{list(one.shape)}" for one in fields]
    return ", ".join([*columns, *(f"{name} None" for name in shard.census.absent)])
