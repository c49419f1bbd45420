//! The SQLite stores of BioNeMo's Sharded Eden: contigs in one database per sample, windows of them in one per split.

mod gathering;
mod ids;
mod rule;
mod samples;
mod sequences;
mod validation;
mod windows;
mod writer;

pub use ids::sample_of;
pub use rule::WindowRule;
pub use samples::SampleWriter;
pub use sequences::{EdenSequences, Window};
pub use validation::{Fault, Validation, validate};
pub use windows::EdenWindows;
pub use writer::{WindowsWriter, Written};
