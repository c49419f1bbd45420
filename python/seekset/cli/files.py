"""The files that the words of a command line name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["find_each"]


def find_each(words: Sequence[str]) -> tuple[list[Path], list[Exception]]:
    """The TFRecord files that paths, folders and globs name, sorted and each once, and an error for what names none.

    >>> find_each(["train.*", "missing.tfrecord"])
    ([PosixPath('train.tfrecord')], [FileNotFoundError(2, 'No such file or directory')])
    """
    from seekset.tfrecord import find_tfrecords

    found: set[Path] = set()
    faults: list[Exception] = []
    for word in words:
        try:
            found.update(find_tfrecords(word))
        except OSError as error:
            faults.append(error)
    return sorted(found), faults
