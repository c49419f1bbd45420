"""The files that the words of a command line name."""

from __future__ import annotations

import os
import shlex
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from seekset.errors import SeeksetWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from seekset.fasta import Fasta
    from seekset.sequences import SequenceIndex

__all__ = ["find_each", "one_fasta", "open_fasta", "open_sequences", "reworded"]


def find_each(words: Sequence[str], find: Callable[[str], list[Path]]) -> tuple[list[Path], list[Exception]]:
    """The files that words name, in the order given and each once, and an error for each word that names none.

    >>> from seekset.tfrecord import find_tfrecords
    >>> find_each(["train.*", "missing.tfrecord"], find_tfrecords)
    ([PosixPath('train.tfrecord')], [FileNotFoundError(2, 'No such file or directory')])
    """
    from seekset.errors import SeeksetError

    found: dict[Path, None] = {}
    faults: list[Exception] = []
    for word in words:
        try:
            found.update(dict.fromkeys(find(word)))
        except (SeeksetError, OSError) as error:
            faults.append(error)
    return list(found), faults


def open_sequences(words: Sequence[str]) -> Fasta | SequenceIndex:
    """What plans and reports are made of: a sequence index whose files are as they were, or FASTA files.

    >>> open_sequences(["proteins.fa"]), open_sequences(["."])
    (<Fasta 'proteins.fa', 3 records>, <SequenceIndex '<sequence index in memory>', 5 sequences>)
    """
    from seekset.contents import content_of
    from seekset.files import find_fastas
    from seekset.sequences import SequenceIndex

    if len(words) == 1 and Path(words[0]).is_file() and content_of(Path(words[0])) == "sequences":
        index = SequenceIndex.load(words[0])
        index.check_files()
        return index
    files = find_fastas(words)
    if len(files) > 1:
        return SequenceIndex.create(files)
    elsewhere = f"`{shlex.join(['seekset', 'index', '-o', 'PATH', str(files[0])])}` makes one to give instead, at"
    with reworded("give --index", elsewhere):
        return open_fasta(str(files[0]), None, duplicates="first")


@contextmanager
def reworded(argument: str, option: str) -> Iterator[None]:
    """Let warnings name what a command takes, and not the argument of a function.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     with reworded("give index=", "give --index"):
    ...         warnings.warn("give index= a place", SeeksetWarning)
    >>> str(told[0].message)
    'give --index a place'
    """
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", SeeksetWarning)
        yield
    for warning in told:
        warnings.warn(str(warning.message).replace(argument, option), warning.category, stacklevel=4)


def one_fasta(word: str) -> str:
    """The one FASTA file that a word names: itself, or through its index.

    >>> one_fasta("proteins.fa")
    'proteins.fa'
    """
    from seekset.errors import MismatchError
    from seekset.files import find_fastas

    if Path(word).is_dir() or not Path(word).exists():
        return word
    file, *more = find_fastas(word)
    if more:
        raise MismatchError(f"{word}: it is an index of {len(more) + 1} FASTA files: give one of them, such as {file}")
    return str(file)


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
    from seekset.contents import content_of
    from seekset.errors import MismatchError, StaleIndexError
    from seekset.fasta import Fasta

    kept = index is not None and os.path.lexists(index)
    if index is not None and kept and content_of(Path(index)) in ("sequences", "plan", "fasta"):
        raise MismatchError(f"{index}: expected the index of one FASTA file, found another file; give another --index")
    try:
        with reworded("give index=", "give --index"):
            return Fasta(file, index=index, rebuild=not kept, duplicates=duplicates)
    except StaleIndexError as error:
        if not kept:
            raise
        again = shlex.join(["seekset", "index", "--index", str(index), file])
        raise StaleIndexError(f"{error}; if it is of this file and no other, `{again}` makes it anew") from error
