"""The report of a mixed pool: what it makes of its shards, and how well it mixes them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from seekset.inspection import Inspection, schedule
from seekset.numbers import brief, octets, percent
from seekset.quality import PANELS, MixingQuality
from seekset.report.charts import bar_chart, line_chart
from seekset.report.page import Cell, Markup, figure, gallery, note, section, table, tiles

if TYPE_CHECKING:
    from seekset.mixing import MixPlan

__all__ = ["PoolFigures", "draw_pool", "pool_figures"]


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """What is told of a pool: its rules, what they come to, and rows of each source in each part of the epoch."""

    what: str
    rules: dict[str, int | str | None]
    seed: int
    shards: int
    inspection: Inspection
    schedule: list[list[int]]


def pool_figures(plan: MixPlan, inspection: Inspection, what: str, *, seed: int) -> PoolFigures:
    """The figures of a pool, called ``what``, that was inspected."""
    names = ("mixing", "pool_rows", "threshold", "open_shards", "stop", "max_bytes")
    return PoolFigures(
        what=what,
        rules={name: getattr(plan, name) for name in names},
        seed=seed,
        shards=len(plan.shards),
        inspection=inspection,
        schedule=schedule(plan, seed=seed) if inspection.rows else [],
    )


# --- the page ---------------------------------------------------------------------------------------------------------


def draw_pool(figures: PoolFigures) -> list[Markup]:
    """The parts of the page."""
    found = figures.inspection
    top = section(
        "At a glance",
        tiles(
            [
                ("rows of an epoch", found.rows),
                ("sources", len(found.sources)),
                ("shards", figures.shards),
                ("rows in the pool", found.pool_rows),
                ("most memory for rows", octets(found.peak_bytes)),
                ("order", found.order_digest),
            ]
        ),
        note("Figures are those of the first epoch in one process. Equal orders have equal digests."),
    )
    parts = [top, _drawn_sources(found)]
    if figures.schedule:
        parts.append(_drawn_schedule(figures))
    parts.append(
        section("Quality of mixing", note("There are no rows whose mixing could be measured."))
        if found.quality is None
        else _drawn_quality(found.quality)
    )
    return [*parts, _drawn_rules(figures)]


def _drawn_sources(found: Inspection) -> Markup:
    chart = bar_chart(
        "Rows of sources",
        [one.source for one in found.sources],
        [one.rows for one in found.sources],
        x_label="source",
        y_label="rows",
    )
    rows = [(one.source, one.shards, one.rows, percent(one.weight, 3)) for one in found.sources]
    caption = "Rows of each source. Weights are parts of all turns while every source has rows."
    heads = ("source", "shards", "rows", "weight")
    return section("Sources", figure(chart, caption, heads, rows, is_open=True))


def _drawn_schedule(figures: PoolFigures) -> Markup:
    parts, sources = figures.schedule, figures.inspection.sources
    edges = [100 * number / len(parts) for number in range(len(parts) + 1)]
    shares = [[100 * part[number] / max(sum(part), 1) for part in parts] for number in range(len(sources))]
    chart = line_chart(
        "Sources over an epoch",
        edges,
        [(one.source, share) for one, share in zip(sources, shares, strict=True)],
        x_label="part of the epoch, in %",
        y_label="% of rows",
    )
    rows: list[list[Cell]] = [
        [f"{start:.0f}-{end:.0f} %", *part] for (start, end), part in zip(pairwise(edges), parts, strict=True)
    ]
    caption = "Which part of the rows is of which source, as the epoch goes on: level lines are an even mix to the end."
    return section("Schedule", figure(chart, caption, ("part", *(one.source for one in sources)), rows))


def _drawn_quality(quality: MixingQuality) -> Markup:
    heads, rows = quality.table()
    panels = []
    for field, reach, heading, better in PANELS:
        values, ideal = [getattr(one, field) for one in quality.deciles], getattr(quality.ideal, field)
        chart = bar_chart(
            heading,
            [part.removesuffix(" %") for part in quality.parts],
            values,
            x_label="part of the epoch, in %",
            y_label=field,
            labels=[brief(round(value, 2) + 0.0) for value in values],
            line=("a uniformly random order", ideal),
            reach=reach,
            wide=False,
        )
        numbers = [*zip(quality.parts, values, strict=True), ("ideal", ideal)]
        panels.append(figure(chart, f"{heading.capitalize()}: {better}.", ("part", field), numbers))
    return section(
        "Quality of mixing",
        note(f"{quality.rows:,} rows in {quality.batches:,} batches of {quality.batch:,}, by parts of the epoch."),
        *(() if quality.remark is None else (note(f"{quality.remark.capitalize()}."),)),
        gallery(*panels),
        table(heads, [[str(cell) for cell in row] for row in rows]),
    )


def _drawn_rules(figures: PoolFigures) -> Markup:
    rules = {**figures.rules, "seed": figures.seed}
    if isinstance(most := rules["max_bytes"], int):
        rules["max_bytes"] = octets(most)
    return section(
        "Rules", tiles([(name.replace("_", " "), "none" if value is None else value) for name, value in rules.items()])
    )
