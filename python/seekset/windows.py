"""Windows over genomes: which letters each has follows from its number; all that is kept is one count a contig."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from seekset import _core
from seekset.bed import read_bed
from seekset.contigs import Contigs, Selection, Splits
from seekset.errors import FormatError, MismatchError, SeeksetWarning
from seekset.limits import whole_number
from seekset.rows import row_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from seekset.files import AnyPath

__all__ = ["Tail", "Window", "WindowPlan", "WindowSpans", "warn_of_unseen"]

Tail = Literal["drop", "anchor", "partial"]
"""What becomes of the letters after the last full window: see :class:`WindowPlan`."""

_PERCENT = 100


class Window(NamedTuple):
    """Where a window lies: letters ``start`` to ``end`` of a contig of a file, and whether its strand is reversed."""

    file: Path
    contig: str
    start: int
    end: int
    reverse: bool = False


class WindowSpans(NamedTuple):
    """Where many windows lie, as columns: contigs by number, their lengths, first letters, letters, strands."""

    contigs: NDArray[np.int64]
    lengths: NDArray[np.int64]
    starts: NDArray[np.int64]
    letters: NDArray[np.int64]
    reverse: NDArray[np.bool_]


class WindowPlan:
    """Overlapping windows over the contigs of many FASTA files.

    A window's number becomes a place by a search among one count per contig, so that a plan of hundreds of millions of
    windows is made in seconds and takes 8 bytes a contig.

    Args:
        paths: FASTA files, folders or globs; plain or compressed with bgzip.
        window: Tokens of a window, special ones too.
        specials: How many of them are special; the rest are letters, the window's content.
        edges: How many of the specials stand only where a contig begins, and how many where it ends; windows have
            letters in the place of those that they don't have. Without, every window has all specials.
        stride: Letters from the start of a window to that of the next. Unless given, the letters that all full windows
            have: the content; with ``edges`` more, except for ``tail="partial"``.
        tail: What becomes of the letters after the last full window: ``"anchor"`` adds a window that ends where the
            contig ends; ``"partial"`` one that starts at the next multiple of the stride and is shorter; ``"drop"``
            none, and counts windows as Sharded Eden does. A contig shorter than a window has one window in any case.
        min_length: The least letters of a contig that has windows.
        include: Names of contigs, or patterns such as ``"chr*"``; all without.
        exclude: Names or patterns of contigs that are left out.
        splits: Shares by name (``{"train": 0.9, "val": 0.1}``), given out by a hash of the contig's id, so that a
            contig is in the same split wherever it is met; where they add up to less than 1, the rest of the contigs
            is in none. Or the names of the contigs of each split.
        split: The split that is meant.
        regions: A BED file: windows are cut from its regions instead of whole contigs, on their strands.
        region_width: So many letters around the centre of each region, moved inside the contig at its ends; regions as
            they are given without.
        progress: Called with bytes done and bytes in all while files are indexed.

    >>> plan = WindowPlan("genome.fa", window=10, stride=8)
    >>> len(plan), plan[0][2:], plan[2][2:], plan[-1][1:4]
    (5, (0, 10, False), (16, 26, False), ('chr2', 0, 9))
    """

    def __init__(
        self,
        paths: AnyPath | Iterable[AnyPath] | Contigs,
        *,
        window: int = 8192,
        specials: int = 0,
        edges: tuple[int, int] | None = None,
        stride: int | None = None,
        tail: Tail = "anchor",
        min_length: int = 1,
        include: Iterable[str] | str | None = None,
        exclude: Iterable[str] | str | None = None,
        splits: Splits | None = None,
        split: str | None = None,
        regions: str | os.PathLike[str] | None = None,
        region_width: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        content = whole_number(window, "window") - specials
        # With edges, no full window has all specials: the first one of a contig has the fewest letters, or the last.
        self._reach = content if edges is None else window - max(edges)
        if stride is None:
            # A first window that can't hold the end of its contig leaves the last letter to the next, which, where it
            # is not moved back, must begin before that.
            stride = content if tail == "partial" else self._reach
        if region_width is not None and regions is None:
            raise ValueError("region_width is about regions: give a BED file")
        if content < 1:
            raise MismatchError(f"a window of {window} tokens has no room for letters beside {specials} special tokens")
        self._rule = (
            window,
            content,
            whole_number(stride, "stride"),
            tail,
            whole_number(min_length, "min_length", least=0),
            edges,
        )
        selection = Selection(_names(include), _names(exclude), splits, split)
        self.contigs: Contigs = paths if isinstance(paths, Contigs) else Contigs(paths, progress=progress)
        self._regions: tuple[NDArray[np.int64], ...] | None = None
        self._reverse: NDArray[np.bool_] | None = None
        self.ends: NDArray[np.int64]
        self.stretches: int
        self.letters: int
        self.unseen: int
        if regions is None:
            found = self.contigs.core.windows(
                self._rule, wanted=selection.flags(self.contigs), splits=selection.shares, split=selection.number
            )
            self.ends, self.stretches, self.letters, self.unseen = found
        else:
            self._take_regions(Path(regions), region_width, selection)
        self.fingerprint: str = f"{self.contigs.fingerprint}, {self._digest(selection)}"
        self._warn()

    def _take_regions(self, path: Path, width: int | None, selection: Selection) -> None:
        columns, reverse = _regions(path, None if width is None else whole_number(width, "region_width"), self.contigs)
        meant = selection.all_flags(self.contigs, columns[0].tolist())
        self._regions = tuple(np.ascontiguousarray(column[meant]) for column in columns)
        self._reverse = np.ascontiguousarray(reverse[meant])
        lengths = self._regions[2] - self._regions[1]
        self.ends, self.unseen = _core.window_ends(self._rule, lengths)
        self.stretches, self.letters = len(lengths), int(lengths.sum())

    def _digest(self, selection: Selection) -> str:
        """The rules in short. What was selected follows from the files and them."""
        facts = json.dumps([self._rule, selection.facts]).encode()
        columns = b"".join(column.tobytes() for column in self._regions or ())
        strands = b"" if self._reverse is None else self._reverse.tobytes()
        return hashlib.blake2b(facts + columns + strands, digest_size=8).hexdigest()

    def _warn(self) -> None:
        warn_of_unseen(
            self.unseen,
            self.letters,
            stride=self.stride,
            content=self._reach,
            drops=self._rule[3] == "drop",
            stacklevel=5,
        )
        if not len(self):
            warnings.warn(
                "there are no windows: nothing is left after min_length, include, exclude, splits and regions",
                SeeksetWarning,
                stacklevel=4,
            )

    @property
    def window(self) -> int:
        """Tokens of a window."""
        return self._rule[0]

    @property
    def content(self) -> int:
        """Letters of a full window."""
        return self._rule[1]

    @property
    def stride(self) -> int:
        """Letters between the starts of windows."""
        return self._rule[2]

    @property
    def has_regions(self) -> bool:
        """Whether windows are cut from regions."""
        return self._regions is not None

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def spans(self, numbers: ArrayLike | Sequence[int]) -> WindowSpans:
        """Where many windows lie."""
        return self.spans_of(row_numbers(numbers, len(self)))

    def spans_of(self, wanted: NDArray[np.int64]) -> WindowSpans:
        """The same of numbers that are known to be those of windows."""
        contigs, lengths, stretches, starts, letters = self.contigs.core.locate(
            self._rule, self.ends, wanted, self._regions
        )
        reverse = np.zeros(len(wanted), dtype=np.bool_) if self._reverse is None else self._reverse[stretches]
        return WindowSpans(contigs, lengths, starts, letters, reverse)

    def __getitem__(self, number: int) -> Window:
        return self.places(self.spans([number]))[0]

    def places(self, spans: WindowSpans) -> list[Window]:
        """The same with names: files and ids instead of numbers."""
        names = {contig: (self.contigs.file(contig), self.contigs.id(contig)) for contig in set(spans.contigs.tolist())}
        columns = zip(*(column.tolist() for column in spans), strict=True)
        return [
            Window(*names[contig], start, start + letters, reverse) for contig, _, start, letters, reverse in columns
        ]

    def short(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The windows that are not full, in order, and how many letters each has."""
        return self.contigs.core.short(self._rule, self.ends, self._regions)

    def __repr__(self) -> str:
        over = f"{self.stretches} {'regions' if self.has_regions else 'contigs'}"
        return f"<WindowPlan of {len(self)} windows of {self.content} letters every {self.stride}, over {over}>"


def warn_of_unseen(
    unseen: int, letters: int, *, stride: int, content: int, beside: str = "", drops: bool = False, stacklevel: int
) -> None:
    """Warn of letters that are in no window because windows begin further apart than they are long.

    ``beside`` says what else windows are taken to hold, ``drops`` whether letters after the last full window are left
    out as well; ``stacklevel`` is as for ``warnings.warn`` called here.
    """
    if stride > content and unseen:
        share = _PERCENT * unseen / max(letters, 1)
        message = (
            f"{unseen} of {letters} letters ({share:.1f} %) are in no window: the stride of {stride} is larger than a "
            f"window's content of {content} letters{beside}"
        ) + (", and those after the last full window are left out" if drops else "")
        warnings.warn(message, SeeksetWarning, stacklevel=stacklevel)


def _regions(
    path: Path, width: int | None, contigs: Contigs
) -> tuple[tuple[NDArray[np.int64], ...], NDArray[np.bool_]]:
    """Contigs, starts and ends of the regions of a BED file, and whether each is on the reverse strand."""
    known: dict[str, tuple[int, int]] = {}
    columns: tuple[list[int], list[int], list[int]] = ([], [], [])
    reverse: list[bool] = []
    for region in read_bed(path):
        where = f"{path}: line {region.line}"
        if region.contig not in known:
            known[region.contig] = _known(contigs, region.contig, where)
        contig, length = known[region.contig]
        if region.end > length:
            raise FormatError(f"{where}: it ends at {region.end}, but {region.contig!r} has {length} letters")
        start, end = region.start, region.end
        if width is not None:
            start = max(0, min((start + end - width + 1) // 2, length - width))
            end = min(start + width, length)
        for column, value in zip(columns, (contig, start, end), strict=True):
            column.append(value)
        reverse.append(region.reverse)
    return tuple(np.array(column, dtype=np.int64) for column in columns), np.array(reverse, dtype=np.bool_)


def _known(contigs: Contigs, name: str, where: str) -> tuple[int, int]:
    found = contigs.core.find(name)
    if len(found) == 1:
        return found[0], contigs.core.length(found[0])
    if not found:
        raise FormatError(f"{where}: there is no contig {name!r} in the FASTA files, such as {contigs.paths[0]}")
    files = " and ".join(str(contigs.file(contig)) for contig in found[:2])
    raise MismatchError(f"{where}: {name!r} is in {files}: regions need contigs that are in one file")


def _names(names: Iterable[str] | str | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    return (names,) if isinstance(names, str) else tuple(names)
