"""Readers of shards: what one has to offer, which one a file needs, and the files that are shards."""

from __future__ import annotations

import errno
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from seekset.errors import MismatchError, MissingExtraError, SeeksetError
from seekset.files import SUFFIXES, AnyPath, as_path, find_files, state_of

if TYPE_CHECKING:
    from seekset.shards.rows import Census, Rows

__all__ = [
    "EndedError",
    "OpenFiles",
    "Readers",
    "ShardReader",
    "find_shards",
    "is_exhaustion",
    "is_of_the_system",
    "reader_for",
    "reader_name",
    "readers_by_name",
    "shared_reader",
]

_T = TypeVar("_T")

# Which reader, and where it is; imported when a file needs it.
_READERS = {
    "pickle": ("seekset.shards.pickles", "PickleShards"),
    "npz": ("seekset.shards.npz", "NpzShards"),
    "tfrecord": ("seekset.shards.tfrecord", "TFRecordShards"),
    "fasta": ("seekset.shards.fasta", "FastaShards"),
    "parquet": ("seekset.shards.parquet", "ParquetShards"),
}
_SUFFIXES = tuple(suffix for kind in _READERS for suffix in SUFFIXES[kind])
_INDEXES = frozenset({".fai", ".gzi", ".idx", ".sidx", ".zidx"})
_MOST_OPEN = 32
# What is no fault of a file: the machine, or its limits, have nothing left.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class EndedError(SeeksetError):
    """A process that read a shard was ended from outside, as the system does where memory runs out."""


class ShardReader(Protocol):
    r"""How to read one kind of shard. These two methods are all that a reader of one's own needs.

    ``read`` gives :class:`~seekset.shards.Rows`, a mapping from names to arrays whose first axis is the row, or a list
    of objects, one for each row. ``count`` says how many rows there are, or all of a :class:`~seekset.shards.Census`;
    where it gives a number only, a shard is read once to see what its rows are.

    More is looked for, and may be there:

    - ``suffixes``: which files of a folder are shards, such as ``(".dat", ".dat.gz")``.
    - ``holds_gil``: true if reading is Python at work; shards are then read in processes of their own, and the reader
      must be picklable and importable, as must be the objects that it gives. Rows that are read singly
      (``mixing="global"``) are read where they are wanted.
    - ``read_rows(path, rows)``: reads only the rows with these numbers, in that order.
    - ``identity``: the reader's name, version and options in a few words. Readers with one have their counts kept in
      a cache; without, there is no telling whether what is in a cache came from the same code.

    >>> class Lines:
    ...     suffixes = (".txt",)
    ...     def count(self, path):
    ...         return len(self.read(path))
    ...     def read(self, path):
    ...         return path.read_text().splitlines()
    >>> from seekset.shards import take_census
    >>> _ = Path("a.txt").write_text("one\ntwo\n")
    >>> [shard], _ = take_census([Path("a.txt")], Lines())
    >>> shard.census.rows
    2
    """

    def count(self, path: Path) -> int | Census:
        """How many rows a shard has, or what is known of it."""

    def read(self, path: Path) -> Rows | Mapping[str, Any] | Sequence[Any]:
        """All rows of a shard."""


# Those that were made by the names of files, as long as anybody has them.
_SHARED: WeakValueDictionary[str, ShardReader] = WeakValueDictionary()

Readers: TypeAlias = ShardReader | Mapping[str, ShardReader | None] | None
"""What reads shards: one reader for all sources, or some by the names of sources; else, suffixes tell."""


def readers_by_name(reader: Readers, names: Iterable[str]) -> dict[str, ShardReader | None]:
    """The reader of each source; ``None`` where the names of its shards tell.

    >>> readers_by_name({"a": "a reader"}, ["a", "b"]), readers_by_name("a reader", ["a", "b"])
    ({'a': 'a reader', 'b': None}, {'a': 'a reader', 'b': 'a reader'})
    >>> readers_by_name({"c": "a reader"}, ["a", "b"])
    Traceback (most recent call last):
    seekset.errors.MismatchError: reader mismatch: there is a reader for 'c', but the sources are 'a', 'b'
    """
    sources = list(names)
    if not isinstance(reader, Mapping):
        return dict.fromkeys(sources, reader)
    for name in reader:
        if name not in sources:
            listed = ", ".join(map(repr, sources))
            raise MismatchError(f"reader mismatch: there is a reader for {name!r}, but the sources are {listed}")
    return {name: reader.get(name) for name in sources}


def reader_name(reader: ShardReader) -> str:
    """What tells a reader from others in a state: its identity, whose options are a digest; or its class.

    >>> reader_name(reader_for("a.npz")), reader_name(reader_for("a.tfrecord"))
    ('npz/2', 'tfrecord/2 c7f3cc56')
    """
    identity = getattr(reader, "identity", None)
    if identity is None:
        return type(reader).__qualname__
    name, blank, _ = str(identity).partition(" ")
    return f"{name} {hashlib.blake2b(identity.encode(), digest_size=4).hexdigest()}" if blank else name


def reader_for(path: AnyPath) -> ShardReader:
    """The reader for a file, by the end of its name.

    >>> reader_for("games/shuffled_0001.pkl.gz")
    PickleShards(max_bytes=4294967296)
    >>> reader_for("notes.txt")
    Traceback (most recent call last):
    seekset.errors.MismatchError: notes.txt: no reader knows this kind of shard; known are .pkl, ...
    """
    return _made(_kind_of(path))


def shared_reader(path: AnyPath) -> ShardReader:
    """The reader for a file, by the end of its name: one of a kind for all who have one now.

    What it keeps is of use for the next file and the next read, and few files are open, however many shards and sources
    there are. It goes with the last who has it.

    >>> one = shared_reader("a.npz")
    >>> one is shared_reader("b.npz"), one is shared_reader("a.pkl")
    (True, False)
    """
    kind = _kind_of(path)
    found = _SHARED.get(kind)
    return _SHARED.setdefault(kind, _made(kind)) if found is None else found


def _made(kind: str) -> ShardReader:
    module, name = _READERS[kind]
    return getattr(import_module(module), name)()  # type: ignore[no-any-return]


def _kind_of(path: AnyPath) -> str:
    for kind in _READERS:
        if _ends(as_path(path).name, SUFFIXES[kind]):
            return kind
    raise MismatchError(
        f"{as_path(path)}: no reader knows this kind of shard; known are {', '.join(_SUFFIXES)}; give one with reader="
    )


def _ends(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file is of the kind that has these suffixes."""
    # Sharded TFRecords are called train.tfrecord-00003-of-00010.
    return name.lower().endswith(suffixes) or (".tfrecord" in suffixes and ".tfrecord" in name.lower())


def find_shards(patterns: AnyPath | Iterable[AnyPath], reader: ShardReader | None = None) -> list[Path]:
    """The shards that paths, folders and globs name, sorted by name and each once.

    Of a folder, the files are meant whose names end as the reader's shards do, or as those of any reader here. What
    names no file is a ``FileNotFoundError``.

    >>> find_shards(".")
    [PosixPath('genome.fa'), PosixPath('proteins.fa'), PosixPath('train.tfrecord')]
    """
    suffixes = tuple(getattr(reader, "suffixes", ())) or _SUFFIXES
    return sorted(find_files(patterns, "shard", lambda name: _ends(name, suffixes), _INDEXES))


def is_exhaustion(error: BaseException | None) -> bool:
    """Whether the system lacked something, such as memory or files that may be open: no other shard is read any better.

    >>> is_exhaustion(OSError(errno.EMFILE, "Too many open files")), is_exhaustion(FileNotFoundError(errno.ENOENT, ""))
    (True, False)
    """
    if isinstance(error, OSError):
        return error.errno in _EXHAUSTED
    return isinstance(error, (MemoryError, EndedError, MissingExtraError))


def is_of_the_system(error: BaseException | None) -> bool:
    """Whether the system failed, and not the bytes that were read.

    What the system says has a number. What libraries say of bytes, such as ``gzip.BadGzipFile``, has none, or is that
    an offset is none, as damaged bytes may have it.

    >>> is_of_the_system(OSError(errno.EIO, "Input/output error")), is_of_the_system(OSError("Not a gzipped file"))
    (True, False)
    """
    return is_exhaustion(error) or (isinstance(error, OSError) and error.errno not in (None, errno.EINVAL))


class OpenFiles(Generic[_T]):
    """Files that are open, the one used last at the end; few at a time, and none in a pickle.

    A file that was replaced or written to since is opened again.

    >>> files = OpenFiles(lambda path: path.open("rb"))
    >>> files[Path("proteins.fa")] is files[Path("proteins.fa")]
    True
    """

    def __init__(self, connect: Callable[[Path], _T]) -> None:
        self._connect = connect
        self._open: OrderedDict[Path, tuple[tuple[int, ...], _T]] = OrderedDict()

    def __getitem__(self, path: Path) -> _T:
        # Looked at before it is opened: if it is replaced in between, it is opened once more, and not kept for the new.
        state = state_of(path)
        # Without a lock, which a fork could leave taken: two threads that come first both open the file.
        known = self._open.pop(path, None)
        found = known[1] if known is not None and known[0] == state else self._connect(path)
        self._open[path] = state, found
        while len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)
        return found
