//! From header to header, without looking at payloads.

use rayon::prelude::*;

use super::frame::{self, HEADER};
use super::{Entry, Verify};
use crate::error::{Error, Result};
use crate::io::prefetch::prefetch;
use crate::io::seldom::Seldom;
use crate::io::{Scratch, Source, threads};
use crate::watch::{Beat, Watch};

/// Records handed over at a time.
const BLOCK: usize = 4096;

/// Records of more bytes have their headers read one by one. In a mapping, a page fault brings 64 KiB near and costs as
/// much as several such reads; elsewhere, all bytes between two headers would have to be copied.
const LARGE_IN_MEMORY: u64 = 1 << 14;
const LARGE: u64 = 1 << 11;

/// Bytes read at a time, from a source that is not in memory, where records are small: many lie within.
const MANY: u64 = 1 << 18;

/// The most bytes read at a time: of a compressed file, a chunk may be as long as the file.
pub(super) const MOST: u64 = 8 << 20;

/// How many bytes ahead of a small record memory is asked for: waiting for each header would take longer than the walk.
const AHEAD: usize = 1 << 11;

/// Records of more bytes are not small: asking for all of them would take longer than waiting.
const SMALL: u64 = 1 << 11;

/// Blocks of fewer bytes have their payloads checked on the calling thread.
const FEW_BYTES: u64 = 1 << 16;

/// Walks all records, hands them to `take` in file order, some thousands at a time, and returns how many there were.
///
/// Every length is checked against the size of the source before it is believed. The first record that is wrong ends
/// the walk with an error that names it; those before it have been handed over.
///
/// ```
/// use seekset_core::scan::tfrecord::{Entry, Verify, frame, walk};
/// use seekset_core::watch::Unwatched;
/// let record = [&frame::header(2)[..], b"hi", &frame::checksum(b"hi").to_le_bytes()].concat();
/// let mut found = Vec::new();
/// let source = record.repeat(2);
/// let count = walk(&source, Verify::Full, &Unwatched, &mut |entries| Ok(found.extend_from_slice(entries)))?;
/// assert_eq!((count, found[1]), (2, Entry { offset: 18, size: 18 }));
/// # Ok::<(), seekset_core::Error>(())
/// ```
pub fn walk(
    source: &dyn Source,
    verify: Verify,
    watch: &dyn Watch,
    take: &mut dyn FnMut(&[Entry]) -> Result<()>,
) -> Result<u64> {
    let mut walker = Walker::new(source, verify);
    let mut beat = Beat::new(watch, source.len());
    let mut first = 0;
    loop {
        let passed = walker.block();
        let block = &walker.block;
        if verify == Verify::Full {
            check_payloads(source, block, first)?;
        }
        take(block)?;
        first += block.len() as u64;
        passed?;
        beat.tell(walker.at)?;
        if walker.at == source.len() {
            return Ok(first);
        }
    }
}

/// An error about the first of these records whose payload does not fit its checksum.
fn check_payloads(source: &dyn Source, entries: &[Entry], first: u64) -> Result<()> {
    payload_faults(source, entries, first)?.into_iter().next().map_or(Ok(()), Err)
}

/// What is wrong with the payloads of these records, in file order; looked for in several threads if they are large.
pub(super) fn payload_faults(source: &dyn Source, entries: &[Entry], first: u64) -> Result<Vec<Error>> {
    let seldom = Seldom::new();
    let fault = |scratch: &mut Scratch, (k, &entry): (usize, &Entry)| {
        // A block of such records is many megabytes, which is too many for one look at the file.
        let looked = if entry.size > SMALL { seldom.look(|| source.check_unchanged()) } else { Ok(()) };
        looked.and_then(|()| frame::check_payload(source, entry, first + k as u64, scratch)).err()
    };
    if entries.iter().map(|entry| entry.size).sum::<u64>() < FEW_BYTES {
        let mut scratch = Scratch::default();
        return Ok(entries.iter().enumerate().filter_map(|pair| fault(&mut scratch, pair)).collect());
    }
    threads::in_pool(|| {
        let all = entries.par_iter().with_min_len(16).enumerate();
        all.map_init(Scratch::default, fault).flatten().collect()
    })
}

/// A walk under way.
pub(super) struct Walker<'a> {
    source: &'a dyn Source,
    verify: Verify,
    /// Where the next record starts.
    pub at: u64,
    /// How many records have been passed.
    pub record: u64,
    /// The records passed by the last call of [`Walker::block`].
    pub block: Vec<Entry>,
    scratch: Scratch,
    /// Records of more bytes than this are large.
    largest: u64,
    /// Whether the last record was a large one.
    large: bool,
}

impl<'a> Walker<'a> {
    pub fn new(source: &'a dyn Source, verify: Verify) -> Self {
        let (block, scratch) = (Vec::with_capacity(BLOCK), Scratch::default());
        let largest = if source.in_memory().is_some() { LARGE_IN_MEMORY } else { LARGE };
        Self { source, verify, at: 0, record: 0, block, scratch, largest, large: false }
    }

    /// Passes some thousands of records; fewer at the end, and none there. After an error, it stands before the record
    /// that is wrong, with those before it in the block. The source must still be what it was at open.
    pub fn block(&mut self) -> Result<()> {
        self.block.clear();
        self.source.check_unchanged()?;
        let first = self.record;
        let filled = self.fill();
        self.record = first + self.block.len() as u64;
        filled
    }

    fn fill(&mut self) -> Result<()> {
        let (source, len) = (self.source, self.source.len());
        while self.at < len && self.block.len() < BLOCK {
            let base = self.at;
            if self.large && len - base >= HEADER {
                let mut header = [0; HEADER as usize];
                source.peek(base, &mut header)?;
                self.pass(&header, base)?;
            } else if let Some(bytes) = source.in_memory() {
                self.pass(bytes, 0)?;
            } else {
                let end = source.chunk_end(base, MANY).clamp(base + HEADER.min(len - base), base.saturating_add(MOST));
                let mut scratch = std::mem::take(&mut self.scratch);
                let passed = source.bytes(base..end, &mut scratch).and_then(|bytes| self.pass(bytes, base));
                self.scratch = scratch;
                passed?;
            }
        }
        Ok(())
    }

    /// Passes the records whose headers lie in `bytes`, which start at `base`, up to a large one.
    fn pass(&mut self, bytes: &[u8], base: u64) -> Result<()> {
        let len = self.source.len();
        let (mut at, first) = (self.at, self.record);
        while at < len && self.block.len() < BLOCK {
            let rest = bytes.get((at - base) as usize..).unwrap_or_default();
            let (left, record) = (len - at, first + self.block.len() as u64);
            let Some(header) = rest.first_chunk() else {
                if left < HEADER {
                    self.at = at;
                    return Err(frame::cut_header(rest, record, at, left));
                }
                break;
            };
            match frame::size(header, left, self.verify) {
                Ok(size) => {
                    self.block.push(Entry { offset: at, size });
                    at += size;
                    self.large = size > self.largest;
                    if self.large {
                        break;
                    }
                    if size <= SMALL {
                        prefetch(rest.get(AHEAD..AHEAD + size as usize).unwrap_or_default());
                    }
                }
                Err(fault) => {
                    self.at = at;
                    return Err(fault.told(header, record, at, left));
                }
            }
        }
        self.at = at;
        Ok(())
    }
}
