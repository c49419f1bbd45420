//! The uncompressed bytes of a gzip or zlib file as a source: inflated from the nearest point, compared, handed out.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use xxhash_rust::xxh3::xxh3_64;

use super::decoder::Decoder;
use crate::error::{Error, Result};
use crate::io::source::{Scratch, Source, checked};
use crate::io::zidx::{CHUNK, Point, Zidx};

/// Cursors that a file keeps for the reads to come.
const PARKED: usize = 8;

/// A place in the uncompressed data up to which a file was inflated, and the chunk before it.
struct Cursor {
    decoder: Decoder,
    /// The point it came from, the bytes up to the next one, and the number of the point. `None` after an error.
    from: Option<(Point, Range<u64>, u64)>,
    /// The next uncompressed byte.
    at: u64,
    /// The chunk that ends there. Its checksum was compared.
    chunk: Vec<u8>,
}

impl Cursor {
    /// Whether the chunk holds the byte at `offset`.
    fn holds(&self, offset: u64) -> bool {
        self.from.is_some() && offset < self.at && self.at - offset <= self.chunk.len() as u64
    }

    /// How far before `offset` it stands, if going on from there is better than beginning at point `number`.
    fn behind(&self, offset: u64, number: u64) -> Option<u64> {
        let (_, span, from) = self.from.as_ref()?;
        let near = *from == number || (*from + 1 == number && self.at == span.end);
        if near { offset.checked_sub(self.at) } else { None }
    }
}

/// Cursors between two scratches: reads that each bring a new one still go on where the last one ended.
#[derive(Default)]
struct Parking {
    cursors: Mutex<Vec<Cursor>>,
}

/// A cursor on loan. It goes home when its scratch goes.
pub(crate) struct Lent {
    cursor: Option<Cursor>,
    home: Arc<Parking>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Never waited for: a lock that was taken while another thread forked stays taken in the child.
        if let (Some(cursor), Ok(mut cursors)) = (self.cursor.take(), self.home.cursors.try_lock()) {
            if cursors.len() == PARKED {
                cursors.remove(0);
            }
            cursors.push(cursor);
        }
    }
}

/// The uncompressed bytes of a gzip or zlib file.
pub struct Deflate {
    raw: Arc<dyn Source>,
    index: Arc<Zidx>,
    parking: Arc<Parking>,
}

impl Deflate {
    /// A source over the compressed bytes `raw`, which `index` was made from.
    #[must_use]
    pub fn new(raw: Arc<dyn Source>, index: Arc<Zidx>) -> Self {
        Self { raw, index, parking: Arc::default() }
    }

    /// The parked cursor that serves `offset` best, else a new one.
    fn cursor(&self, offset: u64) -> Result<Cursor> {
        let number = self.index.point_of(offset)?;
        if let Ok(mut cursors) = self.parking.cursors.try_lock() {
            let distance = |cursor: &Cursor| if cursor.holds(offset) { Some(0) } else { cursor.behind(offset, number) };
            let best = (0..cursors.len()).min_by_key(|&k| distance(&cursors[k]).unwrap_or(u64::MAX));
            // One that is no use here may be of use elsewhere, while there is room for it.
            if let Some(best) = best.filter(|&k| cursors.len() == PARKED || distance(&cursors[k]).is_some()) {
                return Ok(cursors.swap_remove(best));
            }
        }
        Ok(Cursor { decoder: Decoder::new(self.index.kind(), false)?, from: None, at: 0, chunk: Vec::new() })
    }

    /// Goes on until the cursor's chunk holds the byte at `offset`.
    fn advance(&self, cursor: &mut Cursor, offset: u64) -> Result<()> {
        if cursor.holds(offset) {
            return Ok(());
        }
        let number = self.index.point_of(offset)?;
        let (point, span) = self.index.point(number)?;
        let goes_on = cursor.behind(offset, number).is_some();
        cursor.from = None;
        if !goes_on {
            cursor.decoder.restart(&*self.raw, point.bit, &self.index.window(&point)?)?;
            cursor.at = span.start;
        } else if cursor.at < span.start {
            return Err(Error::stale("its .zidx changed while it was read; open it again"));
        }
        while cursor.at <= offset {
            self.next_chunk(cursor, &point, &span)?;
        }
        cursor.from = Some((point, span, number));
        Ok(())
    }

    /// Inflates the chunk at the cursor and compares its checksum.
    fn next_chunk(&self, cursor: &mut Cursor, point: &Point, span: &Range<u64>) -> Result<()> {
        let wanted = (span.end - cursor.at).min(CHUNK) as usize;
        let sum = self.index.sum(point, (cursor.at - span.start) / CHUNK)?;
        cursor.chunk.resize(wanted, 0);
        let from = cursor.decoder.at();
        let filled = cursor.decoder.fill(&*self.raw, &mut cursor.chunk, false)?.len;
        if wanted == 0 || filled != wanted || xxh3_64(&cursor.chunk) != sum {
            let (start, end) = (cursor.at, cursor.at + wanted as u64);
            return Err(Error::corrupt(
                from,
                format!("what it inflates to at bytes {start}..{end} is not what it was when its .zidx was made"),
            ));
        }
        cursor.at += wanted as u64;
        Ok(())
    }
}

impl Source for Deflate {
    fn len(&self) -> u64 {
        self.index.data_size()
    }

    fn bytes<'a>(&'a self, range: Range<u64>, scratch: &'a mut Scratch) -> Result<&'a [u8]> {
        let wanted = checked(&range, self.len())?.len();
        if wanted == 0 {
            return Ok(&[]);
        }
        let Scratch { bytes, cursor, .. } = scratch;
        let ours = cursor.as_ref().is_some_and(|lent| Arc::ptr_eq(&lent.home, &self.parking));
        if !ours {
            *cursor = None;
            let found = self.cursor(range.start)?;
            *cursor = Some(Box::new(Lent { cursor: Some(found), home: Arc::clone(&self.parking) }));
        }
        let Some(cursor) = cursor.as_mut().and_then(|lent| lent.cursor.as_mut()) else {
            return Err(Error::stale("its reader was lost; open it again"));
        };
        self.advance(cursor, range.start)?;
        if range.end <= cursor.at {
            let from = cursor.chunk.len() - (cursor.at - range.start) as usize;
            return Ok(&cursor.chunk[from..from + wanted]);
        }
        // Grows with what was inflated and compared, not with what was asked for.
        bytes.clear();
        while bytes.len() < wanted {
            let at = range.start + bytes.len() as u64;
            self.advance(cursor, at)?;
            let from = cursor.chunk.len() - (cursor.at - at) as usize;
            let rest = &cursor.chunk[from..];
            let rest = &rest[..rest.len().min(wanted - bytes.len())];
            bytes.try_reserve(rest.len()).map_err(|_| Error::no_memory())?;
            bytes.extend_from_slice(rest);
        }
        Ok(bytes)
    }

    /// Ends where the point's bytes do, so that none are inflated for two chunks.
    fn chunk_end(&self, at: u64, want: u64) -> u64 {
        let end = at.saturating_add(want).min(self.len());
        let span = self.index.point_of(end).and_then(|number| self.index.point(number));
        span.map_or(end, |(_, span)| span.end.max(end))
    }

    fn check_unchanged(&self) -> Result<()> {
        self.raw.check_unchanged()?;
        self.index.check_unchanged()
    }
}
