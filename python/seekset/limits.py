"""Numbers that limit something: how long, how many."""

from __future__ import annotations

import operator
import re
from typing import SupportsIndex

__all__ = ["MOST_LETTERS", "byte_count", "flag", "limit", "whole_number"]

# SQLite's limit for a value, which a contig of a sample database is.
MOST_LETTERS = 1_000_000_000

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def whole_number(value: SupportsIndex, name: str, *, least: int = 1, most: int = 2**63 - 1) -> int:
    """A whole number from ``least`` to ``most``.

    >>> whole_number(0, "stride")
    Traceback (most recent call last):
    ValueError: stride must be at least 1, but is 0
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")
    number = value.__index__()
    if number < least:
        raise ValueError(f"{name} must be at least {least}, but is {number}")
    if number > most:
        raise ValueError(f"{name} must be at most {most}, but is {number}")
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
    return whole_number(number, name)


def flag(value: object, name: str) -> bool:
    """Whether something is wanted: ``True`` or ``False``, or what is equal to one of them, such as numpy's.

    >>> flag(1, "per_token")
    True
    >>> flag("no", "per_token")
    Traceback (most recent call last):
    TypeError: per_token must be True or False, not 'no'
    """
    if value not in (True, False):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def byte_count(value: SupportsIndex | str | None, name: str) -> int | None:
    """A number of bytes, given as such or with a unit, or ``None`` for no limit.

    >>> byte_count("1.5GB", "max_bytes"), byte_count("512 MiB", "max_bytes"), byte_count(1000, "max_bytes")
    (1500000000, 536870912, 1000)
    """
    if not isinstance(value, str):
        return limit(value, name)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", value.lower())
    if found is None:
        raise ValueError(f'{name} must be a number of bytes such as 5000000, "5GB" or "512MiB", but is {value!r}')
    return limit(int(float(found[1]) * _UNITS[found[2]]), name)
