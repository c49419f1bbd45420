"""The report of a run of ``seekset embed``, whole or not: what is done, how quickly, and what went wrong on the way."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from seekset.inference.history import History
from seekset.numbers import brief, duration, octets
from seekset.report.charts import Mark, Tone, line_chart
from seekset.report.page import Cell, Markup, figure, note, section, table, tag, tiles
from seekset.report.time_line import Moment, RunSpan, TimeLine, WorkerSpeed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from seekset.inference.job import Manifest
    from seekset.inference.tally import WorkerTally

__all__ = ["RunFigures", "draw_run", "run_figures"]

# How many failures, moments and ids of a reason are shown; the rest is counted.
_FAILURES, _MOMENTS, _IDS, _REASONS = 100, 100, 5, 20
# Charts are hard to read with more marks than this.
_MARKS = 60


class FailedSequence(NamedTuple):
    """A sequence without a vector, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What is told of a run.

    ``sequences_per_second``, ``tokens_per_second`` and ``workers`` are those of the last run that had workers, over
    ``speeds_over`` seconds. ``speeds`` are over ``edges``, seconds at work of all runs: the time between is left out.
    """

    what: str
    state: str
    sequences: int
    done: int
    failed: int
    tokens: int
    done_tokens: int
    sequences_per_second: float
    tokens_per_second: float
    speeds_over: float
    seconds_left: float | None
    settings: dict[str, Any]
    files: tuple[str, ...]
    workers: tuple[WorkerTally, ...]
    runs: tuple[RunSpan, ...]
    edges: tuple[float, ...]
    speeds: tuple[WorkerSpeed, ...]
    moments: tuple[Moment, ...]
    reasons: dict[str, int]
    failures: tuple[FailedSequence, ...]
    output_bytes: int | None
    chunk_files: int
    chunk_bytes: int
    unreadable_events: int
    remarks: tuple[str, ...]


def run_figures(folder: Path, what: str, now: float | None = None) -> RunFigures:
    """The figures of the run in a folder, called ``what``; of one that is under way, up to now."""
    now = time.time() if now is None else now
    history = History.of(folder)
    events, tally, manifest = history.events, history.tally, history.manifest
    under_way = tally.started is not None and tally.ended is None
    line = TimeLine.of(events, until=now if under_way else None)
    failures = list(_failures(folder, events, ended=tally.ended is not None))
    chunks = [size for one in (folder / "chunks").glob("*.safetensors") if (size := _size(one)) is not None]
    edges, speeds = line.speeds()
    return RunFigures(
        what=what,
        state=tally.state,
        sequences=tally.sequences,
        done=tally.done,
        # The end of a run looked at all results; until then, and where it was killed, they are counted.
        failed=len(failures) if tally.outcome in ("", "killed") else tally.failed,
        tokens=tally.tokens,
        done_tokens=tally.done_tokens,
        sequences_per_second=tally.sequences_per_second(now),
        tokens_per_second=tally.tokens_per_second(now),
        speeds_over=tally.seconds(now),
        seconds_left=tally.remaining(now),
        settings={} if manifest is None else _settings(manifest),
        files=() if manifest is None else tuple(manifest.paths),
        workers=tuple(worker for _, worker in sorted(tally.computed[0].items())),
        runs=tuple(line.runs),
        edges=edges,
        speeds=speeds,
        moments=tuple(line.moments),
        reasons=dict(Counter(failure.reason for failure in failures).most_common()),
        failures=tuple(failures),
        output_bytes=_size(folder / "embeddings.h5"),
        chunk_files=len(chunks),
        chunk_bytes=sum(chunks),
        unreadable_events=history.unreadable,
        remarks=tuple(history.remarks),
    )


def _size(path: Path) -> int | None:
    """``None`` if it is not there; results are replaced while somebody looks at them."""
    try:
        return path.stat().st_size if path.is_file() else None
    except FileNotFoundError:
        return None


def _settings(manifest: Manifest) -> dict[str, Any]:
    encoder = {name: value for name, value in manifest.encoder.items() if value not in (None, False, {})}
    return {
        **encoder,
        **manifest.rules,
        **{name: manifest.facts[name] for name in ("tokens", "dim")},
        "created": manifest.created,
        "run": manifest.run,
        "index": manifest.index,
        "plan": manifest.plan,
    }


def _failures(folder: Path, events: Sequence[Mapping[str, Any]], *, ended: bool) -> Iterator[FailedSequence]:
    """What failed: as the list says that is written at the end, or as the events of the last run do until then."""
    path = folder / "failed.jsonl"
    told: Iterable[Any] = _of_last_run(events)
    if ended and path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            told = [_parsed(line) for line in file]
    for one in told:
        if isinstance(one, dict) and one.get("event", "sequence_failed") == "sequence_failed":
            yield FailedSequence(str(one.get("sequence_id", "")), str(one.get("reason", "")))


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _of_last_run(events: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    starts = [place for place, event in enumerate(events) if event["event"] == "run_started"]
    return events[starts[-1] :] if starts else ()


# --- the page ---------------------------------------------------------------------------------------------------------


def draw_run(figures: RunFigures) -> list[Markup]:
    """The parts of the page."""
    parts = [_drawn_summary(figures), _drawn_speeds(figures)]
    if figures.moments:
        parts.append(_drawn_moments(figures))
    parts.append(_drawn_workers(figures))
    if figures.failures:
        parts.append(_drawn_failures(figures))
    parts.append(_drawn_runs(figures))
    return [*parts, _drawn_settings(figures)]


def _drawn_summary(figures: RunFigures) -> Markup:
    left = figures.seconds_left
    return section(
        "At a glance",
        tiles(
            [
                ("state", figures.state),
                ("sequences", figures.sequences),
                ("done", figures.done),
                ("failed", figures.failed),
                ("tokens", figures.tokens),
                ("sequences/s", brief(figures.sequences_per_second)),
                ("tokens/s", brief(figures.tokens_per_second)),
                ("speeds over", duration(figures.speeds_over)),
                ("time left", None if left is None else duration(left)),
                ("all runs took", duration(sum(run.ended - run.began for run in figures.runs))),
                ("embeddings.h5", None if figures.output_bytes is None else octets(figures.output_bytes)),
                ("chunk files", f"{figures.chunk_files:,}, {octets(figures.chunk_bytes)}"),
            ]
        ),
        *(tag("p", remark, class_="warning") for remark in figures.remarks),
    )


_TONES: dict[str, Tone] = {"restart": "good", "resumed": "plain", "devices": "plain", "stop": "plain"}
_UNITS = ((2 * 3600, 3600, "hours"), (120, 60, "minutes"), (0, 1, "seconds"))


def _drawn_speeds(figures: RunFigures) -> Markup:
    if not figures.speeds:
        return section("Throughput", note("No worker has started yet."))
    whole = figures.edges[-1]
    size, unit = next((size, unit) for least, size, unit in _UNITS if whole >= least)
    edges = [edge / size for edge in figures.edges]
    marks = [
        Mark(moment.at / size, moment.kind, moment.text, _TONES.get(moment.kind, "bad"))
        for moment in figures.moments[:_MARKS]
    ]
    names = [f"{one.rank}: {one.device}" for one in figures.speeds]
    drawn = []
    for what in ("sequences", "tokens"):
        series: list[tuple[str, Sequence[float]]] = [
            (name, getattr(one, what)) for name, one in zip(names, figures.speeds, strict=True)
        ]
        together = [sum(values) for values in zip(*(values for _, values in series), strict=True)]
        chart = line_chart(
            f"{what.capitalize()} a second",
            edges,
            series,
            x_label=f"{unit} at work",
            y_label=f"{what}/s",
            whole=together if len(series) > 1 else None,
            marks=marks,
        )
        rows: list[list[Cell]] = [
            [f"{start:.4g} to {end:.4g}", *values]
            for (start, end), *values in zip(pairwise(edges), *(values for _, values in series), strict=True)
        ]
        caption = (
            f"{what.capitalize()} a second by worker. Each part of the work counts evenly from its start to its end."
        )
        drawn.append(figure(chart, caption, (unit, *names), rows))
    return section("Throughput", *drawn)


def _drawn_moments(figures: RunFigures) -> Markup:
    shown = figures.moments[:_MOMENTS]
    rows = [(_clock(one.time), duration(one.at), one.kind, one.text) for one in shown]
    heads = ("time", "at work", "what", "in words")
    left_out = len(figures.moments) - len(shown)
    return section("Deaths, restarts and other events", table(heads, rows, left_out=left_out))


def _drawn_workers(figures: RunFigures) -> Markup:
    heads = ("rank", "device", "state", "sequences", "tokens", "restarts")
    rows = [
        (one.rank, one.device, one.state, one.sequences, one.tokens, max(one.restarts, 0)) for one in figures.workers
    ]
    shown = table(heads, rows) if rows else note("There is no worker.")
    return section("Workers of the last run that had some", shown)


def _drawn_failures(figures: RunFigures) -> Markup:
    by_reason: dict[str, list[str]] = {}
    for one in figures.failures:
        by_reason.setdefault(one.reason, []).append(one.id)
    rows = []
    for reason, count in list(figures.reasons.items())[:_REASONS]:
        ids = by_reason[reason]
        rows.append((reason, count, ", ".join(ids[:_IDS]) + (", …" if len(ids) > _IDS else "")))
    shown = figures.failures[:_FAILURES]
    listed = table(("id", "reason"), shown, left_out=len(figures.failures) - len(shown))
    return section(
        "Sequences without a vector",
        table(("reason", "sequences", "ids"), rows, left_out=len(figures.reasons) - len(rows)),
        tag("details", tag("summary", "each of them"), listed),
    )


def _drawn_runs(figures: RunFigures) -> Markup:
    heads = ("began", "took", "starting", "loading", "computing", "finishing", "done before", "done after", "ended")
    rows: list[list[Cell]] = []
    for run in figures.runs:
        phases = (run.starting, run.loading, run.computing, run.finishing)
        times = ("" if seconds is None else duration(seconds) for seconds in phases)
        took = duration(run.ended - run.began)
        rows.append([_clock(run.began), took, *times, run.done_before, run.done_after, run.outcome])
    return section(
        "Runs and their phases",
        table(heads, rows) if rows else note("No run has begun to compute."),
        note(
            "Starting: until the first worker is there. Loading: until its first batch. Computing: until the last part "
            "is saved. Finishing: until the result is written."
        ),
    )


def _drawn_settings(figures: RunFigures) -> Markup:
    shown = [
        (
            name.replace("_", " "),
            json.dumps(value) if isinstance(value, dict) else "none" if value is None else str(value),
        )
        for name, value in figures.settings.items()
    ]
    files = table(
        ("file",), [(file,) for file in figures.files[:_FAILURES]], left_out=max(len(figures.files) - _FAILURES, 0)
    )
    return section("Settings", table(("setting", "value"), shown), *([files] if figures.files else []))


def _clock(at: float) -> str:
    return time.strftime("%F %T", time.localtime(at))
