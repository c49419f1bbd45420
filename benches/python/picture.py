"""The README's picture, ``docs/images/ratios.svg``: how many times faster than a peer, a bar for each headline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

import results
from data import BENCHES
from drawing import Drawing
from report import ratio_text

IMAGES = BENCHES.parent / "docs" / "images"
PICTURE = IMAGES / "ratios.svg"


class Headline(NamedTuple):
    """A row of the results by its contest, its peer and, where that has several of a kind, a part of its title."""

    label: str
    contest: str
    peer: str
    part: str = ""


HEADLINES = (
    Headline("open an index, read a record", "open", "pysam"),
    Headline("open an index, read a record", "open", "pyfastx"),
    Headline("index 2 M proteins", "index-proteins", "pysam (samtools faidx)"),
    Headline("index a genome", "index-genome", "pyfastx"),
    Headline("gather 100 000 proteins", "gather", "pysam, loop"),
    Headline("gather 100 000 proteins", "gather", "Lance take"),
    Headline("fetch a record by name", "fetch", "pyfaidx"),
    Headline("packed batches of tokens", "batches-0", "Python, seek and readline, buffering collator"),
    Headline("windows from FASTA", "windows-0", "SQLite SUBSTR and a Python tokenizer", "from FASTA"),
    Headline("windows from SQLite", "windows-0", "SQLite SUBSTR and a Python tokenizer", "from SQLite"),
    Headline("index 2 M TFRecords", "tfrecord-index-small", "DALI tfrecord2idx"),
    Headline("index 2 M TFRecords", "tfrecord-index-small", "s3dlio"),
    Headline("Examples to arrays", "examples-file", "TensorFlow parse_example"),
    Headline("mixed pool, .npz", "pool-native", "webdataset shuffle, tar of pickles"),
    Headline("mixed pool, .npz", "pool-native", "Hugging Face shuffle, Arrow"),
    Headline("mixed pool, .pkl.gz", "pool-pickles", "webdataset shuffle"),
    Headline("aggregate 1 M vectors", "aggregate", "numpy and h5py, all in memory"),
)

# What is drawn beside a bar: names of peers that the page spells out.
_SHORT = {
    "pysam (samtools faidx)": "samtools",
    "pysam, loop": "pysam",
    "Python, seek and readline, buffering collator": "plain Python",
    "SQLite SUBSTR and a Python tokenizer": "SQLite SUBSTR",
    "webdataset shuffle, tar of pickles": "webdataset",
    "webdataset shuffle": "webdataset",
    "Hugging Face shuffle, Arrow": "Hugging Face, Arrow",
    "numpy and h5py, all in memory": "numpy and h5py",
    "TensorFlow parse_example": "TensorFlow",
}

_LEFT, _RIGHT, _TOP, _STEP, _BAR = 340, 80, 74, 27, 15
_WIDTH = 860


def rows_of(found: results.Data) -> list[tuple[Headline, results.Data]]:
    """The headlines of which there are results, with their rows."""
    drawn = []
    for headline in HEADLINES:
        rows = found["contests"].get(headline.contest, {"rows": []})["rows"]
        mine = (row for row in rows if row["peer"] == headline.peer and headline.part in row["title"])
        if row := next(mine, None):
            drawn.append((headline, row))
        else:
            click.echo(f"no bar: {headline.contest} beside {headline.peer} has no results", err=True)
    return drawn


def draw(drawn: Sequence[tuple[Headline, results.Data]]) -> str:
    """The picture as SVG."""
    height = _TOP + len(drawn) * _STEP + 46
    picture = Drawing(_WIDTH, height, "How many times faster seekset is than its peers")
    picture.text(20, 30, "How many times faster seekset is than …", "title")
    picture.text(
        20,
        50,
        "files in memory, 2 cores; medians of three repeats, in turns, after comparing answers; logarithmic scale",
        "faint",
    )
    most = max((row["ratio"] for _, row in drawn), default=1)
    decades = max(math.log10(most), 1)
    bottom = _TOP + len(drawn) * _STEP

    def place(ratio: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log10(max(ratio, 1)) / decades

    for power in range(int(decades) + 1):
        x = place(10**power)
        picture.add("line", "grid" if power else "even", x1=x, y1=_TOP - 6, x2=x, y2=bottom)
        picture.text(x, bottom + 16, f"{10**power:,}x".replace(",", " "), "faint", "middle")
    for number, (headline, row) in enumerate(drawn):
        y = _TOP + number * _STEP
        picture.text(20, y + 12, headline.label)
        picture.text(_LEFT - 12, y + 12, _SHORT.get(headline.peer, headline.peer), "faint", "end")
        end = place(row["ratio"])
        picture.add("rect", "short" if row["reached"] is False else "bar", x=_LEFT, y=y, width=end - _LEFT, height=_BAR)
        goal = place(row["goal"]) if row["goal"] and row["goal"] > 1 else None
        if goal is not None:
            picture.add("line", "goal", x1=goal, y1=y - 3, x2=goal, y2=y + _BAR + 3)
        # Behind the goal's mark, if that stands where the text would.
        at = goal if goal is not None and end <= goal < end + 56 else end
        picture.text(at + 7, y + 12, ratio_text(row["ratio"]), "strong")
    _legend(picture, bottom + 36)
    return picture.svg()


def _legend(picture: Drawing, y: float) -> None:
    picture.add("line", "goal", x1=_LEFT + 4.0, y1=y - 12, x2=_LEFT + 4.0, y2=y + 2)
    picture.text(_LEFT + 14, y, "goal", "faint")
    for x, kind, said in ((70, "bar", "reached, or none set"), (230, "short", "not reached")):
        picture.add("rect", kind, x=_LEFT + x, y=y - 10, width=12, height=11)
        picture.text(_LEFT + x + 18, y, said, "faint")


def write(found: results.Data, path: Path = PICTURE) -> Path:
    """Write the picture and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(draw(rows_of(found)))
    return path


if __name__ == "__main__":
    print(write(results.load()))
