"""What was delivered, in two numbers: enough to tell whether anything is missing or came twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from seekset._core import digest_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["Ledger"]

_MODULUS = 2**64


@dataclass(frozen=True, slots=True)
class Ledger:
    """How many rows were delivered, and a digest of which, whatever their order.

    Ledgers of workers and ranks add up. Two are equal if the same rows were delivered as often; that others have the
    same digest by chance is as likely as guessing a number of 64 bits.

    >>> Ledger.of([0, 1, 2]) == Ledger.of([2]) + Ledger.of([1, 0])
    True
    >>> Ledger.of([0, 1, 2]) == Ledger.of([0, 1, 1])
    False
    >>> Ledger.of([0, 1, 2]) - Ledger.of([1]) == Ledger.of([0, 2])
    True
    """

    count: int = 0
    digest: int = 0

    @classmethod
    def of(cls, rows: ArrayLike, starts: ArrayLike | None = None) -> Ledger:
        """The ledger of rows; with ``starts``, of pieces of rows that begin there."""
        numbers = _integers(rows)
        return cls(len(numbers), digest_rows(numbers, None if starts is None else _integers(starts)))

    def __add__(self, other: Ledger) -> Ledger:
        return Ledger(self.count + other.count, (self.digest + other.digest) % _MODULUS)

    def __sub__(self, other: Ledger) -> Ledger:
        return Ledger(self.count - other.count, (self.digest - other.digest) % _MODULUS)


def _integers(values: ArrayLike) -> Any:
    return np.ascontiguousarray(values, dtype=np.int64)
