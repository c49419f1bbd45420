"""What goes wrong, by who can mend it.

A missing file is a real ``FileNotFoundError``, a row out of range an ``IndexError``; everything else that seekset finds
wrong is one of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "CorruptRecordError",
    "DuplicateIdError",
    "FormatError",
    "MemoryLimitError",
    "MismatchError",
    "MissingExtraError",
    "SeeksetError",
    "SeeksetWarning",
    "StaleIndexError",
    "UnknownIdError",
]


class SeeksetError(Exception):
    """The root of everything seekset raises by itself."""


class FormatError(SeeksetError, ValueError):
    """The bytes are not what they claim to be."""


class CorruptRecordError(FormatError):
    """A checksum or a length contradicts the bytes it speaks of."""


class StaleIndexError(SeeksetError):
    """Index and data disagree: the file was changed, replaced or cut."""


class DuplicateIdError(SeeksetError, ValueError):
    """One id names two records."""


class MismatchError(SeeksetError, ValueError):
    """Options and data don't fit each other."""


class MemoryLimitError(SeeksetError):
    """More memory would be needed than was allowed."""


class MissingExtraError(SeeksetError, ModuleNotFoundError):
    """A package that only some features need is not installed; the message names the extra that brings it."""


class UnknownIdError(SeeksetError, KeyError):
    """No record has this id. Ids that look like it are searched for only when the message is read."""

    def __init__(self, unknown: str, where: str, nearest: Callable[[], Sequence[str]] | Sequence[str] = ()) -> None:
        super().__init__(unknown)
        self.unknown = unknown
        self.where = where
        self._nearest = nearest

    def __str__(self) -> str:
        """Name the id, the file and the nearest ids."""
        found = self._nearest() if callable(self._nearest) else self._nearest
        near = f"; the nearest are {', '.join(map(repr, found))}" if found else ""
        return f"{self.where}: there is no record with the id {self.unknown!r}{near}"

    def __reduce__(self) -> tuple[type[UnknownIdError], tuple[str, str, list[str]]]:
        """Pickle with the nearest ids found, because the file may not be there elsewhere."""
        found = self._nearest() if callable(self._nearest) else self._nearest
        return type(self), (self.unknown, self.where, list(found))


class SeeksetWarning(UserWarning):
    """Something works, but not as well as it could."""


def in_one_line(error: BaseException | str) -> str:
    """What an error says to people, without its type.

    >>> in_one_line(FileNotFoundError(2, "No such file or directory", "a.fa"))
    'a.fa: No such file or directory'
    """
    text = str(error)
    if isinstance(error, OSError) and error.strerror is not None:
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return " ".join(text.split("\n")) if "\n" in text else text
