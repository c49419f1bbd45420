"""A pool that mixes shards of two sources."""

from __future__ import annotations

import shutil
from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from seekset.extras import require

if TYPE_CHECKING:
    from pathlib import Path

    from seekset.demo.tour import Tour

__all__ = ["show"]

# Shards of each source: three rows of the first for each of the second.
_SHARDS = {"self-play": 18, "human": 6}
_BATCH = 64


def show(tour: Tour) -> None:
    """Write positions of a game as shards, look at the pool's plan, and read an epoch of it."""
    games = tour.folder / "games"
    shutil.rmtree(games, ignore_errors=True)
    for name, count in _SHARDS.items():
        _write(games / name, count, tour.sizes.shard_rows)
    pool = sum(_SHARDS.values()) * tour.sizes.shard_rows // 4
    drawn = tour.folder / "mixing.png"
    plotted = ["--plot", drawn] if find_spec("matplotlib") else []
    if plotted:
        tour.results.append((drawn, "how well the pool mixes, beside a perfect shuffle"))
    folders = [games / name for name in _SHARDS]
    tour.command("pool", "inspect", *folders, "--pool-rows", pool, *plotted, lines=3)
    require("the dataset of the pool", "torch", "torch")
    _read(tour, games, pool)


def _write(folder: Path, shards: int, rows: int) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(shards)
    for number in range(shards):
        board = rng.integers(0, 2, (rows, 2, 13, 13)).astype(np.float32)
        np.savez(folder / f"{number:04}.npz", board=board, value=rng.random(rows, dtype=np.float32))


def _read(tour: Tour, games: Path, pool: int) -> None:
    from seekset.datasets import MixedShardDataset

    sources = {name: games / name for name in _SHARDS}
    tour.code(
        f'sources = {{"self-play": "{games}/self-play", "human": "{games}/human"}}',
        f"for batch in MixedShardDataset(sources, pool_rows={pool}, batch_size={_BATCH}, seed=0): ...",
    )
    ds = MixedShardDataset(sources, pool_rows=pool, batch_size=_BATCH, seed=0, return_provenance=True)
    batches = tour.timed("an epoch", lambda: list(ds))
    ds.ledger.check()
    rows = sum(len(batch["value"]) for batch in batches)
    of = Counter(row.source for row in ds.provenance(batches[0]))
    shares = " and ".join(f"{count} of {name}" for name, count in of.most_common())
    tour.tell(f"{rows:,} rows, each of them once; the first batch has {shares}")
