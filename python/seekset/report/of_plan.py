"""The report of a plan: how full its batches are, and how evenly ranks share them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from seekset.numbers import octets, percent
from seekset.report.charts import bar_chart, histogram_chart
from seekset.report.page import Markup, figure, gallery, note, section, table, tiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seekset.plan import Plan, RankShare

__all__ = ["PlanFigures", "draw_plan", "plan_figures"]

WORLDS = (1, 2, 4, 8)
_BINS, _BATCHES = 50, 10


class Balance(NamedTuple):
    """What falls to each rank, how far each is from the mean, and how much more than the mean the fullest one has."""

    world_size: int
    shares: tuple[RankShare, ...]
    deviations: tuple[float, ...]
    worst: float


class FullBatch(NamedTuple):
    """One of the batches with the most tokens."""

    batch: int
    tokens: int
    pieces: int
    longest_piece: int


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """What is told of a plan.

    ``room`` is what all batches could hold: of packed ones the budget, of padded ones every piece filled up to the
    longest of its batch. ``efficiency`` is the part of it that is tokens, ``letter_efficiency`` the part that is
    letters: special tokens are no letters.
    """

    what: str
    batches: int
    sequences: int
    pieces: int
    truncated: int
    tokens: int
    letters: int
    room: int
    efficiency: float
    letter_efficiency: float
    rules: dict[str, int | str | None]
    fill_edges: tuple[float, ...]
    fill_counts: tuple[int, ...]
    piece_edges: tuple[int, ...]
    piece_counts: tuple[int, ...]
    balance: tuple[Balance, ...]
    fullest: tuple[FullBatch, ...]
    file_bytes: int | None
    index: str


def plan_figures(plan: Plan, what: str, worlds: tuple[int, ...] = WORLDS) -> PlanFigures:
    """The figures of a plan, called ``what``, for ranks of these numbers."""
    letters = plan.total_tokens - plan.specials * plan.pieces
    room = _room(plan)
    fills = np.histogram(100 * plan.tokens / max(plan.max_tokens, 1), bins=_BINS, range=(0, 100))
    edges, counts = _by_pieces(plan.counts)
    return PlanFigures(
        what=what,
        batches=len(plan),
        sequences=plan.sequences,
        pieces=plan.pieces,
        truncated=plan.truncated,
        tokens=plan.total_tokens,
        letters=letters,
        room=room,
        efficiency=plan.efficiency,
        letter_efficiency=letters / room if room else 0.0,
        rules={
            name: getattr(plan, name)
            for name in ("layout", "max_tokens", "max_length", "specials", "overflow", "overlap")
        },
        fill_edges=tuple(fills[1].tolist()),
        fill_counts=tuple(fills[0].tolist()),
        piece_edges=edges,
        piece_counts=counts,
        balance=tuple(_balance(plan, world_size) for world_size in worlds),
        fullest=tuple(_full(plan, number) for number in range(min(_BATCHES, len(plan)))),
        file_bytes=None if plan.path is None else plan.path.stat().st_size,
        index=plan.fingerprint,
    )


def _room(plan: Plan) -> int:
    if plan.layout == "packed":
        return len(plan) * plan.max_tokens
    return round(plan.total_tokens / plan.efficiency) if plan.efficiency else 0


def _by_pieces(counts: NDArray[np.int64]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    from seekset.lengths import histogram

    found = histogram(counts, bins=_BINS)
    # Bins that grow would be one more thing to explain; batches have some hundred pieces at the most.
    return found.edges, found.counts


def _balance(plan: Plan, world_size: int) -> Balance:
    deviations = tuple(plan.deviations(world_size))
    return Balance(world_size, tuple(plan.shares(world_size)), deviations, 1 + max(deviations))


def _full(plan: Plan, number: int) -> FullBatch:
    lengths = plan[number].lengths
    return FullBatch(number, int(plan.tokens[number]), len(lengths), int(lengths.max(initial=0)))


# --- the page ---------------------------------------------------------------------------------------------------------


def draw_plan(figures: PlanFigures) -> list[Markup]:
    """The parts of the page."""
    padded = figures.rules["layout"] == "padded"
    top = section(
        "At a glance",
        tiles(
            [
                ("batches", figures.batches),
                ("sequences", figures.sequences),
                ("pieces", figures.pieces),
                ("sequences cut", figures.truncated),
                ("tokens", figures.tokens),
                ("letters", figures.letters),
                ("efficiency: tokens", percent(figures.efficiency)),
                ("efficiency: letters", percent(figures.letter_efficiency)),
                ("padding" if padded else "room left", f"{figures.room - figures.tokens:,} tokens"),
                ("plan file", None if figures.file_bytes is None else octets(figures.file_bytes)),
            ]
        ),
        note(
            "Efficiency is the part of what goes through a model that is tokens, or letters: the rest is padding."
            if padded
            else "Efficiency is the part of the budget of all batches that is tokens, or letters."
        ),
    )
    if not figures.batches:
        return [top, section("Batches", note("There are no batches.")), _drawn_rules(figures)]
    return [top, _drawn_fill(figures), _drawn_balance(figures), _drawn_fullest(figures), _drawn_rules(figures)]


def _drawn_fill(figures: PlanFigures) -> Markup:
    fill = histogram_chart(
        "How full batches are",
        figures.fill_edges,
        figures.fill_counts,
        x_label="tokens in a batch, in % of the budget",
        y_label="batches (logarithmic)",
        log_counts=True,
        wide=False,
    )
    fills = [
        (f"{start:.0f} to {end:.0f} %", count)
        for (start, end), count in zip(pairwise(figures.fill_edges), figures.fill_counts, strict=True)
        if count
    ]
    pieces = histogram_chart(
        "Pieces of a batch",
        figures.piece_edges,
        figures.piece_counts,
        x_label="pieces in a batch",
        y_label="batches",
        log=figures.piece_edges[0] > 0 and figures.piece_edges[-1] > 20 * figures.piece_edges[0] + 1,
        wide=False,
    )
    counted = [
        (f"{start:,} to {end - 1:,}", count)
        for (start, end), count in zip(pairwise(figures.piece_edges), figures.piece_counts, strict=True)
        if count
    ]
    budget = figures.rules["max_tokens"]
    return section(
        "Packing",
        gallery(
            figure(fill, f"Tokens of batches against their budget of {budget:,}.", ("of the budget", "batches"), fills),
            figure(pieces, "How many pieces share a batch.", ("pieces", "batches"), counted),
        ),
    )


def _drawn_balance(figures: PlanFigures) -> Markup:
    rows = []
    for one in figures.balance:
        batches = [share.batches for share in one.shares]
        fewest, most = min(one.deviations), max(one.deviations)
        rows.append(
            (
                one.world_size,
                f"{min(batches):,} to {max(batches):,}",
                round(figures.tokens / one.world_size),
                percent(fewest, 3),
                percent(most, 3),
                f"{one.worst:.5f}",
            )
        )
    heads = ("ranks", "batches of each", "mean tokens", "least, from the mean", "most, from the mean", "worst / mean")
    return section(
        "Balance over ranks",
        note("Ranks take every n-th batch. The slowest one decides how long a step takes."),
        table(heads, rows),
        gallery(*(_drawn_ranks(one) for one in figures.balance if one.world_size > 1)),
    )


def _drawn_ranks(one: Balance) -> Markup:
    tokens = [share.tokens for share in one.shares]
    mean = sum(tokens) / len(tokens)
    chart = bar_chart(
        f"Tokens of {one.world_size} ranks",
        [str(share.rank) for share in one.shares],
        tokens,
        x_label="rank",
        y_label="tokens",
        labels=[f"{100 * deviation:+.2f}" for deviation in one.deviations],
        line=("mean", mean),
        wide=False,
    )
    rows = [(*share, percent(deviation, 4)) for share, deviation in zip(one.shares, one.deviations, strict=True)]
    heads = ("rank", "batches", "pieces", "tokens", "from the mean")
    return figure(chart, f"{one.world_size} ranks; numbers are how far each is from the mean, in %.", heads, rows)


def _drawn_fullest(figures: PlanFigures) -> Markup:
    heads = ("batch", "tokens", "pieces", "letters of the longest piece")
    return section("Batches with the most tokens", table(heads, figures.fullest))


def _drawn_rules(figures: PlanFigures) -> Markup:
    rules = [(name.replace("_", " "), "none" if value is None else value) for name, value in figures.rules.items()]
    return section("Rules", tiles([*rules, ("index", figures.index)]))
