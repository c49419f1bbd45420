"""How well shuffles mix: 50 shards of 200 rows in two sources, 80 and 20 %, buffers of 1000 rows, batches of 100.

``python benches/python/pool_quality.py`` shows the figures; they are no times, and the same on each run.
"""

from __future__ import annotations

import gzip
import pickle
import random
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import pool_shards
import report
from contest import Table, apart

if TYPE_CHECKING:
    from seekset.mixing import Mixing
    from seekset.quality import MixingQuality

SHARDS, OF_SHARD, OF_FIRST = 50, 200, 40
BUFFER, BATCH, OPEN = 1_000, 100, 10
_SEEDS = range(5)

_T = TypeVar("_T")

# Rows by number, in the order of delivery and in that of reading.
Order = tuple[list[int], list[int]]


def table() -> list[Table]:
    """The figures, means over some seeds. There is nothing to time."""
    sizes = f"{SHARDS} shards of {OF_SHARD} rows in two sources (80/20), a buffer of {BUFFER} rows, batches of {BATCH}"
    head = (
        "order",
        "shards per batch",
        "same-shard neighbours, against chance",
        "chi-square of sources",
        "rank correlation",
    )
    lines = []
    for name, shuffle in _SHUFFLES.items():
        found = apart(_qualities, shuffle)
        lines.append((name, *_cells(np.mean([quality.whole for quality in found], axis=0))))
    lines.append(("a uniformly random order", *_cells(found[0].ideal)))
    return [Table(f"{sizes}, means over {len(_SEEDS)} seeds", head, lines), apart(_at_equal_bytes)]


# --- at equal bytes ---------------------------------------------------------------------------------------------------


def _at_equal_bytes() -> Table:
    """The same shards with positions of Hex in them, as pickles: what a pool of arrays takes, a packed one may take."""
    with TemporaryDirectory() as folder:
        paths = pool_shards.write_pickles(Path(folder), OF_SHARD)
        budget = _bytes_of_reservoir([path for shards in paths.values() for path in shards])
        found = np.mean([measured(*_reservoir(seed)).whole for seed in _SEEDS], axis=0)
        lines = [("ten open shards and a reservoir", str(budget), str(BUFFER), *_cells(found)[:2])]
        for open_shards in (OPEN // 2, OPEN):
            runs = [_mixed_dataset(paths, seed, open_shards, budget) for seed in _SEEDS]
            found = np.mean([quality.whole for quality, _, _ in runs], axis=0)
            taken, held = max(taken for _, taken, _ in runs), max(held for _, _, held in runs)
            name = f"seekset, {open_shards} open shards of each source"
            lines.append((name, str(taken), str(held), *_cells(found)[:2]))
    head = ("", "bytes at most", "rows in the pool", "shards per batch", "same-shard neighbours")
    return Table("The same shards with positions of Hex in them, as pickles, at equal bytes", head, lines)


def _bytes_of_reservoir(paths: list[Path]) -> int:
    """The most that its rows take, by the allocator's count. All rows of an open pickle are there until taken."""

    def rows(shard: int) -> Iterator[dict[str, Any]]:
        with gzip.open(paths[shard]) as file:
            return iter(pickle.load(file)["examples"])

    tracemalloc.start()
    try:
        for _ in _through_reservoir(0, rows):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _mixed_dataset(
    paths: dict[str, list[Path]], seed: int, open_shards: int, max_bytes: int
) -> tuple[MixingQuality, int, int]:
    """An epoch of the real thing within a budget: how it is mixed, and the bytes and rows that were pooled at most."""
    from seekset.datasets import MixedShardDataset

    dataset = MixedShardDataset(
        sources={source: [str(path) for path in shards] for source, shards in paths.items()},
        pool_rows=SHARDS * OF_SHARD,
        max_bytes=max_bytes,
        open_shards=open_shards,
        seed=seed,
        batch_size=BATCH,
        return_provenance=True,
    )
    found = [batch["provenance"] for batch in dataset]
    shards, rows = (np.concatenate([np.asarray(part[name]) for part in found]) for name in ("shard", "row"))
    read = list(range(SHARDS * OF_SHARD))  # of the rank correlation nothing is shown
    return measured((shards * OF_SHARD + rows).tolist(), read), dataset.report()["peak_bytes"], dataset.plan().pool_rows


def _qualities(shuffle: Callable[[int], Order]) -> list[MixingQuality]:
    return [measured(*shuffle(seed)) for seed in _SEEDS]


def _cells(mixing: Sequence[float]) -> list[str]:
    shards, neighbours, sources, correlation = mixing
    return [f"{shards:.1f}", f"{neighbours:.1f}x", f"{sources:.2f}", f"{correlation:.3f}"]


def measured(delivered: list[int], read: list[int]) -> MixingQuality:
    """The quality of an order of rows that were read in another one."""
    from seekset.quality import measure

    rows = np.array(delivered)
    assert sorted(delivered) == sorted(read) == list(range(SHARDS * OF_SHARD)), "each row once"
    shards = rows // OF_SHARD
    return measure(shards, shards // OF_FIRST, np.argsort(read)[rows], batch=BATCH)


def _rows_of(shard: int) -> Iterator[int]:
    return iter(range(shard * OF_SHARD, (shard + 1) * OF_SHARD))


def _mixed(seed: int) -> list[int]:
    return random.Random(seed).sample(range(SHARDS), SHARDS)


def _seekset(seed: int, open_shards: int = 1, mixing: Mixing = "pool", threshold: int = BUFFER * 3 // 4) -> Order:
    """Planned by row counts alone: of shards there are only these."""
    from seekset.mixing import MixPlan
    from seekset.shards import Census, Field, Shard
    from seekset.sources import Source
    from seekset.world import World

    def shard(number: int) -> Shard:
        census = Census(OF_SHARD, (Field("x", "<f4", ()),), row_bytes=5, packed_bytes=5 * OF_SHARD, decoded_bytes=0)
        return Shard(Path(f"{number}.npz"), 0, 0, "", census)

    cuts = ((0, OF_FIRST), (OF_FIRST, SHARDS))
    plan = MixPlan(
        sources=tuple(Source(str(first), tuple(map(shard, range(first, last)))) for first, last in cuts),
        pool_rows=BUFFER,
        threshold=threshold,
        open_shards=open_shards,
        mixing=mixing,
    )
    # Through a pool of one row, rows come as they are read. Without a pool they are read in no order but their own.
    one_by_one = replace(plan, pool_rows=1, threshold=1)

    def numbers(plan: MixPlan) -> list[int]:
        shards, rows = plan.planned(World(), seed, 0)
        return (shards * OF_SHARD + rows).tolist()

    return numbers(plan), list(range(SHARDS * OF_SHARD)) if mixing == "global" else numbers(one_by_one)


def _webdataset(seed: int, initial: int = BUFFER) -> Order:
    import webdataset

    read: list[int] = []

    def expanded(sources: Iterator[dict[str, Any]]) -> Iterator[int]:
        for source in sources:
            for row in _rows_of(int(source["url"])):
                read.append(row)
                yield row

    shards = webdataset.SimpleShardList([str(shard) for shard in _mixed(seed)])
    shuffle = webdataset.shuffle(BUFFER, initial=initial, seed=seed)
    return list(webdataset.DataPipeline(shards, expanded, shuffle)), read


def _hugging_face(seed: int, open_shards: int) -> Order:
    from datasets import IterableDataset

    read: list[int] = []

    def rows(shards: list[int]) -> Iterator[dict[str, int]]:
        for shard in shards:
            for row in _rows_of(shard):
                read.append(row)
                yield {"row": row}

    dataset = IterableDataset.from_generator(rows, gen_kwargs={"shards": list(range(SHARDS))})
    # What making the data set looks at is not read for delivery.
    read.clear()
    shuffled = dataset.shuffle(seed=seed, buffer_size=BUFFER, max_buffer_input_shards=open_shards)
    return [row["row"] for row in shuffled], read


def _reservoir(seed: int) -> Order:
    """Ten open shards, a row of each in turn, into a buffer from which a random one goes out."""
    read: list[int] = []

    def rows(shard: int) -> Iterator[int]:
        for row in _rows_of(shard):
            read.append(row)
            yield row

    return list(_through_reservoir(seed, rows)), read


def _through_reservoir(seed: int, rows_of: Callable[[int], Iterator[_T]]) -> Iterator[_T]:
    rng, waiting = random.Random(seed), iter(_mixed(seed))

    def turns() -> Iterator[_T]:
        opened: list[Iterator[_T]] = []
        while True:
            while len(opened) < OPEN and (shard := next(waiting, None)) is not None:
                opened.append(rows_of(shard))
            if not opened:
                return
            for rows in list(opened):
                if (row := next(rows, None)) is None:
                    opened.remove(rows)
                else:
                    yield row

    pool: list[_T] = []
    for row in turns():
        if len(pool) < BUFFER:
            pool.append(row)
            continue
        at = rng.randrange(BUFFER)
        taken, pool[at] = pool[at], row
        yield taken
    rng.shuffle(pool)
    yield from pool


_SHUFFLES: dict[str, Callable[[int], Order]] = {
    "seekset, one open shard": partial(_seekset, open_shards=1),
    "seekset, five open shards of each source, ten in all": partial(_seekset, open_shards=OPEN // 2),
    "the same, refilled whenever a row is taken": partial(_seekset, open_shards=OPEN // 2, threshold=BUFFER),
    "seekset, ten open shards of each source, twenty in all": partial(_seekset, open_shards=OPEN),
    'seekset, mixing="global"': partial(_seekset, mixing="global"),
    "webdataset shuffle": partial(_webdataset, initial=100),
    "webdataset shuffle, buffer filled first": _webdataset,
    "Hugging Face shuffle, one open shard": partial(_hugging_face, open_shards=1),
    "Hugging Face shuffle, ten open shards": partial(_hugging_face, open_shards=OPEN),
    "ten open shards and a reservoir": _reservoir,
}

if __name__ == "__main__":
    report.show(table())
