//! A file read by `pread`: slower than a mapping, but a file that shrinks under it is an ordinary error.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::mapped::Guarded;
use super::source::{Scratch, Source, checked};
use crate::error::{Error, Result};

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
        if scratch.bytes.len() < wanted {
            scratch.bytes.resize(wanted, 0);
        }
        let bytes = &mut scratch.bytes[..wanted];
        self.guarded.file().read_exact_at(bytes, range.start).map_err(|e| {
            if e.kind() == std::io::ErrorKind::UnexpectedEof {
                let message =
                    format!("it ends before byte {}, which it held when it was opened; open it again", range.end);
                Error::stale(message).in_file(self.guarded.path())
            } else {
                Error::io(self.guarded.path(), e)
            }
        })?;
        Ok(bytes)
    }

    fn check_unchanged(&self) -> Result<()> {
        self.guarded.check_unchanged()
    }
}
