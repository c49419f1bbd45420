//! The records that start in a stretch of a file, found without reading what comes before it.
//!
//! A file cut into stretches of any lengths gives each record once: in the stretch where its `>` stands.

use std::ops::Range;

use super::stitch::Stitcher;
use super::{Record, Rows, Sink, fragment};
use crate::error::Result;
use crate::io::{Scratch, Source};

/// How much more is read at first, and at most at a time, where a record goes on after the stretch.
const STEPS: Range<u64> = 1 << 12..1 << 20;

/// A record, as far as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The first word of its header.
    pub id: String,
    /// Its place; where it was not read to its end, `end` and `lines` say how far.
    pub record: Record,
}

/// What has to be read of a stretch: one byte before it tells whether a line starts with it.
#[must_use]
pub fn span(stretch: &Range<u64>) -> Range<u64> {
    stretch.start.saturating_sub(1)..stretch.end
}

/// The records that start in `stretch`, whose [`span`] holds `bytes`.
///
/// The last of them is read on after the stretch, but no further than to its end or until it has `letters` letters.
///
/// ```
/// use seekset_core::scan::fasta::stretch::{records, span};
/// let file = b">a\nACGT\n>b\nACGT\nACGT\n>c\nGG\n".to_vec();
/// let second = 6..12; // from within the letters of `a` to the end of the header of `b`
/// let found = records(&file, &file[5..12], second, u64::MAX)?;
/// assert_eq!(found.len(), 1);
/// assert_eq!((&*found[0].id, found[0].record.lines.bases), ("b", 8));
/// # assert_eq!(span(&(6..12)), 5..12);
/// # Ok::<(), seekset_core::Error>(())
/// ```
pub fn records(source: &dyn Source, bytes: &[u8], stretch: Range<u64>, letters: u64) -> Result<Vec<Started>> {
    let mut sink = Before { limit: stretch.end, found: Vec::new() };
    let mut first = fragment::scan(bytes, span(&stretch).start);
    if stretch.start > 0 {
        let Some(own) = first.without_lead()? else { return Ok(Vec::new()) };
        first = own;
    }
    let mut stitcher = Stitcher::new(source, &mut sink);
    stitcher.take(first)?;
    let (mut at, mut step) = (stretch.end, STEPS.start);
    let mut scratch = Scratch::default();
    while at < source.len() && stitcher.lacks(stretch.end, letters) {
        let end = source.chunk_end(at, step);
        stitcher.take(fragment::scan(source.bytes(at..end, &mut scratch)?, at))?;
        (at, step) = (end, (step * 2).min(STEPS.end));
    }
    stitcher.finish_before(stretch.end, at)?;
    Ok(sink.found)
}

/// Keeps records that start before a place.
struct Before {
    limit: u64,
    found: Vec<Started>,
}

impl Sink for Before {
    type Rows = Starts;

    fn take(&mut self, rows: Starts) -> Result<()> {
        let limit = self.limit;
        self.found.extend(rows.0.into_iter().filter(|started| started.record.header_offset < limit));
        Ok(())
    }
}

#[derive(Default)]
struct Starts(Vec<Started>);

impl Rows for Starts {
    fn push(&mut self, record: &Record, id: &[u8]) {
        self.0.push(Started { id: String::from_utf8_lossy(id).into_owned(), record: *record });
    }
}
