"""Shards for pools, as tests write them, and readers that take their time or fail."""

import os
import random
import time

import numpy as np

from seekset.datasets import MixedShardDataset
from seekset.shards import NpzShards


def write_sources(folder, sources):
    """Write `.npz` shards of so many rows each: `x` counts rows over all sources, `y` is a few numbers of them."""
    first = 0
    for name, counts in sources.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, rows in enumerate(counts):
            x = np.arange(first, first + rows)
            np.savez(folder / name / f"{number:02}.npz", x=x, y=np.stack([x, x], axis=1).astype("f4") / 4)
            first += rows
    return {name: folder / name for name in sources}


def mixed(sources, **options):
    """A dataset, by a name that other processes know, too."""
    return MixedShardDataset(sources, **options)


def tagged(name, item):
    """A transform: whose row it is, and which."""
    return name, number(item)


def number(item):
    return int(item["x"])


def numbers(batch):
    return tuple(batch["x"].tolist())


class Lines:
    """Rows are lines of text: objects."""

    suffixes = (".txt",)

    def count(self, path):
        return len(self.read(path))

    def read(self, path):
        return path.read_text().split()


class Slow:
    """Rows are numbers in text, read after a while that differs on every run; a line that is none is a bad row."""

    suffixes = (".txt",)

    def __init__(self, seconds=0.003):
        self.seconds = seconds

    def count(self, path):
        return len(path.read_text().split())

    def read(self, path):
        from seekset.shards import Rows

        time.sleep(random.SystemRandom().uniform(0, self.seconds))
        words = path.read_text().split()
        bad = {row: f"{word!r} is no number" for row, word in enumerate(words) if not word.isdecimal()}
        values = [0 if row in bad else int(word) for row, word in enumerate(words)]
        return Rows(columns={"x": np.array(values, dtype=np.int64)}, bad=bad)


class SlowRows(Slow):
    """The same, with rows that can be read singly."""

    def count(self, path):
        from seekset.shards import Census, Field

        return Census(super().count(path), (Field("x", "<i8", ()),), 9, 9 * super().count(path), 0)

    def read_rows(self, path, rows):
        from seekset.shards import Rows

        whole = self.read(path)
        bad = {place: whole.bad[row] for place, row in enumerate(rows.tolist()) if row in whole.bad}
        return Rows(columns={"x": whole.columns["x"][rows]}, bad=bad)


class ApartLines(Lines):
    """Objects that say which process read them, in processes of their own; a line that is no number is a bad row."""

    holds_gil = True

    def read(self, path):
        from seekset.shards import Rows

        words = super().read(path)
        bad = {row: f"{word!r} is no number" for row, word in enumerate(words) if not word.isdecimal()}
        return Rows(
            objects=[None if row in bad else (int(word), os.getpid()) for row, word in enumerate(words)], bad=bad
        )


class ApartNpz(NpzShards):
    """Arrays that are read in processes of their own."""

    holds_gil = True

    def __reduce__(self):
        return ApartNpz, ()


class SlowLines(Lines):
    """Objects, after a while that differs on every run."""

    def read(self, path):
        time.sleep(random.SystemRandom().uniform(0, 0.003))
        return super().read(path)


def write_text(folder, sources):
    """Write `.txt` shards of so many rows each, which count rows over all sources."""
    first = 0
    for name, counts in sources.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for shard, rows in enumerate(counts):
            (folder / name / f"{shard:02}.txt").write_text("\n".join(map(str, range(first, first + rows))))
            first += rows
    return {name: folder / name for name in sources}
