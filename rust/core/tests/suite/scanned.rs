//! What the crate's scan says, in a form that can be compared with the reference.

use std::ops::Range;

use seekset_core::Error;
use seekset_core::io::Source;
use seekset_core::scan::fasta::stretch::{self, Started};
use seekset_core::scan::fasta::{self, Rows, Sink};
use seekset_core::watch::Unwatched;

use crate::reference::{self, Offence};

/// One record, whoever found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub id: String,
    pub unnamed: bool,
    pub header_offset: u64,
    pub sequence_offset: u64,
    pub end: u64,
    pub length: u64,
    pub lines: u64,
    pub first_at: u64,
    pub first_shape: (u64, u64),
    pub even: bool,
    /// Whether a line of it holds nothing but blanks.
    pub loose: bool,
    /// How its lines differ.
    pub uneven: Vec<&'static str>,
}

/// Of ragged lines it is not asked whether they are spaced, too: which of them are compared depends on where chunks end.
fn uneven(ragged: bool, blank: bool, spaced: bool) -> Vec<&'static str> {
    let flags = [("ragged", ragged), ("blank", blank), ("spaced", spaced && !ragged)];
    flags.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect()
}

#[derive(Default)]
struct All(Vec<Found>);

impl Rows for All {
    fn push(&mut self, record: &fasta::Record, id: &[u8]) {
        let lines = &record.lines;
        self.0.push(Found {
            id: String::from_utf8(id.to_vec()).expect("ids are UTF-8"),
            unnamed: record.unnamed,
            header_offset: record.header_offset,
            sequence_offset: record.sequence_offset,
            end: record.end,
            length: lines.bases,
            lines: lines.lines,
            first_at: lines.first_at,
            first_shape: (lines.first.bases, lines.first.bytes),
            even: lines.uneven.is_even(),
            loose: lines.loose,
            uneven: uneven(lines.uneven.ragged, lines.uneven.blank, lines.uneven.spaced),
        });
    }
}

impl Sink for All {
    type Rows = Self;

    fn take(&mut self, rows: Self) -> seekset_core::Result<()> {
        self.0.extend(rows.0);
        Ok(())
    }
}

/// What the crate finds.
pub fn scan(source: &dyn Source, threads: usize) -> Result<Vec<Found>, Offence> {
    let mut all = All::default();
    match fasta::scan(source, threads, &Unwatched, &mut all) {
        Ok(()) => Ok(all.0),
        Err(Error::Format { place, .. }) => {
            Err(Offence { offset: place.offset.expect("an offset"), line: place.line.expect("a line") })
        }
        Err(other) => panic!("a scan of bytes in memory failed by {other}"),
    }
}

/// What the reference finds.
pub fn expected(file: &[u8]) -> Result<Vec<Found>, Offence> {
    Ok(reference::read(file)?.iter().map(found).collect())
}

fn found(record: &reference::Record) -> Found {
    let full = record.full();
    let (first_at, first_shape) =
        full.first().map_or((0, (0, 0)), |line| (line.start, (line.letters.len() as u64, line.bytes)));
    Found {
        id: record.id.clone(),
        unnamed: record.unnamed,
        header_offset: record.header_offset,
        sequence_offset: record.sequence_offset,
        end: record.end,
        length: record.letters().len() as u64,
        lines: full.len() as u64,
        first_at,
        first_shape,
        even: record.is_even(),
        loose: record.loose(),
        uneven: uneven(record.ragged(), record.blank(), record.spaced()),
    }
}

/// Ids, offsets and lengths of records, none of which counts for more than some letters; nothing where there is an offence.
pub type Lengths = Option<Vec<(String, u64, u64)>>;

/// What the crate finds a stretch at a time.
pub fn stretched(file: &[u8], sizes: &[u64], letters: u64) -> Lengths {
    let source = file.to_vec();
    let mut all = Vec::new();
    for range in stretches(file.len() as u64, sizes) {
        let span = stretch::span(&range);
        let bytes = &file[span.start as usize..span.end as usize];
        for Started { id, record } in stretch::records(&source, bytes, range, letters).ok()? {
            all.push((id, record.header_offset, record.lines.bases.min(letters)));
        }
    }
    Some(all)
}

/// Cuts `0..len` at lengths that come over and over.
pub fn stretches(len: u64, sizes: &[u64]) -> Vec<Range<u64>> {
    let mut at = 0;
    let ranges = sizes.iter().cycle().map_while(|&size| {
        let start = at;
        at = (at + size).min(len);
        (start < at).then_some(start..at)
    });
    ranges.collect()
}

/// What the reference finds.
pub fn lengths(file: &[u8], letters: u64) -> Lengths {
    let row = |r: &reference::Record| (r.id.clone(), r.header_offset, (r.letters().len() as u64).min(letters));
    Some(reference::read(file).ok()?.iter().map(row).collect())
}

/// A file in memory that is scanned in chunks of the given sizes, over and over, instead of in long ones.
pub struct Cut {
    bytes: Vec<u8>,
    ends: Vec<u64>,
}

impl Cut {
    pub fn new(bytes: &[u8], sizes: &[u64]) -> Self {
        let len = bytes.len() as u64;
        let mut sizes = sizes.iter().map(|&size| size.max(1)).cycle();
        let mut at = 0;
        let ends = std::iter::from_fn(|| {
            at += sizes.next().unwrap_or(len);
            (at < len).then_some(at)
        });
        Self { ends: ends.collect(), bytes: bytes.to_vec() }
    }
}

impl Source for Cut {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn bytes<'a>(
        &'a self,
        range: Range<u64>,
        scratch: &'a mut seekset_core::io::Scratch,
    ) -> seekset_core::Result<&'a [u8]> {
        Source::bytes(&self.bytes, range, scratch)
    }

    fn chunk_end(&self, at: u64, _want: u64) -> u64 {
        let next = self.ends.partition_point(|&end| end <= at);
        self.ends.get(next).copied().unwrap_or(self.len())
    }

    fn check_unchanged(&self) -> seekset_core::Result<()> {
        Ok(())
    }
}
