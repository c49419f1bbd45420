//! Indexes of TFRecord files, from paths, bytes and streams.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::compressed;
use crate::error::{Error, Result};
use crate::index::idx::{self, Cover};
use crate::io::Source;
use crate::io::mapped::Mapped;
use crate::io::open::refuse_nothing;
use crate::io::whole::{WholeFile, refuse_to_replace};
use crate::scan::tfrecord::{Entry, TfRecordIndexer, Verify, survey, walk};
use crate::watch::{Unwatched, Watch};

/// Blocks of records that may wait to be written.
const WAITING: usize = 16;

/// Where the records of a TFRecord file lie, whose bytes these are.
///
/// ```
/// use seekset_core::scan::tfrecord::frame;
/// use seekset_core::{Entry, Verify, index_entries_from_bytes};
/// let record = [&frame::header(2)[..], b"hi", &frame::checksum(b"hi").to_le_bytes()].concat();
/// let entries = index_entries_from_bytes(&record.repeat(2), Verify::Full)?;
/// assert_eq!(entries, [Entry { offset: 0, size: 18 }, Entry { offset: 18, size: 18 }]);
///
/// let error = index_entries_from_bytes(&[0; 64], Verify::Lengths).unwrap_err();
/// assert!(error.to_string().starts_with("<bytes>: record 0, byte 0: the length's checksum does not fit"));
/// # Ok::<(), seekset_core::Error>(())
/// ```
pub fn index_entries_from_bytes(bytes: &[u8], verify: Verify) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    walk(&bytes, verify, &Unwatched, &mut |block| {
        entries.extend_from_slice(block);
        Ok(())
    })?;
    Ok(entries)
}

/// The index of a TFRecord file, whose bytes these are, as DALI reads it.
///
/// ```
/// use seekset_core::scan::tfrecord::frame;
/// use seekset_core::{Verify, index_text_from_bytes};
/// let record = [&frame::header(2)[..], b"hi", &frame::checksum(b"hi").to_le_bytes()].concat();
/// assert_eq!(index_text_from_bytes(&record.repeat(2), Verify::Lengths)?, "0 18\n18 18\n");
/// # Ok::<(), seekset_core::Error>(())
/// ```
pub fn index_text_from_bytes(bytes: &[u8], verify: Verify) -> Result<String> {
    let mut text = Vec::new();
    walk(&bytes, verify, &Unwatched, &mut |block| {
        idx::push_lines(&mut text, block);
        Ok(())
    })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Writes the index of a TFRecord file to `index` and returns how many records there are.
///
/// The index is what DALI's `tfrecord2idx` writes. It appears whole or not at all: what was there before stays if
/// anything is wrong.
///
/// ```
/// use seekset_core::scan::tfrecord::frame;
/// use seekset_core::{Verify, write_index_for_tfrecord_file};
/// # let dir = tempfile::tempdir()?;
/// # let (path, index) = (dir.path().join("two.tfrecord"), dir.path().join("two.tfrecord.idx"));
/// let record = [&frame::header(2)[..], b"hi", &frame::checksum(b"hi").to_le_bytes()].concat();
/// std::fs::write(&path, record.repeat(2))?;
/// assert_eq!(write_index_for_tfrecord_file(&path, &index, Verify::Lengths)?, 2);
/// assert_eq!(std::fs::read_to_string(&index)?, "0 18\n18 18\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_index_for_tfrecord_file(path: &Path, index: &Path, verify: Verify) -> Result<u64> {
    write_index_watched(path, index, verify, &Unwatched)
}

/// [`write_index_for_tfrecord_file`], watched.
pub fn write_index_watched(path: &Path, index: &Path, verify: Verify, watch: &dyn Watch) -> Result<u64> {
    let source = Mapped::open(path)?;
    compressed::refuse(&*source, verify).map_err(|e| e.in_file(path))?;
    refuse_to_replace(index, Some(path), ".idx", is_index)?;
    let mut out = WholeFile::create(index)?;
    let records = write_lines(&*source, verify, watch, &mut out, index).map_err(|e| e.in_file(path))?;
    source.check_unchanged()?;
    out.publish()?;
    Ok(records)
}

/// Whether a file that starts like this may be an index.
pub(super) fn is_index(start: &[u8]) -> bool {
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    idx::read(line).is_ok()
}

/// Walks on this thread while another writes what was found.
fn write_lines(
    source: &dyn Source,
    verify: Verify,
    watch: &dyn Watch,
    out: &mut WholeFile,
    index: &Path,
) -> Result<u64> {
    std::thread::scope(|scope| {
        let (send, blocks) = sync_channel::<Vec<Entry>>(WAITING);
        let writer = scope.spawn(move || {
            let mut text = Vec::new();
            for block in blocks {
                text.clear();
                idx::push_lines(&mut text, &block);
                out.write_all(&text)?;
            }
            Ok(())
        });
        // A writer that has failed takes no more blocks; its own error is the one that counts.
        let walked =
            walk(source, verify, watch, &mut |block| send.send(block.to_vec()).map_err(|_| Error::Interrupted));
        drop(send);
        let written: std::io::Result<()> =
            writer.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that writes the index failed")));
        written.map_err(|e| Error::io(index, e))?;
        walked
    })
}

/// Writes the index of what a reader gives, and returns how many records there were. Errors call the reader `name`.
///
/// ```
/// use seekset_core::Verify;
/// use seekset_core::scan::tfrecord::frame;
/// use seekset_core::tfrecord::index_stream;
/// let record = [&frame::header(2)[..], b"hi", &frame::checksum(b"hi").to_le_bytes()].concat();
/// let mut text = Vec::new();
/// assert_eq!(index_stream(&record.repeat(2)[..], "<stdin>", Verify::Full, &mut text)?, 2);
/// assert_eq!(text, b"0 18\n18 18\n");
/// # Ok::<(), seekset_core::Error>(())
/// ```
pub fn index_stream(reader: impl Read, name: &str, verify: Verify, out: &mut impl Write) -> Result<u64> {
    let mut indexer = TfRecordIndexer::with_verify(reader, verify);
    let mut records = 0;
    let mut line = Vec::new();
    while let Some(entry) = indexer.next_entry().map_err(|e| e.in_file(Path::new(name)))? {
        line.clear();
        idx::push_line(&mut line, entry);
        out.write_all(&line)?;
        records += 1;
    }
    Ok(records)
}

/// Writes the index of what a reader gives to a file, which appears whole or not at all.
pub fn write_index_for_stream(reader: impl Read, name: &str, index: &Path, verify: Verify) -> Result<u64> {
    refuse_to_replace(index, None, ".idx", is_index)?;
    let mut out = WholeFile::create(index)?;
    let records = index_stream(reader, name, verify, &mut out).map_err(|e| e.in_file(index))?;
    out.publish()?;
    Ok(records)
}

/// Reads an index file; see [`idx::read`] for what is refused.
///
/// ```
/// use seekset_core::{Entry, read_index_file};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("x.idx");
/// std::fs::write(&path, "18 40\n0 18\n")?;
/// assert_eq!(read_index_file(&path)?, [Entry { offset: 18, size: 40 }, Entry { offset: 0, size: 18 }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_index_file(index: &Path) -> Result<Vec<Entry>> {
    let text = std::fs::read(index).map_err(|e| Error::io(index, e))?;
    idx::read(&text).map_err(|e| e.in_file(index))
}

/// What [`ensure_index`] met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    /// An index of all records, which fits.
    Found,
    /// An index that fits, of a selection or an order of somebody's own. It was left as it is.
    Own,
    /// The index was written.
    Built {
        /// Why the one that was there could not be used, if one was there.
        because: Option<String>,
    },
}

/// Writes the index of a TFRecord file unless there is one that fits.
///
/// An index holds nothing but places, so the places decide: it fits if its records follow each other from the start of
/// the file to its end, and sampled ones have the length that the data states. Times of modification play no part. An
/// index that lists sound records otherwise (some only, in another order, repeated) is somebody's own and stays, unless
/// it just ends early: then the file has grown.
///
/// ```
/// use seekset_core::Verify;
/// use seekset_core::scan::tfrecord::frame;
/// use seekset_core::tfrecord::{Ensured, ensure_index};
/// use seekset_core::watch::Unwatched;
/// # let dir = tempfile::tempdir()?;
/// # let (path, index) = (dir.path().join("x.tfrecord"), dir.path().join("x.tfrecord.idx"));
/// let record = [&frame::header(2)[..], b"hi", &frame::checksum(b"hi").to_le_bytes()].concat();
/// std::fs::write(&path, record.repeat(2))?;
/// let ensure = || ensure_index(&path, &index, Verify::Lengths, &Unwatched);
/// assert_eq!(ensure()?, Ensured::Built { because: None });
/// assert_eq!(ensure()?, Ensured::Found);
/// std::fs::write(&index, "18 18\n")?;
/// assert_eq!(ensure()?, Ensured::Own);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn ensure_index(path: &Path, index: &Path, verify: Verify, watch: &dyn Watch) -> Result<Ensured> {
    let source = Mapped::open(path)?;
    compressed::refuse(&*source, verify).map_err(|e| e.in_file(path))?;
    let because = match read_index_file(index) {
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(error) => Some(error.to_string()),
        Ok(entries) => match fitting(&entries, &*source) {
            Ok(Cover::Whole) => return Ok(Ensured::Found),
            Ok(Cover::Own) => return Ok(Ensured::Own),
            Ok(Cover::UpTo(end)) => Some(ends_early(end, source.len())),
            Err(error) => Some(error.in_file(path).to_string()),
        },
    };
    write_index_watched(path, index, verify, watch)?;
    Ok(Ensured::Built { because })
}

/// How entries lie over a source, or why they can't be of it.
pub(super) fn fitting(entries: &[Entry], source: &dyn Source) -> Result<Cover> {
    idx::check(entries, source)?;
    Ok(idx::cover(entries, source.len()))
}

/// In words, that an index leaves out the end of its file.
pub(super) fn ends_early(end: u64, len: u64) -> String {
    format!("its index ends at byte {end}, but the file has {len} bytes: it has grown since, or the index was cut")
}

/// Compares all checksums of a file and tells `report` of every fault; returns how many records were looked at.
pub fn survey_file(path: &Path, watch: &dyn Watch, report: &mut dyn FnMut(Error)) -> Result<u64> {
    let raw: Arc<dyn Source> = Mapped::open(path)?;
    let mut look = || -> Result<u64> {
        refuse_nothing(path, raw.len())?;
        let source: Arc<dyn Source> = match compressed::kind(&*raw, Verify::Full)? {
            Some(kind) => Arc::new(compressed::without_records(Arc::clone(&raw), kind, watch)?),
            None => Arc::clone(&raw),
        };
        survey(&*source, watch, &mut |fault| report(fault.in_file(path)))
    };
    look().map_err(|e| e.in_file(path))
}
