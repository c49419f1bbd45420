"""What handles of files have in common: opening, closing and pickling."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from seekset.errors import StaleIndexError
from seekset.files import content_sample, state_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Handle", "made"]

_Core = TypeVar("_Core")


class Handle(Generic[_Core]):
    """A file that is open in the extension.

    It pickles as its path and options, with what tells the file from others, and opens in the other process when it is
    first used there. Rows mean nothing in another file that has come to lie there: that is a ``StaleIndexError``.
    """

    _path: Path
    _options: dict[str, Any]
    _core: _Core | None
    _closed: bool
    # The state of the file when it was opened, and what tells it from others, once that was asked for.
    _state: tuple[int, ...] | None
    _mark: str | None
    # How errors name what was opened, and what is to be done if it is another one.
    _what: ClassVar[tuple[str, str]] = ("file", "open it again, or make the dataset again")

    def _begin(self, path: Path, options: dict[str, Any], *, closed: bool = False) -> None:
        """Be a handle that is not open yet."""
        self._path, self._options = path, options
        self._core, self._closed = None, closed
        self._state = self._mark = None

    def _look(self) -> None:
        """Take note of the file before it is opened: if it is replaced in between, it is not taken for the new one."""
        with suppress(OSError):  # opening it says what is wrong
            self._state = state_of(self._path)

    def _connect(self, progress: Callable[[int, int], object] | None = None) -> _Core:
        raise NotImplementedError

    def _told(self, core: _Core) -> str:
        """What tells the content from others. No time is in it, so that a copy elsewhere is as good."""
        if self._mark is None:
            mark = f"{self._path.stat().st_size} bytes, {self._rows_told(core)}, content {content_sample(self._path)}"
            if state_of(self._path) != self._state:
                raise StaleIndexError(f"{self._path}: it has changed since it was opened; {self._what[1]}")
            self._mark = mark
        return self._mark

    def _rows_told(self, core: Any) -> str:
        """What tells its rows from others, in words."""
        return f"{len(core)} records"

    def _compare(self, core: _Core) -> None:
        """Refuse what is not what was open where this handle was pickled."""
        expected = self._options.get("fingerprint")
        if expected is not None and (found := self._told(core)) != expected:
            what, remedy = self._what
            raise StaleIndexError(
                f"{self._path}: it is another {what} than when it was handed over: expected {expected}, found {found}; "
                f"{remedy}"
            )

    @property
    def _open(self) -> _Core:
        core = self._core
        if core is not None:
            return core
        if self._closed:
            raise ValueError(f"{self._path} is closed")
        # A handle that was unpickled opens its file when it is first used. Without a lock, which a fork could leave
        # taken: two threads that come first both connect, and share the mapping.
        self._look()
        core = self._connect()
        self._compare(core)
        self._core = core
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
        if self._core is not None:
            options = {**options, "fingerprint": self._told(self._core)}
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
