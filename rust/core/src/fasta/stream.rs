//! A FASTA file that is read without an index, a stretch at a time.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::gather::letters::first_letters;
use crate::io::open::{Opened, Table, open_watched};
use crate::io::{Access, Fingerprint, Scratch, Source};
use crate::scan::fasta::stretch::{self, Started};
use crate::scan::fasta::with_lines;
use crate::watch::Watch;

/// One record of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRecord {
    /// The first word of its header.
    pub id: String,
    /// Its letters, as many as were asked for.
    pub letters: Vec<u8>,
}

/// A FASTA file without an index: the records that start in any stretch of it.
///
/// ```
/// use seekset_core::fasta::FastaStream;
/// use seekset_core::io::Access;
/// use seekset_core::watch::Unwatched;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("two.fa");
/// std::fs::write(&path, b">first a protein\nMKV\nLA\n>second\nMK\n")?;
/// let file = FastaStream::open(&path, Access::Mmap, None, &Unwatched)?;
/// let (early, late) = (file.records(0..9, None)?, file.records(9..file.len(), None)?);
/// assert_eq!((&*early[0].id, &*early[0].letters), ("first", &b"MKVLA"[..]));
/// assert_eq!((&*late[0].id, &*late[0].letters), ("second", &b"MK"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FastaStream {
    path: PathBuf,
    source: Arc<dyn Source>,
    fingerprint: Fingerprint,
    remark: Option<String>,
}

impl FastaStream {
    /// Opens a plain or BGZF-compressed file, which must be as it was `seen` before, if it was.
    pub fn open(path: &Path, access: Access, seen: Option<&Fingerprint>, watch: &dyn Watch) -> Result<Self> {
        let Opened { source, fingerprint, remark } = open_watched(path, access, Table::Sampled, watch)?;
        match seen.and_then(|seen| seen.difference(&fingerprint)) {
            Some(what) => {
                Err(Error::stale(format!("the file has changed since its reader was made: {what}")).in_file(path))
            }
            None => Ok(Self { path: path.to_owned(), source, fingerprint, remark }),
        }
    }

    /// How many bytes of text there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.source.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.source.is_empty()
    }

    /// What the file looked like when it was opened.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// What is odd about the file and no reason not to read it.
    #[must_use]
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// The records whose `>` stands in `stretch`, in order, each with its first `most` letters or all of them.
    ///
    /// Nothing is read of a record after its `most` letters but what lies in the stretch.
    pub fn records(&self, stretch: Range<u64>, most: Option<u64>) -> Result<Vec<StreamRecord>> {
        let source = &*self.source;
        source.check_unchanged()?;
        let read = self.read(stretch, most.unwrap_or(u64::MAX));
        // First whether it is the same file at all: what was read of another one is no news.
        source.check_unchanged()?;
        read.map_err(|error| with_lines(error, source).in_file(&self.path))
    }

    fn read(&self, stretch: Range<u64>, most: u64) -> Result<Vec<StreamRecord>> {
        let source = &*self.source;
        let (mut held, mut scratch) = (Scratch::default(), Scratch::default());
        let span = stretch::span(&stretch);
        let bytes = source.bytes(span.clone(), &mut held)?;
        let letters = |Started { id, record }| {
            let count = record.lines.bases.min(most);
            // What lies in the stretch was read already, and inflated if need be.
            let letters = if record.end <= span.end {
                let inside = record.sequence_offset - span.start..record.end - span.start;
                first_letters(&bytes, inside, count, &mut scratch)
            } else {
                first_letters(source, record.sequence_offset..record.end, count, &mut scratch)
            };
            letters.map(|letters| StreamRecord { id, letters })
        };
        stretch::records(source, bytes, stretch, most)?.into_iter().map(letters).collect()
    }
}
