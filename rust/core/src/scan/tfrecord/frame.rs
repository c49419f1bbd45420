//! One record: its header and its two checksums.

use super::walk::MOST;
use super::{Entry, Verify};
use crate::error::{Error, Place, Result};
use crate::io::deflate::{Kind, detect};
use crate::io::{Scratch, Source};

/// Bytes before a payload: its length and the length's checksum.
pub const HEADER: u64 = 12;

/// Bytes after a payload: its checksum.
const FOOTER: u64 = 4;

/// Bytes of a record that are not payload.
pub const AROUND: u64 = HEADER + FOOTER;

/// Bytes of a payload that are looked at in one go, so that a record may be larger than memory.
const STEP: u64 = 1 << 20;

/// The checksum of some bytes as TFRecord stores it: their CRC-32C, turned by 15 bits, plus a constant.
///
/// ```
/// use seekset_core::scan::tfrecord::frame::checksum;
/// assert_eq!(checksum(b"123456789"), 0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8));
/// ```
#[must_use]
#[inline]
pub fn checksum(bytes: &[u8]) -> u32 {
    masked(crc32c::crc32c(bytes))
}

#[inline]
pub(super) fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The header of a payload of `length` bytes.
///
/// ```
/// use seekset_core::scan::tfrecord::frame::{checksum, header};
/// // A record, put together by hand.
/// let record = [&header(2)[..], b"hi", &checksum(b"hi").to_le_bytes()].concat();
/// assert_eq!(record.len(), 18);
/// assert_eq!(seekset_core::index_entries_from_bytes(&record, Default::default())?.len(), 1);
/// # Ok::<(), seekset_core::Error>(())
/// ```
#[must_use]
pub fn header(length: u64) -> [u8; HEADER as usize] {
    let mut bytes = [0; HEADER as usize];
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    bytes[8..].copy_from_slice(&checksum(&length.to_le_bytes()).to_le_bytes());
    bytes
}

/// The length that a header states.
#[must_use]
#[inline]
pub fn stated_length(header: &[u8; HEADER as usize]) -> u64 {
    let [length @ .., _, _, _, _] = *header;
    u64::from_le_bytes(length)
}

/// Whether a header's checksum is that of its length.
#[must_use]
#[inline]
pub fn fits(header: &[u8; HEADER as usize]) -> bool {
    header[8..] == checksum(&header[..8]).to_le_bytes()
}

/// A place by record and offset: what every error about a record names.
#[must_use]
pub fn place(record: u64, offset: u64) -> Place {
    Place { record: Some(record), ..Place::at(offset) }
}

/// The size of the record that starts with `header` at `at`, checked against what is `left` of the file from there on.
#[inline]
pub(super) fn size(header: &[u8; HEADER as usize], left: u64, verify: Verify) -> Result<u64, Fault> {
    let length = stated_length(header);
    if verify != Verify::None && !fits(header) {
        return Err(Fault::Length);
    }
    match length.checked_add(AROUND) {
        Some(size) if size <= left => Ok(size),
        _ => Err(Fault::End),
    }
}

/// What may be wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The length's checksum does not fit.
    Length,
    /// The record would end after the file does.
    End,
    /// The record would be larger than any file.
    Huge,
}

impl Fault {
    /// In words, with the place.
    #[cold]
    pub fn told(self, header: &[u8; HEADER as usize], record: u64, offset: u64, left: u64) -> Error {
        let length = stated_length(header);
        if let Some(kind) = (record == 0 && !fits(header)).then(|| detect(header)).flatten() {
            return compressed(kind);
        }
        let message = match self {
            Self::Length => {
                let (expected, found) = (checksum(&header[..8]), stored(&header[8..]));
                format!(
                    "the length's checksum does not fit: expected {expected:#010x} for a length of {length} bytes, found \
                     {found:#010x}; the file is damaged or no TFRecord, or, if it was written without checksums, give \
                     verify=None (tfrecord-index --verify none)"
                )
            }
            Self::End => format!(
                "expected {length} bytes of payload and 16 around them, found {left} bytes from here to the end: the \
                 file is cut or damaged"
            ),
            Self::Huge => format!("a length of {length} bytes is more than any file holds: the file is damaged"),
        };
        Error::Corrupt { path: None, place: place(record, offset), message }
    }
}

/// The error about `left` bytes at the end that are too few for a header.
#[cold]
pub(super) fn cut_header(start: &[u8], record: u64, offset: u64, left: u64) -> Error {
    if let Some(kind) = (record == 0).then(|| detect(start)).flatten() {
        return compressed(kind);
    }
    let message = format!(
        "expected a header of {HEADER} bytes, found {left} bytes from here to the end: the file is cut, or something \
         follows its last record"
    );
    Error::Corrupt { path: None, place: place(record, offset), message }
}

/// The error about a header whose checksum does not fit.
#[cold]
pub(crate) fn wrong_length(header: &[u8; HEADER as usize], record: u64, offset: u64) -> Error {
    Fault::Length.told(header, record, offset, 0)
}

fn stored(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

/// The error about a compressed file where only a plain one will do.
pub(crate) fn compressed(kind: Kind) -> Error {
    let message = format!(
        "expected a plain TFRecord, found one that is compressed with {}: no index leads DALI into it; decompress it with \
         seekset tfrecord decompress, or read it as it is with TFRecordFile",
        kind.name()
    );
    Error::Format { path: None, place: place(0, 0), message }
}

/// An error if the payload of a record does not fit its checksum. The record lies in the source.
pub fn check_payload(source: &dyn Source, entry: Entry, record: u64, scratch: &mut Scratch) -> Result<()> {
    let (mut at, end) = (entry.offset + HEADER, entry.offset + entry.size - FOOTER);
    let mut crc = 0;
    while at < end {
        let next = source.chunk_end(at, STEP).min(end).min(at.saturating_add(MOST));
        crc = crc32c::crc32c_append(crc, source.bytes(at..next, scratch)?);
        at = next;
    }
    let found = stored(source.bytes(end..end + FOOTER, scratch)?);
    same_checksum(masked(crc), found, record, entry.offset)
}

/// The payload of a record, whose bytes these are, compared with its checksum.
pub(crate) fn checked_payload(frame: &[u8], record: u64, offset: u64) -> Result<&[u8]> {
    let payload = payload(frame);
    same_checksum(checksum(payload), stored(&frame[frame.len() - FOOTER as usize..]), record, offset)?;
    Ok(payload)
}

/// The payload of a record, whose bytes these are: 16 at least.
pub(crate) fn payload(frame: &[u8]) -> &[u8] {
    &frame[HEADER as usize..frame.len() - FOOTER as usize]
}

#[inline]
pub(super) fn same_checksum(expected: u32, found: u32, record: u64, offset: u64) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let message = format!("the payload's checksum does not fit: expected {expected:#010x}, found {found:#010x}");
    Err(Error::Corrupt { path: None, place: place(record, offset), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_that_tensorflow_writes() {
        // From a file of tf.io.TFRecordWriter: the header of a record of 3 bytes, and the checksum of b"abc".
        assert_eq!(header(0), *b"\0\0\0\0\0\0\0\0\x29\x03\x98\x07");
        assert_eq!(checksum(b""), 0xa282_ead8);
    }
}
