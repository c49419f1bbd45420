//! From an address to runs of letters, line ends left out.

use crate::error::{Error, Result};
use crate::io::{Scratch, Source};
use crate::plan::Address;
use crate::scan::block::{BLOCK, odd};

/// Letters asked of a source at a time, which bounds what a source that copies needs.
const STEP: u64 = 1 << 18;

/// Calls `emit` with the letters at `address`, in order, in runs without line ends.
pub(crate) fn each_run(
    source: &dyn Source,
    address: &Address,
    scratch: &mut Scratch,
    emit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    match *address {
        Address::Even { offset, letters, room, line_bases, gap } => {
            even_runs(source, scratch, offset, letters, &Lines { room, line_bases, gap }, emit)
        }
        Address::Uneven { offset, skip, letters, end } => {
            uneven_runs(source, scratch, offset, skip, letters, end, emit)
        }
    }
}

struct Lines {
    room: u64,
    line_bases: u64,
    gap: u64,
}

fn even_runs(
    source: &dyn Source,
    scratch: &mut Scratch,
    mut offset: u64,
    mut letters: u64,
    lines: &Lines,
    mut emit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let Lines { mut room, line_bases, gap } = *lines;
    while letters > 0 {
        let now = letters.min(STEP);
        let line_ends = if now <= room { 0 } else { (now - room).div_ceil(line_bases) };
        let end = offset.saturating_add(now).saturating_add(line_ends.saturating_mul(gap));
        let mut rest = source.bytes(offset..end, scratch)?;
        let mut left = now;
        loop {
            let run = room.min(left);
            emit(&rest[..run as usize])?;
            left -= run;
            room -= run;
            if left == 0 {
                break;
            }
            rest = &rest[(run + gap) as usize..];
            room = line_bases;
        }
        letters -= now;
        offset = end;
        if room == 0 {
            (offset, room) = (offset + gap, line_bases);
        }
    }
    Ok(())
}

fn uneven_runs(
    source: &dyn Source,
    scratch: &mut Scratch,
    mut offset: u64,
    mut skip: u64,
    mut letters: u64,
    end: u64,
    mut emit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    while letters > 0 {
        if offset >= end {
            return Err(Error::stale(format!(
                "a record ends at byte {end}, {letters} letters before the index says so; build the index again"
            )));
        }
        // Short records are the rule: don't ask for much more than the letters need.
        let want = (skip + letters).saturating_mul(2).clamp(256, STEP);
        let stop = end.min(offset.saturating_add(want));
        let bytes = source.bytes(offset..stop, scratch)?;
        for run in runs(bytes) {
            let passed = skip.min(run.len() as u64);
            skip -= passed;
            let taken = letters.min(run.len() as u64 - passed);
            letters -= taken;
            if taken > 0 {
                emit(&run[passed as usize..(passed + taken) as usize])?;
            }
            if letters == 0 {
                break;
            }
        }
        offset = stop;
    }
    Ok(())
}

/// The runs of letters between blanks and line ends.
fn runs(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && !bytes[at].is_ascii_graphic() {
            at += 1;
        }
        let start = at;
        while at < bytes.len() {
            let odd = odd(bytes, at);
            if odd != 0 {
                at += odd.trailing_zeros() as usize;
                break;
            }
            at = (at + BLOCK).min(bytes.len());
        }
        (start < at).then(|| &bytes[start..at])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_the_letters_between_blanks() {
        let long = "A".repeat(200);
        for text in ["", "\n", "AC\nGT\n", " A C\r\n\r\nG", &long, &format!("{long}\n{long}")] {
            let found: Vec<&[u8]> = runs(text.as_bytes()).collect();
            let expected: Vec<&[u8]> = text.split_ascii_whitespace().map(str::as_bytes).collect();
            assert_eq!(found, expected);
        }
    }
}
