//! Reads bytes once and finds record boundaries.
//!
//! Nothing here knows of paths, torch or Python: scanners take bytes and give rows in file order.

pub mod block;
pub mod chunks;
pub mod fasta;
pub mod samtools;
pub mod tfrecord;
