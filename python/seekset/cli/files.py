"""The files that the words of a command line name."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from seekset.fasta import Fasta

__all__ = ["find_each", "open_fasta"]


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


def open_fasta(file: str, index: str | None, *, duplicates: Literal["error", "first"]) -> Fasta:
    """A FASTA file with the index that was named for it, which is made if missing but never replaced.

    An index that was named and does not fit may be that of another file.

    >>> with open_fasta("proteins.fa", "elsewhere.sidx", duplicates="error") as made:
    ...     made.index_path
    PosixPath('elsewhere.sidx')
    >>> open_fasta("genome.fa", "elsewhere.sidx", duplicates="error")
    Traceback (most recent call last):
    seekset.errors.StaleIndexError: genome.fa: its index elsewhere.sidx can't be used: ...
    """
    from seekset.errors import StaleIndexError
    from seekset.fasta import Fasta

    kept = index is not None and os.path.lexists(index)
    try:
        return Fasta(file, index=index, rebuild=not kept, duplicates=duplicates)
    except StaleIndexError as error:
        if not kept:
            raise
        again = shlex.join(["seekset", "index", "--index", str(index), file])
        raise StaleIndexError(f"{error}; if it is of this file and no other, `{again}` makes it anew") from error
