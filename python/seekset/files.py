"""The files that datasets read: named by paths, folders and globs, and told from others."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from seekset.errors import MismatchError, SeeksetWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "SUFFIXES",
    "AnyPath",
    "as_path",
    "content_sample",
    "content_samples",
    "find_fastas",
    "find_files",
    "fingerprint",
    "is_stream",
    "refuse_stream",
    "state_of",
]

AnyPath: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

_FASTA = (".fa", ".faa", ".fas", ".fasta", ".ffn", ".fna", ".frn")

SUFFIXES: dict[str, tuple[str, ...]] = {
    "pickle": (".pkl", ".pickle", ".pkl.gz", ".pickle.gz"),
    "npz": (".npz",),
    "tfrecord": tuple(f"{kind}{packed}" for packed in ("", ".gz", ".zlib") for kind in (".tfrecord", ".tfrecords")),
    "fasta": tuple(f"{kind}{packed}" for packed in ("", ".gz", ".bgz", ".bgzf") for kind in _FASTA),
    "parquet": (".parquet", ".pq"),
}
"""How the names of files end, by what is in them; in small letters."""

# What the name of a compressed copy has more than that of the file.
_PACKED = (".gz", ".bgz", ".bgzf", ".zlib")

# As indexes sample the files that they are of: `rust/core/src/io/fingerprint.rs`.
_SAMPLES = 16
_SAMPLE_BYTES = 4096
# Samples are waits for a disk: so many files at a time.
_AT_ONCE = 16


def find_files(
    patterns: AnyPath | Iterable[AnyPath], kind: str, wanted: Callable[[str], bool], indexes: frozenset[str]
) -> list[Path]:
    """The files that paths, folders and globs name, in the order given and each once.

    Of a folder, the files are meant whose names are ``wanted``; what a folder or a glob holds comes sorted, without
    hidden files and without ``indexes``. What names no file is a ``FileNotFoundError``, which says that there is no
    file of this ``kind``.
    """
    if isinstance(patterns, (str, bytes, os.PathLike)):
        patterns = [patterns]
    found: dict[Path, None] = {}
    for pattern in patterns:
        path = as_path(pattern)
        if path.is_dir():
            names = [inside for inside in path.iterdir() if wanted(inside.name)]
        elif path.exists():
            refuse_stream(path)
            found[path] = None
            continue
        else:
            names = [Path(name) for name in glob.glob(str(path), recursive=True)]  # noqa: PTH207 (a Path's glob has one fixed root)
        names = [name for name in names if name.suffix not in indexes and not name.name.startswith(".")]
        _refuse_dangling(names)
        names = [name for name in names if name.is_file()]
        if not names:
            raise FileNotFoundError(errno.ENOENT, _missing(path, kind), str(path))
        _tell_of_twins(names)
        found.update(dict.fromkeys(sorted(names)))
    # Two ways to spell one path are one file. Links are not: whoever makes them wants a file to count more than once.
    spelled: dict[str, Path] = {}
    for path in found:
        spelled.setdefault(os.path.abspath(path), path)  # noqa: PTH100 (a Path keeps its dots)
    return list(spelled.values())


def _refuse_dangling(names: Iterable[Path]) -> None:
    """Raise an error for a link that leads nowhere: a file was meant, and a part of the data would be missing."""
    for name in sorted(names):
        if name.is_symlink() and not name.exists():
            reason = f"a link that leads nowhere (to {name.readlink()}): mend it or remove it"
            raise FileNotFoundError(errno.ENOENT, reason, str(name))


def _tell_of_twins(names: Iterable[Path]) -> None:
    """Warn of a file that is there both plain and compressed, since each of its rows would come twice."""
    known = set(names)
    for name in sorted(known):
        twins = (name.with_name(name.name + packed) for packed in _PACKED)
        if twin := next((twin for twin in twins if twin in known), None):
            message = f"both {name} and {twin.name} are read; where they hold the same, keep or name one of them"
            warnings.warn(message, SeeksetWarning, stacklevel=4)


def _missing(path: Path, kind: str) -> str:
    """Why a path names no file: a folder may be there, and a glob is no name of a file."""
    if path.is_dir():
        return f"there is no {kind} in this folder"
    return "no file matches" if glob.has_magic(str(path)) else os.strerror(errno.ENOENT)


def find_fastas(patterns: AnyPath | Iterable[AnyPath]) -> list[Path]:
    """The FASTA files that paths, folders and globs name, in the order given and each once.

    An index that is named stands for its files: a sequence index for all of them, ``genome.fa.sidx`` for ``genome.fa``.

    >>> find_fastas([".", "proteins.*"])
    [PosixPath('genome.fa'), PosixPath('proteins.fa')]
    """
    found = find_files(patterns, "FASTA file", _is_fasta, frozenset({".fai", ".gzi", ".sidx"}))
    if all(_is_fasta(path.name) for path in found):
        return found
    return list(dict.fromkeys(file for path in found for file in _fastas_of(path)))


def _fastas_of(path: Path) -> list[Path]:
    """The files of an index; another file stands for itself."""
    from seekset.contents import content_of

    content = None if _is_fasta(path.name) else content_of(path)
    if content == "sequences":
        from seekset.sequences import SequenceIndex

        with SequenceIndex.load(path) as index:
            return index.files
    if content == "fasta index":
        if path.suffix != ".sidx" or not path.with_suffix("").is_file():
            raise MismatchError(f"{path}: expected the FASTA file that it is the index of beside it, found none")
        return [path.with_suffix("")]
    if content == "plan":
        raise MismatchError(f"{path}: expected a FASTA file or an index, found a plan")
    return [path]


def _is_fasta(name: str) -> bool:
    return name.lower().endswith(SUFFIXES["fasta"])


def fingerprint(facts: Sequence[Sequence[Any]]) -> str:
    """What tells files from others in a few words: a digest of facts about each, of which the first is its name.

    >>> fingerprint([["a.fa", 100], ["b.fa", 200]])
    'a.fa and 1 more, 5a22ccfab8d538eb'
    """
    digest = hashlib.blake2b(json.dumps(facts).encode(), digest_size=8).hexdigest()
    name = facts[0][0]
    return f"{name if len(facts) == 1 else f'{name} and {len(facts) - 1} more'}, {digest}"


def state_of(path: Path, stat: os.stat_result | None = None) -> tuple[int, ...]:
    """What tells a file from one that took its place since: its size, time of modification and inode."""
    found = path.stat() if stat is None else stat
    return found.st_size, found.st_mtime_ns, found.st_ino


def content_sample(path: Path) -> str:
    """A digest of a file's content, wherever it lies: of 16 blocks of 4 KiB, both ends among them; of all, if small.

    >>> content_sample(Path("proteins.fa"))
    '9da33238a91f84a0'
    """
    digest = hashlib.blake2b(digest_size=8)
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        last, is_small = size - _SAMPLE_BYTES, size <= _SAMPLES * _SAMPLE_BYTES
        places = range(0, size, _SAMPLE_BYTES) if is_small else [last * k // (_SAMPLES - 1) for k in range(_SAMPLES)]
        for place in places:
            digest.update(os.pread(file.fileno(), _SAMPLE_BYTES, place))
    return digest.hexdigest()


def content_samples(paths: Sequence[Path]) -> list[str]:
    """The same of many files, several at a time."""
    if len(paths) <= 1:
        return [content_sample(path) for path in paths]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(_AT_ONCE, len(paths)), "seekset-samples") as threads:
        return list(threads.map(content_sample, paths))


def as_path(path: AnyPath) -> Path:
    """A path, whatever it was given as. Empty text is none: it would be the current folder.

    >>> as_path(b"proteins.fa")
    PosixPath('proteins.fa')
    """
    name = os.fsdecode(path)
    if not name:
        raise ValueError("a path is empty text; give '.' for the current folder")
    return Path(name)


def refuse_stream(path: AnyPath) -> None:
    """Raise an ``OSError`` for what can be read once only, or has no folder in which its index could be.

    >>> refuse_stream("/dev/null")
    Traceback (most recent call last):
    OSError: [Errno 22] it is no regular file, so that no index can be made of it; write the bytes to a file first: ...
    """
    if is_stream(path) or not as_path(path).is_file():
        what = "it is no regular file, so that no index can be made of it; write the bytes to a file first"
        raise OSError(errno.EINVAL, what, os.fsdecode(path))


def is_stream(path: AnyPath) -> bool:
    """Whether a name is that of what a process has open, such as ``/dev/stdin``: no file can be put beside it.

    >>> is_stream("/dev/stdin"), is_stream("/dev/fd/63"), is_stream("/dev/shm/x.fa")
    (True, True, False)
    """
    folder = os.path.dirname(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100, PTH120 (a Path keeps its dots)
    return folder in ("/dev", "/dev/fd") or folder.startswith("/proc/")
