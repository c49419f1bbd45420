"""The report of an index: of one FASTA file, or of many in a sequence index."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seekset.fasta import Fasta
from seekset.lengths import Histogram, describe, histogram, quantiles
from seekset.numbers import octets
from seekset.report.charts import Mark, histogram_chart
from seekset.report.page import Markup, figure, note, section, table, tag, tiles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seekset.sequences import SequenceIndex

__all__ = ["IndexFigures", "draw_index", "index_figures"]

# How many of the longest and shortest are shown, how many files, and how much of a header.
_SEQUENCES, _FILES, _LETTERS = 10, 50, 300


class Extreme(NamedTuple):
    """One of the longest or shortest sequences; of a single file, with its header."""

    id: str
    length: int
    header: str | None


class FileShare(NamedTuple):
    """What of an index is of one file."""

    path: str
    sequences: int
    letters: int


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """What is told of an index. ``lengths`` is what ``seekset stats`` shows; ``repeated_ids`` may not be known."""

    what: str
    files: tuple[FileShare, ...]
    lengths: dict[str, Any]
    quantiles: dict[str, float]
    histogram: Histogram
    longest: tuple[Extreme, ...]
    shortest: tuple[Extreme, ...]
    repeated_ids: int | None
    index_path: str | None
    index_bytes: int | None
    created: str | None
    remarks: tuple[str, ...]


def index_figures(index: Fasta | SequenceIndex, what: str, remarks: Sequence[str] = ()) -> IndexFigures:
    """The figures of an open index, called ``what``; remarks are what was said when it was opened."""
    lengths = index.lengths
    one = isinstance(index, Fasta)
    path = index.index_path if isinstance(index, Fasta) else index.path
    return IndexFigures(
        what=what,
        files=_files(index),
        lengths=describe(lengths),
        quantiles=quantiles(lengths),
        histogram=histogram(lengths),
        longest=_extremes(index, np.argsort(-lengths, kind="stable")[:_SEQUENCES]),
        shortest=_extremes(index, np.argsort(lengths, kind="stable")[:_SEQUENCES]),
        repeated_ids=index.repeated_ids if isinstance(index, Fasta) else None,
        index_path=None if path is None else str(path),
        index_bytes=_size(path),
        created=None if one else index.created,  # type: ignore[union-attr] # the other kind
        remarks=tuple(remarks),
    )


def _size(path: Path | None) -> int | None:
    return path.stat().st_size if path is not None and path.exists() else None


def _files(index: Fasta | SequenceIndex) -> tuple[FileShare, ...]:
    lengths = index.lengths
    if isinstance(index, Fasta):
        return (FileShare(str(index.path), len(index), int(lengths.sum())),)
    paths = index.files
    numbers = index.file_numbers
    sequences = np.bincount(numbers, minlength=len(paths))
    letters = np.zeros(len(paths), dtype=np.int64)
    np.add.at(letters, numbers, lengths)
    found = zip(paths, sequences.tolist(), letters.tolist(), strict=True)
    return tuple(FileShare(str(path), count, of_file) for path, count, of_file in found)


def _extremes(index: Fasta | SequenceIndex, rows: NDArray[np.intp]) -> tuple[Extreme, ...]:
    if isinstance(index, Fasta):
        records = (index[row] for row in rows.tolist())
        return tuple(Extreme(record.id, len(record), _cut(record.description)) for record in records)
    ids, lengths = index.ids(rows), index.lengths[rows].tolist()
    return tuple(Extreme(name, length, None) for name, length in zip(ids, lengths, strict=True))


def _cut(text: str) -> str:
    """So much of a text as people look at.

    >>> _cut("a" * 9), len(_cut("a" * 900)), _cut("a" * 900)[-3:]
    ('aaaaaaaaa', 300, 'aa…')
    """
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


# --- the page ---------------------------------------------------------------------------------------------------------


def draw_index(figures: IndexFigures) -> list[Markup]:
    """The parts of the page."""
    facts = figures.lengths
    top = section(
        "At a glance",
        tiles(
            [
                ("files", len(figures.files)),
                ("sequences", facts["records"]),
                ("letters", facts["letters"]),
                ("shortest", facts["shortest"]),
                ("median length", facts["median"]),
                ("mean length", facts["mean"]),
                ("N50", facts["n50"]),
                ("longest", facts["longest"]),
                ("records with a repeated id", figures.repeated_ids),
                ("index file", None if figures.index_bytes is None else octets(figures.index_bytes)),
                ("made", figures.created),
            ]
        ),
        *(tag("p", remark, class_="warning") for remark in figures.remarks),
    )
    parts = [top, _drawn_lengths(figures)]
    if figures.longest:
        ends = (("longest", figures.longest), ("shortest", figures.shortest))
        parts.append(section("Longest and shortest", *(_drawn_extremes(*end) for end in ends)))
    return [*parts, _drawn_files(figures)]


def _drawn_lengths(figures: IndexFigures) -> Markup:
    found, facts = figures.histogram, figures.lengths
    if not facts["records"]:
        return section("Lengths", note("There are no sequences."))
    marks = [
        Mark(facts["median"], f"median {facts['median']:,.6g}", "half of all sequences are shorter", "good"),
        Mark(facts["n50"], f"N50 {facts['n50']:,}", "half of all letters are in sequences at least as long", "bad"),
    ]
    bins = [
        (f"{start:,} to {end - 1:,}", count)
        for (start, end), count in zip(pairwise(found.edges), found.counts, strict=True)
    ]
    caption = "How many sequences are how long; bins grow with the length." if found.log else "How many are how long."
    if found.log and found.empty:
        caption += f" {found.empty:,} without a letter are not drawn."
    chart = histogram_chart(
        "Lengths of sequences",
        found.edges,
        found.counts,
        x_label="letters in a sequence" + (" (logarithmic)" if found.log else ""),
        y_label="sequences",
        log=found.log,
        marks=marks,
    )
    parts = list(figures.quantiles.items())
    return section(
        "Lengths",
        figure(chart, caption, ("letters", "sequences"), bins),
        table(("of sequences", *(name for name, _ in parts)), [("are no longer than", *(value for _, value in parts))]),
    )


def _drawn_extremes(title: str, sequences: Sequence[Extreme]) -> Markup:
    heads: tuple[str, ...] = (f"the {title}", "letters")
    rows: list[tuple[str | int | None, ...]] = [(_cut(one.id), one.length) for one in sequences]
    if any(one.header is not None and one.header != _cut(one.id) for one in sequences):
        heads = (*heads, "header")
        rows = [(_cut(one.id), one.length, one.header) for one in sequences]
    return table(heads, rows)


def _drawn_files(figures: IndexFigures) -> Markup:
    most = sorted(figures.files, key=lambda one: -one.letters)[:_FILES]
    return section(
        "Files",
        table(("file", "sequences", "letters"), most, left_out=len(figures.files) - len(most)),
        note(f"index: {figures.index_path or 'in memory'}"),
    )
