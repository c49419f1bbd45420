//! Scan, index, address and gather records of large files by seeking straight to the bytes.
//!
//! The crate is one walk, left to right: [`scan`] reads bytes once and finds record boundaries, [`index`] keeps what
//! was found, [`plan`] turns rows and windows into addresses, [`gather`] copies the addressed bytes into buffers the
//! caller owns. [`io`] stands below them all, [`fasta`] and [`tfrecord`] put them together behind one handle for each
//! kind of file, [`sequences`] many FASTA files behind one by length, [`contigs`] in their order. [`kmers`] counts what
//! was gathered.
//!
//! ```
//! use seekset_core::fasta::{Fasta, OpenOptions};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("two.fa");
//! std::fs::write(&path, b">first a protein\nMKV\nLA\n>second\nMK\n")?;
//! let fasta = Fasta::open(&path, &OpenOptions::default())?;
//! assert_eq!(fasta.len(), 2);
//! let row = fasta.index().find("second")?.unwrap();
//! assert_eq!(fasta.sequence(row)?, b"MK");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(not(target_pointer_width = "64"))]
compile_error!("seekset addresses files through 64-bit pointers and supports 64-bit targets only");
#[cfg(target_endian = "big")]
compile_error!("seekset maps little-endian columns as they are and supports little-endian targets only");

pub mod contigs;
pub mod eden;
pub mod error;
pub mod example;
pub mod fasta;
mod files;
pub mod gather;
pub mod index;
pub mod io;
pub mod kmers;
pub mod pickle;
pub mod plan;
pub mod plans;
pub mod pool;
mod replacing;
pub mod scan;
pub mod sequences;
pub mod tfrecord;
pub mod watch;

pub use error::{Error, Place, Result};
pub use scan::tfrecord::{Entry, TfRecordIndexer, Verify};
pub use tfrecord::{
    TfRecordFile, index_entries_from_bytes, index_text_from_bytes, read_index_file, write_index_for_tfrecord_file,
};
