"""Sources of a mixed pool: shards by the name of where they are from, whose rows must be alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from seekset.errors import MismatchError
from seekset.shards.readers import reader_for, reader_name

if TYPE_CHECKING:
    from seekset.mixing import MixPlan
    from seekset.shards.census import Shard
    from seekset.shards.readers import ShardReader

__all__ = ["Source", "check_alike"]


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
        """What reads one of its shards."""
        return reader_for(shard.path) if self.reader is None else self.reader

    @property
    def read_by(self) -> list[str]:
        """The names of what reads its shards: other readers make other rows of the same bytes."""
        return sorted({reader_name(self.reader_of(shard)) for shard in self.shards})


def check_alike(plan: MixPlan) -> None:
    """Refuse shards whose rows are not like those of the first, before anything is delivered."""
    filled = [(source, shard) for source, shard in plan.shards if shard.census.rows]
    for source, shard in filled[1:]:
        _, first = filled[0]
        if shard.census.fields != first.census.fields:
            raise MismatchError(
                f"{shard.path} (source {source.name!r}): its rows have {_listed(shard)}, but those of {first.path} "
                f"have {_listed(first)}; sources of one pool must be alike"
            )
    for source, shard in filled:
        by_row = hasattr(source.reader_of(shard), "read_rows") and not shard.census.decoded_bytes
        if plan.mixing == "global" and not by_row:
            raise MismatchError(
                f'{shard.path}: its rows can\'t be read singly, which mixing="global" needs; use mixing="pool", '
                "or store shards uncompressed"
            )


def _listed(shard: Shard) -> str:
    fields = shard.census.fields
    if fields is None:
        return "objects"
    return ", ".join(f"{one.name} {one.dtype.lstrip('<|')}{list(one.shape)}" for one in fields)
