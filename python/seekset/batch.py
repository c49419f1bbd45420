"""Values of many records whose numbers of values differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Batch", "NestedBatch"]


class Batch(NamedTuple):
    """Values of many records, one after another: record ``i`` is ``values[offsets[i]:offsets[i + 1]]``."""

    values: NDArray[Any]
    offsets: NDArray[np.int64]


class NestedBatch(NamedTuple):
    """Values of many records in steps that differ, too.

    Record ``i`` has the steps ``offsets[i]`` to ``offsets[i + 1]``; step ``j`` is ``values[steps[j]:steps[j + 1]]``.
    """

    values: NDArray[Any]
    steps: NDArray[np.int64]
    offsets: NDArray[np.int64]
