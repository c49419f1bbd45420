"""Shards of Hex games, as tests write them."""

import gzip
import pickle

import numpy as np

from seekset.shards import PickleShards


class ApartShards(PickleShards):
    """A reader that wants processes of its own, as one that is written in Python does."""

    holds_gil = True
    identity = "apart/1"


def hex_examples(rows, *, seed=0, without_policy=(), channels=3):
    """Examples as games are written: float32 boards, policies that may be None, numbers, and words about them."""
    rng = np.random.default_rng(seed)
    policies = np.eye(169, dtype=np.float32)[rng.integers(169, size=rows)]
    return [
        {
            "board": (rng.random((channels, 13, 13)) < 0.3).astype(np.float32),
            "policy": None if row in without_policy else policies[row].copy(),
            "value": float(rng.integers(2)),
            "player_to_move": row % 2,
            "metadata": {"game": row, "source": "self-play"},
        }
        for row in range(rows)
    ]


def write_hex(path, examples, *, protocol=4):
    """Write a shard of examples, gzip'd if its name says so."""
    content = pickle.dumps({"examples": examples, "version": 1}, protocol=protocol)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path
