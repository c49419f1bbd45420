//! What a file looked like: enough to notice that it is another one now.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use xxhash_rust::xxh3::Xxh3;

use super::guarded::Guarded;
use crate::error::{Error, Result};
use crate::watch::{Beat, Watch};

const SAMPLES: u64 = 16;
const SAMPLE_BYTES: u64 = 4096;

/// Bytes read at a time for a digest of all.
const PIECE: u64 = 1 << 20;

/// Size, time of change and a hash of sampled blocks of a file's contents.
///
/// The sample (16 blocks of 4 KiB, first and last included; the whole of a small file) notices a swapped file whose
/// modification time was copied along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// Bytes in the file.
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub mtime_ns: i128,
    /// xxh3 of the sampled blocks.
    pub sample: u64,
}

impl Fingerprint {
    /// Takes the fingerprint of an open file.
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { size: metadata.len(), mtime_ns: mtime_ns(&metadata), sample: sample(file, metadata.len())? })
    }

    /// In words, what differs from `other`; nothing if they are equal.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.size != other.size {
            Some(format!("its size was {} bytes and is {} now", self.size, other.size))
        } else if self.mtime_ns != other.mtime_ns {
            Some(format!("its modification time was {} ns and is {} ns now", self.mtime_ns, other.mtime_ns))
        } else if self.sample != other.sample {
            Some("its size and modification time are the same but its contents differ".to_owned())
        } else {
            None
        }
    }
}

/// What a file looked like at first. It is looked at by name: one that was replaced is noticed, too.
///
/// Nothing here waits for another thread, which a fork could have left behind.
#[derive(Debug, Default)]
pub(crate) struct FirstLook {
    seen: ArcSwapOption<Fingerprint>,
}

impl FirstLook {
    /// What a file looks like now; of one that is not there yet, what it will look like when it is read.
    pub fn now(path: &Path) -> Self {
        let look = Self::default();
        let _ = look.check(path);
        look
    }

    /// An error if size or time of the file are not what they were.
    pub fn check(&self, path: &Path) -> Result<()> {
        let metadata = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
        let now = Fingerprint { size: metadata.len(), mtime_ns: mtime_ns(&metadata), sample: 0 };
        let Some(then) = self.seen.load_full() else {
            self.seen.store(Some(Arc::new(now)));
            return Ok(());
        };
        then.difference(&now).map_or(Ok(()), |difference| {
            let message = format!("it has changed since it was opened: {difference}; open it anew");
            Err(Error::Stale { path: Some(path.to_owned()), message })
        })
    }
}

/// A checksum over all bytes of a file (xxh3 of 128 bits), which takes a pass over it: whether two files are the same.
///
/// ```
/// use seekset_core::io::fingerprint::digest;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("x");
/// # std::fs::write(&path, b"ACGT")?;
/// let one = digest(&path, &seekset_core::watch::Unwatched)?;
/// # std::fs::write(&path, b"ACGA")?;
/// assert_ne!(digest(&path, &seekset_core::watch::Unwatched)?, one);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn digest(path: &Path, watch: &dyn Watch) -> Result<u128> {
    let guarded = Guarded::open(path)?;
    let (mut beat, mut hash) = (Beat::new(watch, guarded.size()), Xxh3::new());
    let mut piece = vec![0_u8; PIECE.min(guarded.size()) as usize];
    for at in (0..guarded.size()).step_by(PIECE as usize) {
        let len = (guarded.size() - at).min(PIECE);
        let piece = &mut piece[..len as usize];
        guarded.read_at(at, piece)?;
        hash.update(piece);
        beat.tell(at + len)?;
    }
    guarded.check_unchanged()?;
    Ok(hash.digest128())
}

/// Modification time in nanoseconds since 1970.
pub(crate) fn mtime_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

fn sample(file: &File, size: u64) -> io::Result<u64> {
    let mut hash = Xxh3::new();
    let mut block = [0_u8; SAMPLE_BYTES as usize];
    if size <= SAMPLES * SAMPLE_BYTES {
        for at in (0..size).step_by(SAMPLE_BYTES as usize) {
            hash_block(file, at, &mut block[..(size - at).min(SAMPLE_BYTES) as usize], &mut hash)?;
        }
    } else {
        let last = size - SAMPLE_BYTES;
        for k in 0..SAMPLES {
            let at = (u128::from(last) * u128::from(k) / u128::from(SAMPLES - 1)) as u64;
            hash_block(file, at, &mut block, &mut hash)?;
        }
    }
    Ok(hash.digest())
}

fn hash_block(file: &File, at: u64, block: &mut [u8], hash: &mut Xxh3) -> io::Result<()> {
    file.read_exact_at(block, at)?;
    hash.update(block);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(bytes: &[u8]) -> Fingerprint {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        // Times differ from file to file; here, only contents are to count.
        Fingerprint { mtime_ns: 0, ..Fingerprint::of(&file).unwrap() }
    }

    #[test]
    fn differences_are_told_in_the_order_of_what_they_mean() {
        let old = Fingerprint { size: 1, mtime_ns: 2, sample: 3 };
        for (new, word) in [
            (Fingerprint { size: 9, mtime_ns: 9, sample: 9 }, "size was 1"),
            (Fingerprint { mtime_ns: 9, sample: 9, ..old }, "modification time was 2"),
            (Fingerprint { sample: 9, ..old }, "contents differ"),
        ] {
            assert!(old.difference(&new).unwrap().contains(word));
        }
        assert_eq!(old.difference(&old), None);
    }

    #[test]
    fn every_byte_of_a_small_file_counts() {
        let bytes = vec![b'A'; (SAMPLES * SAMPLE_BYTES) as usize];
        for at in [0, 1, 4095, 4096, 30_000, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] = b'C';
            assert!(fingerprint(&bytes).difference(&fingerprint(&changed)).is_some(), "byte {at}");
        }
        assert_eq!(fingerprint(b""), fingerprint(b""));
    }

    #[test]
    fn both_ends_of_a_large_file_count() {
        let bytes = vec![b'A'; 3 << 20];
        for at in [0, 4095, bytes.len() - 4096, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] = b'C';
            assert!(fingerprint(&bytes).difference(&fingerprint(&changed)).is_some(), "byte {at}");
        }
        assert_eq!(fingerprint(&bytes), fingerprint(&bytes));
    }
}
