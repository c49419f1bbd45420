"""FASTA shards: a record is a dict of its id and its sequence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from seekset.fasta import Fasta
from seekset.files import SUFFIXES, AnyPath, as_path
from seekset.rows import row_numbers
from seekset.shards.readers import OpenFiles
from seekset.shards.rows import Census, Rows

__all__ = ["FastaShards"]

# What a dict of two strings takes beside their letters.
_OBJECT_BYTES = 512


class FastaShards:
    """Reads FASTA shards, plain or compressed with bgzip: a row is ``{"id": ..., "sequence": ...}``.

    The first time a file is opened, an index is written beside it, as :class:`seekset.Fasta` does.

    >>> FastaShards().read_rows("proteins.fa", [2]).objects
    [{'id': 'seq_3', 'sequence': 'MKTAY'}]
    """

    suffixes: tuple[str, ...] = SUFFIXES["fasta"]
    identity = "fasta/1"

    def __init__(self) -> None:
        self._files = OpenFiles(_connect)

    def count(self, path: AnyPath) -> Census:
        """What is known of a shard, from its index."""
        file = self._files[as_path(path)]
        lengths = file.lengths
        longest, total = int(lengths.max(initial=0)), int(lengths.sum())
        return Census(len(file), None, longest + _OBJECT_BYTES, total + _OBJECT_BYTES * len(file), 0)

    def read(self, path: AnyPath) -> Rows:
        """All rows of a shard."""
        path = as_path(path)
        return self.read_rows(path, np.arange(len(self._files[path]), dtype=np.int64))

    def read_rows(self, path: AnyPath, rows: Any) -> Rows:
        """The rows with these numbers, in that order."""
        file = self._files[as_path(path)]
        wanted = row_numbers(rows, len(file))
        sequences = file.fetch_many(wanted)
        ids = [file[row].id for row in wanted.tolist()]
        return Rows(objects=[{"id": name, "sequence": found} for name, found in zip(ids, sequences, strict=True)])

    def __reduce__(self) -> tuple[type[FastaShards], tuple[()]]:
        return FastaShards, ()

    def __repr__(self) -> str:
        return "FastaShards()"


def _connect(path: Path) -> Fasta:
    return Fasta(path, duplicates="first")
