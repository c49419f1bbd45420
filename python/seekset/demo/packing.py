"""A plan of packed batches, and its picture."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from seekset.plan import Plan
from seekset.sequences import SequenceIndex
from seekset.tokens import TokenTable

if TYPE_CHECKING:
    from seekset.demo.tour import Tour

__all__ = ["picture", "show"]


def show(tour: Tour) -> None:
    """Put all proteins in order, plan them, draw the plan, and gather all batches."""
    made, planned = tour.folder / "proteins.sidx", tour.folder / "proteins.plan"
    made.unlink(missing_ok=True)
    tour.command("index", tour.proteins, "-o", made, "-q")
    drawn = tour.folder / "plan.png"
    plotted = ["--plot", drawn] if find_spec("matplotlib") else []
    tour.command("plan", made, "--max-length", "none", "--world-size", "4", "-o", planned, *plotted, lines=2)
    index = SequenceIndex.load(made)
    plan = Plan.load(planned, index)
    tour.tell(f"{len(plan):,} batches of up to {plan.max_tokens:,} tokens; the first, one of the middle and the last:")
    for line in picture(plan, (0, len(plan) // 2, len(plan) - 1)):
        tour.tell(line)
    _show_speed(tour, index, plan)
    tour.results.append((planned, "the plan of batches (Arrow)"))
    if plotted:
        tour.results.append((drawn, "its picture: how full batches are, how even ranks"))
    else:
        tour.tell("matplotlib would draw all of it: pip install 'seekset[plot]'")


def picture(plan: Plan, batches: tuple[int, ...], width: int = 64) -> list[str]:
    """Batches as bars, in which every second sequence is shaded; what is left of the budget is dots.

    >>> from seekset import Fasta
    >>> plan = Plan.create(Fasta("proteins.fa"), max_tokens=40)
    >>> for line in picture(plan, (0, 1), width=20):
    ...     print(line)
    batch 0  |█████████████████···|  1 sequence
    batch 1  |█████████▒▒▒········|  2 sequences
    """
    name = len(str(max(batches)))
    bars = []
    for number in batches:
        lengths = plan[number].lengths
        ends = np.cumsum(lengths + plan.specials)
        # The sequence in which the middle of each column lies; none after the last.
        middles = (np.arange(width) + 0.5) * plan.max_tokens / width
        of = np.searchsorted(ends, middles, side="right")
        bar = "".join("·" if k == len(ends) else "█▒"[k % 2] for k in of.tolist())
        bars.append(f"batch {number:<{name}}  |{bar}|  {len(lengths)} sequence{'s'[: len(lengths) > 1]}")
    return bars


def _show_speed(tour: Tour, index: SequenceIndex, plan: Plan) -> None:
    table = TokenTable.named("esm")
    start = time.perf_counter()
    tokens = sum(len(index.packed_batch(batch, table).input_ids) for batch in plan)
    speed = tokens / (time.perf_counter() - start) / 1e6
    tour.tell(f"all batches as int64 tokens: {speed:.0f} million tokens/s")
