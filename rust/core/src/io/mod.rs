//! Bytes from files: sources to read from, files written beside and renamed, fingerprints, threads.
//!
//! All `unsafe` code of the crate is in this module (the memory map in [`mapped`], prefetching in `prefetch`, table lookups in
//! `shuffle`, space that is not filled before it is written in [`room`], calls into zlib and libdeflate in [`deflate`] and into SQLite in `sqlite`).

pub mod bgzf;
pub mod deflate;
pub mod fingerprint;
pub mod guarded;
pub mod gzi;
pub mod inflated;
pub(crate) mod lanes;
pub mod mapped;
pub mod open;
pub mod origin;
pub mod pread;
pub(crate) mod prefetch;
pub(crate) mod readers;
pub mod room;
pub(crate) mod seldom;
pub(crate) mod shuffle;
pub mod source;
pub mod spool;
pub mod sqlite;
pub mod store;
pub mod threads;
pub mod whole;
pub mod zidx;

pub use fingerprint::Fingerprint;
pub use open::{Access, Table, open_source};
pub use origin::Origin;
pub use source::{Scratch, Source};
pub use spool::Spills;
pub use store::Store;
