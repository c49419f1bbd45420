//! A file read by `pread`: slower than a mapping, but a file that shrinks under it is an ordinary error.

use std::ops::Range;
use std::path::Path;

use super::guarded::Guarded;
use super::room::reserve;
use super::source::{Scratch, Source, checked};
use crate::error::Result;

/// A file that is read and never mapped.
#[derive(Debug)]
pub struct Pread {
    guarded: Guarded,
}

impl Pread {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { guarded: Guarded::open(path)? })
    }

    /// The open file.
    #[must_use]
    pub fn guarded(&self) -> &Guarded {
        &self.guarded
    }
}

impl Source for Pread {
    fn len(&self) -> u64 {
        self.guarded.size()
    }

    fn bytes<'a>(&'a self, range: Range<u64>, scratch: &'a mut Scratch) -> Result<&'a [u8]> {
        let wanted = checked(&range, self.len())?.len();
        if let Some(more @ 1..) = wanted.checked_sub(scratch.bytes.len()) {
            reserve(&mut scratch.bytes, more)?;
            scratch.bytes.resize(wanted, 0);
        }
        let bytes = &mut scratch.bytes[..wanted];
        self.guarded.read_at(range.start, bytes)?;
        Ok(bytes)
    }

    fn peek(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        checked(&(offset..offset.saturating_add(out.len() as u64)), self.len())?;
        self.guarded.read_at(offset, out)
    }

    fn check_unchanged(&self) -> Result<()> {
        self.guarded.check_unchanged()
    }
}
