//! `seekset._core`: converts, calls `seekset-core`, converts back.

use pyo3::prelude::*;

mod errors;
mod fasta;
mod gather;
mod permutation;
mod table;
mod tfrecord;
mod view;
mod watch;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::fasta::{Fasta, count_fasta, faidx, read_fai, reverse_complement, set_threads, threads};
    #[pymodule_export]
    use crate::permutation::Permutation;
    #[pymodule_export]
    use crate::table::TokenTable;
    #[pymodule_export]
    use crate::tfrecord::{
        TFRecordFile, ensure_tfrecord_index, index_tfrecord_stream, read_tfrecord_index, survey_tfrecord,
        tfrecord_entries, tfrecord_index_text, write_tfrecord_index,
    };
    #[pymodule_export]
    use crate::view::View;
}
