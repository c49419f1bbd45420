"""Public names that are imported when they are first used, so that importing a package costs next to nothing.

Type checkers and editors see the names where they are imported under ``TYPE_CHECKING``, and in ``__all__``. They don't
see ``__getattr__``, so that a name which is not there is an error to them, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__``, by the modules that its names come from.

    >>> get, names = lazy_names("seekset", {"Fasta": "seekset.fasta"})
    >>> get("Fasta"), "Fasta" in names()
    (<class 'seekset.fasta.Fasta'>, True)
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(homes[name]), name)
        # Kept, so that the next look-up does not come here.
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
