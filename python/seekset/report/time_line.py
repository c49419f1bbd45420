"""The time line of a run: all runs of its folder, one after another, without the time between."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seekset.inference.news import news_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Moment", "RunSpan", "TimeLine", "WorkerSpeed"]

_BINS = 60


class RunSpan(NamedTuple):
    """One run of the folder: when, how far, how it ended, and how many seconds its phases took, as far as known.

    Phases: until the first worker is there, until the first batch (the encoder is loaded), until the last part of the
    work is saved, until the end (the result is written).
    """

    began: float
    ended: float
    outcome: str
    sequences: int
    done_before: int
    done_after: int
    starting: float | None
    loading: float | None
    computing: float | None
    finishing: float | None


class Moment(NamedTuple):
    """Something worth a mark: after how many seconds of work, when by the clock, what, and in words."""

    at: float
    time: float
    kind: str
    text: str


class WorkerSpeed(NamedTuple):
    """What a worker did a second, in each stretch of the time at work."""

    rank: int
    device: str
    sequences: tuple[float, ...]
    tokens: tuple[float, ...]


def _first_of(events: Sequence[Mapping[str, Any]], place: int) -> int:
    """The first event of the run that starts at a place: what it finds damaged is told before its start."""
    while place and events[place - 1]["event"] == "chunk_damaged":
        place -= 1
    return place


class _Chunk(NamedTuple):
    """A part of the work, in seconds at work."""

    rank: int
    began: float
    ended: float
    sequences: int
    tokens: int


@dataclass(slots=True)
class TimeLine:
    """The events of all runs of a folder, one after another without the time between."""

    runs: list[RunSpan] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    chunks: list[_Chunk] = field(default_factory=list)
    devices: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def of(cls, events: Sequence[Mapping[str, Any]], until: float | None) -> TimeLine:
        """``until`` is now if the last run is still under way."""
        line = cls()
        starts = [_first_of(events, place) for place, event in enumerate(events) if event["event"] == "run_started"]
        line._add_refused(events[: starts[0]] if starts else events)
        for number, (start, end) in enumerate(pairwise([*starts, len(events)])):
            cut = next((place for place in range(start, end) if events[place]["event"] == "run_preparing"), end)
            line._add(events[start:cut], number, until if end == len(events) else None)
            line._add_refused(events[cut:end])
        return line

    def _add_refused(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Mark runs that ended before they had begun to compute."""
        for event in events:
            if event["event"] == "preparing_failed":
                text = f"a run ended while preparing: {event.get('reason', '?')}"
                self.moments.append(Moment(self.seconds, event["time"], "not begun", text))

    def _add(self, events: Sequence[Mapping[str, Any]], number: int, until: float | None) -> None:
        begun = next(event for event in events if event["event"] == "run_started")
        known = _Phases()
        # A clock that was set back does not make time run backwards here.
        last = max([begun["time"], *(event["time"] for event in events)])
        if number:
            self.moments.append(Moment(self.seconds, begun["time"], "resumed", f"run {number + 1} of this folder"))
        started: dict[int, float] = {}
        done, outcome, seen = begun["done"], "", set[int]()
        ended = False
        for event in events:
            kind, at = event["event"], self.seconds + max(event["time"] - begun["time"], 0.0)
            known.note(kind, event["time"])
            if kind == "worker_started":
                self._worker_started(event, at, seen)
            elif kind == "chunk_begun":
                started[event["rank"]] = at
            elif kind == "chunk_finished":
                done += event["sequences"]
                began = started.pop(event["rank"], self.seconds)
                self.chunks.append(_Chunk(event["rank"], began, at, event["sequences"], event["tokens"]))
            elif kind == "run_ended":
                ended, outcome = True, str(event.get("outcome") or "")
            elif (news := news_of(event)) is not None and news.mark is not None:
                self.moments.append(Moment(at, event["time"], news.mark, news.text))
        if not ended:
            outcome = "under way" if until is not None else "killed"
            last = last if until is None else max(last, until)
        self.runs.append(
            RunSpan(
                begun["time"],
                last,
                outcome,
                begun["sequences"],
                begun["done"],
                done,
                *known.seconds(begun["time"], last, ended=ended),
            )
        )
        self.seconds += last - begun["time"]

    def _worker_started(self, event: Mapping[str, Any], at: float, seen: set[int]) -> None:
        rank, device = event["rank"], str(event.get("device", ""))
        self.devices.setdefault(rank, device)
        if rank in seen:
            self.moments.append(Moment(at, event["time"], "restart", f"worker {rank} is started again on {device}"))
        seen.add(rank)

    def speeds(self) -> tuple[tuple[float, ...], tuple[WorkerSpeed, ...]]:
        """The edges of equal stretches of time, and what each worker did a second in each."""
        ranks = sorted({chunk.rank for chunk in self.chunks} | set(self.devices))
        if not ranks or self.seconds <= 0:
            return (), ()
        edges = np.linspace(0, self.seconds, _BINS + 1)
        found = []
        for rank in ranks:
            mine = [chunk for chunk in self.chunks if chunk.rank == rank]
            speeds = [_spread(mine, edges, name) for name in ("sequences", "tokens")]
            found.append(WorkerSpeed(rank, self.devices.get(rank, ""), *speeds))
        return tuple(edges.tolist()), tuple(found)


def _spread(chunks: Sequence[_Chunk], edges: NDArray[np.float64], name: str) -> tuple[float, ...]:
    """What is done a second between edges, where each part of the work goes on evenly from its start to its end."""
    reached = np.zeros(len(edges))
    for chunk in chunks:
        began = min(chunk.began, chunk.ended - 1e-6)
        reached += getattr(chunk, name) * np.clip((edges - began) / (chunk.ended - began), 0.0, 1.0)
    return tuple((np.diff(reached) / np.diff(edges)).tolist())


@dataclass(slots=True)
class _Phases:
    """When the phases of a run changed."""

    worker: float | None = None
    batch: float | None = None
    saved: float | None = None

    def note(self, kind: str, at: float) -> None:
        if kind == "worker_started":
            self.worker = at if self.worker is None else self.worker
        elif kind == "chunk_begun":
            self.batch = at if self.batch is None else self.batch
        elif kind == "chunk_finished":
            self.saved = at

    def seconds(self, began: float, last: float, *, ended: bool) -> tuple[float | None, ...]:
        saved = self.saved if ended else last if self.batch is not None else None
        times = (began, self.worker, self.batch, saved, last if ended else None)
        return tuple(None if start is None or end is None else max(end - start, 0.0) for start, end in pairwise(times))
