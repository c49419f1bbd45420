"""``seekset status``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seekset.cli.options import PATH
from seekset.cli.terminal import show_table

if TYPE_CHECKING:
    from seekset.inference.tally import Tally

_REFRESH = 1.0


@click.command(name="status")
@click.argument("folder", type=PATH)
@click.option("--watch", is_flag=True, help="Go on until the run ends.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(folder: str, watch: bool, as_json: bool) -> None:
    """Show how far the run in FOLDER is: devices, speed, what is done and what failed, how long it will take.

    A run whose coordinator was killed is told from one that runs.
    """
    path = Path(folder)
    tally = _tallied(path)
    if as_json:
        import json

        click.echo(json.dumps(_facts(tally, time.time())))
    elif watch:
        _watch(path)
    else:
        _show(tally, time.time())


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

    return {
        "state": tally.state,
        "sequences": tally.sequences,
        "done": tally.done,
        "failed": tally.failed,
        "sequences_per_second": tally.sequences_per_second(now),
        "tokens_per_second": tally.tokens_per_second(now),
        "seconds_left": tally.remaining(now),
        "workers": [dict(zip(WORKER_HEADS, row, strict=True)) for row in worker_rows(tally, now)],
    }


def _show(tally: Tally, now: float) -> None:
    from seekset.cli.display import WORKER_HEADS, worker_rows

    click.echo(_line(tally, now))
    if rows := worker_rows(tally, now):
        show_table(WORKER_HEADS, rows)


def _line(tally: Tally, now: float) -> str:
    from seekset.cli.display import progress_line

    if tally.preparing:
        return f"{tally.state}: files are indexed and the encoder is loaded"
    return f"{tally.state}: {progress_line(tally, now)}"


def _watch(folder: Path) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    from seekset.cli.display import tally_table

    with Live(console=Console(), refresh_per_second=2) as live:
        while True:
            tally, now = _tallied(folder), time.time()
            live.update(Group(_line(tally, now), tally_table(tally, now)))
            if tally.ended is not None or tally.state == "not started":
                return
            time.sleep(_REFRESH)
