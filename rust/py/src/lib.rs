//! `seekset._core`: converts, calls `seekset-core`, converts back.

use pyo3::prelude::*;

mod errors;
mod fasta;
mod gather;
mod table;
mod view;
mod watch;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::fasta::{Fasta, count_fasta, faidx, read_fai, reverse_complement, set_threads, threads};
    #[pymodule_export]
    use crate::table::TokenTable;
    #[pymodule_export]
    use crate::view::View;
}
