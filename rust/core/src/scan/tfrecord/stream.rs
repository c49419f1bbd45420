//! Records from a reader that can't seek, such as a pipe.

use std::io::{self, Read};

use super::frame::{self, AROUND, Fault, HEADER};
use super::{Entry, Verify};
use crate::error::{Error, Result};

/// Bytes read at a time, whatever a length claims.
const BUFFER: usize = 1 << 18;

/// Finds the records of a stream, one after another. Payloads are read past, never kept.
///
/// ```
/// use seekset_core::{Entry, TfRecordIndexer};
/// use seekset_core::scan::tfrecord::frame;
/// let record = [&frame::header(2)[..], b"hi", &frame::checksum(b"hi").to_le_bytes()].concat();
/// let stream = record.repeat(2);
/// let mut indexer = TfRecordIndexer::new(&stream[..]);
/// assert_eq!(indexer.next_entry()?, Some(Entry { offset: 0, size: 18 }));
/// assert_eq!(indexer.next_entry()?, Some(Entry { offset: 18, size: 18 }));
/// assert_eq!(indexer.next_entry()?, None);
/// # Ok::<(), seekset_core::Error>(())
/// ```
#[derive(Debug)]
pub struct TfRecordIndexer<R> {
    reader: R,
    verify: Verify,
    buffer: Box<[u8]>,
    /// The part of the buffer that has been read and not been used.
    ready: std::ops::Range<usize>,
    at: u64,
    record: u64,
}

impl<R: Read> TfRecordIndexer<R> {
    /// Starts at the reader's next byte and compares the checksums of lengths. The reader needs no buffer of its own.
    pub fn new(reader: R) -> Self {
        Self::with_verify(reader, Verify::default())
    }

    /// [`TfRecordIndexer::new`], with these checksums compared.
    pub fn with_verify(reader: R, verify: Verify) -> Self {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Self { reader, verify, buffer, ready: 0..0, at: 0, record: 0 }
    }

    /// The next record, or nothing at the end of the stream. After an error there is nothing to go on from.
    pub fn next_entry(&mut self) -> Result<Option<Entry>> {
        let start = self.at;
        let mut header = [0; HEADER as usize];
        match self.fill(&mut header)? {
            0 => return Ok(None),
            read if read < HEADER as usize => {
                return Err(frame::cut_header(&header[..read], self.record, start, read as u64));
            }
            _ => {}
        }
        // Nobody knows how much is left of a stream. What no file can hold is refused without reading on.
        let size = frame::size(&header, i64::MAX as u64 - start, self.verify).map_err(|fault| {
            let fault = if fault == Fault::End { Fault::Huge } else { fault };
            fault.told(&header, self.record, start, 0)
        })?;
        let (skipped, crc) = self.skip(size - AROUND)?;
        let mut footer = [0; (AROUND - HEADER) as usize];
        let read = if skipped == size - AROUND { self.fill(&mut footer)? } else { 0 };
        if read < footer.len() {
            let left = HEADER + skipped + read as u64;
            return Err(Fault::End.told(&header, self.record, start, left));
        }
        if self.verify == Verify::Full {
            frame::same_checksum(frame::masked(crc), u32::from_le_bytes(footer), self.record, start)?;
        }
        self.record += 1;
        Ok(Some(Entry { offset: start, size }))
    }

    /// The bytes that have been read and not been used; none at the end of the stream.
    fn more(&mut self) -> Result<&[u8]> {
        while self.ready.is_empty() {
            match self.reader.read(&mut self.buffer) {
                Ok(0) => return Ok(&[]),
                Ok(read) => self.ready = 0..read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::from(error)),
            }
        }
        Ok(&self.buffer[self.ready.clone()])
    }

    fn used(&mut self, bytes: usize) {
        self.ready.start += bytes;
        self.at += bytes as u64;
    }

    /// Fills `out` as far as the stream goes.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            let ready = self.more()?;
            let some = ready.len().min(out.len() - filled);
            if some == 0 {
                break;
            }
            out[filled..filled + some].copy_from_slice(&ready[..some]);
            self.used(some);
            filled += some;
        }
        Ok(filled)
    }

    /// Reads past `bytes` bytes, or as many as there are; their checksum counts only if payloads are compared.
    fn skip(&mut self, bytes: u64) -> Result<(u64, u32)> {
        let (mut skipped, mut crc) = (0, 0);
        let full = self.verify == Verify::Full;
        while skipped < bytes {
            let ready = self.more()?;
            let some = (ready.len() as u64).min(bytes - skipped) as usize;
            if some == 0 {
                break;
            }
            if full {
                crc = crc32c::crc32c_append(crc, &ready[..some]);
            }
            self.used(some);
            skipped += some as u64;
        }
        Ok((skipped, crc))
    }
}
