"""Token tables: an id for every letter."""

from __future__ import annotations

from functools import cache

from seekset._core import TokenTable

__all__ = ["TokenTable", "as_table", "needed_table"]

_named = cache(TokenTable.named)


def as_table(tokens: str | TokenTable | None) -> TokenTable | None:
    """The table that a name or a table stands for.

    >>> as_table("esm")["L"]
    4
    """
    if tokens is None or isinstance(tokens, TokenTable):
        return tokens
    if not isinstance(tokens, str):
        raise TypeError(f"tokens must be a table's name or a TokenTable, not {type(tokens).__name__}")
    return _named(tokens)


def needed_table(tokens: str | TokenTable) -> TokenTable:
    """The table that a name or a table stands for, where there must be one.

    >>> needed_table(None)
    Traceback (most recent call last):
    TypeError: tokens must be a table's name or a TokenTable, not None
    """
    table = as_table(tokens)
    if table is None:
        raise TypeError("tokens must be a table's name or a TokenTable, not None")
    return table
