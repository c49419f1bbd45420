//! `seekset._core`: converts, calls `seekset-core`, converts back.

use pyo3::prelude::*;

mod batch;
mod bytes;
mod digest;
mod eden;
mod encoding;
mod errors;
mod example;
mod fasta;
mod gather;
mod kmers;
mod ledger;
mod payloads;
mod permutation;
mod pickle;
mod plan;
mod pool;
mod sequences;
mod stream;
mod table;
mod tfrecord;
mod view;
mod watch;
mod windows;
mod writer;

/// Batches come one after another and of like sizes: what one frees, the next one uses. The system's allocator gives large
/// pieces back each time, and half of a gather would be page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::batch::{are_token_positions, narrowed, token_positions, widened};
    #[pymodule_export]
    use crate::digest::file_digest;
    #[pymodule_export]
    use crate::eden::{
        EdenSequences, EdenWindows, EdenWindowsWriter, SampleWriter, count_windows, hold_sqlite, release_sqlite,
        sample_of, validate_windows,
    };
    #[pymodule_export]
    use crate::encoding::{encode_example, encode_sequence_example};
    #[pymodule_export]
    use crate::example::{ExampleSchema, decode_example, decode_examples, infer_features};
    #[pymodule_export]
    use crate::fasta::{Fasta, faidx, read_fai, reverse_complement, set_threads, threads};
    #[pymodule_export]
    use crate::kmers::{kmer_count, kmer_frequencies};
    #[pymodule_export]
    use crate::ledger::digest_rows;
    #[pymodule_export]
    use crate::permutation::Permutation;
    #[pymodule_export]
    use crate::pickle::read_pickle;
    #[pymodule_export]
    use crate::plan::{BalancedOrder, Plan};
    #[pymodule_export]
    use crate::pool::{MixedPool, Mixing, count_turns, pack_rows, pooled_row_bytes, turns};
    #[pymodule_export]
    use crate::sequences::SequenceIndex;
    #[pymodule_export]
    use crate::stream::FastaStream;
    #[pymodule_export]
    use crate::table::TokenTable;
    #[pymodule_export]
    use crate::tfrecord::{
        TFRecordFile, decompress_tfrecord, ensure_tfrecord_index, index_tfrecord_stream, read_tfrecord_index,
        survey_tfrecord, tfrecord_entries, tfrecord_index_text, write_tfrecord_index,
    };
    #[pymodule_export]
    use crate::view::View;
    #[pymodule_export]
    use crate::windows::{Contigs, flip_coins, letters_mask, loss_mask, split_of, window_ends};
    #[pymodule_export]
    use crate::writer::TFRecordWriter;
}
