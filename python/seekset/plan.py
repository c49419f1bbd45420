"""Packing plans: which sequences share a batch, decided once, from their lengths alone."""

from __future__ import annotations

import errno
import os
import tempfile
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, SupportsIndex, cast, overload

import numpy as np

from seekset import _core
from seekset._core import BalancedOrder
from seekset.errors import MismatchError, SeeksetError, SeeksetWarning
from seekset.limits import limit, whole_number
from seekset.rows import integers
from seekset.tokens import TokenTable, as_table
from seekset.world import Share, World

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BalancedOrder", "HasLengths", "Plan", "PlannedBatch", "RankShare"]

# What decides, beside the lengths, what a plan is.
_RULES = ("max_tokens", "max_length", "specials", "overflow", "overlap", "layout")


class HasLengths(Protocol):
    """What can be planned: a :class:`seekset.SequenceIndex`, a :class:`seekset.Fasta`."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The letters of each sequence, by row."""


class PlannedBatch(NamedTuple):
    """The pieces of a batch, longest first: letters ``starts[k]`` to ``starts[k] + lengths[k]`` of ``rows[k]``."""

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


class RankShare(NamedTuple):
    """What falls to a rank that takes every n-th batch; sequences that are split count once for each piece."""

    rank: int
    batches: int
    sequences: int
    tokens: int


class Plan(Sequence[PlannedBatch]):
    """Batches of sequences, each within a budget of tokens, those with the most tokens first.

    A plan is made with :meth:`create` or read from a file with :meth:`load`. It takes whole sequences, all of them, and
    puts each into the batch that it fills best. The same lengths and options always give the same plan.

    Ranks that take every n-th batch have about as many tokens each (:meth:`shares`); :meth:`order` shuffles batches so
    that it stays like that.

    A plan pickles as the path of its file. One that was never saved goes into a temporary file first, so that the
    workers of a loader share its memory. That file has no name and is gone with its process, however that ends; the
    plan is then made anew.

    >>> from seekset import Fasta
    >>> plan = Plan.create(Fasta("proteins.fa"), tokens="esm", max_tokens=40)
    >>> plan
    <Plan of 3 sequences in 2 batches of up to 40 tokens, 75.0 % full>
    >>> plan[0].rows, plan[1].rows, plan.tokens
    (array([0]), array([1, 2]), array([35, 25]))
    """

    def __init__(self, core: _core.Plan, *, path: Path | None = None, index: HasLengths | None = None) -> None:
        self._opened: _core.Plan | None = core
        self._path = path
        # The open file without a name of a plan that was pickled but never saved, and where such a pickle finds it.
        self._file: int | None = None
        self._temporary: Path | None = None
        self._index = index
        # What a plan that is opened again must be, and what it is made from where its file is gone.
        self._identity = (core.fingerprint, core.digest)
        self._rules = {name: getattr(core, name) for name in _RULES}
        # The index's lengths, looked up once, and whether they were seen to descend.
        self._lengths: NDArray[np.uint64] | None = None
        self._descends = False

    @classmethod
    def create(
        cls,
        index: HasLengths,
        *,
        tokens: str | TokenTable | None = "esm",
        specials: bool = True,
        max_tokens: int = 16384,
        max_length: int | None = 1022,
        overflow: Literal["truncate", "split", "error"] = "truncate",
        overlap: int = 0,
        layout: Literal["packed", "padded"] = "packed",
    ) -> Plan:
        """Plan all sequences of an index.

        Args:
            index: What has ``lengths``: a ``SequenceIndex`` or a ``Fasta``.
            tokens: The token table, or its name: what it puts around a sequence counts. ``None`` counts letters alone.
            specials: Whether what the table puts around a sequence is wanted at all.
            max_tokens: The most tokens of a batch.
            max_length: The most letters of a sequence, specials not counted; ``None`` for no limit.
            overflow: What becomes of longer ones: ``"truncate"`` cuts them, with a warning that says how many;
                ``"split"`` makes several pieces of each; ``"error"`` refuses them.
            overlap: Letters that each piece of a split sequence repeats from the one before it.
            layout: ``"packed"`` for batches of one sequence after another; ``"padded"`` for batches of similar lengths,
                in which the tokens count with each sequence filled up to the longest.

        >>> from seekset import Fasta
        >>> plan = Plan.create(Fasta("proteins.fa"), max_tokens=24, max_length=20, overflow="split", overlap=5)
        >>> [(batch.rows.tolist(), batch.starts.tolist(), batch.lengths.tolist()) for batch in plan]
        [([0], [0], [20]), ([0], [15], [18]), ([1], [0], [16]), ([2], [0], [5])]
        """
        plan = cls.silently(
            index,
            tokens=tokens,
            specials=specials,
            max_tokens=max_tokens,
            max_length=max_length,
            overflow=overflow,
            overlap=overlap,
            layout=layout,
        )
        plan.tell_of_cuts(stacklevel=3)
        return plan

    @classmethod
    def silently(
        cls,
        index: HasLengths,
        *,
        tokens: str | TokenTable | None,
        specials: bool,
        max_tokens: int,
        max_length: int | None,
        overflow: str,
        overlap: int,
        layout: str,
    ) -> Plan:
        """:meth:`create` without a warning, for those who give it themselves (:meth:`tell_of_cuts`)."""
        around = 0
        if (table := as_table(tokens)) is not None and specials:
            around = len(table.prefix) + len(table.suffix)
        rules: dict[str, Any] = {
            "max_tokens": whole_number(max_tokens, "max_tokens", least=0),
            "max_length": limit(max_length, "max_length"),
            "specials": around,
            "overflow": overflow,
            "overlap": whole_number(overlap, "overlap", least=0),
            "layout": layout,
        }
        return cls.by_rules(index, **rules)

    @classmethod
    def by_rules(cls, index: HasLengths, **rules: Any) -> Plan:
        """A plan by the bare rules that it keeps: ``specials`` is how many tokens a sequence has beside its letters."""
        return cls(_packed(index, rules), index=index)

    def tell_of_cuts(self, *, stacklevel: int) -> None:
        """Warn of sequences that were cut, if any were; ``stacklevel`` is as for ``warnings.warn`` called here."""
        if cut := self.truncated:
            are = "1 sequence is" if cut == 1 else f"{cut} sequences are"
            message = (
                f"{are} longer than max_length, which is {self.max_length}, and {'is' if cut == 1 else 'are'} cut; "
                'overflow="split" keeps all letters'
            )
            warnings.warn(message, SeeksetWarning, stacklevel=stacklevel)

    @classmethod
    def load(cls, path: str | os.PathLike[str], index: HasLengths | None = None) -> Plan:
        """The plan in a file, which opens without being read through.

        Given the index, a plan of another one is a ``MismatchError``, and so is a batch that does not fit its lengths.

        >>> from seekset import Fasta
        >>> Plan.create(Fasta("proteins.fa"), max_tokens=40).save("proteins.plan")
        >>> Plan.load("proteins.plan", Fasta("proteins.fa")).total_tokens
        60
        >>> Plan.load("proteins.plan", Fasta("genome.fa"))
        Traceback (most recent call last):
        seekset.errors.MismatchError: proteins.plan: it is a plan of another index: expected ..., found ...
        """
        plan = cls(_core.Plan.open(path), path=Path(path), index=index)
        if index is not None:
            plan.check(index)
        return plan

    @property
    def _open(self) -> _core.Plan:
        if self._opened is None:
            self._opened = self._reopened()
        return self._opened

    def _reopened(self) -> _core.Plan:
        """A plan that was pickled: from its file, or else computed again."""
        try:
            core = _core.Plan.open(self._path) if self._path is not None else self._borrowed()
        except FileNotFoundError:
            if self._index is None:
                raise
            core = None
        if (core is None or not self._is_same(core)) and self._index is not None:
            core = _packed(self._index, self._rules)
        if core is None or not self._is_same(core):
            raise MismatchError(f"{self._path or 'plan'}: it is another plan than it was; make it anew")
        return core

    def _borrowed(self) -> _core.Plan:
        """The plan in another process' file. Once that is closed, its number may be that of any other file."""
        path = cast("Path", self._temporary)
        try:
            # A pipe is not even opened: that may take forever.
            if path.is_file():
                return _core.Plan.open(path)
        except (OSError, SeeksetError):
            pass
        raise FileNotFoundError(
            errno.ENOENT, "the plan was never saved, and the process that made it is gone", str(path)
        )

    def _is_same(self, core: _core.Plan) -> bool:
        return (core.fingerprint, core.digest) == self._identity

    def check(self, index: HasLengths) -> None:
        """Raise ``MismatchError`` if this is a plan of another index."""
        found, expected = _fingerprint(index), self.fingerprint
        if found != expected:
            name = self._path or "plan"
            raise MismatchError(
                f"{name}: it is a plan of another index: expected {expected!r}, found {found!r}; make it anew"
            )

    @property
    def path(self) -> Path | None:
        """The file that the plan is in; ``None`` if it was never saved."""
        return self._path

    @property
    def fingerprint(self) -> str:
        """What the index is known by."""
        return self._open.fingerprint

    @property
    def digest(self) -> str:
        """A checksum of all batches: plans of one index with the same digest are the same."""
        return self._open.digest

    @property
    def sequences(self) -> int:
        """How many sequences the index has."""
        return self._open.sequences

    @property
    def pieces(self) -> int:
        """How many pieces they have become: as many, unless some were split."""
        return self._open.pieces

    @property
    def truncated(self) -> int:
        """How many sequences were cut."""
        return self._open.truncated

    @property
    def total_tokens(self) -> int:
        """The tokens of all batches."""
        return self._open.total_tokens

    @property
    def efficiency(self) -> float:
        """Which part of the batches is tokens, from 0 to 1: the rest is room that is left, or padding."""
        return self._open.efficiency

    @property
    def max_tokens(self) -> int:
        """The most tokens of a batch."""
        return self._open.max_tokens

    @property
    def max_length(self) -> int | None:
        """The most letters of a piece."""
        return self._open.max_length

    @property
    def specials(self) -> int:
        """Tokens that a piece has beside its letters."""
        return self._open.specials

    @property
    def overflow(self) -> str:
        """What became of sequences longer than ``max_length``."""
        return self._open.overflow

    @property
    def overlap(self) -> int:
        """Letters that neighbouring pieces of a sequence share."""
        return self._open.overlap

    @property
    def layout(self) -> str:
        """Whether batches are for ``"packed"`` or ``"padded"`` sequences."""
        return self._open.layout

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The tokens of each batch, without padding: a view, without a copy."""
        return np.frombuffer(cast("Any", self._open.tokens()), dtype="<i8")

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many pieces each batch has."""
        return np.diff(np.frombuffer(cast("Any", self._open.ends()), dtype="<i8"))

    def __len__(self) -> int:
        return len(self._open)

    @overload
    def __getitem__(self, key: SupportsIndex) -> PlannedBatch: ...
    @overload
    def __getitem__(self, key: slice) -> list[PlannedBatch]: ...
    def __getitem__(self, key: SupportsIndex | slice) -> PlannedBatch | list[PlannedBatch]:
        if isinstance(key, slice):
            return [self[number] for number in range(*key.indices(len(self)))]
        return PlannedBatch(*self._open.batch(self._number(key), self._index_lengths()))

    def repacked(self, batch: SupportsIndex, *, seed: int, epoch: int) -> PlannedBatch:
        """A batch with other sequences of the same lengths in it, for an epoch.

        Sequences of equal length change places all over the plan, so that every epoch has each of them once, and the
        tokens of batches stay as they are. The index must be known and have descending lengths, as a ``SequenceIndex``
        has them.
        """
        lengths = self._index_lengths()
        if lengths is None:
            raise ValueError("repacking needs the index: Plan.load(path, index)")
        if not self._descends:
            _core.Plan.check_descending(lengths)
            self._descends = True
        drawn = whole_number(seed, "seed", least=0), whole_number(epoch, "epoch", least=0)
        return PlannedBatch(*self._open.repacked(self._number(batch), lengths, *drawn))

    def order(self, world_size: int = 1, *, seed: int = 0, epoch: int = 0) -> BalancedOrder:
        """All batches, shuffled such that ranks which take every ``world_size``-th have about as many tokens each.

        >>> from seekset import Fasta
        >>> list(Plan.create(Fasta("proteins.fa"), max_tokens=35).order(2, seed=1))
        [1, 0]
        """
        drawn = whole_number(seed, "seed", least=0), whole_number(epoch, "epoch", least=0)
        return BalancedOrder(len(self), whole_number(world_size, "world_size"), *drawn)

    def shares(self, world_size: int) -> list[RankShare]:
        """What falls to each rank if all take every n-th batch.

        >>> from seekset import Fasta
        >>> Plan.create(Fasta("proteins.fa"), max_tokens=40).shares(2)[1]
        RankShare(rank=1, batches=1, sequences=2, tokens=25)
        """
        tokens, counts = self.tokens, self.counts
        found = []
        for rank in range(whole_number(world_size, "world_size")):
            places = Share(len(self), World(rank, world_size)).places()
            found.append(RankShare(rank, len(places), int(counts[places].sum()), int(tokens[places].sum())))
        return found

    def deviations(self, world_size: int) -> list[float]:
        """How far the tokens of each rank are from the mean of all, as a part of it.

        >>> from seekset import Fasta
        >>> Plan.create(Fasta("proteins.fa"), max_tokens=40).deviations(2)
        [0.16666666666666674, -0.16666666666666663]
        """
        shares = self.shares(world_size)
        mean = self.total_tokens / len(shares)
        return [share.tokens / mean - 1 if mean else 0.0 for share in shares]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a file, which pyarrow and polars can read, too. Other files than plans are not replaced."""
        self._open.save(path)
        if self._path is None:
            self._path = Path(path)

    def _number(self, key: SupportsIndex) -> int:
        if isinstance(key, bool) or not hasattr(key, "__index__"):
            raise TypeError(f"a batch is asked for by its number, not by {type(key).__name__}")
        number, count = key.__index__(), len(self._open)
        if not -count <= number < count:
            raise IndexError(f"batch {number} is out of range: there are {count} batches")
        return number % count

    def _index_lengths(self) -> NDArray[np.uint64] | None:
        if self._lengths is None and self._index is not None:
            self._lengths = _lengths_of(self._index)
        return self._lengths

    def _spilled(self) -> int:
        """The plan in an open file without a name, which is from then on what this process uses, too."""
        with tempfile.TemporaryDirectory(prefix="seekset-plan-") as folder:
            path = Path(folder) / "plan.arrow"
            self._open.save(path)
            file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, file)
        self._opened = _core.Plan.open(_opened_by_this_process(file))
        return file

    def __getstate__(self) -> dict[str, Any]:
        if self._path is None and self._temporary is None and self._file is None:
            self._file = self._spilled()
        return {
            "_path": None if self._path is None else self._path.absolute(),
            # A forked child has the file open, too.
            "_temporary": self._temporary if self._file is None else _opened_by_this_process(self._file),
            "_index": self._index,
            "_identity": self._identity,
            "_rules": self._rules,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Opened when it is first used.
        self.__dict__.update(state, _opened=None, _file=None, _lengths=None, _descends=False)

    def __repr__(self) -> str:
        if self._opened is None:
            return f"<Plan{'' if self._path is None else f' {str(self._path)!r}'}, not open yet>"
        return (
            f"<Plan of {self.sequences} sequences in {len(self)} batches of up to {self.max_tokens} tokens, "
            f"{100 * self.efficiency:.1f} % full>"
        )


def _opened_by_this_process(file: int) -> Path:
    """Where other processes find an open file, for as long as this one has it open."""
    return Path(f"/proc/{os.getpid()}/fd/{file}")


def _packed(index: HasLengths, rules: dict[str, Any]) -> _core.Plan:
    return _core.Plan.pack(_lengths_of(index), fingerprint=getattr(index, "fingerprint", None), **rules)


def _fingerprint(index: HasLengths) -> str:
    own: str | None = getattr(index, "fingerprint", None)
    return _core.Plan.fingerprint_of(_lengths_of(index)) if own is None else own


def _lengths_of(index: HasLengths) -> NDArray[np.uint64]:
    if not hasattr(index, "lengths"):
        raise TypeError(f"a plan is made from what has lengths, a SequenceIndex or a Fasta, not {type(index).__name__}")
    lengths = np.ascontiguousarray(integers(index.lengths, "lengths"))
    if lengths.size and lengths.min() < 0:
        row = int(np.argmax(lengths < 0))
        raise ValueError(f"lengths are not negative, but that of row {row} is {lengths[row]}")
    return lengths.view(np.uint64)
