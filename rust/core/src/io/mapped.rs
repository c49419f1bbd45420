//! A file in memory, mapped once per process whatever the number of readers.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use memmap2::Mmap;

use super::fingerprint::mtime_ns;
use super::prefetch::prefetch;
use super::source::{Scratch, Source, checked};
use crate::error::{Error, Result};

/// What `fstat` must keep saying about a file while it is mapped.
#[derive(Debug, Clone, Copy)]
struct Seen {
    size: u64,
    mtime_ns: i128,
    links: u64,
}

impl Seen {
    fn of(metadata: &Metadata) -> Self {
        Self { size: metadata.len(), mtime_ns: mtime_ns(metadata), links: metadata.nlink() }
    }
}

/// An open file and what it looked like then: tells whether it has been changed or replaced since.
#[derive(Debug)]
pub struct Guarded {
    path: PathBuf,
    file: File,
    seen: Seen,
}

impl Guarded {
    /// Opens a regular file for reading.
    pub fn open(path: &Path) -> Result<Self> {
        // Looked at before it is opened: opening a pipe waits for somebody to write to it.
        let kind = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
        if kind.is_dir() {
            return Err(Error::io(path, io::Error::from_raw_os_error(21))); // EISDIR, as read(2) would say
        }
        if !kind.is_file() {
            let message = "not a regular file: what can't be read twice can't be read at random";
            return Err(Error::io(path, io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let metadata = file.metadata().map_err(|e| Error::io(path, e))?;
        Ok(Self { path: path.to_owned(), file, seen: Seen::of(&metadata) })
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads bytes that lie in the file, as it was when it was opened, without a mapping.
    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(out, offset).map_err(|e| {
            if e.kind() == io::ErrorKind::UnexpectedEof {
                let end = offset + out.len() as u64;
                let message = format!("it ends before byte {end}, which it held when it was opened; open it again");
                Error::stale(message).in_file(&self.path)
            } else {
                Error::io(&self.path, e)
            }
        })
    }

    /// Its size when it was opened.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.seen.size
    }

    /// Its modification time when it was opened, in nanoseconds since 1970.
    #[must_use]
    pub fn mtime_ns(&self) -> i128 {
        self.seen.mtime_ns
    }

    /// One `fstat`: an error if size or time changed, or if the file was unlinked or replaced by another.
    pub fn check_unchanged(&self) -> Result<()> {
        let now = self.look()?;
        if now.links < self.seen.links {
            return Err(self.stale("it was deleted or replaced after it was opened"));
        }
        self.compare(now)
    }

    /// One `fstat`: an error if size or time changed. The file may have lost its name to another.
    pub fn check_not_overwritten(&self) -> Result<()> {
        self.compare(self.look()?)
    }

    fn look(&self) -> Result<Seen> {
        Ok(Seen::of(&self.file.metadata().map_err(|e| Error::io(&self.path, e))?))
    }

    fn compare(&self, now: Seen) -> Result<()> {
        if now.size != self.seen.size {
            let (then, now) = (self.seen.size, now.size);
            Err(self.stale(&format!("its size was {then} bytes when it was opened and is {now} now")))
        } else if now.mtime_ns != self.seen.mtime_ns {
            Err(self.stale("it was written to after it was opened"))
        } else {
            Ok(())
        }
    }

    fn stale(&self, what: &str) -> Error {
        Error::stale(format!("{what}; open it again")).in_file(&self.path)
    }
}

/// A memory-mapped file.
#[derive(Debug)]
pub struct Mapped {
    guarded: Guarded,
    map: Option<Mmap>,
}

type Key = (u64, u64, u64, i128, u64);

/// Mappings that are alive in this process, by device, inode, size, time and number of names.
static REGISTRY: Mutex<BTreeMap<Key, Weak<Mapped>>> = Mutex::new(BTreeMap::new());

impl Mapped {
    /// Maps a file, or hands out the mapping this process has of it already.
    pub fn open(path: &Path) -> Result<Arc<Self>> {
        let guarded = Guarded::open(path)?;
        let metadata = guarded.file.metadata().map_err(|e| Error::io(path, e))?;
        let key = (metadata.dev(), metadata.ino(), metadata.len(), mtime_ns(&metadata), metadata.nlink());
        // A lock that is taken while another thread forks stays taken in the child for ever. So never wait for it:
        // a second mapping costs a little address space, a wait could cost the process.
        let Ok(mut known) = REGISTRY.try_lock() else { return Ok(Arc::new(Self::map(guarded)?)) };
        if let Some(mapped) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(mapped);
        }
        known.retain(|_, mapped| mapped.strong_count() > 0);
        let mapped = Arc::new(Self::map(guarded)?);
        known.insert(key, Arc::downgrade(&mapped));
        Ok(mapped)
    }

    /// Maps a file that has no name; `folder` stands for it in messages.
    pub(crate) fn unnamed(file: File, folder: &Path) -> Result<Arc<Self>> {
        let seen = Seen::of(&file.metadata().map_err(|e| Error::io(folder, e))?);
        Self::map(Guarded { path: folder.to_owned(), file, seen }).map(Arc::new)
    }

    fn map(guarded: Guarded) -> Result<Self> {
        if guarded.seen.size == 0 {
            return Ok(Self { guarded, map: None });
        }
        // SAFETY: the mapping is read-only and lives as long as `self`. Another process may still write to or truncate
        // the file: the bytes are only ever read as plain `u8`, every length derived from them is checked, and
        // `check_unchanged` runs before each batch so that a truncated file is an error rather than a bus error. The
        // window between that check and the read remains and is documented (docs/design.md). `io="pread"` closes it for
        // the data, which is not mapped then; indexes are in any case.
        let map = unsafe { Mmap::map(&guarded.file) }.map_err(|e| Error::io(&guarded.path, e))?;
        Ok(Self { guarded, map: Some(map) })
    }

    /// All bytes of the file.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&[])
    }

    /// The open file behind the mapping.
    #[must_use]
    pub fn guarded(&self) -> &Guarded {
        &self.guarded
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Source for Mapped {
    fn len(&self) -> u64 {
        self.as_bytes().len() as u64
    }

    fn bytes<'a>(&'a self, range: Range<u64>, _scratch: &'a mut Scratch) -> Result<&'a [u8]> {
        Ok(&self.as_bytes()[checked(&range, self.len())?])
    }

    fn peek(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        checked(&(offset..offset.saturating_add(out.len() as u64)), self.len())?;
        self.guarded.read_at(offset, out)
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(self.as_bytes())
    }

    fn check_unchanged(&self) -> Result<()> {
        self.guarded.check_unchanged()
    }

    #[inline]
    fn prefetch(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len());
        if offset < end {
            prefetch(&self.as_bytes()[offset as usize..end as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    /// The lock is never waited for, so that tests which run at the same time may each get a mapping of their own.
    fn is_shared(path: &Path) -> bool {
        (0..1000).any(|_| Arc::ptr_eq(&Mapped::open(path).unwrap(), &Mapped::open(path).unwrap()))
    }

    #[test]
    fn a_file_is_mapped_once() {
        let (_folder, path) = file(b"ACGT");
        let mapped = Mapped::open(&path).unwrap();
        assert_eq!(mapped.as_bytes(), b"ACGT");
        assert!(is_shared(&path));
    }

    #[test]
    fn another_file_of_the_same_name_has_another_mapping() {
        let (folder, path) = file(b"ACGT");
        let old = Mapped::open(&path).unwrap();
        let new = folder.path().join("new");
        std::fs::write(&new, b"TTTT").unwrap();
        std::fs::rename(new, &path).unwrap();
        assert_eq!(Mapped::open(&path).unwrap().as_bytes(), b"TTTT");
        assert_eq!(old.as_bytes(), b"ACGT");
        assert!(old.check_unchanged().is_err());
    }

    #[test]
    fn an_empty_file_is_mapped_to_nothing() {
        let (_folder, path) = file(b"");
        let mapped = Mapped::open(&path).unwrap();
        assert!(mapped.is_empty());
        assert!(
            mapped.bytes(0..0, &mut Scratch::default()).is_ok() && mapped.bytes(0..1, &mut Scratch::default()).is_err()
        );
    }

    #[test]
    fn changes_are_told_apart() {
        type Change = fn(&Path) -> std::io::Result<()>;
        let changes: [(&str, Change); 3] = [
            ("its size was 4 bytes when it was opened and is 2 now", |path| std::fs::write(path, b"AC")),
            ("written to after", |path| File::options().write(true).open(path)?.set_modified(std::time::UNIX_EPOCH)),
            ("deleted or replaced after", |path| std::fs::remove_file(path)),
        ];
        for (word, change) in changes {
            let (_folder, path) = file(b"ACGT");
            let guarded = Guarded::open(&path).unwrap();
            guarded.check_unchanged().unwrap();
            change(&path).unwrap();
            let message = guarded.check_unchanged().unwrap_err().to_string();
            assert!(message.contains(word) && message.contains(&*path.to_string_lossy()), "{message}");
        }
    }

    /// A file may lose one of several names; opened again after that, it is whole.
    #[test]
    fn a_file_opened_again_is_compared_with_what_it_is_then() {
        let (folder, path) = file(b"ACGT");
        let other = folder.path().join("other");
        std::fs::hard_link(&path, &other).unwrap();
        let _older = Mapped::open(&path).unwrap();
        std::fs::remove_file(other).unwrap();
        Mapped::open(&path).unwrap().check_unchanged().unwrap();
    }
}
