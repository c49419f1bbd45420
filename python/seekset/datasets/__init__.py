"""Torch datasets over indexed files. They are imported when they are first used, and torch with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seekset.datasets.indexed import IndexBasedDataset
    from seekset.datasets.packed import PackedBatches, PackedDataset
    from seekset.datasets.sequences import SequenceDataset
    from seekset.datasets.stream import Stream
    from seekset.datasets.tfrecord import TFRecordDataset, TFRecordIterableDataset
    from seekset.datasets.windows import WindowDataset

_HOMES = {
    "IndexBasedDataset": "seekset.datasets.indexed",
    "PackedBatches": "seekset.datasets.packed",
    "PackedDataset": "seekset.datasets.packed",
    "SequenceDataset": "seekset.datasets.sequences",
    "Stream": "seekset.datasets.stream",
    "TFRecordDataset": "seekset.datasets.tfrecord",
    "TFRecordIterableDataset": "seekset.datasets.tfrecord",
    "WindowDataset": "seekset.datasets.windows",
}

__all__ = [
    "IndexBasedDataset",
    "PackedBatches",
    "PackedDataset",
    "SequenceDataset",
    "Stream",
    "TFRecordDataset",
    "TFRecordIterableDataset",
    "WindowDataset",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'seekset.datasets' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
