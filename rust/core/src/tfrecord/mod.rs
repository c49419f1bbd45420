//! A TFRecord file behind one handle: any record, or many at once, by its row.

mod compressed;
mod indexing;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

pub use compressed::decompress;
pub use indexing::{
    Ensured, ensure_index, index_entries_from_bytes, index_stream, index_text_from_bytes, read_index_file, survey_file,
    write_index_for_stream, write_index_for_tfrecord_file, write_index_watched,
};
pub use writer::{Compression, TfRecordWriter};

use crate::error::{Error, Place, Result};
use crate::index::idx::{self, Cover};
use crate::io::deflate::Kind;
use crate::io::mapped::Mapped;
use crate::io::open::{beside, refuse_nothing};
use crate::io::pread::Pread;
use crate::io::room::reserve;
use crate::io::seldom::Seldom;
use crate::io::source::checked;
use crate::io::zidx::Zidx;
use crate::io::{Access, Origin, Scratch, Source, Store, threads};
use crate::scan::tfrecord::{AROUND, Entry, Verify, frame, walk};
use crate::watch::{Unwatched, Watch};

/// Batches of fewer bytes are read on the calling thread: handing over would cost more.
const FEW_BYTES: u64 = 1 << 16;

/// Records that one thread takes at a time.
const TAKEN: usize = 64;

/// Records whose bytes are asked for before the first of them is looked at.
const AHEAD: usize = 8;

/// Bytes asked for ahead; the processor itself goes on fetching what is read in order.
const PREFETCHED: u64 = 512;

/// Bytes of a page: one byte of each is read so that a page which is not in memory is waited for here.
const PAGE: usize = 4096;

/// Where the rows of a handle come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Rows {
    /// From the `.idx` beside the file if there is one, else from a walk over the file. Those of a compressed file come
    /// from the `.zidx` beside it, which is made if there is none that fits.
    #[default]
    Beside,
    /// From this index, in its order, whatever it leaves out or repeats.
    Index(PathBuf),
    /// From a walk over the file, which gives all records in file order. What a compressed file needs besides is kept
    /// in memory.
    Walk,
}

/// How to open a TFRecord file.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Where the rows come from.
    pub rows: Rows,
    /// Which checksums are compared: those of lengths at open and at every read, those of payloads at every read.
    pub verify: Verify,
    /// How bytes are read.
    pub access: Access,
    /// Whether a `.zidx` that is missing or does not fit is an error, rather than made.
    pub keep: bool,
}

/// Where each row lies.
enum Table {
    /// Rows that follow each other: where each starts, and where the last one ends.
    Starts(Vec<u64>),
    /// Rows in any order.
    Listed(Vec<Entry>),
    /// The rows of a compressed file, as its index has them.
    Compressed(Arc<Zidx>),
}

impl Table {
    fn of(entries: Vec<Entry>, cover: Cover) -> Self {
        if cover == Cover::Own {
            return Self::Listed(entries);
        }
        let ends = entries.iter().map(|entry| entry.offset + entry.size);
        Self::Starts(std::iter::once(0).chain(ends).collect())
    }

    fn len(&self) -> usize {
        match self {
            Self::Starts(starts) => starts.len() - 1,
            Self::Listed(entries) => entries.len(),
            Self::Compressed(index) => index.records() as usize,
        }
    }

    #[inline]
    fn get(&self, row: u64) -> Result<Entry> {
        match self {
            Self::Starts(starts) => {
                let next = row as usize + usize::from(row < u64::MAX);
                starts.get(row as usize).zip(starts.get(next)).map(|(&start, &end)| Entry::between(start, end))
            }
            Self::Listed(entries) => entries.get(row as usize).copied(),
            Self::Compressed(index) => {
                let range = index.record(row)?;
                let entry = Entry::between(range.start, range.end);
                if entry.size < AROUND {
                    return Err(idx::disagrees(row, entry, "no record is that small"));
                }
                Some(entry)
            }
        }
        .ok_or(Error::RowOutOfRange { row: row.cast_signed(), rows: self.len() as u64 })
    }
}

/// A row, where it lies, and where its record goes.
type Job<'a> = (u64, Entry, &'a mut [u8]);

/// An open TFRecord file. Reads take `&self`, from any number of threads.
pub struct TfRecordFile {
    path: PathBuf,
    index_path: Option<PathBuf>,
    source: Arc<dyn Source>,
    mapped: Option<Arc<Mapped>>,
    table: Table,
    compression: Option<Kind>,
    origin: Option<Origin>,
    verify: Verify,
    /// For single reads.
    seldom: Seldom,
}

impl TfRecordFile {
    /// Opens a file. Nothing is written: without an index, its headers are walked once.
    ///
    /// ```
    /// use seekset_core::TfRecordFile;
    /// use seekset_core::scan::tfrecord::frame;
    /// use seekset_core::tfrecord::OpenOptions;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("two.tfrecord");
    /// let record = |text: &[u8]| [&frame::header(text.len() as u64)[..], text, &frame::checksum(text).to_le_bytes()].concat();
    /// std::fs::write(&path, [record(b"one"), record(b"three")].concat())?;
    /// let file = TfRecordFile::open(&path, &OpenOptions::default())?;
    /// assert_eq!(file.len(), 2);
    /// assert_eq!(file.payload(1)?, b"three");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self> {
        Self::open_watched(path, options, &Unwatched)
    }

    /// [`TfRecordFile::open`], watched while the file is walked.
    pub fn open_watched(path: &Path, options: &OpenOptions, watch: &dyn Watch) -> Result<Self> {
        let (raw, mapped): (Arc<dyn Source>, _) = match options.access {
            Access::Mmap => {
                let mapped = Mapped::open(path)?;
                (Arc::clone(&mapped) as _, Some(mapped))
            }
            Access::Pread => (Arc::new(Pread::open(path)?), None),
        };
        refuse_nothing(path, raw.len()).map_err(|e| e.in_file(path))?;
        let compression = compressed::kind(&*raw, options.verify).map_err(|e| e.in_file(path))?;
        let compressed = compression.map(|kind| compressed::open(path, &raw, kind, options, watch)).transpose()?;
        let source = compressed.as_ref().map_or(raw, |compressed| Arc::clone(&compressed.source));
        let found = match &options.rows {
            Rows::Index(index) => Some((index.clone(), read_index_file(index)?)),
            Rows::Beside if compressed.is_none() => index_beside(path)?,
            Rows::Walk | Rows::Beside => None,
        };
        let (table, index_path) = match (found, &compressed) {
            (None, Some(compressed)) => {
                (Table::Compressed(Arc::clone(&compressed.index)), compressed.index_path.clone())
            }
            (None, None) => (walked(&*source, options.verify, watch).map_err(|e| e.in_file(path))?, None),
            (Some((index, entries)), _) => {
                let cover = indexing::fitting(&entries, &*source).map_err(|e| e.in_file(path))?;
                if let (Cover::UpTo(end), Rows::Beside) = (cover, &options.rows) {
                    let message = indexing::ends_early(end, source.len());
                    return Err(Error::stale(format!("{message}; make {} again", index.display())).in_file(path));
                }
                (Table::of(entries, cover), Some(index))
            }
        };
        // Where the payloads of a compressed file lie in memory, nobody can point to.
        let mapped = mapped.filter(|_| compression.is_none());
        let origin = compressed.and_then(|compressed| compressed.origin);
        let (path, verify, seldom) = (path.to_owned(), options.verify, Seldom::new());
        Ok(Self { path, index_path, source, mapped, table, compression, origin, verify, seldom })
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.table.len() as u64
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The index that the rows come from, if they come from one.
    #[must_use]
    pub fn index_path(&self) -> Option<&Path> {
        self.index_path.as_deref()
    }

    /// What the file is compressed with, if it is.
    #[must_use]
    pub fn compression(&self) -> Option<Kind> {
        self.compression
    }

    /// Where the `.zidx` of a compressed file came from; `None` for other files, and if none was looked for.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Where a row lies, in the uncompressed data. A `.zidx` is mapped, so that it is looked at first.
    pub fn entry(&self, row: u64) -> Result<Entry> {
        if matches!(self.table, Table::Compressed(_)) {
            self.check_now_and_then()?;
        }
        self.table.get(row).map_err(|e| e.in_file(&self.path))
    }

    /// A row's place, for errors about what its payload holds.
    #[must_use]
    pub fn place(&self, row: u64) -> Place {
        let unknown = |_| Place { record: Some(row), ..Place::default() };
        self.entry(row).map_or_else(unknown, |e| frame::place(row, e.offset))
    }

    /// An error if the file is not what it was at open.
    pub fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()
    }

    /// The same for single reads: at most one look a millisecond.
    fn check_now_and_then(&self) -> Result<()> {
        self.seldom.look(|| self.check_unchanged())
    }

    /// The payload of a row.
    pub fn payload(&self, row: u64) -> Result<Vec<u8>> {
        self.with_payload(row, <[u8]>::to_vec)
    }

    /// What `work` makes of a row's payload.
    pub fn with_payload<T>(&self, row: u64, work: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.check_now_and_then()?;
        let entry = self.entry(row)?;
        let mut scratch = Scratch::default();
        let frame = self.source.bytes(entry.offset..entry.offset + entry.size, &mut scratch);
        frame.and_then(|frame| self.checked(frame, row, entry)).map(work).map_err(|e| e.in_file(&self.path))
    }

    /// The payload of a row where it lies in the mapping, or else a copy of it.
    pub fn view(&self, row: u64) -> Result<(Store, std::ops::Range<usize>)> {
        let Some(mapped) = &self.mapped else {
            return self.with_payload(row, |payload| (Store::memory(payload), 0..payload.len()));
        };
        let start = self.entry(row)?.offset + frame::HEADER;
        let length = self.with_payload(row, <[u8]>::len)?;
        Ok((Store::File(Arc::clone(mapped)), start as usize..start as usize + length))
    }

    /// What `work` makes of the payloads of many rows, which are there in the order asked.
    ///
    /// All are checked, and waited for where they are not in memory, before `work` is called; that is done in several
    /// threads. From a memory map nothing is copied.
    ///
    /// ```
    /// # use seekset_core::TfRecordFile;
    /// # use seekset_core::scan::tfrecord::frame;
    /// # use seekset_core::tfrecord::OpenOptions;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("two.tfrecord");
    /// # let record = |text: &[u8]| [&frame::header(text.len() as u64)[..], text, &frame::checksum(text).to_le_bytes()].concat();
    /// # std::fs::write(&path, [record(b"one"), record(b"three")].concat())?;
    /// # let file = TfRecordFile::open(&path, &OpenOptions::default())?;
    /// let joined = file.with_payloads(&[1, 0, 1], |payloads| Ok(payloads.concat()))?;
    /// assert_eq!(joined, b"threeonethree");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_payloads<T>(&self, rows: &[u64], work: impl FnOnce(&[&[u8]]) -> Result<T>) -> Result<T> {
        self.check_unchanged()?;
        let entries: Vec<Entry> = rows.iter().map(|&row| self.entry(row)).collect::<Result<_>>()?;
        if let Some(bytes) = self.source.in_memory() {
            let payloads = self.look_at(bytes, rows, &entries).map_err(|e| e.in_file(&self.path))?;
            return work(&payloads);
        }
        let copies = self.copy(rows, &entries).map_err(|e| e.in_file(&self.path))?;
        let mut rest = &copies[..];
        let payloads = entries.iter().map(|entry| {
            let (frame, after) = rest.split_at(entry.size as usize);
            rest = after;
            frame::payload(frame)
        });
        work(&payloads.collect::<Vec<&[u8]>>())
    }

    /// The payloads of these rows where they lie, checked.
    fn look_at<'a>(&self, bytes: &'a [u8], rows: &[u64], entries: &[Entry]) -> Result<Vec<&'a [u8]>> {
        let look = |(rows, entries): (&[u64], &[Entry])| -> Result<Vec<&'a [u8]>> {
            let ask = |entry: &Entry| self.source.prefetch(entry.offset, entry.size.min(PREFETCHED));
            entries.iter().take(AHEAD).for_each(ask);
            let mut payloads = Vec::with_capacity(rows.len());
            for (k, (&row, &entry)) in rows.iter().zip(entries).enumerate() {
                entries.get(k + AHEAD).into_iter().for_each(ask);
                let frame = &bytes[checked(&(entry.offset..entry.offset + entry.size), bytes.len() as u64)?];
                frame.iter().step_by(PAGE).for_each(|byte| _ = std::hint::black_box(*byte));
                payloads.push(self.checked(frame, row, entry)?);
            }
            Ok(payloads)
        };
        if few(entries) {
            return look((rows, entries));
        }
        let parts = rows.par_chunks(TAKEN).zip(entries.par_chunks(TAKEN));
        let parts: Vec<Result<Vec<&[u8]>>> = threads::in_pool(|| parts.map(look).collect())?;
        let mut payloads = Vec::with_capacity(rows.len());
        parts.into_iter().try_for_each(|part| part.map(|part| payloads.extend(part)))?;
        Ok(payloads)
    }

    /// The records of these rows one after another, checked. They are read in the order of the file.
    fn copy(&self, rows: &[u64], entries: &[Entry]) -> Result<Vec<u8>> {
        let needed = entries.iter().fold(0_usize, |sum, entry| sum.saturating_add(entry.size as usize));
        let mut bytes = Vec::new();
        reserve(&mut bytes, needed)?;
        bytes.resize(needed, 0);
        let mut rest = &mut bytes[..];
        let mut jobs: Vec<Job> = Vec::with_capacity(rows.len());
        for (&row, &entry) in rows.iter().zip(entries) {
            let (slot, after) = std::mem::take(&mut rest).split_at_mut(entry.size as usize);
            jobs.push((row, entry, slot));
            rest = after;
        }
        jobs.sort_by_key(|(_, entry, _)| entry.offset);
        let read = |scratch: &mut Scratch, (row, entry, slot): &mut Job| -> Result<()> {
            let frame = self.source.bytes(entry.offset..entry.offset + entry.size, scratch)?;
            self.checked(frame, *row, *entry)?;
            slot.copy_from_slice(frame);
            Ok(())
        };
        let read_all = |jobs: &mut [Job]| {
            let mut scratch = Scratch::default();
            jobs.iter_mut().try_for_each(|job| read(&mut scratch, job))
        };
        let failed = if self.compression.is_some() && rows.len() > 1 {
            // What is inflated in one go is read by one thread.
            let together = |a: &Job, b: &Job| {
                let end = |job: &Job| self.source.chunk_end(job.1.offset, 0);
                end(a) == end(b)
            };
            let parts = jobs.par_chunk_by_mut(together).map(read_all);
            threads::in_pool(|| parts.find_map_first(Result::err))?
        } else if few(entries) {
            read_all(&mut jobs).err()
        } else {
            let all = jobs.par_iter_mut().with_min_len(TAKEN);
            threads::in_pool(|| all.map_init(Scratch::default, read).find_map_first(Result::err))?
        };
        failed.map_or(Ok(bytes), Err)
    }

    /// The payload of a record whose bytes these are, compared with the index and, as far as asked, its checksums.
    #[inline]
    fn checked<'a>(&self, record: &'a [u8], row: u64, entry: Entry) -> Result<&'a [u8]> {
        let header = record.first_chunk().filter(|header| frame::stated_length(header) == entry.size - AROUND);
        let Some(header) = header else {
            return Err(idx::disagrees(row, entry, "the data has no record of that size there"));
        };
        if self.verify != Verify::None && !frame::fits(header) {
            return Err(frame::wrong_length(header, row, entry.offset));
        }
        if self.verify == Verify::Full {
            return frame::checked_payload(record, row, entry.offset);
        }
        Ok(frame::payload(record))
    }
}

/// Whether records are read in less time than threads are woken.
fn few(entries: &[Entry]) -> bool {
    entries.iter().map(|entry| entry.size).sum::<u64>() < FEW_BYTES
}

/// The index beside a file, if there is one.
fn index_beside(path: &Path) -> Result<Option<(PathBuf, Vec<Entry>)>> {
    let index = beside(path, ".idx");
    match read_index_file(&index) {
        Ok(entries) => Ok(Some((index, entries))),
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// All records in file order. Payloads are left for when they are read.
fn walked(source: &dyn Source, verify: Verify, watch: &dyn Watch) -> Result<Table> {
    let verify = if verify == Verify::Full { Verify::Lengths } else { verify };
    let mut starts = vec![0];
    walk(source, verify, watch, &mut |block| {
        starts.extend(block.iter().map(|entry| entry.offset + entry.size));
        Ok(())
    })?;
    starts.shrink_to_fit();
    Ok(Table::Starts(starts))
}
