"""Compare ratios with recorded ones: ``make bench-gate``, and ``make bench-gate RECORD=1`` to record them.

Times depend on the machine and on the hour; ratios of contestants that took turns depend on much less. A ratio has
fallen if it is less than the recorded one by more than the two can differ by chance.

How much that is, follows from the repeats. Times of one round go together, so that each round gives a ratio. On a
logarithmic scale, the range of three of them is 1.69 standard deviations wide on average, and their median is off by
0.67 of one, so by 0.4 ranges. Two medians are compared: the allowance is three times the root of the sum of both
squares. It is never less than ten percent, because what changes from run to run is not seen in repeats of one, and
never more than a half: what is half of what it was has fallen, however noisy. What seems to have fallen is held again,
and counts if it does so twice.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table as Shown

import results
import suites
from contest import Row
from data import BENCHES, QUICK
from report import ratio_text

BASELINE = BENCHES / "gate.json"

# Some of each kind of work, quickly held on a twentieth of the data. The plan has no peer but a time: it is not here.
DEFAULT = (
    *("index-proteins", "index-genome", "fetch", "gather", "gather-tokens", "batches-0", "windows-0"),
    *("tfrecord-index-small", "examples-file", "pool-pickles"),
)

_OF_RANGE = 0.67 / 1.69
_SIGMAS = 3
_LEAST, _MOST = math.log(1 / 0.9), math.log(2)


class Ratio(NamedTuple):
    """A ratio of some contest, with the least and the greatest of its repeats."""

    contest: str
    section: str
    title: str
    peer: str
    ratio: float
    low: float
    high: float

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is the ratio of."""
        return self.contest, self.section, self.title, self.peer

    @property
    def error(self) -> float:
        """How far off it is, as a logarithm: the standard error of the median of the repeats."""
        return _OF_RANGE * math.log(self.high / self.low)


class Change(NamedTuple):
    """A ratio now and then; one of the two may be missing."""

    then: Ratio | None
    now: Ratio | None

    @property
    def factor(self) -> float | None:
        """How many times the recorded ratio the one of now is."""
        return self.now.ratio / self.then.ratio if self.then and self.now else None

    @property
    def allowance(self) -> float | None:
        """The factor down to which it may fall by chance."""
        if self.then is None or self.now is None:
            return None
        by_chance = _SIGMAS * math.hypot(self.then.error, self.now.error)
        return math.exp(-min(max(by_chance, _LEAST), _MOST))

    @property
    def verdict(self) -> str:
        """``fell``, ``rose`` or ``same``; ``new`` without a recorded one, ``gone`` without one of now."""
        if self.then is None:
            return "new"
        if self.now is None:
            return "gone"
        if self.factor < self.allowance:
            return "fell"
        return "rose" if self.factor > 1 / self.allowance else "same"

    @property
    def is_bad(self) -> bool:
        """Whether the gate stays shut: a ratio that fell, or one that is no longer measured."""
        return self.verdict in {"fell", "gone"}


def compare(then: Iterable[Ratio], now: Iterable[Ratio], held: Iterable[str]) -> list[Change]:
    """All ratios of the contests that were held, in the order of now, with those that are gone at the end."""
    held = set(held)
    recorded = {ratio.key: ratio for ratio in then if ratio.contest in held}
    changes = [Change(recorded.pop(ratio.key, None), ratio) for ratio in now]
    return changes + [Change(ratio, None) for ratio in recorded.values()]


def ratios(contest: str, rows: Iterable[Row]) -> list[Ratio]:
    """Those that say something of seekset: beside a peer, or with a goal. Its other ways may well become faster."""
    said = (row for row in rows if isinstance(row, Row))
    said = (row for row in said if row.goal is not None or not row.peer.startswith("seekset"))
    return [Ratio(contest, row.section, row.title, row.peer, row.ratio, *row.spread) for row in said]


# --- the baseline -----------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[list[Ratio], results.Data]:
    """The recorded ratios, and the machine that they were recorded on."""
    stored = json.loads(path.read_text())
    return [Ratio(**ratio) for ratio in stored["ratios"]], stored["machine"]


def record(path: Path, found: Sequence[Ratio], measured: Iterable[str], now: results.Data) -> None:
    """Write the ratios of contests that were measured over older ones; others stay as they are."""
    measured = set(measured)
    kept = [ratio for ratio in read(path)[0] if ratio.contest not in measured] if path.exists() else []
    order = suites.names()
    stored = {
        **{name: now[name] for name in ("date", "commit", "machine")},
        "ratios": [ratio._asdict() for ratio in sorted([*kept, *found], key=lambda ratio: order.index(ratio.contest))],
    }
    results.save(stored, path)


# --- the command ------------------------------------------------------------------------------------------------------


@click.command()
@click.option("--only", metavar="NAME", multiple=True, help="Hold this contest; may be given again.")
@click.option("--record", "recording", is_flag=True, help="Write the ratios to benches/gate.json.")
@click.option("--baseline", type=click.Path(path_type=Path), default=BASELINE, help="Where the recorded ratios are.")
def main(only: tuple[str, ...], recording: bool, baseline: Path) -> None:
    """Hold some contests on a twentieth of the data, and compare ratios with the recorded ones."""
    only = tuple(name for text in only for name in text.split()) or DEFAULT
    if wrong := suites.unknown(only):
        raise click.UsageError(wrong)
    if not recording and not baseline.exists():
        raise click.UsageError(f"{baseline} is not there: record ratios with `make bench-gate RECORD=1`")
    import run

    found, measured = held(run.wanted(QUICK, only))
    if recording:
        record(baseline, found, measured, results.described())
        click.echo(f"Recorded: {len(found)} ratios of {len(measured)} contests in {baseline.name}")
        if missed := [name for name in only if name not in measured]:
            click.echo(f"Not measured, and as they were there: {', '.join(missed)}", err=True)
        return
    then, machine = read(baseline)
    if machine != results.machine():
        click.echo(f"recorded on another machine ({machine}): ratios depend on it, too, if less than times", err=True)
    changes = compare(then, found, only)
    if again := tuple(dict.fromkeys(change.now.contest for change in changes if change.verdict == "fell")):
        click.echo(f"held again, because a ratio fell: {', '.join(again)}", err=True)
        changes = _better(changes, compare(then, held(run.wanted(QUICK, again))[0], again))
    show(changes)
    sys.exit(any(change.is_bad for change in changes))


def held(contests: Iterable[tuple[str, Callable[[], list[Any]]]]) -> tuple[list[Ratio], list[str]]:
    """The ratios of contests, and the names of those that could be held: not what could not be cold."""
    import run

    told = [(name, run.timed(name, hold)) for name, hold in contests]
    measured = [(name, rows) for name, rows in told if not isinstance(rows, Exception)]
    return [ratio for name, rows in measured for ratio in ratios(name, rows)], [name for name, _ in measured]


def _better(first: list[Change], second: list[Change]) -> list[Change]:
    """Of what was held twice, the better one."""
    again = {change.now.key: change for change in second if change.now}
    pairs = ((change, again.get(change.now.key) if change.now else None) for change in first)
    return [two if two and two.now.ratio > one.now.ratio else one for one, two in pairs]


def show(changes: Sequence[Change]) -> None:
    """Print a table."""
    shown = Shown()
    for name in ("contest", "peer", "recorded", "now", "change", "allowed", "verdict"):
        shown.add_column(name, justify="right" if name in {"recorded", "now", "change", "allowed"} else "left")
    for change in changes:
        some = change.now or change.then
        then, now = (ratio_text(ratio.ratio) if ratio else "" for ratio in change)
        by, allowed = ("" if factor is None else f"{factor - 1:+.0%}" for factor in (change.factor, change.allowance))
        verdict = change.verdict.upper() if change.is_bad else change.verdict
        shown.add_row(some.contest, some.peer, then, now, by, allowed, verdict)
    Console(width=max(Console().width, 150)).print(shown)


if __name__ == "__main__":
    main()
