"""DALI pipelines on TFRecord files, with indexes made on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seekset.examples import Schema
from seekset.extras import missing
from seekset.tfrecord import TFRecordFile, ensure_tfrecord_indexes

try:
    from nvidia.dali import Pipeline, fn, types
    from nvidia.dali import tfrecord as tfrec
except ModuleNotFoundError as error:
    raise missing("seekset.dali", "nvidia.dali", "dali") from error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seekset.examples import Feature, Features
    from seekset.files import AnyPath
    from seekset.tfrecord import Verify

__all__ = ["READER", "tfrecord_pipeline"]

READER = "records"
"""The name of the pipeline's reader, for DALI's iterators: ``reader_name=seekset.dali.READER``."""

# So many records of each file are compared with the features, from the first to the last in even steps.
_COMPARED = 16


def tfrecord_pipeline(
    paths: AnyPath | Iterable[AnyPath],
    features: Features,
    batch_size: int,
    *,
    device_id: int | None = None,
    num_threads: int = 2,
    shard_id: int = 0,
    num_shards: int = 1,
    random_shuffle: bool = False,
    seed: int = 0,
    verify: Verify = "lengths",
    **reader: Any,
) -> Pipeline:
    """A pipeline, built and ready to run, whose outputs are the features in the order given.

    Indexes that are missing or stale are made first. DALI does not compare features with records: where a record lacks
    one, or has it in another kind or number, it gives whatever was in memory, or ends the process. So 16 records of
    each file are decoded here before, and one that does not fit is a ``MismatchError``; for the others, that all
    records are alike is yours to know. :class:`seekset.datasets.TFRecordDataset` compares every record that it reads.

    Args:
        paths: Files, folders or globs.
        features: What is wanted of each ``tf.train.Example``, by name: ``"int64"``, ``("float32", (64,))``,
            ``("int64", None)`` for any number of values, ``"bytes"``, or :class:`seekset.Feature`.
        batch_size: Records per run.
        device_id: The GPU; ``None`` for a pipeline on the CPU alone.
        num_threads: Threads of the pipeline.
        shard_id: Which part of the records, of ``num_shards``.
        num_shards: Into how many parts the records are divided.
        random_shuffle: Whether DALI shuffles, within its buffer (``initial_fill=`` sets its size).
        seed: What that shuffle is drawn from.
        verify: Which checksums are compared while indexes are made.
        reader: More options of ``fn.readers.tfrecord``, such as ``pad_last_batch=True``.

    >>> pipe = tfrecord_pipeline("examples.records", {"x": ("float32", (2,)), "label": "int64"}, batch_size=3)
    >>> x, label = pipe.run()
    >>> x.as_array().tolist(), label.as_array().tolist()
    ([[0.5, 1.5], [1.5, 2.5], [2.5, 3.5]], [0, 1, 2])
    """
    schema = Schema(features)
    wanted = schema.features
    asked = {name: _as_dali(name, feature) for name, feature in wanted.items()}
    files, indexes = ensure_tfrecord_indexes(paths, verify=verify)
    for file in files:
        _compare(file, schema, verify)
    pipeline = Pipeline(batch_size=batch_size, num_threads=num_threads, device_id=device_id, seed=seed)
    with pipeline:
        columns = fn.readers.tfrecord(
            name=READER,
            path=files,
            index_path=indexes,
            features=asked,
            shard_id=shard_id,
            num_shards=num_shards,
            random_shuffle=random_shuffle,
            **reader,
        )
        narrow = {name for name, feature in wanted.items() if feature.dtype == "int32"}
        outputs = [fn.cast(columns[name], dtype=types.INT32) if name in narrow else columns[name] for name in wanted]
        pipeline.set_outputs(*outputs)
    pipeline.build()
    return pipeline


def _compare(path: str, schema: Schema, verify: Verify) -> None:
    """Decode some records, which is an error about the record and the feature where they don't fit."""
    with TFRecordFile(path, verify=verify) as file:
        rows = np.unique(np.linspace(0, len(file) - 1, _COMPARED, dtype=np.int64)) if len(file) else ()
        file.examples(rows, schema)


def _as_dali(name: str, feature: Feature) -> Any:
    if feature.default is not None:
        raise ValueError(f"feature {name!r}: DALI has no defaults for features that a record lacks")
    if feature.dtype == "bytes":
        if feature.shape != ():
            raise ValueError(f"feature {name!r}: DALI reads one byte string per record, not shape {feature.shape!r}")
        return tfrec.FixedLenFeature((), tfrec.string, "")
    kind, zero = (tfrec.float32, 0.0) if feature.dtype == "float32" else (tfrec.int64, 0)
    if feature.shape is None:
        return tfrec.VarLenFeature(kind, zero)
    shaped = tfrec.VarLenFeature if feature.ragged else tfrec.FixedLenFeature
    return shaped(list(feature.sizes), kind, zero)
