//! TFRecord files that are compressed as a whole: told by how they start, read at random through their `.zidx`.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{OpenOptions, Rows};
use crate::error::{Error, Result};
use crate::index::idx;
use crate::io::deflate::{Deflate, Inflating, Kind, detect};
use crate::io::guarded::Guarded;
use crate::io::mapped::Mapped;
use crate::io::open::beside;
use crate::io::whole::WholeFile;
use crate::io::zidx::{Builder, SPACING, Starts, Zidx};
use crate::io::{Fingerprint, Origin, Scratch, Source, Spills, Store};
use crate::scan::tfrecord::{HEADER, TfRecordIndexer, Verify, frame};
use crate::watch::{Unwatched, Watch};

/// What a file is compressed with, if it is.
pub(super) fn kind(raw: &dyn Source, verify: Verify) -> Result<Option<Kind>> {
    let mut scratch = Scratch::default();
    let start = raw.bytes(0..raw.len().min(HEADER), &mut scratch)?;
    // A record of 40 056 bytes starts like a zlib file.
    if start.first_chunk().is_some_and(frame::fits) {
        return Ok(None);
    }
    // Where checksums don't count, only inflating tells.
    Ok(detect(start).filter(|&kind| verify != Verify::None || inflates(raw, kind)))
}

fn inflates(raw: &dyn Source, kind: Kind) -> bool {
    Inflating::new(raw, kind, &Unwatched).is_ok_and(|mut reader| reader.read(&mut [0]).is_ok())
}

/// An error if a file is compressed: no index can lead DALI to its records.
pub(super) fn refuse(raw: &dyn Source, verify: Verify) -> Result<()> {
    kind(raw, verify)?.map_or(Ok(()), |kind| Err(frame::compressed(kind)))
}

/// A compressed file, with its index.
pub(super) struct Compressed {
    pub source: Arc<dyn Source>,
    pub index: Arc<Zidx>,
    /// Where the index is, if it is in a file.
    pub index_path: Option<PathBuf>,
    /// Where the index came from; `None` if it was to be in memory.
    pub origin: Option<Origin>,
}

/// What an index of a file is made from.
struct Made<'a> {
    path: &'a Path,
    raw: &'a dyn Source,
    kind: Kind,
    fingerprint: Fingerprint,
    verify: Verify,
}

/// Opens the compressed bytes `raw` of the file at `path`. Its `.zidx` is used if it fits, and built if not.
pub(super) fn open(
    path: &Path,
    raw: &Arc<dyn Source>,
    kind: Kind,
    options: &OpenOptions,
    watch: &dyn Watch,
) -> Result<Compressed> {
    let fingerprint = Guarded::open(path)?.with_file(Fingerprint::of)?;
    // The file that was opened before has not been replaced since, so the fingerprint is its own.
    raw.check_unchanged()?;
    let made = Made { path, raw: &**raw, kind, fingerprint, verify: options.verify };
    let index_path = beside(path, ".zidx");
    let (index, origin) = if options.rows == Rows::Walk {
        (made.in_memory(watch)?, None)
    } else {
        match made.find(&index_path) {
            Ok(index) => (index, Some(Origin::Found)),
            Err(because) if options.keep => {
                let because = because.unwrap_or_else(|| "there is none".to_owned());
                let message = format!("its index {} can't be used: {because}", index_path.display());
                return Err(Error::stale(message).in_file(path));
            }
            Err(because) => made.build(&index_path, because, watch).map(|(index, origin)| (index, Some(origin)))?,
        }
    };
    let index = Arc::new(index);
    let in_file = matches!(origin, Some(Origin::Found | Origin::Built { .. }));
    let source = Arc::new(Deflate::new(Arc::clone(raw), Arc::clone(&index)));
    Ok(Compressed { source, index, index_path: in_file.then_some(index_path), origin })
}

impl Made<'_> {
    /// The index in a file, or why there is none to use; `None` if there is no file.
    fn find(&self, index: &Path) -> Result<Zidx, Option<String>> {
        let mapped = match Mapped::open(index) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Err(None),
            other => other.map_err(|e| Some(e.to_string()))?,
        };
        let found = Zidx::open(Store::File(mapped)).map_err(|e| Some(e.in_file(index).to_string()))?;
        if let Some(difference) = found.fingerprint().difference(&self.fingerprint) {
            return Err(Some(format!("the file has changed since it was indexed: {difference}")));
        }
        if found.kind() == self.kind { Ok(found) } else { Err(Some("it is of another compression".to_owned())) }
    }

    fn build(&self, index: &Path, because: Option<String>, watch: &dyn Watch) -> Result<(Zidx, Origin)> {
        let mut file = match WholeFile::create(index) {
            Ok(file) => file,
            Err(error) => return Ok((self.in_memory(watch)?, Origin::Memory { because: error.to_string() })),
        };
        self.write(&Spills::beside(index), &mut file, index, watch)?;
        if let Some((mapped, error)) = file.publish_or_map()? {
            return Ok((Zidx::open(Store::File(mapped))?, Origin::Memory { because: error.to_string() }));
        }
        let found = self.find(index).map_err(|why| {
            let why = why.unwrap_or_else(|| "it is gone".to_owned());
            let message = format!("the index just written to {} can't be used: {why}", index.display());
            Error::stale(message).in_file(self.path)
        })?;
        Ok((found, Origin::Built { because }))
    }

    fn in_memory(&self, watch: &dyn Watch) -> Result<Zidx> {
        let mut bytes = Vec::new();
        self.write(&Spills::elsewhere(), &mut bytes, self.path, watch)?;
        Zidx::open(Store::memory(&bytes))
    }

    /// One pass over the file: points and records at once.
    fn write(&self, spills: &Spills, out: &mut impl Write, index: &Path, watch: &dyn Watch) -> Result<()> {
        let mut builder = Builder::new(spills, SPACING);
        let mut starts = Starts::new(spills);
        // Payloads are covered by the checksums of the compression, and compared again when they are read.
        let verify = if self.verify == Verify::Full { Verify::Lengths } else { self.verify };
        let mut pass = || -> Result<()> {
            let mut reader = Inflating::new(self.raw, self.kind, watch)?.into_index(&mut builder);
            let mut indexer = TfRecordIndexer::with_verify(&mut reader, verify);
            while let Some(entry) = indexer.next_entry()? {
                starts.push(entry.offset)?;
            }
            reader.finish()?;
            self.raw.check_unchanged()
        };
        pass().map_err(|e| e.in_file(self.path))?;
        builder.finish(self.kind, &self.fingerprint, starts, out, watch).map_err(|e| e.in_file(index))
    }
}

/// A source over the compressed bytes `raw` in which records may be of any kind, for those who look for faults.
pub(super) fn without_records(raw: Arc<dyn Source>, kind: Kind, watch: &dyn Watch) -> Result<Deflate> {
    let spills = Spills::elsewhere();
    let mut builder = Builder::new(&spills, SPACING);
    Inflating::new(&*raw, kind, watch)?.into_index(&mut builder).finish()?;
    let mut bytes = Vec::new();
    let facts = Fingerprint { size: raw.len(), mtime_ns: 0, sample: 0 };
    builder.finish(kind, &facts, Starts::new(&spills), &mut bytes, watch)?;
    Ok(Deflate::new(raw, Arc::new(Zidx::open(Store::memory(&bytes))?)))
}

/// Decompresses a gzip or zlib TFRecord file to `out`, writes its index to `index` if that is given, and returns how
/// many records there are.
///
/// It is one pass in bounded memory, on which the checksums of the compression and those that `verify` says are
/// compared. The files appear whole or not at all; what is there already is not replaced unless `replace` says so.
///
/// ```
/// use seekset_core::Verify;
/// use seekset_core::scan::tfrecord::frame;
/// use seekset_core::tfrecord::decompress;
/// use seekset_core::watch::Unwatched;
/// # use std::io::Write;
/// # let dir = tempfile::tempdir()?;
/// # let (packed, plain) = (dir.path().join("two.tfrecord.gz"), dir.path().join("two.tfrecord"));
/// let record = [&frame::header(2)[..], b"hi", &frame::checksum(b"hi").to_le_bytes()].concat();
/// # let mut packer = flate2::write::GzEncoder::new(std::fs::File::create(&packed)?, flate2::Compression::default());
/// # packer.write_all(&record.repeat(2))?;
/// # packer.finish()?;
/// assert_eq!(decompress(&packed, &plain, None, Verify::Lengths, false, &Unwatched)?, 2);
/// assert_eq!(std::fs::read(plain)?, record.repeat(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn decompress(
    path: &Path,
    out: &Path,
    index: Option<&Path>,
    verify: Verify,
    replace: bool,
    watch: &dyn Watch,
) -> Result<u64> {
    let raw = Mapped::open(path)?;
    let Some(kind) = kind(&*raw, verify).map_err(|e| e.in_file(path))? else {
        let message = "expected a file that is compressed with gzip or zlib, found one that is not";
        return Err(Error::format(0, message).in_file(path));
    };
    for file in std::iter::once(out).chain(index) {
        refuse_existing(file, path, replace)?;
    }
    let mut plain = WholeFile::create(out)?;
    let mut lines = index.map(WholeFile::create).transpose()?;
    let mut pass = || -> Result<u64> {
        let reader = Tee { reader: Inflating::new(&*raw, kind, watch)?, out: &mut plain, path: out };
        let mut indexer = TfRecordIndexer::with_verify(reader, verify);
        let (mut records, mut line) = (0, Vec::new());
        while let Some(entry) = indexer.next_entry()? {
            records += 1;
            if let (Some(lines), Some(index)) = (&mut lines, index) {
                line.clear();
                idx::push_line(&mut line, entry);
                lines.write_all(&line).map_err(|e| Error::io(index, e))?;
            }
        }
        raw.check_unchanged()?;
        Ok(records)
    };
    let records = pass().map_err(|e| e.in_file(path))?;
    // Who has the plain file deletes the other one, perhaps.
    plain.sync()?;
    plain.publish()?;
    lines.map(WholeFile::publish).transpose()?;
    Ok(records)
}

/// An error if there is a file already, unless it may be replaced. The compressed file itself may not.
fn refuse_existing(out: &Path, data: &Path, replace: bool) -> Result<()> {
    let exists = || Error::io(out, io::Error::from_raw_os_error(17)); // EEXIST
    match (std::fs::canonicalize(out), std::fs::canonicalize(data)) {
        (Ok(out), Ok(data)) if out == data => Err(exists()),
        (Ok(_), _) if !replace => Err(exists()),
        _ => Ok(()),
    }
}

/// Writes down what is read through it.
struct Tee<'a, R> {
    reader: R,
    out: &'a mut WholeFile,
    path: &'a Path,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(bytes)?;
        self.out.write_all(&bytes[..read]).map_err(|e| io::Error::other(Error::io(self.path, e)))?;
        Ok(read)
    }
}
