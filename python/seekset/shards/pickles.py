"""Pickled shards, plain or compressed with gzip: ``{"examples": [...]}`` or a list."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from seekset import _core
from seekset.files import SUFFIXES, AnyPath, as_path
from seekset.limits import whole_number
from seekset.shards.columns import rows_of
from seekset.shards.packed import measured_census
from seekset.shards.rows import Census, Rows
from seekset.shards.unpickling import load_objects

__all__ = ["PickleShards"]

# What the objects of an example take beside its numbers, roughly: dicts, small numbers, strings.
_EXAMPLE_BYTES = 2048


class _Found(NamedTuple):
    rows: Rows
    dropped: tuple[str, ...]
    absent: tuple[str, ...]
    decoded_bytes: int


class PickleShards:
    """Reads pickled shards, plain or gzip'd: a list of examples, or a dict with such a list in ``"examples"``.

    Examples that are dicts become columns, one for each field that holds numbers: arrays keep dtype and shape, floats
    become float32, integers int64. A field that is ``None`` somewhere (a policy may always be) is zeros there, and a
    column ``has_policy`` says where it is not. Fields of other things are dropped. All other examples are objects.

    Nothing that a pickle holds is run: names beside numpy's arrays and plain Python values are refused. Columns are
    read by the extension, without the GIL; objects are made by Python, once that has seen that they are harmless.

    Args:
        max_bytes: The most that a shard may take inflated, and its values, and its columns.

    >>> import gzip, pickle
    >>> import numpy as np
    >>> game = {"board": np.zeros((3, 13, 13), dtype="f4"), "policy": None, "value": 1.0, "metadata": {"game": 7}}
    >>> with gzip.open("shuffled_0000.pkl.gz", "wb") as file:
    ...     pickle.dump({"examples": [{**game, "policy": np.ones(169, dtype="f4")}, game]}, file)
    >>> rows = PickleShards().read("shuffled_0000.pkl.gz")
    >>> {name: column.shape for name, column in rows.columns.items()}
    {'board': (2, 3, 13, 13), 'policy': (2, 169), 'value': (2,), 'has_policy': (2,)}
    >>> PickleShards().count("shuffled_0000.pkl.gz").dropped
    ('metadata',)
    """

    suffixes: tuple[str, ...] = SUFFIXES["pickle"]
    identity = "pickle/1"

    def __init__(self, *, max_bytes: int = 4 << 30) -> None:
        self.max_bytes: int = whole_number(max_bytes, "max_bytes")

    def count(self, path: AnyPath) -> Census:
        """What is known of a shard; a pickle has to be read for it."""
        path = as_path(path)
        rows, dropped, absent, decoded = self._load(path)
        decoded += path.stat().st_size
        return measured_census(rows, path, decoded_bytes=decoded, dropped=dropped, absent=absent)

    def read(self, path: AnyPath) -> Rows:
        """All rows of a shard."""
        return self._load(as_path(path)).rows

    def _load(self, path: Path) -> _Found:
        stacked, content, inflated, values = _core.read_pickle(path, self.max_bytes)
        if stacked is not None:
            rows, dropped, absent = rows_of(stacked)
            return _Found(rows, dropped, absent, 2 * inflated + values + rows.nbytes)
        rows = Rows(objects=load_objects(content, path, max_bytes=self.max_bytes))
        return _Found(rows, (), (), 2 * inflated + values + _EXAMPLE_BYTES * len(rows))

    def __repr__(self) -> str:
        return f"PickleShards(max_bytes={self.max_bytes})"
