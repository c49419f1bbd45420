"""What a pool is doing, in all processes of a loader, for whoever wants to watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from seekset.datasets.shared import begin_slot, slot_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Gauges"]

_SLOTS = 257
_FACTS = ("pooled", "row_bytes", "pool_bytes", "waiting_bytes", "reading_bytes", "shards_read", "waited_us")
_PEAK, _SKIPPED = len(_FACTS), len(_FACTS) + 1
_OWN = len(_FACTS) + 2


class Gauges:
    """A slot of shared memory for each worker, with one writer each: facts of its pool, and rows by source.

    >>> gauges = Gauges(2)
    >>> gauges.begin()
    >>> gauges.note({"pooled": 10, "pool_bytes": 640}, [3, 1], skipped=0)
    >>> gauges.total()["pooled"], gauges.total()["rows"]
    (10, [3, 1])
    """

    def __init__(self, sources: int) -> None:
        self._shared = torch.zeros((_SLOTS, _OWN + sources), dtype=torch.int64).share_memory_()

    def begin(self, rows: list[int] | NDArray[np.int64] | int = 0, *, skipped: int = 0) -> None:
        """Begin an epoch, or go on with one in which so many rows of each source were delivered before."""
        slot = self._shared[begin_slot(self._shared)].numpy()
        slot[_SKIPPED] = skipped
        slot[_OWN:] = rows

    def note(self, facts: dict[str, int], rows: list[int] | NDArray[np.int64], *, skipped: int) -> None:
        """Say how things are, and how many rows of each source have been delivered since."""
        slot = self._shared[slot_of(_SLOTS)].numpy()
        slot[: len(_FACTS)] = [facts.get(name, 0) for name in _FACTS]
        used = sum(facts.get(name, 0) for name in ("pool_bytes", "reading_bytes"))
        slot[_PEAK] = max(slot[_PEAK], used, facts.get("peak_bytes", 0))
        slot[_SKIPPED] += skipped
        slot[_OWN:] += rows

    def total(self) -> dict[str, Any]:
        """Facts of all processes together; ``rows`` by source."""
        sums = self._shared.sum(0).tolist()
        named = dict(zip(_FACTS, sums[: len(_FACTS)], strict=True))
        return {**named, "peak_bytes": sums[_PEAK], "skipped": sums[_SKIPPED], "rows": sums[_OWN:]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._shared.share_memory_()
