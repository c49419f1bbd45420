"""Packages that only some features need, and how to get them."""

from __future__ import annotations

from importlib.util import find_spec

from seekset.errors import MissingExtraError

__all__ = ["missing", "require"]


def missing(what: str, package: str, extra: str) -> MissingExtraError:
    """An error that says what needs a package, and which extra brings it.

    >>> missing("a picture", "matplotlib", "plot")
    MissingExtraError("a picture needs matplotlib: pip install 'seekset[plot]'")
    """
    return MissingExtraError(f"{what} needs {package}: pip install 'seekset[{extra}]'", name=package)


def require(what: str, package: str, extra: str) -> None:
    """Raise that error unless the package is there. It is looked for and not imported, which may take seconds."""
    if find_spec(package) is None:
        raise missing(what, package, extra)
