//! TFRecord: from bytes to where each record lies.
//!
//! A record is its length (8 bytes), the length's checksum (4), the payload, the payload's checksum (4). There is nothing
//! before, between and after records, so a file is walked from header to header; payloads are read only if their
//! checksums are to be compared.

pub mod frame;
mod stream;
mod survey;
mod walk;

use std::str::FromStr;

pub use frame::{AROUND, HEADER};
pub use stream::TfRecordIndexer;
pub use survey::survey;
pub use walk::walk;

use crate::error::{Error, Result};

/// Where a record lies: all of it, header and checksums included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Where its header starts.
    pub offset: u64,
    /// Bytes from its header to its last checksum: the payload and 16 more.
    pub size: u64,
}

impl Entry {
    /// A record that starts at one byte and ends before another, which must not come first.
    #[must_use]
    #[inline]
    pub(crate) fn between(start: u64, end: u64) -> Self {
        Self { offset: start, size: end - start }
    }

    /// Where the next record starts, unless no file can be that long.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }
}

/// Which checksums are compared. Lengths are compared with the size of the file in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verify {
    /// None: for files that were written without.
    None,
    /// Those of the lengths.
    #[default]
    Lengths,
    /// Those of the lengths and of the payloads.
    Full,
}

impl FromStr for Verify {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "none" => Ok(Self::None),
            "lengths" => Ok(Self::Lengths),
            "full" => Ok(Self::Full),
            _ => Err(Error::Mismatch(format!("verify must be \"lengths\", \"full\" or None, not \"{name}\""))),
        }
    }
}
