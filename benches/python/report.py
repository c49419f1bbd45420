"""The results as tables on the screen and as ``benches/results.md``, which is made of ``results.json`` alone.

``python benches/python/report.py`` makes the page anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from rich.console import Console
from rich.table import Table as Shown

import results
from contest import REPEATS, Row, Table
from data import BENCHES
from results import MEASURES, Data
from suites import SUITES, Suite

PAGE = BENCHES / "results.md"

_WORDS = ("contest", "peer")

_NOTES = (
    f"""
    Made by `make bench` from `results.json`; [README.md](README.md) tells how it is measured. Times are medians of
    {REPEATS} repeats after one that warms up, with the least and the most in brackets. Contestants run in processes of
    their own and take turns. Before anything is timed, answers are compared by digest. A ratio is the peer's median
    over seekset's. Absolute times depend on the machine and on who else uses it: the ratios are of one run and are the
    point.
    """,
    """
    seekset uses all cores unless the row says otherwise. The peers use one, but for Lance, which uses all, and
    helicase, where the row says how many. Peers that need an index or a data set to read from had it made before. Where
    the peer is "seekset, ...", another way of using seekset is compared with the usual one. The last column says in
    which run a row was measured; [the runs](#runs) are listed below.
    """,
)


# --- on the screen ----------------------------------------------------------------------------------------------------


def show(found: Sequence[Row | Table]) -> None:
    """Print the tables."""
    # Wide enough for every column: a pipe has no width to go by.
    console = Console(width=max(Console().width, 170))
    rows = [results.row_data(row) for row in found if isinstance(row, Row)]
    for (section, measure), of_kind in _by_kind(rows):
        shown = _shown(section, _head(measure))
        for title, of_contest in groupby(of_kind, key=lambda row: row["title"]):
            shown.add_section()
            for number, row in enumerate(of_contest):
                shown.add_row("" if number else title, *_cells(row)[1:])
        console.print(shown)
    for table in found:
        if isinstance(table, Table):
            shown = _shown(table.title, table.head)
            for line in table.lines:
                shown.add_row(*line)
            console.print(shown)


def _shown(title: str, head: Sequence[str]) -> Shown:
    shown = Shown(title=title, title_justify="left")
    for number, name in enumerate(head):
        shown.add_column(name, justify="left" if name in _WORDS or not number else "right")
    return shown


# --- as a page --------------------------------------------------------------------------------------------------------


def write(found: Data, path: Path = PAGE) -> Path:
    """Write the page and return its path."""
    path.write_text("\n".join(_page(found)) + "\n")
    return path


def _page(found: Data) -> Iterator[str]:
    numbers = {key: str(number) for number, key in enumerate(found["runs"], 1)}
    yield "# Results"
    for text in _NOTES:
        yield from ("", paragraph(text))
    for suite in SUITES:
        yield from _suite(suite, found["contests"], numbers)
    if found["growth"]:
        yield from _growth(found["growth"], numbers)
    yield from _runs(found["runs"], numbers)


def _suite(suite: Suite, contests: Data, numbers: dict[str, str]) -> Iterator[str]:
    held = {name: contests[name] for name in suite.names if name in contests}
    if not held:
        return
    yield from ("", f"## {suite.title}", "", paragraph(suite.text))
    rows = [{**row, "run": numbers[one["run"]]} for one in held.values() for row in one["rows"]]
    for (section, measure), of_kind in _by_kind(rows):
        head = [*_head(measure), "run"]
        yield from ("", f"### {section}", "", *_markdown(head, [[*_cells(row), row["run"]] for row in of_kind]))
    for one in held.values():
        for table in one["tables"]:
            yield from ("", f"{table['title']} (run {numbers[one['run']]}):", "")
            yield from _markdown(table["head"], table["lines"])
    for name, one in held.items():
        if note := one.get("note"):
            yield from ("", paragraph(f"`{name}`: {note}"))
    if missing := [name for name in suite.names if name not in contests]:
        yield from ("", paragraph(f"Not held yet: {', '.join(f'`{name}`' for name in missing)}."))


def _growth(growth: Data, numbers: dict[str, str]) -> Iterator[str]:
    text = (
        f"Cost against size, run {numbers[growth['run']]}. The exponent is the slope of a straight line through the "
        "logarithms: 0 is a cost that doesn't depend on the size, 1 one that is proportional to it."
    )
    yield from ("", "## Growth", "", paragraph(text), "", "![Cost against size](../docs/images/growth.svg)")
    head = ["what", "size", "time", "time per unit", "exponent"]
    lines = []
    for curve in growth["curves"]:
        for number, point in enumerate(curve["points"]):
            each = amount({"median": point["seconds"]["median"] / point["units"]}, "time")
            exponent = "" if number else f"{curve['exponent']:.2f}"
            size = f"{point['size']:,}".replace(",", " ")
            what = "" if number else f"{curve['title']}, by {curve['unit']}"
            lines.append([what, size, amount(point["seconds"], "time"), each, exponent])
    yield from ("", *_markdown(head, lines))


def _runs(runs: Data, numbers: dict[str, str]) -> Iterator[str]:
    yield from ("", "## Runs", "")
    lines = []
    for key, run in runs.items():
        machine = "{cpu}, {cores} cores, {memory_gib} GiB, {system}".format(**run["machine"])
        load = ", ".join(f"{load:.1f}" for load in run["load"]) if run["load"] else ""
        lines.append([numbers[key], run["date"], run["commit"], machine, load, run["remark"] or ""])
    yield from _markdown(["run", "date (UTC)", "commit", "machine", "load over 1, 5 and 15 minutes", "remark"], lines)
    yield from ("", "## Versions")
    of_versions: dict[str, list[str]] = {}
    for key, run in runs.items():
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        of_versions.setdefault(versions, []).append(numbers[key])
    for versions, of in of_versions.items():
        yield from ("", paragraph(f"{'Run' if len(of) == 1 else 'Runs'} {', '.join(of)}: {versions}."))


def paragraph(text: str) -> str:
    """Text in lines of a page, however it was broken before."""
    return "\n".join(wrap(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False))


# --- tables -----------------------------------------------------------------------------------------------------------


def _by_kind(rows: Sequence[Data]) -> Iterable[tuple[tuple[str, str], list[Data]]]:
    """Rows by section and what they are of, in the order in which these first come."""
    kinds = list(dict.fromkeys((row["section"], row["measure"]) for row in rows))
    return ((kind, [row for row in rows if (row["section"], row["measure"]) == kind]) for kind in kinds)


def _head(measure: str) -> list[str]:
    return [*_WORDS, f"peer's {measure}", f"seekset's {measure}", "ratio", "goal", "reached"]


def _markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (head, ["---" if k == 0 or name in _WORDS else "--:" for k, name in enumerate(head)], *lines):
        yield f"| {' | '.join(cells)} |"


def _cells(row: Data) -> list[str]:
    goal = "" if row["goal"] is None else f"{row['goal']:g}x"
    reached = {None: "", True: "yes", False: "no"}[row["reached"]]
    theirs, own = (amount(row[whose], row["measure"]) for whose in ("theirs", "own"))
    return [row["title"], row["peer"], theirs, own, ratio_text(row["ratio"]), goal, reached]


def amount(found: Data, measure: str) -> str:
    """A median, with the least and the most if they are known: three digits that count, and never an exponent."""
    units = MEASURES[measure].units
    factor, unit = next((unit for unit in units if float(f"{found['median']:.3g}") >= unit[0]), units[-1])

    def digits(value: float) -> str:
        return f"{float(f'{value / factor:.3g}'):g}"

    text = f"{digits(found['median'])} {unit}"
    if found.get("low") is None or found.get("repeats") == 1:
        return text
    return f"{text} ({digits(found['low'])}-{digits(found['high'])})"


def ratio_text(ratio: float) -> str:
    """A ratio with three digits. It is cut, not rounded: what falls short of a goal must not look like it."""
    digits = 0 if ratio >= 100 else 1 if ratio >= 10 else 2
    # A hair is added: 1.15 is stored as a number a hair below it.
    return f"{int(ratio * 10**digits * (1 + 1e-9)) / 10**digits:.{digits}f}x"


if __name__ == "__main__":
    print(write(results.load()))
