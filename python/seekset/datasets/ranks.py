"""What ranks tell each other before they read: each finds its rows by itself, and they must be the same."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from seekset.errors import MismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seekset.world import World

__all__ = ["compare", "said_by_ranks"]

_NAMED = 8


def said_by_ranks(text: str, world: World) -> list[str]:
    """What each rank says, this one ``text``; only that, where these are no ranks of ``torch.distributed``.

    All ranks must call it: they wait for each other.
    """
    distributed: Any = sys.modules.get("torch.distributed")
    if world.size == 1 or distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return [text]
    megatron: Any = sys.modules.get("megatron.core.parallel_state")
    has_groups = megatron is not None and megatron.model_parallel_is_initialized()
    group = megatron.get_data_parallel_group() if has_groups else None
    if (distributed.get_rank(group), distributed.get_world_size(group)) != (world.rank, world.size):
        return [text]
    said: list[Any] = [None] * world.size
    distributed.all_gather_object(said, text, group=group)
    return said


def compare(said: Sequence[str], remedy: str) -> None:
    """Raise a ``MismatchError`` unless all ranks say the same.

    >>> compare(["7 rows", "7 rows"], "count again")
    >>> compare(["7 rows", "6 rows", "7 rows"], "count again")
    Traceback (most recent call last):
    seekset.errors.MismatchError: ranks mismatch: ranks 0, 2 have 7 rows; rank 1 has 6 rows; count again
    """
    ranks: dict[str, list[int]] = {}
    for rank, text in enumerate(said):
        ranks.setdefault(text, []).append(rank)
    if len(ranks) > 1:
        found = "; ".join(f"{_named(some)} {text}" for text, some in ranks.items())
        raise MismatchError(f"ranks mismatch: {found}; {remedy}")


def _named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} has"
    more = f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else ""
    return f"ranks {', '.join(map(str, ranks[:_NAMED]))}{more} have"
