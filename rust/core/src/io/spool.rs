//! Bytes that are collected before their place is known: in memory while they are few, in an unnamed file when many.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::SpooledTempFile;

use super::whole::folder;
use crate::error::{Error, Result};

/// Bytes copied between two questions whether to go on.
const PIECE: u64 = 64 << 20;

/// Bytes copied at a time: as many as a file under way takes without a copy of its own.
const BUFFER: usize = 1 << 20;

/// Where bytes go that don't fit into memory: to unnamed files in a folder.
#[derive(Debug, Clone)]
pub struct Spills(Arc<Path>);

impl Spills {
    /// Into this folder.
    #[must_use]
    pub fn into(folder: &Path) -> Self {
        Self(folder.into())
    }

    /// Into the folder of a file that is to become of them.
    #[must_use]
    pub fn beside(path: &Path) -> Self {
        Self::into(folder(path))
    }

    /// Into the system's folder for such files.
    #[must_use]
    pub fn elsewhere() -> Self {
        Self::into(&std::env::temp_dir())
    }

    /// A spool that holds `in_memory` bytes before it moves to a file.
    #[must_use]
    pub fn spool(&self, in_memory: usize) -> Spool {
        Spool { file: SpooledTempFile::new_in(in_memory, &self.0), len: 0, spills: self.clone() }
    }

    /// An unnamed file, with the folder in which it lies.
    pub(crate) fn file(&self) -> Result<(File, PathBuf)> {
        Ok((tempfile::tempfile_in(&self.0).map_err(|e| self.told(e))?, self.0.to_path_buf()))
    }

    /// An error with the folder's name: the file has none, and it is the disk's business.
    fn told(&self, error: io::Error) -> Error {
        Error::io(&self.0, error)
    }
}

/// A growing run of bytes whose memory is bounded.
#[derive(Debug)]
pub struct Spool {
    file: SpooledTempFile,
    len: u64,
    spills: Spills,
}

impl Spool {
    /// How many bytes it holds.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| self.spills.told(e))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Reads bytes from the middle. The next [`Spool::append`] still adds at the end.
    pub fn read_at(&mut self, at: u64, out: &mut [u8]) -> Result<()> {
        let mut read = || {
            self.file.seek(SeekFrom::Start(at))?;
            self.file.read_exact(out)?;
            self.file.seek(SeekFrom::Start(self.len))
        };
        read().map(drop).map_err(|e| self.spills.told(e))
    }

    /// Writes all of it to `out`, and asks `go_on` now and then.
    pub fn copy_to(&mut self, out: &mut impl Write, mut go_on: impl FnMut() -> Result<()>) -> Result<()> {
        self.file.seek(SeekFrom::Start(0)).map_err(|e| self.spills.told(e))?;
        let mut buffer = vec![0; (BUFFER as u64).min(self.len) as usize];
        let mut done = 0;
        while done < self.len {
            let now = (buffer.len() as u64).min(self.len - done) as usize;
            self.file.read_exact(&mut buffer[..now]).map_err(|e| self.spills.told(e))?;
            out.write_all(&buffer[..now])?;
            done += now as u64;
            if done.is_multiple_of(PIECE) {
                go_on()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spool_reads_back_what_it_took_in_memory_and_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        for in_memory in [4, 1000] {
            let mut spool = Spills::into(folder.path()).spool(in_memory);
            spool.append(b"abcdef").unwrap();
            let mut middle = [0; 3];
            spool.read_at(2, &mut middle).unwrap();
            assert_eq!(&middle, b"cde");
            spool.append(b"gh").unwrap();
            let mut all = Vec::new();
            spool.copy_to(&mut all, || Ok(())).unwrap();
            assert_eq!(all, b"abcdefgh");
            assert_eq!(spool.len(), 8);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
