"""The order of a large pool by itself: which row follows which, with nothing read."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import data
from contest import Contest, Contestant, Row, Task, digest, hold

_SEED = 0
_ROWS_OF_SHARD = 20_000


def order(size: data.Size) -> list[Row]:
    """Hold the contest: all rows are pooled at once, four of five from one source."""
    rows = size.proteins
    title = f"Order of {data.spaced(rows)} rows of two sources, all pooled at once"
    contestants = [
        Contestant("seekset, sources by turns", partial(_seekset, rows)),
        Contestant("random.shuffle of a list", partial(_list, rows), goal=1),
        Contestant("numpy.random permutation, no sources", partial(_permutation, rows)),
    ]
    return hold(Contest(title, contestants))


def _seekset(rows: int) -> Task:
    from seekset.mixing import MixPlan
    from seekset.shards import Census, Field, Shard
    from seekset.sources import Source
    from seekset.world import World

    census = Census(
        _ROWS_OF_SHARD, (Field("x", "<f4", ()),), row_bytes=5, packed_bytes=5 * _ROWS_OF_SHARD, decoded_bytes=0
    )
    shards = [Shard(Path(f"{number}.npz"), 0, 0, "", census) for number in range(rows // _ROWS_OF_SHARD)]
    fifth = len(shards) // 5
    sources = (Source("a", tuple(shards[fifth:])), Source("b", tuple(shards[:fifth])))
    plan = MixPlan(sources=sources, pool_rows=rows, threshold=rows * 3 // 4)

    def numbers(found: tuple[Any, Any]) -> dict[str, str]:
        return _answers(plan.firsts[found[0]] + found[1])

    return Task(lambda: plan.planned(World(), _SEED, 0), numbers)


def _list(rows: int) -> Task:
    def run() -> list[int]:
        pool = list(range(rows))
        random.Random(_SEED).shuffle(pool)
        return pool

    return Task(run, _answers)


def _permutation(rows: int) -> Task:
    return Task(lambda: np.random.default_rng(_SEED).permutation(rows), _answers)


def _answers(found: Any) -> dict[str, str]:
    """Each has an order of its own: what is compared is that all rows come once."""
    return {"rows": digest(np.sort(np.asarray(found, dtype=np.int64)).tobytes())}
