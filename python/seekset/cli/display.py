"""A run as people see it: one display on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from seekset.cli.terminal import say
from seekset.inference.news import news_of
from seekset.inference.tally import Tally
from seekset.numbers import amount, duration
from seekset.visible import one_line

if TYPE_CHECKING:
    from seekset.cli.tables import DrawnTable

__all__ = [
    "WORKER_HEADS",
    "WORKER_NAMES",
    "LineDisplay",
    "LiveDisplay",
    "chosen_display",
    "progress_line",
    "tally_table",
    "worker_rows",
]

# How often a line is written while nothing else is to be told.
_SECONDS = 10.0


def progress_line(tally: Tally, now: float) -> str:
    """How far a run is.

    >>> progress_line(Tally(sequences=100, tokens=1000, done=40, done_tokens=500), 0.0)
    '40 of 100 sequences'
    """
    parts = [f"{tally.done} of {tally.sequences} sequences"]
    # What was done before this run says nothing of its speed.
    if speed := tally.sequences_per_second(now):
        taken = f"{amount(tally.tokens_per_second(now), 'tokens/s')} over {duration(tally.seconds(now))}"
        parts += [amount(speed, "sequences/s"), taken]
    if tally.failed:
        parts.append(f"{tally.failed} failed")
    if (left := tally.remaining(now)) is not None and tally.done < tally.sequences:
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


class LineDisplay:
    """Lines on stderr: what goes wrong, and every now and then how far it is."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._told = 0.0

    def tell(self, event: dict[str, Any]) -> None:
        """Take note of an event."""
        self._tally.add(event)
        if (news := news_of(event)) is not None:
            say(news.text)
        elif event["event"] == "chunk_finished" and event["time"] - self._told > _SECONDS:
            self._told = event["time"]
            say(progress_line(self._tally, event["time"]))

    def close(self) -> None:
        """Say how far it came."""
        if self._tally.started is not None:
            say(progress_line(self._tally, self._tally.ended or time.time()))


class LiveDisplay:
    """A bar and a table of workers that are drawn anew while the run goes on."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._tally = Tally()
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, get_renderable=self._drawn, refresh_per_second=4)

    def _drawn(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar

        bar = ProgressBar(total=max(self._tally.tokens, 1), completed=self._tally.done_tokens, width=60)
        return Group(bar, progress_line(self._tally, time.time()), tally_table(self._tally, time.time()))

    def tell(self, event: dict[str, Any]) -> None:
        """Take note of an event."""
        from rich.markup import escape

        self._tally.add(event)
        news = news_of(event)
        # Not before there is something to show: whoever fails at the start leaves the terminal as it was.
        if not self._live.is_started:
            if self._tally.started is None and news is None:
                return
            self._live.start()
        if news is not None:
            # Ids and reasons are data: what they hold is no markup, and does nothing to the terminal.
            self._console.print(escape(one_line(news.text)), highlight=False)

    def close(self) -> None:
        """Leave the last picture standing."""
        self._live.stop()


def worker_rows(tally: Tally, now: float) -> list[list[object]]:
    """A row for each worker, as tables of people and of machines have it."""
    rows: list[list[object]] = []
    workers, ended = tally.computed
    for rank in sorted(workers):
        worker = workers[rank]
        seconds = max((ended or now) - worker.started, 1e-9)
        speed = [round(worker.sequences / seconds, 1), round(worker.tokens / seconds)]
        rows.append([rank, worker.device, worker.pid or "", worker.state, worker.sequences, *speed, worker.restarts])
    return rows


WORKER_HEADS = ("rank", "device", "pid", "state", "sequences", "sequences/s", "tokens/s", "restarts")
# Of these, the numbers that are no amounts.
WORKER_NAMES = ("rank", "pid")


def tally_table(tally: Tally, now: float) -> DrawnTable:
    """The workers of a run."""
    from seekset.cli.tables import DrawnTable

    return DrawnTable(WORKER_HEADS, worker_rows(tally, now), names=WORKER_NAMES)


def chosen_display(*, quiet: bool) -> list[Any]:
    """What shows a run here: nothing, lines, or a live table."""
    if quiet:
        return []
    return [LiveDisplay() if sys.stderr.isatty() else LineDisplay()]
