"""``seekset status``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seekset.cli.options import PATH, common_options
from seekset.cli.terminal import show_json, show_table

if TYPE_CHECKING:
    from seekset.inference.tally import Tally

# How often a run is looked at, and how often a line says how far it is where nothing can be drawn.
_REFRESH, _LINES = 1.0, 10.0


@click.command(name="status")
@click.argument("folder", type=PATH)
@click.option("--watch", is_flag=True, help="Go on until the run ends.")
@common_options(json="one JSON object (with --watch, one a line until the run ends)")
def command(folder: str, watch: bool, as_json: bool, quiet: bool) -> None:
    """Show how far the run in FOLDER is.

    Told are devices, speed, what is done and what failed, and how long it will take. A run whose coordinator was killed
    is told from one that runs.
    """
    path = Path(folder)
    tally = _tallied(path)
    if watch and not as_json and not quiet and sys.stdout.isatty():
        _draw(path)
        return
    while watch and not _is_over(tally):
        _tell(tally, as_json=as_json, quiet=quiet, shortly=True)
        tally = _next(path, tally)
    _tell(tally, as_json=as_json, quiet=quiet, shortly=False)


def _is_over(tally: Tally) -> bool:
    return tally.ended is not None or tally.state == "not started"


def _next(folder: Path, tally: Tally) -> Tally:
    """The tally some seconds later; at once if the run is in another state by then."""
    until = time.monotonic() + _LINES
    found = tally
    while time.monotonic() < until and found.state == tally.state:
        time.sleep(_REFRESH)
        found = _tallied(folder)
    return found


def _tell(tally: Tally, *, as_json: bool, quiet: bool, shortly: bool) -> None:
    now = time.time()
    if as_json:
        show_json(_facts(tally, now))
    elif not quiet:
        click.echo(_line(tally, now))
        if not shortly:
            _show_workers(tally, now)


def _tallied(folder: Path) -> Tally:
    from seekset.inference.events import read_events
    from seekset.inference.job import Job
    from seekset.inference.lock import holder
    from seekset.inference.tally import Tally

    held = holder(folder)
    # Before there is a manifest, files are indexed and the encoder is loaded, which may take its time.
    if held is None:
        Job.open(folder)
    return Tally.of(read_events(folder / "events.jsonl"), held)


def _facts(tally: Tally, now: float) -> dict[str, Any]:
    from seekset.cli.display import WORKER_HEADS, worker_rows

    names = [head.replace("/s", "_per_second") for head in WORKER_HEADS]
    return {
        "state": tally.state,
        "sequences": tally.sequences,
        "done": tally.done,
        "failed": tally.failed,
        "sequences_per_second": tally.sequences_per_second(now),
        "tokens_per_second": tally.tokens_per_second(now),
        "seconds_left": tally.remaining(now),
        "workers": [dict(zip(names, row, strict=True)) for row in worker_rows(tally, now)],
    }


def _show_workers(tally: Tally, now: float) -> None:
    from seekset.cli.display import WORKER_HEADS, worker_rows

    if rows := worker_rows(tally, now):
        show_table(WORKER_HEADS, rows)


def _line(tally: Tally, now: float) -> str:
    from seekset.cli.display import progress_line

    if tally.preparing:
        return f"{tally.state}: files are indexed and the encoder is loaded"
    return f"{tally.state}: {progress_line(tally, now)}"


def _draw(folder: Path) -> None:
    """Draw a run on a terminal until it ends."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from seekset.cli.display import tally_table

    with Live(console=Console(), refresh_per_second=2) as live:
        while True:
            tally, now = _tallied(folder), time.time()
            live.update(Group(Text(_line(tally, now)), tally_table(tally, now)))
            if _is_over(tally):
                return
            time.sleep(_REFRESH)
