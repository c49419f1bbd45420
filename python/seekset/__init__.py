"""Torch-ready batches from large files of records, by seeking straight to the bytes.

>>> import seekset
>>> fa = seekset.Fasta("proteins.fa")
>>> len(fa), list(fa)[:2]
(3, ['seq_1', 'seq_2'])
>>> fa["seq_2"].sequence
'MKVLAAGIVGLCAKAY'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekset.lazy import lazy_names

if TYPE_CHECKING:
    __version__: str

    from seekset._core import BalancedOrder, Permutation, reverse_complement, set_threads, threads
    from seekset.batch import Batch, NestedBatch
    from seekset.compression import decompress_tfrecord
    from seekset.eden import (
        compute_num_windows,
        create_sample_database,
        extract_sample_id,
        precompute_window_database,
    )
    from seekset.encoding import encode_example, encode_sequence_example
    from seekset.errors import (
        CorruptRecordError,
        DuplicateIdError,
        FormatError,
        MemoryLimitError,
        MismatchError,
        MissingExtraError,
        SeeksetError,
        SeeksetWarning,
        StaleIndexError,
        UnknownIdError,
    )
    from seekset.examples import (
        Feature,
        decode_example,
        decode_examples,
        decode_sequence_example,
        decode_sequence_examples,
        infer_features,
    )
    from seekset.fai import FaiRecord, faidx, read_fai
    from seekset.fasta import Fasta
    from seekset.ledger import Ledger
    from seekset.plan import Plan, PlannedBatch, RankShare
    from seekset.record import FastaRecord
    from seekset.sequences import (
        PackedSequences,
        PaddedSequences,
        SequenceEntry,
        SequenceIndex,
        create_sequence_index,
        get_worker_indices,
        load_sequence_index,
    )
    from seekset.tfrecord import (
        TFRecordFile,
        create_tfrecord_index,
        ensure_tfrecord_indexes,
        get_tfrecord_index_entries,
        index_tfrecord_bytes,
        read_tfrecord_index,
    )
    from seekset.tokens import TokenTable
    from seekset.windows import Window, WindowPlan
    from seekset.writer import TFRecordWriter

# Public names and the modules they come from. They are imported when they are first used, so that `seekset --help`
# pays for neither numpy nor the extension module.
_HOMES = {
    "BalancedOrder": "seekset._core",
    "Batch": "seekset.batch",
    "CorruptRecordError": "seekset.errors",
    "DuplicateIdError": "seekset.errors",
    "FaiRecord": "seekset.fai",
    "Fasta": "seekset.fasta",
    "FastaRecord": "seekset.record",
    "Feature": "seekset.examples",
    "FormatError": "seekset.errors",
    "Ledger": "seekset.ledger",
    "MemoryLimitError": "seekset.errors",
    "MismatchError": "seekset.errors",
    "MissingExtraError": "seekset.errors",
    "NestedBatch": "seekset.batch",
    "PackedSequences": "seekset.sequences",
    "PaddedSequences": "seekset.sequences",
    "Permutation": "seekset._core",
    "Plan": "seekset.plan",
    "PlannedBatch": "seekset.plan",
    "RankShare": "seekset.plan",
    "SeeksetError": "seekset.errors",
    "SeeksetWarning": "seekset.errors",
    "SequenceEntry": "seekset.sequences",
    "SequenceIndex": "seekset.sequences",
    "StaleIndexError": "seekset.errors",
    "TFRecordFile": "seekset.tfrecord",
    "TFRecordWriter": "seekset.writer",
    "TokenTable": "seekset.tokens",
    "UnknownIdError": "seekset.errors",
    "Window": "seekset.windows",
    "WindowPlan": "seekset.windows",
    "__version__": "seekset.version",
    "compute_num_windows": "seekset.eden",
    "create_sample_database": "seekset.eden",
    "create_sequence_index": "seekset.sequences",
    "create_tfrecord_index": "seekset.tfrecord",
    "decode_example": "seekset.examples",
    "decode_examples": "seekset.examples",
    "decode_sequence_example": "seekset.examples",
    "decode_sequence_examples": "seekset.examples",
    "decompress_tfrecord": "seekset.compression",
    "encode_example": "seekset.encoding",
    "encode_sequence_example": "seekset.encoding",
    "ensure_tfrecord_indexes": "seekset.tfrecord",
    "extract_sample_id": "seekset.eden",
    "faidx": "seekset.fai",
    "get_tfrecord_index_entries": "seekset.tfrecord",
    "get_worker_indices": "seekset.sequences",
    "index_tfrecord_bytes": "seekset.tfrecord",
    "infer_features": "seekset.examples",
    "load_sequence_index": "seekset.sequences",
    "precompute_window_database": "seekset.eden",
    "read_fai": "seekset.fai",
    "read_tfrecord_index": "seekset.tfrecord",
    "reverse_complement": "seekset._core",
    "set_threads": "seekset._core",
    "threads": "seekset._core",
}

__all__ = [
    "BalancedOrder",
    "Batch",
    "CorruptRecordError",
    "DuplicateIdError",
    "FaiRecord",
    "Fasta",
    "FastaRecord",
    "Feature",
    "FormatError",
    "Ledger",
    "MemoryLimitError",
    "MismatchError",
    "MissingExtraError",
    "NestedBatch",
    "PackedSequences",
    "PaddedSequences",
    "Permutation",
    "Plan",
    "PlannedBatch",
    "RankShare",
    "SeeksetError",
    "SeeksetWarning",
    "SequenceEntry",
    "SequenceIndex",
    "StaleIndexError",
    "TFRecordFile",
    "TFRecordWriter",
    "TokenTable",
    "UnknownIdError",
    "Window",
    "WindowPlan",
    "compute_num_windows",
    "create_sample_database",
    "create_sequence_index",
    "create_tfrecord_index",
    "decode_example",
    "decode_examples",
    "decode_sequence_example",
    "decode_sequence_examples",
    "decompress_tfrecord",
    "encode_example",
    "encode_sequence_example",
    "ensure_tfrecord_indexes",
    "extract_sample_id",
    "faidx",
    "get_tfrecord_index_entries",
    "get_worker_indices",
    "index_tfrecord_bytes",
    "infer_features",
    "load_sequence_index",
    "precompute_window_database",
    "read_fai",
    "read_tfrecord_index",
    "reverse_complement",
    "set_threads",
    "threads",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
