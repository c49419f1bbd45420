"""TFRecord shards: payloads as they are, or columns of the Examples in them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seekset.errors import FormatError, MismatchError
from seekset.examples import Features, Schema, as_schema
from seekset.files import SUFFIXES, AnyPath, as_path
from seekset.rows import row_numbers
from seekset.shards.packed import measured
from seekset.shards.readers import OpenFiles
from seekset.shards.rows import Census, Field, Rows, bounded_census, piece_rows
from seekset.tfrecord import TFRecordFile, Verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["TFRecordShards"]

_COMPRESSED = (".gz", ".gzip", ".z", ".zlib", ".zz")
# What bytes take as an object, beside their length.
_OBJECT_BYTES = 64


class TFRecordShards:
    """Reads TFRecord shards, plain or compressed: payloads, or columns of the ``tf.train.Example`` in each.

    Rows are all records in the order of the file, whatever an index beside it lists.

    Args:
        features: What is wanted of Examples, as :func:`seekset.decode_examples` takes it: numbers of fixed shape.
            Without, rows are payloads (bytes).
        verify: Which checksums are compared, as in :class:`seekset.TFRecordFile`.
        measure: Whether Examples are decoded once when they are counted, to see what rows take packed. Without, headers
            are enough, and a row is taken for as long as it is unpacked: a pool is smaller then than its bytes allow.

    >>> TFRecordShards().read("train.tfrecord").objects
    [b'first', b'second', b'the third']
    >>> reader = TFRecordShards({"x": ("float32", (2,)), "label": "int64"})
    >>> reader.read_rows("examples.records", [2, 0]).columns["x"].tolist()
    [[2.5, 3.5], [0.5, 1.5]]
    """

    suffixes: tuple[str, ...] = SUFFIXES["tfrecord"]

    def __init__(self, features: Features | None = None, *, verify: Verify = "lengths", measure: bool = False) -> None:
        self.features: Features | None = features
        self.verify, self.measure = verify, measure
        self._schema = None if features is None else _numeric(as_schema(features))
        # Not by a method of its own, so that files are closed with the reader and not when cycles are looked for.
        self._files = OpenFiles(partial(_connect, verify=verify))
        told = None if self._schema is None else sorted(self._schema.features.items())
        self.identity: str = f"tfrecord/2 features={told} verify={verify}{' measured' if measure else ''}"

    def count(self, path: AnyPath) -> Census:
        """What is known of a shard: its headers are walked, payloads are not read unless they are to be measured."""
        path = as_path(path)
        file = self._files[path]
        if self._schema is not None:
            fields = [_field(name, feature.dtype, feature.sizes) for name, feature in self._schema.features.items()]
            known = bounded_census(len(file), tuple(fields))
            return measured(known, self._pieces(path, known), path) if self.measure else known
        sizes = file.lengths + _OBJECT_BYTES
        return Census(len(file), None, int(sizes.max(initial=0)), int(sizes.sum()), 0)

    def _pieces(self, path: Path, known: Census) -> Iterator[Rows]:
        """All rows, some at a time."""
        at_a_time = piece_rows(known)
        for start in range(0, known.rows, at_a_time):
            yield self.read_rows(path, np.arange(start, min(start + at_a_time, known.rows), dtype=np.int64))

    def read(self, path: AnyPath) -> Rows:
        """All rows of a shard."""
        path = as_path(path)
        return self.read_rows(path, np.arange(len(self._files[path]), dtype=np.int64))

    def read_rows(self, path: AnyPath, rows: Any) -> Rows:
        """The rows with these numbers, in that order; records that are damaged are bad rows."""
        file = self._files[as_path(path)]
        wanted = row_numbers(rows, len(file))
        try:
            return self._read(file, wanted)
        except (FormatError, MismatchError):
            return self._read_one_by_one(file, wanted)

    def _read(self, file: TFRecordFile, rows: NDArray[np.int64]) -> Rows:
        if self._schema is None:
            return Rows(objects=file.get_many(rows))
        return Rows(columns=file.examples(rows, self._schema))  # type: ignore[arg-type]

    def _read_one_by_one(self, file: TFRecordFile, rows: NDArray[np.int64]) -> Rows:
        """Rows of which some are damaged: those are found by reading each by itself."""
        bad: dict[int, str] = {}
        parts: list[Rows] = []
        for place, row in enumerate(rows):
            try:
                parts.append(self._read(file, np.array([row])))
            except (FormatError, MismatchError) as error:
                bad[place] = str(error)
                parts.append(self._none())
        if self._schema is None:
            return Rows(objects=[(part.objects or [None])[0] for part in parts], bad=bad)
        names = self._schema.features
        return Rows(
            columns={name: np.concatenate([(part.columns or {})[name] for part in parts]) for name in names}, bad=bad
        )

    def _none(self) -> Rows:
        """One row without a value."""
        if self._schema is None:
            return Rows(objects=[None])
        features = self._schema.features.items()
        return Rows(columns={name: np.zeros((1, *feature.sizes), feature.dtype) for name, feature in features})

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.features, self.verify, self.measure)

    def __repr__(self) -> str:
        return f"TFRecordShards({self.features!r}, verify={self.verify!r}, measure={self.measure})"


def _connect(path: Path, verify: Verify) -> TFRecordFile:
    # An index beside a plain file may list other rows; that of a compressed one spares inflating it again.
    index: Literal[False] | None = None if path.name.lower().endswith(_COMPRESSED) else False
    return TFRecordFile(path, index=index, verify=verify)


def _made(features: Features | None, verify: Verify, measure: bool) -> TFRecordShards:
    return TFRecordShards(features, verify=verify, measure=measure)


def _numeric(schema: Schema) -> Schema:
    """The schema, if each of its features is a column of fixed shape."""
    if not schema.features:
        raise MismatchError("features must name at least one feature; leave them out for payloads as they are")
    for name, feature in schema.features.items():
        if feature.ragged or feature.dtype == "bytes":
            raise MismatchError(
                f"feature {name!r}: expected numbers of a fixed shape, found {feature.dtype} of shape {feature.shape}; "
                "leave features out, and decode payloads in a transform"
            )
    return schema


def _field(name: str, dtype: str, shape: tuple[int, ...]) -> Field:
    return Field(name, np.dtype(dtype).str, shape)
