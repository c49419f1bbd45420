//! The one trait everything above reads through.

use std::ops::Range;

use crate::error::{Error, Result};

/// Buffers that a source may need to hand out bytes. One per thread, reused from read to read.
#[derive(Default)]
pub struct Scratch {
    /// The bytes of the last read, for sources that have to copy.
    pub(crate) bytes: Vec<u8>,
    /// What a BGZF file keeps between reads.
    pub(crate) inflate: Option<Box<super::bgzf::Inflate>>,
    /// Where the last read of a gzip or zlib file ended.
    pub(crate) cursor: Option<Box<super::deflate::Lent>>,
}

/// A sequence of bytes with random access. Offsets are into the *uncompressed* data.
pub trait Source: Send + Sync {
    /// How many bytes there are.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of `range`, either straight from memory or through `scratch`.
    ///
    /// A range that is not inside `0..len()` is an error, never a shorter answer.
    fn bytes<'a>(&'a self, range: Range<u64>, scratch: &'a mut Scratch) -> Result<&'a [u8]>;

    /// Copies a few bytes that lie alone: a mapping need not have their page for that.
    fn peek(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut scratch = Scratch::default();
        out.copy_from_slice(self.bytes(offset..offset.saturating_add(out.len() as u64), &mut scratch)?);
        Ok(())
    }

    /// All bytes, if they lie in memory as they are.
    fn in_memory(&self) -> Option<&[u8]> {
        None
    }

    /// Where a chunk that starts at `at` and should hold about `want` bytes best ends.
    fn chunk_end(&self, at: u64, want: u64) -> u64 {
        at.saturating_add(want).min(self.len())
    }

    /// Says that `len` bytes from `offset` on will be wanted shortly. Costs next to nothing, promises nothing.
    fn prefetch(&self, _offset: u64, _len: u64) {}

    /// An error if the file is not what it was when it was opened.
    fn check_unchanged(&self) -> Result<()>;
}

/// Checks a range against a length before anything is cast or sliced.
pub(crate) fn checked(range: &Range<u64>, len: u64) -> Result<Range<usize>> {
    if range.start > range.end || range.end > len {
        return Err(Error::stale(format!(
            "bytes {}..{} were asked for, but there are {len}: index and data disagree; build the index again",
            range.start, range.end
        )));
    }
    Ok(range.start as usize..range.end as usize)
}

/// Bytes in memory are a source too.
impl Source for &[u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn bytes<'a>(&'a self, range: Range<u64>, _scratch: &'a mut Scratch) -> Result<&'a [u8]> {
        Ok(&self[checked(&range, <[u8]>::len(self) as u64)?])
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}

/// The same, owned: tests and fuzzers use it.
impl Source for Vec<u8> {
    fn len(&self) -> u64 {
        Vec::len(self) as u64
    }

    fn bytes<'a>(&'a self, range: Range<u64>, _scratch: &'a mut Scratch) -> Result<&'a [u8]> {
        Ok(&self[checked(&range, Vec::len(self) as u64)?])
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}
