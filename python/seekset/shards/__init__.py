"""Shards: files of training examples in many formats, and what is known of each before it is read.

Nothing here needs torch.

>>> import numpy as np
>>> from seekset.shards import NpzShards, take_census
>>> np.savez("games.npz", board=np.zeros((5, 3, 4), dtype="f4"), value=np.arange(5))
>>> [shard], _ = take_census(["games.npz"])
>>> shard.census.rows, [field.name for field in shard.census.fields]
(5, ['board', 'value'])
>>> NpzShards().read("games.npz").columns["value"]
array([0, 1, 2, 3, 4])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekset.lazy import lazy_names

if TYPE_CHECKING:
    from seekset.shards.census import Shard, take_census
    from seekset.shards.decoder import Decoder
    from seekset.shards.fasta import FastaShards
    from seekset.shards.npz import NpzShards
    from seekset.shards.packed import PackedShard, pack_shard
    from seekset.shards.parquet import ParquetShards
    from seekset.shards.pickles import PickleShards
    from seekset.shards.readers import ShardReader, find_shards, reader_for
    from seekset.shards.rows import Census, Field, Rows
    from seekset.shards.tfrecord import TFRecordShards

# Imported when they are first used: a decoder process needs only its reader's part.
_HOMES = {
    "Census": "seekset.shards.rows",
    "Decoder": "seekset.shards.decoder",
    "FastaShards": "seekset.shards.fasta",
    "Field": "seekset.shards.rows",
    "NpzShards": "seekset.shards.npz",
    "PackedShard": "seekset.shards.packed",
    "ParquetShards": "seekset.shards.parquet",
    "PickleShards": "seekset.shards.pickles",
    "Rows": "seekset.shards.rows",
    "Shard": "seekset.shards.census",
    "ShardReader": "seekset.shards.readers",
    "TFRecordShards": "seekset.shards.tfrecord",
    "find_shards": "seekset.shards.readers",
    "pack_shard": "seekset.shards.packed",
    "reader_for": "seekset.shards.readers",
    "take_census": "seekset.shards.census",
}

__all__ = [
    "Census",
    "Decoder",
    "FastaShards",
    "Field",
    "NpzShards",
    "PackedShard",
    "ParquetShards",
    "PickleShards",
    "Rows",
    "Shard",
    "ShardReader",
    "TFRecordShards",
    "find_shards",
    "pack_shard",
    "reader_for",
    "take_census",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
