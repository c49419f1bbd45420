"""What handles of files have in common: opening, closing and pickling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Handle", "made"]

_Core = TypeVar("_Core")


class Handle(Generic[_Core]):
    """A file that is open in the extension.

    It pickles as its path and options and opens in the other process when it is first used there.
    """

    _path: Path
    _options: dict[str, Any]
    _core: _Core | None
    _closed: bool

    def _begin(self, path: Path, options: dict[str, Any], *, closed: bool = False) -> None:
        """Be a handle that is not open yet."""
        self._path, self._options = path, options
        self._core, self._closed = None, closed

    def _connect(self, progress: Callable[[int, int], object] | None = None) -> _Core:
        raise NotImplementedError

    @property
    def _open(self) -> _Core:
        core = self._core
        if core is not None:
            return core
        if self._closed:
            raise ValueError(f"{self._path} is closed")
        # A handle that was unpickled opens its file when it is first used. Without a lock, which a fork could leave
        # taken: two threads that come first both connect, and share the mapping.
        self._core = core = self._connect()
        return core

    def close(self) -> None:
        """Let go of the file. Reading afterwards is a ``ValueError``; what was read, views too, stays."""
        self._core, self._closed = None, True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        index = self._options.get("index")
        options = {**self._options, "index": Path(index).absolute()} if index else self._options
        return _reopen, (type(self), self._path.absolute(), options, self._closed)

    def _repr(self, count: str) -> str:
        """What people see: the file, and so many of what ``count`` names."""
        state = f"{len(self)} {count}" if self._core is not None else "closed" if self._closed else "not open yet"  # type: ignore[arg-type]
        return f"<{type(self).__name__} {str(self._path)!r}, {state}>"


_Kind = TypeVar("_Kind", bound=Handle[Any])


def made(kind: type[_Kind], path: Path, options: dict[str, Any], core: Any = None, *, closed: bool = False) -> _Kind:
    """A handle of this kind without a call of its constructor: with what is open already, or to be opened later."""
    handle = kind.__new__(kind)
    handle._begin(path, options, closed=closed)  # noqa: SLF001 (a handle that is being made)
    handle._core = core  # noqa: SLF001
    return handle


def _reopen(kind: type[_Kind], path: Path, options: dict[str, Any], closed: bool) -> _Kind:
    """A handle from a pickle: it opens its file when it is first used, unless it was closed."""
    return made(kind, path, options, closed=closed)
