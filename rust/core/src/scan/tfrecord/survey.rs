//! All faults of a file, not only its first.

use super::frame::{self, HEADER};
use super::walk::{Walker, payload_faults};
use super::{Entry, Verify};
use crate::error::{Error, Result};
use crate::io::{Scratch, Source};
use crate::watch::{Beat, Watch};

/// Compares all checksums of a source and tells `report` of every fault; returns how many records were looked at.
///
/// After a payload that is wrong the survey goes on. After a header that is wrong it goes on if the stated length leads
/// to another header or to the end: then only the header's checksum was damaged. Otherwise nobody can tell where the next
/// record starts.
///
/// ```
/// use seekset_core::scan::tfrecord::{frame, survey};
/// use seekset_core::watch::Unwatched;
/// let good = [&frame::header(2)[..], b"hi", &frame::checksum(b"hi").to_le_bytes()].concat();
/// let mut bytes = good.repeat(3);
/// bytes[12] ^= 1; // in the payload of record 0
/// bytes[18 + 8] ^= 1; // in the header's checksum of record 1
/// let mut faults = Vec::new();
/// let records = survey(&bytes, &Unwatched, &mut |fault| faults.push(fault.to_string()))?;
/// assert_eq!((records, faults.len()), (3, 2));
/// assert!(faults[1].starts_with("<bytes>: record 1, byte 18: the length's checksum does not fit"));
/// # Ok::<(), seekset_core::Error>(())
/// ```
pub fn survey(source: &dyn Source, watch: &dyn Watch, report: &mut dyn FnMut(Error)) -> Result<u64> {
    let mut walker = Walker::new(source, Verify::Lengths);
    let mut beat = Beat::new(watch, source.len());
    loop {
        let first = walker.record;
        let passed = walker.block();
        for fault in payload_faults(source, &walker.block, first)? {
            tell(fault, report)?;
        }
        if let Err(fault) = passed {
            tell(fault, report)?;
            let Some(entry) = whole_record(source, walker.at)? else { return Ok(walker.record + 1) };
            for fault in payload_faults(source, &[entry], walker.record)? {
                tell(fault, report)?;
            }
            walker.at += entry.size;
            walker.record += 1;
        }
        beat.tell(walker.at)?;
        if walker.at == source.len() {
            return Ok(walker.record);
        }
    }
}

/// Reports what is wrong with a record; what is wrong with the machine ends the survey.
fn tell(fault: Error, report: &mut dyn FnMut(Error)) -> Result<()> {
    match fault {
        Error::Corrupt { .. } | Error::Format { .. } => {
            report(fault);
            Ok(())
        }
        other => Err(other),
    }
}

/// The record at `at`, if the length stated there leads to a sound header or to the end.
fn whole_record(source: &dyn Source, at: u64) -> Result<Option<Entry>> {
    let mut scratch = Scratch::default();
    let Some(header) = header_at(source, at, &mut scratch)? else { return Ok(None) };
    let Ok(size) = frame::size(&header, source.len() - at, Verify::None) else { return Ok(None) };
    let next = at + size;
    let sound = next == source.len() || header_at(source, next, &mut scratch)?.is_some_and(|h| frame::fits(&h));
    Ok(sound.then_some(Entry { offset: at, size }))
}

fn header_at(source: &dyn Source, at: u64, scratch: &mut Scratch) -> Result<Option<[u8; HEADER as usize]>> {
    if source.len() - at < HEADER {
        return Ok(None);
    }
    Ok(source.bytes(at..at + HEADER, scratch)?.first_chunk().copied())
}
