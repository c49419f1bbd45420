"""``seekset status``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seekset.cli.options import PATH, common_options
from seekset.cli.terminal import say, show_json, show_table
from seekset.errors import MismatchError

if TYPE_CHECKING:
    from seekset.inference.history import History
    from seekset.inference.tally import Tally

# How often a run is looked at, and how often a line says how far it is where nothing can be drawn.
_REFRESH, _LINES = 1.0, 10.0


@click.command(name="status")
@click.argument("folder", type=PATH)
@click.option("--watch", is_flag=True, help="Go on until the run ends.")
@common_options(json="one JSON object (with --watch, one a line until the run ends)")
def command(folder: str, watch: bool, as_json: bool, quiet: bool) -> None:
    """Show how far the run in FOLDER is.

    It shows devices, speed, what is done and failed, and the time left. It notices when the process that led the run
    was killed.
    """
    path = Path(folder)
    if path.is_file():
        raise MismatchError(f"{path}: it is a file, and no folder of `seekset embed`")
    history = _looked_up(path)
    if watch and not as_json and not quiet and sys.stdout.isatty():
        _draw(path)
        return
    while watch and not history.tally.is_over:
        _tell(history, as_json=as_json, quiet=quiet, shortly=True)
        history = _next(path, history)
    _tell(history, as_json=as_json, quiet=quiet, shortly=False)


def _next(folder: Path, history: History) -> History:
    """The history some seconds later; at once if the run is in another state by then."""
    until = time.monotonic() + _LINES
    found = history
    while time.monotonic() < until and found.tally.state == history.tally.state:
        time.sleep(_REFRESH)
        found = _looked_up(folder)
    return found


def _tell(history: History, *, as_json: bool, quiet: bool, shortly: bool) -> None:
    tally, now = history.tally, time.time()
    if as_json:
        show_json({**_facts(tally, now), "remarks": history.remarks})
    elif not quiet:
        click.echo(_line(tally, now))
        if not shortly:
            _show_workers(tally, now)
            for remark in history.remarks:
                say(remark)


def _looked_up(folder: Path) -> History:
    from seekset.inference.history import History
    from seekset.inference.job import Job

    history = History.of(folder)
    # Before there is a manifest, files are indexed and the encoder is loaded, which may take its time, or fail.
    if not (history.held or history.events):
        Job.open(folder)
    return history


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
        "seconds": tally.seconds(now),
        "seconds_left": tally.remaining(now),
        "workers": [dict(zip(names, row, strict=True)) for row in worker_rows(tally, now)],
    }


def _show_workers(tally: Tally, now: float) -> None:
    from seekset.cli.display import WORKER_HEADS, WORKER_NAMES, worker_rows

    if rows := worker_rows(tally, now):
        show_table(WORKER_HEADS, rows, names=WORKER_NAMES)


def _line(tally: Tally, now: float) -> str:
    from seekset.cli.display import progress_line

    if tally.preparing:
        return f"{tally.state}: files are indexed and the encoder is loaded"
    # Without sequences, nothing was begun that could have come far.
    return f"{tally.state}: {progress_line(tally, now)}" if tally.sequences else tally.state


def _draw(folder: Path) -> None:
    """Draw a run on a terminal until it ends."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from seekset.cli.display import tally_table

    with Live(console=Console(), refresh_per_second=2) as live:
        while True:
            history, now = _looked_up(folder), time.time()
            tally = history.tally
            live.update(Group(Text(_line(tally, now)), tally_table(tally, now), *map(Text, history.remarks)))
            if tally.is_over:
                return
            time.sleep(_REFRESH)
