"""Cost against size over three decades: ``make bench-growth``. What grows faster than it should, shows in the exponent.

Sequences are short, so that ten million of them fit; rows of pools are small for the same reason. Each size is measured
in a process of its own, three times, after a run that warms up.
"""

from __future__ import annotations

import math
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

import data
import report
import results
from contest import REPEATS, Task, Times, apart
from drawing import Drawing
from picture import IMAGES

PICTURE = IMAGES / "growth.svg"

SIZES = (10**4, 10**5, 10**6, 10**7)
QUICK_SIZES = (10**3, 10**4, 10**5)

_SEED = 17
_BATCH = 1_000
_POOL, _OF_SHARD, _OF_BATCH = 1_000, 2_500, 250


class Growth(NamedTuple):
    """What is measured. A time is shared by so many ``units``: all there are, or those of one call."""

    title: str
    unit: str
    enter: Callable[[Path, int], Task]
    units: Callable[[int], int]


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The exponent of the power of the size that fits best: the slope of a line through the logarithms."""
    x, y = np.log(sizes), np.log(seconds)
    return float(np.polyfit(x, y, 1)[0])


# --- the files --------------------------------------------------------------------------------------------------------


def _fasta(folder: Path, count: int) -> Path:
    """Sequences of 30 to 59 letters, on one line each, which are the same ones for each size."""
    path = folder / f"short-{count}.fa"
    if not path.exists():
        rng = np.random.default_rng(_SEED)
        letters = bytes(b"ARNDCQEGHILKMFPSTWYV"[k] for k in rng.integers(0, 20, 4_096))

        def blocks() -> Any:
            for first in range(0, count, 100_000):
                numbers = range(first, min(first + 100_000, count))
                yield b"".join(b">s%d\n%s\n" % (k, letters[k % 4_000 :][: 30 + k % 30]) for k in numbers)

        data.write(path, blocks())
    return path


def _shards(folder: Path, count: int) -> Path:
    """Rows of 16 numbers and a label, in shards of one size."""
    done = folder / f"shards-{count}"
    if not done.exists():
        unfinished = done.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        rng = np.random.default_rng(_SEED)
        for number, first in enumerate(range(0, count, _OF_SHARD)):
            rows = min(_OF_SHARD, count - first)
            x = rng.standard_normal((rows, 16), dtype=np.float32)
            np.savez(unfinished / f"{number:05}.npz", x=x, label=np.arange(first, first + rows))
        unfinished.rename(done)
    return done


# --- what is measured -------------------------------------------------------------------------------------------------


def _index(folder: Path, count: int) -> Task:
    import seekset

    path = _fasta(folder, count)
    sidx = path.with_name(path.name + ".sidx")
    opened = partial(seekset.Fasta, path)
    return Task(opened, lambda fasta: {"records": str(len(fasta))}, partial(sidx.unlink, missing_ok=True))


def _open(folder: Path, count: int) -> Task:
    import seekset

    path = _fasta(folder, count)
    seekset.Fasta(path).close()

    def run() -> str:
        with seekset.Fasta(path) as fasta:
            return fasta.fetch(f"s{count // 2}")

    return Task(run, lambda _: {"records": str(count)})


def _gather(folder: Path, count: int) -> Task:
    import seekset

    fasta = seekset.Fasta(_fasta(folder, count))
    rows = np.random.default_rng(_SEED).integers(0, count, _BATCH)
    return Task(lambda: fasta.gather(rows, tokens="esm", dtype="int64"), lambda _: {"records": str(len(fasta))})


def _plan(_: Path, count: int) -> Task:
    import warnings
    from types import SimpleNamespace

    from seekset.plan import Plan

    warnings.simplefilter("ignore")
    lengths = np.clip(np.random.default_rng(_SEED).lognormal(np.log(350), 0.6, count), 20, 35_000).astype(np.int64)
    index = SimpleNamespace(lengths=-np.sort(-lengths))
    run = partial(Plan.create, index, tokens="esm", max_tokens=16_384, max_length=1_022)
    return Task(run, lambda plan: {"records": str(sum(len(batch.rows) for batch in plan))})


def _pool(folder: Path, count: int) -> Task:
    from seekset.datasets import MixedShardDataset

    pattern = str(_shards(folder, count) / "*.npz")
    rules = {"pool_rows": _POOL, "max_bytes": "1GB", "seed": 0, "batch_size": _OF_BATCH}
    dataset = MixedShardDataset(sources={"all": pattern}, **rules)

    def run() -> int:
        return sum(len(batch["label"]) for batch in dataset)

    return Task(run, lambda rows: {"records": str(rows)})


GROWTHS = {
    "index": Growth("Index", "sequence", _index, lambda count: count),
    "open": Growth("Open and read one record", "call", _open, lambda _: 1),
    "gather": Growth(f"Gather {_BATCH} random records", "record", _gather, lambda _: _BATCH),
    "plan": Growth("Plan packed batches", "sequence", _plan, lambda count: count),
    "pool": Growth("An epoch of a mixed pool", "row", _pool, lambda count: count),
}


def _measured(growth: str, folder: Path, count: int) -> list[float]:
    """Seconds of each repeat, in this process, which is there for nothing else."""
    task = GROWTHS[growth].enter(folder, count)
    task.before()
    found = task.answers(task.run())
    if found != {"records": str(count)}:
        raise RuntimeError(f"{growth}: {found} of {count} records")
    return [_repeat(task) for _ in range(REPEATS)]


def _repeat(task: Task) -> float:
    seconds: list[float] = []
    while sum(seconds) < 0.1:
        task.before()
        start = time.perf_counter()
        result = task.run()
        seconds.append(time.perf_counter() - start)
        del result
    return statistics.median(seconds)


def curve(name: str, folder: Path, sizes: Sequence[int]) -> results.Data:
    """A curve as data."""
    growth = GROWTHS[name]
    points = []
    for size in sizes:
        seconds = apart(_measured, name, folder, size)
        times = results.amount(Times(seconds))
        points.append({"size": size, "units": growth.units(size), "seconds": times})
        click.echo(f"{name}, {data.spaced(size)}: {report.amount(times, 'time')}", err=True)
    exponent = slope(sizes, [point["seconds"]["median"] for point in points])
    return {"name": name, "title": growth.title, "unit": growth.unit, "exponent": round(exponent, 3), "points": points}


# --- the picture ------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 860, 400, 80, 270, 66, 46


def draw(curves: Sequence[results.Data]) -> str:
    """Seconds against size, both on logarithmic scales, as SVG."""
    picture = Drawing(_WIDTH, _HEIGHT, "Cost against size")
    picture.text(20, 30, "Cost against size", "title")
    picture.text(20, 50, "seconds against sequences or rows, logarithmic scales; exponent 1 is proportional", "faint")
    sizes = [point["size"] for one in curves for point in one["points"]]
    seconds = [point["seconds"]["median"] for one in curves for point in one["points"]]
    (left, right), (low, high) = (_decades(values) for values in (sizes, seconds))

    def place(size: float, second: float) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * (math.log10(size) - left) / max(right - left, 1)
        y = _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * (math.log10(second) - low) / max(high - low, 1)
        return x, y

    for power in range(left, right + 1):
        x, bottom = place(10.0**power, 10.0**low)
        picture.add("line", "grid", x1=x, y1=_TOP, x2=x, y2=bottom)
        picture.text(x, bottom + 18, data.spaced(10**power), "faint", "middle")
    for power in range(low, high + 1):
        x, y = place(10.0**left, 10.0**power)
        picture.add("line", "grid", x1=x, y1=y, x2=_WIDTH - _RIGHT, y2=y)
        picture.text(x - 8, y + 4, report.amount({"median": 10.0**power * 1.000001}, "time"), "faint", "end")
    _draw_curves(picture, curves, place)
    return picture.svg()


def _draw_curves(picture: Drawing, curves: Sequence[results.Data], place: Callable[..., tuple[float, float]]) -> None:
    ends = []
    for kind, one in zip("abcde", curves, strict=False):
        places = [place(point["size"], point["seconds"]["median"]) for point in one["points"]]
        picture.add("polyline", f"series {kind}", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places))
        for x, y in places:
            picture.add("circle", kind, cx=x, cy=y, r=3)
        ends.append((places[-1][1], kind, one))
    at = -math.inf
    # Labels stand beside the ends of their curves, but not over one another.
    for y, kind, one in sorted(ends, key=lambda end: end[0]):
        at = max(y, at + 18)
        picture.add("circle", kind, cx=_WIDTH - _RIGHT + 16, cy=at, r=4)
        picture.text(_WIDTH - _RIGHT + 26, at + 4, f"{one['title']}: {one['exponent']:.2f}")


def _decades(values: Sequence[float]) -> tuple[int, int]:
    return math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)


# --- the command ------------------------------------------------------------------------------------------------------


@click.command()
@click.option("--quick", is_flag=True, help="Use small sizes, and write no results.")
@click.option("--only", multiple=True, type=click.Choice(list(GROWTHS)), help="Measure this only; may be given again.")
@click.option("--remark", metavar="TEXT", help="What is to be known about this run.")
@click.option("--svg", type=click.Path(path_type=Path), help="Where the picture goes, if not where it belongs.")
def main(quick: bool, only: tuple[str, ...], remark: str | None, svg: Path | None) -> None:
    """Measure cost against size; a full run of all writes results.json, results.md and docs/images/growth.svg."""
    folder = (data.QUICK if quick else data.FULL).folder / "growth"
    folder.mkdir(parents=True, exist_ok=True)
    run = None if quick or only else results.described(remark)
    curves = [curve(name, folder, QUICK_SIZES if quick else SIZES) for name in only or GROWTHS]
    for one in curves:
        click.echo(f"{one['title']}: exponent {one['exponent']:.2f}")
    if svg or run:
        (svg or PICTURE).write_text(draw(curves))
    if run:
        report.write(results.load(results.save(results.with_growth(results.load(), run, curves))))


if __name__ == "__main__":
    main()
