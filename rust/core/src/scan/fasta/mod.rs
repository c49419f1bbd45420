//! FASTA: headers that start with `>`, each followed by lines of letters.
//!
//! A chunk of the file is scanned on its own (`fragment`), without knowing what came before it; what its ends belong
//! to is settled when neighbouring chunks are stitched together in order (`stitch`).

pub(crate) mod fragment;
pub mod header;
pub mod lines;
pub mod marks;
pub(crate) mod stitch;
pub mod stretch;

pub use header::Header;
pub use lines::{LineRun, LineShape, Unevenness};

use crate::error::{Error, Place, Result};
use crate::io::{Scratch, Source};
use crate::scan::chunks;
use crate::watch::Watch;

/// One record, as the scan found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Where its `>` stands.
    pub header_offset: u64,
    /// Where the line after the header starts.
    pub sequence_offset: u64,
    /// Where the record ends: the next `>` or the end of the file.
    pub end: u64,
    /// Its lines.
    pub lines: LineRun,
    /// Whether its header has no word, so that its id is its offset.
    pub unnamed: bool,
}

/// Rows collected from a chunk, in the worker's thread.
pub trait Rows: Default + Send {
    /// Takes the next record and its id, which is UTF-8.
    fn push(&mut self, record: &Record, id: &[u8]);
}

/// Takes the rows of all chunks, in file order.
pub trait Sink {
    /// What it wants collected.
    type Rows: Rows;
    /// Takes the next rows.
    fn take(&mut self, rows: Self::Rows) -> Result<()>;
}

/// Scans all of `source` into `sink`.
///
/// Errors carry the byte offset and the line at which they were met.
pub fn scan<S: Sink>(source: &dyn Source, threads: usize, watch: &dyn Watch, sink: &mut S) -> Result<()> {
    let mut stitcher = stitch::Stitcher::new(source, sink);
    chunks::in_order(
        source,
        threads,
        watch,
        |range, bytes| Ok(fragment::scan::<S::Rows>(bytes, range.start)),
        |fragment| stitcher.take(fragment),
    )
    .and_then(|()| stitcher.finish())
    .map_err(|error| with_lines(error, source))
}

/// Adds line numbers to the places in an error, by counting: errors are rare, line counts would be paid by everybody.
pub fn with_lines(error: Error, source: &dyn Source) -> Error {
    if matches!(error, Error::Corrupt { .. }) {
        return error; // its offset is into the compressed bytes, which have no lines
    }
    error.map_places(|place| match place {
        Place { line: None, offset: Some(offset), .. } => Place { line: line_of(source, offset), ..place },
        _ => place,
    })
}

fn line_of(source: &dyn Source, offset: u64) -> Option<u64> {
    let mut scratch = Scratch::default();
    let (mut at, mut line) = (0, 1);
    while at < offset {
        let end = source.chunk_end(at, 1 << 20).min(offset);
        line += memchr::memchr_iter(b'\n', source.bytes(at..end, &mut scratch).ok()?).count() as u64;
        at = end;
    }
    Some(line)
}
