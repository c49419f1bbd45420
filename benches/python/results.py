"""The results as data: ``benches/results.json``, of which a run replaces the contests that it held, and no others.

``runs`` says when, at which commit, on what machine and with which versions; ``contests`` has, for each name, the key
of its run, rows that compare two contestants, and tables of figures that are no times; ``growth`` is of ``growth.py``.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contest import MEMORY, TIME, Row, Table, Times
from data import BENCHES

RESULTS = BENCHES / "results.json"

MEASURES = {measure.noun: measure for measure in (TIME, MEMORY)}

Data = dict[str, Any]

# From this depth on, what is no longer than this takes one line in the file.
_ROWS, _LINE = 3, 700


# --- the file ---------------------------------------------------------------------------------------------------------


def load(path: Path = RESULTS) -> Data:
    """What was recorded; of a file that is not there, nothing."""
    if not path.exists():
        return {"runs": {}, "contests": {}, "growth": None}
    return json.loads(path.read_text())


def save(results: Data, path: Path = RESULTS) -> Path:
    """Write beside and rename, so that a run that is ended leaves what was there."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(_text(results) + "\n")
    return unfinished.rename(path)


def _text(value: Any, depth: int = 0) -> str:
    """JSON in which what is short takes one line: a row of a contest is a line of a diff."""
    short = json.dumps(value, ensure_ascii=False)
    if not value or not isinstance(value, dict | list) or (len(short) <= _LINE and depth >= _ROWS):
        return short
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {_text(inner, depth + 1)}" for name, inner in value.items()]
    else:
        parts = [_text(inner, depth + 1) for inner in value]
    indent = " " * (depth + 1)
    body = f",\n{indent}".join(parts)
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return f"{opened}\n{indent}{body}\n{' ' * depth}{closed}"


# --- what a run adds --------------------------------------------------------------------------------------------------


def with_contests(results: Data, run: Data, held: Mapping[str, Sequence[Row | Table]]) -> Data:
    """The results with those of a run in place of older ones of the same contests. Others stay with their own runs."""
    key = _key(run)
    contests = dict(results["contests"])
    for name, found in held.items():
        rows = [row_data(row) for row in found if isinstance(row, Row)]
        tables = [table_data(table) for table in found if isinstance(table, Table)]
        contests[name] = {"run": key, "rows": rows, "tables": tables}
    return _with_needed_runs({**results, "contests": contests, "runs": {**results["runs"], key: run}})


def without_figures(results: Data, run: Data, name: str, reason: str) -> Data:
    """The results with the reason why a contest could not be held. Figures that it has already stay."""
    if results["contests"].get(name, {}).get("rows"):
        return results
    contest = {"run": _key(run), "rows": [], "tables": [], "note": f"Not measured: {reason}."}
    contests = {**results["contests"], name: contest}
    return _with_needed_runs({**results, "contests": contests, "runs": {**results["runs"], _key(run): run}})


def with_growth(results: Data, run: Data, curves: list[Data]) -> Data:
    """The results with other curves of cost against size."""
    growth = {"run": _key(run), "curves": curves}
    return _with_needed_runs({**results, "growth": growth, "runs": {**results["runs"], _key(run): run}})


def _key(run: Data) -> str:
    return f"{run['date']} {run['commit']}"


def _with_needed_runs(results: Data) -> Data:
    """Runs of which nothing is left are forgotten; the others are from old to new."""
    needed = {contest["run"] for contest in results["contests"].values()}
    if results["growth"]:
        needed.add(results["growth"]["run"])
    return {**results, "runs": {key: run for key, run in sorted(results["runs"].items()) if key in needed}}


def row_data(row: Row) -> Data:
    """A row as data."""
    low, high = row.spread
    return {
        "title": row.title,
        "peer": row.peer,
        "section": row.section,
        "cache": "cold" if row.is_cold else "warm",
        "measure": row.measure.noun,
        "theirs": amount(row.peer_times),
        "own": amount(row.own_times),
        "ratio": _digits(row.ratio),
        "spread": [_digits(low), _digits(high)],
        "goal": row.goal,
        "reached": row.reached,
    }


def table_data(table: Table) -> Data:
    """A table as data."""
    return {"title": table.title, "head": list(table.head), "lines": [list(line) for line in table.lines]}


def amount(times: Times) -> Data:
    """Times, or bytes, as data."""
    low, high = min(times.seconds), max(times.seconds)
    median, low, high = (_digits(value) for value in (times.median, low, high))
    return {"median": median, "low": low, "high": high, "repeats": len(times.seconds)}


def _digits(value: float) -> float:
    """Five digits: more say nothing."""
    return float(f"{value:.5g}")


# --- who ran ----------------------------------------------------------------------------------------------------------


def described(remark: str | None = None) -> Data:
    """This moment, this commit and this machine, with the versions of all that takes part."""
    import peers

    now = dt.datetime.now(tz=dt.UTC)
    rustc = subprocess.run(["rustc", "--version"], check=False, capture_output=True, text=True).stdout.split()
    rust = {"Rust": rustc[1]} if len(rustc) > 1 else {}
    return {
        "date": f"{now:%Y-%m-%d %H:%M}",
        "commit": commit(),
        "remark": remark,
        "machine": machine(),
        "load": [round(load, 1) for load in os.getloadavg()],
        "versions": {"Python": platform.python_version(), **rust, **peers.versions()},
    }


def machine() -> Data:
    """What times depend on."""
    cpu = _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release()}"
    return {"cpu": cpu, "cores": os.cpu_count(), "memory_gib": round(memory), "system": system}


def _field(path: Path, name: str) -> str | None:
    if not path.exists():
        return None
    values = (line.partition(":")[2].strip() for line in path.read_text().splitlines() if line.startswith(name))
    return next(values, None)


def commit() -> str:
    """The commit of the working tree, and whether it has changes; results that were written are none."""
    name = _git("rev-parse", "--short=10", "HEAD")
    written = (":!/benches/results.json", ":!/benches/results.md", ":!/benches/gate.json", ":!/docs/images")
    changed = name and _git("status", "--porcelain", "--untracked-files=no", "--", ":/", *written)
    return f"{name or 'unknown'}{'-dirty' if changed else ''}"


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=BENCHES).stdout.strip()
