"""The contests on the mixed shard pool: from shards of two sources to shuffled batches, row for row the same.

Of each contestant four things are measured: how long an epoch takes by row, how long the first batch of a new process
takes, how long a loop waits for the slowest batch in a hundred, and how much memory is taken at most.
"""

from __future__ import annotations

import gzip
import pickle
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

import data
import pool_order
import pool_quality
from contest import Contest, Contestant, Row, Table, apart, cold
from contest import hold as hold_contest
from pool_epochs import Reader, first_epoch, hold
from pool_shards import CELLS, FIELDS, SIDE, Columns, Shards, made

BATCH = 256
_SEED = 0

# A pool of a quarter of all rows, in rows for the peers; seekset has a budget of bytes, too, which doesn't bind.
_OF_ROWS = 4
_MAX_BYTES = "1GB"


def contests(size: data.Size) -> dict[str, Callable[[], list[Row | Table]]]:
    """All of them by name, to be held when they are called."""
    return {
        "pool-pickles": partial(_hold_pickles, size),
        "pool-native": partial(_hold_native, size),
        "pool-cold": partial(_hold_cold, size),
        "pool-order": partial(pool_order.order, size),
        "pool-quality": pool_quality.table,
    }


def _hold_pickles(size: data.Size) -> list[Row]:
    shards = apart(made, size)
    one = Reader("seekset, 1 decoder", partial(_seekset, shards, "pkl.gz", decoders=1))
    two = Reader("seekset, 2 decoders", partial(_seekset, shards, "pkl.gz", decoders=2))
    return hold(
        f"{_title(shards, '.pkl.gz')}, 1 decoder",
        [
            one,
            Reader("gzip and pickle in order, no batches", partial(_in_order, shards, _as_is), goal=0.95),
            Reader("gzip and pickle in order, to batches", partial(_in_order, shards, stacked)),
            Reader("a list, shuffle and pop(0)", partial(_list_pool, shards)),
            Reader("webdataset shuffle", partial(_webdataset_pickles, shards)),
            Reader("Hugging Face shuffle", partial(_hugging_face_pickles, shards)),
            two,
        ],
        shards.rows,
    )


def _hold_native(size: data.Size) -> list[Row]:
    shards = apart(made, size)
    return hold(
        _title(shards, "native"),
        [
            Reader("seekset, .npz", partial(_seekset, shards, "npz")),
            Reader("webdataset shuffle, tar of pickles", partial(_webdataset_tar, shards), goal=10),
            Reader("mosaicml-streaming, its own shards", partial(_mosaicml, shards)),
            Reader("Hugging Face shuffle, Arrow", partial(_hugging_face_arrow, shards)),
            Reader("Hugging Face map-style shuffle, Arrow, no pool", partial(_hugging_face_table, shards)),
            Reader("a list, shuffle and pop(0), .npz", partial(_list_pool_npz, shards)),
        ],
        shards.rows,
    )


def _title(shards: Shards, kind: str) -> str:
    return f"{data.spaced(shards.rows)} positions of Hex from 50 {kind} shards, pool of {data.spaced(_pool(shards))}"


def _hold_cold(size: data.Size) -> list[Row]:
    """The first epoch of a new process and the opening of its data set, from shards that lie on the disk only."""
    shards = apart(made, size)
    held = {
        "pkl.gz": {
            "seekset, 1 decoder": partial(_seekset, shards, "pkl.gz", decoders=1),
            "gzip and pickle in order, to batches": partial(_in_order, shards, stacked),
            "webdataset shuffle": partial(_webdataset_pickles, shards),
        },
        "native": {
            "seekset, .npz": partial(_seekset, shards, "npz"),
            "webdataset shuffle, tar of pickles": partial(_webdataset_tar, shards),
            "Hugging Face shuffle, Arrow": partial(_hugging_face_arrow, shards),
        },
    }
    rows = []
    for kind, readers in held.items():
        title = f"Opening and first epoch of {data.spaced(shards.rows)} positions of Hex from 50 {kind} shards, by row"
        contestants = [Contestant(name, partial(first_epoch, enter, shards.rows)) for name, enter in readers.items()]
        rows += hold_contest(cold(Contest(title, contestants), [shards.folder]))
    return rows


def _pool(shards: Shards) -> int:
    return shards.rows // _OF_ROWS


# --- rows and batches -------------------------------------------------------------------------------------------------


def stacked(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A batch of tensors, as a good collator makes it: one copy of each field."""
    import torch

    missing = np.zeros(CELLS, dtype=np.float32)
    has_policy = [row.get("has_policy", row["policy"] is not None) for row in rows]
    columns = {
        "board": np.stack([row["board"] for row in rows]),
        "policy": np.stack([missing if row["policy"] is None else row["policy"] for row in rows]),
        "value": np.array([row["value"] for row in rows], dtype=np.float32),
        "player_to_move": np.array([row["player_to_move"] for row in rows], dtype=np.int64),
        "has_policy": np.array(has_policy, dtype=bool),
    }
    return {name: torch.from_numpy(column) for name, column in columns.items()}


def _as_is(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows


def _batches(rows: Iterable[dict[str, Any]], collate: Callable[[list], Any] = stacked) -> Iterator[Any]:
    rows = iter(rows)
    while some := list(islice(rows, BATCH)):
        yield collate(some)


def as_columns(batch: Any) -> Columns:
    """A batch as arrays, whoever made it."""
    columns = stacked(batch) if isinstance(batch, list) else batch
    return {name: np.asarray(columns[name]) for name in FIELDS}


def _pickled(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rb") as file:
        return pickle.load(file)["examples"]


def _rows_of_npz(path: Path) -> list[dict[str, Any]]:
    with np.load(path) as stored:
        columns = dict(stored)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _mixed(paths: list[Path]) -> list[Path]:
    """The shards of both sources in a random order: what the peers have instead of proportions."""
    return random.Random(_SEED).sample(paths, len(paths))


# --- the contestants: each gives a function that begins an epoch ------------------------------------------------------


def _seekset(shards: Shards, kind: str, **options: Any) -> Callable[[], Iterable[Any]]:
    from seekset.datasets import MixedShardDataset

    rules = {"pool_rows": _pool(shards), "max_bytes": _MAX_BYTES, "seed": _SEED, "batch_size": BATCH, **options}
    dataset = MixedShardDataset(sources=shards.patterns(kind), **rules)
    return lambda: dataset


def _in_order(shards: Shards, collate: Callable[[list], Any]) -> Callable[[], Iterable[Any]]:
    paths = shards.paths("pkl.gz")
    return lambda: _batches((row for path in paths for row in _pickled(path)), collate)


def _list_pool(shards: Shards, kind: str = "pkl.gz", read: Callable[[Path], list] = _pickled) -> Callable[[], Any]:
    """What people write: a list that is filled, shuffled and emptied from its front down to a threshold."""
    size = _pool(shards)

    def rows() -> Iterator[dict[str, Any]]:
        rng, waiting, pool = random.Random(_SEED), iter(_mixed(shards.paths(kind))), []
        while True:
            while len(pool) < size and (path := next(waiting, None)) is not None:
                pool += read(path)
            if not pool:
                return
            rng.shuffle(pool)
            least = size * 3 // 4 if len(pool) >= size else 0
            while len(pool) > least:
                yield pool.pop(0)

    return lambda: _batches(rows())


def _list_pool_npz(shards: Shards) -> Callable[[], Any]:
    return _list_pool(shards, "npz", _rows_of_npz)


def _webdataset_pickles(shards: Shards) -> Callable[[], Any]:
    import webdataset

    def expanded(sources: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for source in sources:
            yield from _pickled(source["url"])

    paths, size = [str(path) for path in _mixed(shards.paths("pkl.gz"))], _pool(shards)
    return lambda: webdataset.DataPipeline(
        webdataset.SimpleShardList(paths),
        expanded,
        webdataset.shuffle(size, initial=size, seed=_SEED),
        webdataset.batched(BATCH, collation_fn=stacked),
    )


def _webdataset_tar(shards: Shards) -> Callable[[], Any]:
    import webdataset

    paths, size = [str(path) for path in _mixed(shards.paths("tar"))], _pool(shards)
    # Bytes are shuffled and then decoded, as its documentation has it: a pool of bytes is small.
    return lambda: (
        webdataset.WebDataset(paths, shardshuffle=False)
        .shuffle(size, initial=size, seed=_SEED)
        .decode()
        .map(itemgetter("pyd"))
        .batched(BATCH, collation_fn=stacked)
    )


def _mosaicml(shards: Shards) -> Callable[[], Any]:
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()
    dataset = StreamingDataset(
        local=str(shards.mds), shuffle=True, shuffle_seed=_SEED, batch_size=BATCH, shuffle_block_size=_pool(shards)
    )
    return lambda: _batches(dataset)


def _hugging_face_pickles(shards: Shards) -> Callable[[], Any]:
    from datasets import IterableDataset

    def rows(paths: list[str]) -> Iterator[dict[str, Any]]:
        for path in paths:
            yield from _pickled(Path(path))

    paths = [str(path) for path in shards.paths("pkl.gz")]
    dataset = IterableDataset.from_generator(rows, gen_kwargs={"paths": paths})
    shuffled = dataset.shuffle(seed=_SEED, buffer_size=_pool(shards))
    return lambda: _batches(shuffled)


def _hugging_face_arrow(shards: Shards) -> Callable[[], Any]:
    from datasets import load_from_disk

    dataset = load_from_disk(str(shards.arrow)).to_iterable_dataset(num_shards=50)
    shuffled = dataset.with_format("numpy").shuffle(seed=_SEED, buffer_size=_pool(shards))
    return lambda: map(_unflattened, shuffled.iter(BATCH))


def _hugging_face_table(shards: Shards) -> Callable[[], Any]:
    from datasets import load_from_disk

    shuffled = load_from_disk(str(shards.arrow)).shuffle(seed=_SEED).with_format("numpy")
    return lambda: map(_unflattened, shuffled.iter(BATCH))


def _unflattened(columns: Columns) -> dict[str, Any]:
    import torch

    columns["board"] = columns["board"].reshape(-1, 2, SIDE, SIDE)
    return {name: torch.from_numpy(columns[name]) for name in FIELDS}
