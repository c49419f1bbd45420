"""Numbers that limit something: how long, how many."""

from __future__ import annotations

import operator
from typing import SupportsIndex

__all__ = ["at_least_one", "limit"]


def at_least_one(value: SupportsIndex, name: str) -> int:
    """A whole number from 1 on.

    >>> at_least_one(0, "chunk_bytes")
    Traceback (most recent call last):
    ValueError: chunk_bytes must be at least 1, but is 0
    """
    number = operator.index(value)
    if number < 1:
        raise ValueError(f"{name} must be at least 1, but is {number}")
    return number


def limit(value: SupportsIndex | None, name: str) -> int | None:
    """A limit from 1 on, or ``None`` where there is none. Nothing at all is never meant: it would be a limit of 0.

    >>> limit(0, "max_length")
    Traceback (most recent call last):
    ValueError: max_length must be at least 1, or None for no limit, but is 0
    """
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number or None, not {type(value).__name__}")
    number = operator.index(value)
    if number < 1:
        raise ValueError(f"{name} must be at least 1, or None for no limit, but is {number}")
    return number
