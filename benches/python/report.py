"""The results as tables on the screen and as ``benches/results.md``."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

import fasta_scan
import peers
from contest import REPEATS, Measure, Row, Times
from data import BENCHES

RESULTS = BENCHES / "results.md"

_WORDS = ("contest", "peer")

_NOTES = f"""\
Times are medians of {REPEATS} repeats after one that warms up, with the least and the most in brackets. Contestants run
in processes of their own and take turns; only the bare scans share one process, a Rust program, and are repeated
{fasta_scan.REPEATS} times. Before anything is timed, answers are compared by digest; the `.fai` files are equal byte
for byte. A ratio is the peer's median over seekset's. Absolute times depend on the machine and on who else uses it: the
ratios are of one run and are the point.

seekset uses all cores unless the row says otherwise. The peers use one, but for Lance, which uses all, and helicase,
where the row says how many. samtools takes part through pysam, which holds its code; NvFaidx is of bionemo-noodles, and
Lance's package is pylance. Peers that need an index or a data set to read from had it made before. Where the peer is
"seekset, ...", another way of using seekset is compared with the usual one. The bare scans are built with
`target-cpu=native`, all else is as pip installs it.
"""


def show(rows: Sequence[Row]) -> None:
    """Print the tables."""
    # Wide enough for every column: a pipe has no width to go by.
    console = Console(width=max(Console().width, 170))
    for (section, measure), of_section in _by_kind(rows):
        table = Table(title=section, title_justify="left")
        for name in _head(measure):
            table.add_column(name, justify="left" if name in _WORDS else "right")
        for title, of_contest in groupby(of_section, key=lambda row: row.title):
            table.add_section()
            for number, row in enumerate(of_contest):
                table.add_row("" if number else title, *_cells(row)[1:])
        console.print(table)


def write(rows: Sequence[Row]) -> Path:
    """Write ``benches/results.md`` and return its path."""
    today = dt.datetime.now(tz=dt.UTC).date()
    lines = ["# Results", "", f"{today}, seekset at {_commit()}.", "", *_NOTES.splitlines()]
    for (section, measure), of_section in _by_kind(rows):
        lines += ["", f"## {section}", "", _markdown(_head(measure))]
        lines += [_markdown("---" if name in _WORDS else "--:" for name in _head(measure))]
        lines += [_markdown(_cells(row)) for row in of_section]
    lines += ["", "## Machine", "", *(f"- {line}" for line in _machine())]
    lines += ["", "## Versions", "", *(f"- {name} {number}" for name, number in _versions().items()), ""]
    RESULTS.write_text("\n".join(lines))
    return RESULTS


def _by_kind(rows: Sequence[Row]) -> Iterable[tuple[tuple[str, Measure], Iterable[Row]]]:
    """Rows by section and what they are of, in the order in which these first come."""
    kinds = list(dict.fromkeys((row.section, row.measure) for row in rows))
    return ((kind, [row for row in rows if (row.section, row.measure) == kind]) for kind in kinds)


def _head(measure: Measure) -> list[str]:
    return [*_WORDS, f"peer's {measure.noun}", f"seekset's {measure.noun}", "ratio", "goal", "reached"]


def _markdown(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Row) -> list[str]:
    goal = "" if row.goal is None else f"{row.goal:g}x"
    reached = {None: "", True: "yes", False: "no"}[row.reached]
    theirs, own = (_amount(times, row.measure) for times in (row.peer_times, row.own_times))
    return [row.title, row.peer, theirs, own, _ratio(row.ratio), goal, reached]


def _amount(times: Times, measure: Measure) -> str:
    *_, smallest = measure.units
    factor, unit = next((unit for unit in measure.units if times.median >= unit[0]), smallest)
    # Three digits that count, and never an exponent.
    median, low, high = (
        f"{float(f'{seconds / factor:.3g}'):g}" for seconds in (times.median, min(times.seconds), max(times.seconds))
    )
    return f"{median} {unit} ({low}-{high})"


def _ratio(ratio: float) -> str:
    """A ratio with three digits. It is cut, not rounded: what falls short of a goal must not look like it."""
    digits = 0 if ratio >= 100 else 1 if ratio >= 10 else 2
    return f"{int(ratio * 10**digits) / 10**digits:.{digits}f}x"


def _machine() -> list[str]:
    cpu = _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        f"CPU: {cpu}, {os.cpu_count()} cores",
        f"memory: {memory:.0f} GiB",
        f"system: {platform.system()} {platform.release()}",
        "load at the end (over 1, 5 and 15 minutes): {:.1f}, {:.1f}, {:.1f}".format(*os.getloadavg()),
    ]


def _field(path: Path, name: str) -> str | None:
    if not path.exists():
        return None
    values = (line.partition(":")[2].strip() for line in path.read_text().splitlines() if line.startswith(name))
    return next(values, None)


def _versions() -> dict[str, str]:
    rustc = subprocess.run(["rustc", "--version"], check=False, capture_output=True, text=True).stdout.split()
    rust = {"Rust": rustc[1]} if len(rustc) > 1 else {}
    return {"Python": platform.python_version(), **rust, **peers.versions()}


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    found = subprocess.run(command, check=False, capture_output=True, text=True, cwd=BENCHES).stdout.strip()
    return f"commit {found}" if found else "an unknown commit"
