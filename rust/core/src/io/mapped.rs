//! A file in memory, mapped once per process whatever the number of readers.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use memmap2::Mmap;

use super::guarded::{Guarded, Seen};
use super::prefetch::prefetch;
use super::source::{Scratch, Source, checked};
use crate::error::Result;

/// A memory-mapped file.
#[derive(Debug)]
pub struct Mapped {
    guarded: Guarded,
    map: Option<Mmap>,
}

/// Mappings that are alive in this process, by what their files looked like.
static REGISTRY: Mutex<BTreeMap<Seen, Weak<Mapped>>> = Mutex::new(BTreeMap::new());

/// How many entries it may have, those of mappings that are gone among them, before it is cleared of these.
static CLEARED: AtomicUsize = AtomicUsize::new(FEW);
const FEW: usize = 64;

impl Mapped {
    /// Maps a file, or hands out the mapping this process has of it already.
    pub fn open(path: &Path) -> Result<Arc<Self>> {
        let guarded = Guarded::open(path)?;
        let key = guarded.seen();
        // A lock that is taken while another thread forks stays taken in the child for ever. So never wait for it:
        // a second mapping costs a little address space, a wait could cost the process.
        let Ok(mut known) = REGISTRY.try_lock() else { return Ok(Arc::new(Self::map(guarded)?)) };
        if let Some(mapped) = known.get(&key).and_then(Weak::upgrade).filter(|m| m.guarded.stands_for(&guarded)) {
            return Ok(mapped);
        }
        // Now and then: with many files, looking at all of them at each would take longer than opening them.
        if known.len() >= CLEARED.load(Ordering::Relaxed) {
            known.retain(|_, mapped| mapped.strong_count() > 0);
            CLEARED.store((2 * known.len()).max(FEW), Ordering::Relaxed);
        }
        let mapped = Arc::new(Self::map(guarded)?);
        known.insert(key, Arc::downgrade(&mapped));
        Ok(mapped)
    }

    /// Maps a file that has no name; `folder` stands for it in messages.
    pub(crate) fn unnamed(file: File, folder: &Path) -> Result<Arc<Self>> {
        Self::map(Guarded::unnamed(file, folder)?).map(Arc::new)
    }

    fn map(guarded: Guarded) -> Result<Self> {
        if guarded.size() == 0 {
            return Ok(Self { guarded, map: None });
        }
        // SAFETY: the mapping is read-only and lives as long as `self`. Another process may still write to or truncate
        // the file: the bytes are only ever read as plain `u8`, every length derived from them is checked, and
        // `check_unchanged` runs before each batch so that a truncated file is an error rather than a bus error. The
        // window between that check and the read remains and is documented (docs/design.md). `io="pread"` closes it for
        // the data, which is not mapped then; indexes are in any case.
        let map = guarded.with_file(|file| unsafe { Mmap::map(file) })?;
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
        let range = checked(&(offset..offset.saturating_add(out.len() as u64)), self.len())?;
        if !self.guarded.is_held() {
            // Opening it again for a few bytes would cost more than a page.
            out.copy_from_slice(&self.as_bytes()[range]);
            return Ok(());
        }
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
    use std::path::PathBuf;

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
