"""The contigs of many FASTA files, and which of them are meant: by name, by pattern, by split."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING, Any

import numpy as np

from seekset import _core
from seekset.errors import MismatchError, SeeksetWarning, StaleIndexError, UnknownIdError
from seekset.files import find_fastas, fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seekset.files import AnyPath

__all__ = ["Contigs", "Selection", "Splits"]

Splits = Mapping[str, float] | Mapping[str, Iterable[str]]
"""Shares of all contigs by name, which a hash of their ids gives out; or the contigs of each split."""

_PATTERN = re.compile(r"[*?\[]")


class Contigs:
    """The contigs of FASTA files, numbered over all of them in the order of the files.

    It pickles as its paths, and opens in the other process when it is first used there.

    >>> contigs = Contigs(["genome.fa", "proteins.fa"])
    >>> len(contigs), contigs.id(1), contigs.file(2).name
    (5, 'chr2', 'proteins.fa')
    """

    def __init__(
        self,
        paths: AnyPath | Iterable[AnyPath],
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        self.paths: list[Path] = [path.absolute() for path in find_fastas(paths)]
        if not self.paths:
            raise ValueError("windows are cut from at least one FASTA file, and none was given")
        self._core: _core.Contigs | None = _core.Contigs(self.paths, progress=progress)
        self._marks = self._core.marks()
        for remark in self._core.remarks:
            warnings.warn(remark, SeeksetWarning, stacklevel=3)

    @property
    def core(self) -> _core.Contigs:
        """What is open in the extension."""
        if self._core is None:
            opened = _core.Contigs(self.paths)
            if opened.marks() != self._marks:
                raise StaleIndexError(f"{self._changed(opened.marks())}: it has changed since the windows were counted")
            self._core = opened
        return self._core

    def _changed(self, marks: Sequence[Any]) -> Path:
        return next(path for path, then, now in zip(self.paths, self._marks, marks, strict=True) if then != now)

    def __len__(self) -> int:
        return len(self.core)

    @property
    def fingerprint(self) -> str:
        """What tells these files from others: their names without folders, sizes, samples and numbers of contigs."""
        return fingerprint([[path.name, *mark] for path, mark in zip(self.paths, self._marks, strict=True)])

    def id(self, contig: int) -> str:
        """The id of a contig."""
        return self.core.id(contig)

    def file(self, contig: int) -> Path:
        """The file of a contig."""
        return self.paths[self.core.file_of(contig)]

    def find(self, name: str) -> list[int]:
        """The contigs of this id, of which there is at least one."""
        found = self.core.find(name)
        if not found:
            raise UnknownIdError(name, self._named)
        return found

    @property
    def _named(self) -> str:
        return str(self.paths[0]) if len(self.paths) == 1 else f"{self.paths[0]} and {len(self.paths) - 1} more"

    def flags(self, patterns: Iterable[str]) -> NDArray[np.bool_]:
        """Whether each contig has one of these names, or one that a pattern (``chr*``) matches; each must be there.

        >>> Contigs("genome.fa").flags(["chr[2-9]"])
        array([False,  True])
        """
        if isinstance(patterns, str):
            patterns = [patterns]
        flags = np.zeros(len(self), dtype=np.bool_)
        compiled: list[tuple[str, re.Pattern[str]]] = []
        for pattern in patterns:
            # An id may hold what means something in a pattern: the id comes first.
            if found := self.core.find(pattern):
                flags[found] = True
            elif _PATTERN.search(pattern):
                compiled.append((pattern, re.compile(translate(pattern))))
            else:
                raise UnknownIdError(pattern, self._named)
        if compiled:
            self._match(compiled, flags)
        return flags

    def _match(self, patterns: list[tuple[str, re.Pattern[str]]], flags: NDArray[np.bool_]) -> None:
        missing = {pattern for pattern, _ in patterns}
        number = 0
        for file in range(len(self.paths)):
            for name in self.core.ids(file):
                hits = {pattern for pattern, compiled in patterns if compiled.match(name)}
                missing -= hits
                flags[number] |= bool(hits)
                number += 1
        if missing:
            raise UnknownIdError(min(missing), self._named)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_core": None}


@dataclass(frozen=True)
class Selection:
    """Which contigs are meant.

    Args:
        include: Names and patterns; all without.
        exclude: Names and patterns that are left out.
        splits: Shares by name, or the contigs of each split.
        split: The split that is meant.
    """

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    splits: Splits | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        if self.splits is not None:
            # Once: what is given may be used up by looking at it.
            listed = {name: _listed(share) for name, share in self.splits.items()}
            if len({isinstance(share, float) for share in listed.values()}) > 1:
                raise MismatchError("split mismatch: splits are all shares, or all lists of contigs, not some of each")
            # By name: which contigs a share means must not depend on the order in which a file of options lists them.
            object.__setattr__(self, "splits", dict(sorted(listed.items())))
        if (self.splits is None) != (self.split is None):
            raise ValueError("give splits and split together, or neither")
        if self.splits is not None and self.split not in self.splits:
            raise MismatchError(f"split mismatch: there is no {self.split!r} in {', '.join(map(repr, self.splits))}")

    @property
    def shares(self) -> list[float] | None:
        """The shares of splits, where they are given by a hash."""
        if self.splits is None or not all(isinstance(share, float) for share in self.splits.values()):
            return None
        return [float(share) for share in self.splits.values()]  # type: ignore[arg-type]

    @property
    def number(self) -> int:
        """Which of the splits is meant, counted from 0."""
        return 0 if self.splits is None else list(self.splits).index(self.split or "")

    def flags(self, contigs: Contigs) -> NDArray[np.bool_] | None:
        """Whether each contig is meant by its name; nothing where all are."""
        flags = None if self.include is None else contigs.flags(self.include)
        if self.exclude is not None:
            excluded = ~contigs.flags(self.exclude)
            flags = excluded if flags is None else flags & excluded
        if self.splits is not None and self.shares is None:
            listed = self._listed(contigs)
            flags = listed if flags is None else flags & listed
        return flags

    def all_flags(self, contigs: Contigs, wanted: Sequence[int]) -> NDArray[np.bool_]:
        """Whether each of some contigs is meant, by its name and by its hash."""
        flags = self.flags(contigs)
        meant = np.ones(len(wanted), dtype=np.bool_) if flags is None else flags[np.asarray(wanted, dtype=np.int64)]
        if self.shares is not None:
            names = {contig: contigs.id(contig) for contig in set(wanted)}
            numbers = _core.split_of([names[contig] for contig in wanted], self.shares)
            meant &= numbers == self.number
        return meant

    def _listed(self, contigs: Contigs) -> NDArray[np.bool_]:
        """The contigs of the split, which must not be in another one."""
        of_split = {name: contigs.flags(listed) for name, listed in (self.splits or {}).items()}  # type: ignore[arg-type]
        mine = of_split[self.split or ""]
        for name, flags in of_split.items():
            if name != self.split and (both := np.flatnonzero(mine & flags)).size:
                contig = contigs.id(int(both[0]))
                raise MismatchError(f"split mismatch: {contig!r} is in {self.split!r} and in {name!r}")
        return mine

    @property
    def facts(self) -> list[Any]:
        """What it is told from others by, as JSON has it."""
        return [self.include, self.exclude, self.splits, self.split]


def _listed(share: Any) -> float | tuple[str, ...]:
    if isinstance(share, (int, float)):
        return float(share)
    return tuple(sorted([share] if isinstance(share, str) else share))
