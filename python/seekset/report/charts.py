"""Charts as inline SVG: histograms, bars and lines. They are given numbers and words, and reckon places."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from seekset.numbers import brief
from seekset.report.page import Markup, tag

__all__ = ["Mark", "Scale", "bar_chart", "histogram_chart", "line_chart"]

_HEIGHT = 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 18, 16, 46
_WIDE, _NARROW = 900, 430
_LEGEND_ROW = 18
# About how wide a letter is: what a text takes can't be measured here.
_LETTER = 7.0
# More lines than this can't be told apart by their colours.
_COLOURS = 8
# More bars than this have no room for what they are.
_LABELLED = 16

Tone = Literal["bad", "good", "plain"]


class Mark(NamedTuple):
    """A moment on a chart that is worth a line: where, of which kind, what is said when it is pointed at."""

    at: float
    kind: str
    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Scale:
    """How numbers become places on an axis.

    >>> Scale(1, 1000, 0, 300, log=True).place(10)
    100.0
    >>> Scale(0, 23, 0, 100).ticks()
    [0.0, 5.0, 10.0, 15.0, 20.0]
    >>> Scale(1, 1000, 0, 300, log=True).ticks()
    [1.0, 10.0, 100.0, 1000.0]
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, number: float) -> float:
        """Where a number is; outside of the axis, its nearest end."""
        low, high, at = self.low, self.high, min(max(number, self.low), self.high)
        if self.log:
            low, high, at = math.log10(low), math.log10(high), math.log10(at)
        part = (at - low) / (high - low) if high > low else 0.0
        return self.start + part * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers all over the axis."""
        if self.log:
            return _decades(self.low, self.high)
        step = _round_step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(number * step, 12) + 0.0 for number in range(first, last + 1)]


def _round_step(least: float) -> float:
    if least <= 0:
        return 1.0
    whole = 10.0 ** math.floor(math.log10(least))
    return next(whole * factor for factor in (1, 2, 5, 10) if whole * factor >= least * (1 - 1e-9))


def _decades(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9) + 1)
    # Few decades need numbers in between, many not even each decade.
    factors = (1, 2, 5) if high < 1000 * low else (1,)
    step = max(1, len(powers) // 8)
    found = [10.0**power * factor for power in powers[::step] for factor in factors]
    return [tick for tick in found if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def histogram_chart(
    title: str,
    edges: Sequence[float],
    counts: Sequence[int],
    *,
    x_label: str,
    y_label: str,
    log: bool = False,
    log_counts: bool = False,
    marks: Sequence[Mark] = (),
    wide: bool = True,
) -> Markup:
    """How often numbers are between each two edges, with marks at some numbers."""
    top, right = _TOP + _legend_height(marks, [], wide=wide), (_WIDE if wide else _NARROW) - _RIGHT
    across = Scale(edges[0], edges[-1], _LEFT, right, log=log)
    highest = max(counts, default=0)
    lowest = 0.5 if log_counts else 0.0
    up = Scale(lowest, max(highest * 1.05, 1), top + _plot_height(), top, log=log_counts)
    bars = []
    for (start, end), count in zip(pairwise(edges), counts, strict=True):
        if count:
            left, height = across.place(start), up.start - up.place(count)
            width = max(across.place(end) - left - 0.75, 0.75)
            said = tag("title", f"{start:,.6g} to {end:,.6g}: {count:,}")
            bars.append(_rectangle(left, up.place(count), width, height, said))
    return _drawn(
        title,
        f"A histogram of {sum(counts):,}: {x_label} from {edges[0]:,.6g} to {edges[-1]:,.6g}, {y_label} upwards.",
        [
            *_frame(across, up, x_label, y_label),
            *bars,
            *_marked(marks, across, up),
            *_legend(_kinds(marks), [], wide=wide),
        ],
        top,
        wide=wide,
    )


def bar_chart(
    title: str,
    names: Sequence[str],
    values: Sequence[float],
    *,
    x_label: str,
    y_label: str,
    labels: Sequence[str] = (),
    line: tuple[str, float] | None = None,
    reach: float = 0.0,
    wide: bool = True,
) -> Markup:
    """A bar for each name, with a label on it, beside a dashed line; the axis goes to ``reach`` at least."""
    legend = [] if line is None else [(line[0], "ideal")]
    top, right = _TOP + (_LEGEND_ROW if legend else 0), (_WIDE if wide else _NARROW) - _RIGHT
    low = min(0.0, *values) if values else 0.0
    high = max([*values, reach, 0.0 if line is None else line[1]])
    room = 0.12 * ((high - low) or 1)
    up = Scale(low - room if low < 0 else 0.0, high + room, top + _plot_height(), top)
    across = Scale(0, max(len(names), 1), _LEFT, right)
    marks = [] if line is None else [_line(_LEFT, up.place(line[1]), right, up.place(line[1]), "ideal")]
    return _drawn(
        title,
        f"Bars of {y_label} by {x_label}, {len(names)} of them"
        + ("." if line is None else f"; a dashed line at {line[1]:,.4g} is {line[0]}."),
        [
            *_frame(None, up, x_label, y_label, across=across),
            *_bars(names, values, across, up),
            *marks,
            *_bar_labels(names, values, labels, across, up),
            *_legend([], legend, wide=wide),
        ],
        top,
        wide=wide,
    )


def _bars(names: Sequence[str], values: Sequence[float], across: Scale, up: Scale) -> list[Markup]:
    found = []
    each = (across.end - across.start) / max(len(names), 1)
    for number, (name, value) in enumerate(zip(names, values, strict=True)):
        tops = sorted((up.place(0), up.place(value)))
        said = tag("title", f"{name}: {value:,.6g}")
        left = across.place(number) + each * 0.12
        found.append(_rectangle(left, tops[0], each * 0.76, tops[1] - tops[0], said))
    return found


def _bar_labels(
    names: Sequence[str], values: Sequence[float], labels: Sequence[str], across: Scale, up: Scale
) -> list[Markup]:
    """Names below the bars, as many as there is room for, and what is written on them."""
    shown = labels or [brief(value) for value in values]
    each = (across.end - across.start) / max(len(names), 1)
    longest = max(map(len, names), default=0)
    every = min(max(1, math.ceil(longest * _LETTER / each)), max(1, math.ceil(len(names) / _LABELLED), 2))
    found = []
    for number, (name, value, label) in enumerate(zip(names, values, shown, strict=True)):
        middle = across.place(number + 0.5)
        if number % every == 0:
            found.append(_text(middle, up.start + 16, _cut(name, each * every), anchor="middle"))
        if len(label) * _LETTER * 0.9 < each:
            top = min(up.place(0), up.place(value))
            found.append(_text(middle, top - 5, label, anchor="middle", class_="value"))
    return found


def line_chart(
    title: str,
    edges: Sequence[float],
    series: Sequence[tuple[str, Sequence[float]]],
    *,
    x_label: str,
    y_label: str,
    whole: Sequence[float] | None = None,
    marks: Sequence[Mark] = (),
) -> Markup:
    """Lines of steps: what each of a series has between each two edges, and all of them together; with marks."""
    named = [(name, f"line s{number}") for number, (name, _) in enumerate(series)]
    if len(series) > _COLOURS:
        named = [(name, "line thin s0") for name, _ in series]
    keys = [("each", "line thin s0")] if len(series) > _COLOURS else list(named)
    keys += [] if whole is None else [("all together", "line all")]
    top = _TOP + _legend_height(marks, keys, wide=True)
    across = Scale(edges[0], edges[-1], _LEFT, _WIDE - _RIGHT)
    drawn = [values for _, values in series] + ([] if whole is None else [whole])
    highest = max((max(values, default=0.0) for values in drawn), default=0.0)
    up = Scale(0, highest * 1.05 or 1, top + _plot_height(), top)
    classes = [class_ for _, class_ in named] + ["line all"]
    paths = [_steps(edges, values, across, up, class_) for values, class_ in zip(drawn, classes, strict=False)]
    return _drawn(
        title,
        f"{y_label} over {x_label}: {len(series)} lines, {len(marks)} marks.",
        [
            *_frame(across, up, x_label, y_label),
            *_marked(marks, across, up),
            *paths,
            *_legend(_kinds(marks), keys, wide=True),
        ],
        top,
        wide=True,
    )


def _steps(edges: Sequence[float], values: Sequence[float], across: Scale, up: Scale, class_: str) -> Markup:
    moves = []
    for number, ((start, end), value) in enumerate(zip(pairwise(edges), values, strict=True)):
        at = f"{up.place(value):.1f}"
        moves.append(f"M{across.place(start):.1f} {at}" if number == 0 else f"V{at}")
        moves.append(f"H{across.place(end):.1f}")
    return tag("path", class_=class_, d="".join(moves))


# --- what all charts have ---------------------------------------------------------------------------------------------


def _plot_height() -> int:
    return _HEIGHT - _TOP - _BOTTOM


def _drawn(title: str, about: str, parts: Sequence[Markup], top: float, *, wide: bool) -> Markup:
    name = "chart-" + re.sub(r"[^a-z0-9]+", "-", title.lower())
    width, height = _WIDE if wide else _NARROW, top + _plot_height() + _BOTTOM
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", about, id=f"{name}-about"),
        *parts,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_labelledby=f"{name}-title {name}-about",
    )


def _frame(
    bottom: Scale | None,
    up: Scale,
    x_label: str,
    y_label: str,
    *,
    across: Scale | None = None,
) -> list[Markup]:
    """Grid, axes, and what they say; names instead of numbers along the bottom are drawn by whoever has them."""
    span = bottom or across
    assert span is not None  # noqa: S101 (one of the two is given)
    found = []
    for tick in up.ticks(5):
        if up.log and tick < 1:
            continue  # there are no parts of what is counted
        at = up.place(tick)
        found += [_line(span.start, at, span.end, at, "grid"), _text(span.start - 6, at + 4, brief(tick), anchor="end")]
    base = up.place(0) if up.low < 0 else up.start
    found.append(_line(span.start, base, span.end, base, "axis"))
    if bottom is not None:
        for tick in bottom.ticks(8):
            at = bottom.place(tick)
            said = _text(at, up.start + 17, brief(tick), anchor="middle")
            found += [_line(at, up.start, at, up.start + 4, "axis"), said]
    middle = (span.start + span.end) / 2
    found.append(_text(middle, up.start + 37, x_label, anchor="middle"))
    height = (up.start + up.end) / 2
    turned = tag("g", _text(0, 0, y_label, anchor="middle"), transform=f"translate(13 {height:.1f}) rotate(-90)")
    return [*found, turned]


def _marked(marks: Sequence[Mark], across: Scale, up: Scale) -> list[Markup]:
    return [
        tag(
            "g",
            tag("title", mark.text),
            _line(at, up.end, at, up.start, "behind"),
            _line(at, up.end, at, up.start, f"mark {mark.tone}"),
        )
        for mark in marks
        for at in [across.place(mark.at)]
    ]


def _kinds(marks: Sequence[Mark]) -> list[tuple[str, str]]:
    return list({mark.kind: (mark.kind, f"mark {mark.tone}") for mark in marks}.values())


def _legend_places(keys: Sequence[tuple[str, str]], *, wide: bool) -> list[tuple[float, int]]:
    """Where the entries of a legend stand: from the left, in as many rows as they need."""
    places, left, row = [], float(_LEFT), 0
    for name, _ in keys:
        width = 40 + len(name) * _LETTER
        if left + width > (_WIDE if wide else _NARROW) - _RIGHT and left > _LEFT:
            left, row = float(_LEFT), row + 1
        places.append((left, row))
        left += width
    return places


def _legend_height(marks: Sequence[Mark], keys: Sequence[tuple[str, str]], *, wide: bool) -> float:
    places = _legend_places([*keys, *_kinds(marks)], wide=wide)
    return _LEGEND_ROW * (places[-1][1] + 1) if places else 0


def _legend(marks: Sequence[tuple[str, str]], keys: Sequence[tuple[str, str]], *, wide: bool) -> list[Markup]:
    entries = [*keys, *marks]
    found = []
    for (name, class_), (left, row) in zip(entries, _legend_places(entries, wide=wide), strict=True):
        at = 10 + row * _LEGEND_ROW
        found += [_line(left, at, left + 18, at, class_), _text(left + 23, at + 4, name)]
    return found


def _cut(name: str, room: float) -> str:
    letters = max(3, int(room / _LETTER))
    return name if len(name) <= letters else f"{name[: letters - 1]}…"


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return tag("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_=class_)


def _text(x: float, y: float, said: str, *, anchor: str | None = None, class_: str | None = None) -> Markup:
    return tag("text", said, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=class_)


def _rectangle(x: float, y: float, width: float, height: float, said: Markup) -> Markup:
    return tag(
        "rect", said, x=f"{x:.1f}", y=f"{y:.1f}", width=f"{width:.1f}", height=f"{max(height, 0):.1f}", class_="bar"
    )
