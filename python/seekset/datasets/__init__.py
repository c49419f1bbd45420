"""Torch datasets over indexed files. They are imported when they are first used, and torch with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekset.extras import require
from seekset.lazy import lazy_names

if TYPE_CHECKING:
    from seekset.datasets.eden import ShardedEdenDataset
    from seekset.datasets.eden_module import ShardedEdenDataModule
    from seekset.datasets.indexed import IndexBasedDataset
    from seekset.datasets.mixed import MixedShardDataset
    from seekset.datasets.packed import PackedBatches, PackedDataset
    from seekset.datasets.packed_windows import PackedWindowBatches, PackedWindows
    from seekset.datasets.sequences import SequenceDataset
    from seekset.datasets.stream import Stream
    from seekset.datasets.streaming import (
        StreamingMixedShardDataset,
        check_disjoint,
        create_datasets,
        discover_and_split_multiple_data,
    )
    from seekset.datasets.tfrecord import TFRecordDataset, TFRecordIterableDataset
    from seekset.datasets.windows import WindowDataset

# Said here, for all datasets: `import seekset.datasets` is what people without torch try first.
require("seekset.datasets", "torch", "torch")

_HOMES = {
    "IndexBasedDataset": "seekset.datasets.indexed",
    "MixedShardDataset": "seekset.datasets.mixed",
    "PackedBatches": "seekset.datasets.packed",
    "PackedDataset": "seekset.datasets.packed",
    "PackedWindowBatches": "seekset.datasets.packed_windows",
    "PackedWindows": "seekset.datasets.packed_windows",
    "SequenceDataset": "seekset.datasets.sequences",
    "ShardedEdenDataModule": "seekset.datasets.eden_module",
    "ShardedEdenDataset": "seekset.datasets.eden",
    "Stream": "seekset.datasets.stream",
    "StreamingMixedShardDataset": "seekset.datasets.streaming",
    "TFRecordDataset": "seekset.datasets.tfrecord",
    "TFRecordIterableDataset": "seekset.datasets.tfrecord",
    "WindowDataset": "seekset.datasets.windows",
    "check_disjoint": "seekset.datasets.streaming",
    "create_datasets": "seekset.datasets.streaming",
    "discover_and_split_multiple_data": "seekset.datasets.streaming",
}

__all__ = [
    "IndexBasedDataset",
    "MixedShardDataset",
    "PackedBatches",
    "PackedDataset",
    "PackedWindowBatches",
    "PackedWindows",
    "SequenceDataset",
    "ShardedEdenDataModule",
    "ShardedEdenDataset",
    "Stream",
    "StreamingMixedShardDataset",
    "TFRecordDataset",
    "TFRecordIterableDataset",
    "WindowDataset",
    "check_disjoint",
    "create_datasets",
    "discover_and_split_multiple_data",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
