//! From an address to runs of letters, line ends left out.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::io::room::reserve;
use crate::io::source::checked;
use crate::io::{Scratch, Source};
use crate::plan::Address;
use crate::plan::address::Lines;
use crate::scan::block::{BLOCK, odd};

/// Letters asked of a source at a time, which bounds what a source that copies needs.
const STEP: u64 = 1 << 18;

/// Letters of even lines: how many, and how the lines that hold them are shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvenLines {
    /// Letters in all.
    pub letters: usize,
    /// Letters in the first line.
    pub room: usize,
    /// Letters in each line after it.
    pub line: usize,
    /// Bytes between two lines.
    pub gap: usize,
}

impl EvenLines {
    /// Bytes from the first letter to the last.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let line_ends = self.letters.saturating_sub(self.room).div_ceil(self.line);
        self.letters as u64 + line_ends as u64 * self.gap as u64
    }

    /// Calls `emit` with where each line starts among the bytes and among the letters, and its letters.
    #[inline]
    pub fn each<E>(&self, mut emit: impl FnMut(usize, usize, usize) -> Result<(), E>) -> Result<(), E> {
        let (mut byte, mut letter, mut run) = (0, 0, self.room.min(self.letters));
        while letter < self.letters {
            emit(byte, letter, run)?;
            byte += run + self.gap;
            letter += run;
            run = self.line.min(self.letters - letter);
        }
        Ok(())
    }

    /// The first `letters` letters, and the lines after them. Lines are not empty, so that both are some.
    fn split(&self, letters: usize) -> (Self, u64, Self) {
        let first = Self { letters, ..*self };
        let mut next = first.bytes();
        let past = letters.saturating_sub(self.room) % self.line;
        let mut room = if letters < self.room { self.room - letters } else { self.line - past };
        if letters >= self.room && past == 0 {
            (next, room) = (next + self.gap as u64, self.line);
        }
        (first, next, Self { letters: self.letters - letters, room, ..*self })
    }
}

/// Calls `emit` with the bytes that hold the letters at an address with even lines, in few long pieces.
#[inline]
pub(crate) fn even_pieces(
    source: &dyn Source,
    offset: u64,
    lines: EvenLines,
    scratch: &mut Scratch,
    mut emit: impl FnMut(&[u8], &EvenLines) -> Result<()>,
) -> Result<()> {
    if lines.letters == 0 {
        return Ok(()); // it may stand beyond the last byte
    }
    if let Some(all) = source.in_memory() {
        let range = checked(&(offset..offset.saturating_add(lines.bytes())), all.len() as u64)?;
        return emit(&all[range], &lines);
    }
    let (mut offset, mut rest) = (offset, lines);
    while rest.letters > 0 {
        let (now, next, later) = rest.split(rest.letters.min(STEP as usize));
        emit(source.bytes(offset..offset.saturating_add(now.bytes()), scratch)?, &now)?;
        (offset, rest) = (offset.saturating_add(next), later);
    }
    Ok(())
}

/// Calls `emit` with the letters at `address`, in order, in runs without line ends.
pub(crate) fn each_run(
    source: &dyn Source,
    address: &Address,
    scratch: &mut Scratch,
    mut emit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    match address.lines {
        Lines::Even { .. } => even_pieces(source, address.offset, even_lines(address), scratch, |bytes, lines| {
            lines.each(|byte, _, run| emit(&bytes[byte..byte + run]))
        }),
        Lines::Uneven { skip, end } => {
            uneven_runs(source, scratch, address.offset, skip.into(), address.letters.into(), end, emit)
        }
    }
}

/// The first `letters` letters of a record whose lines lie at `span`: where there is no index, they are counted.
pub(crate) fn first_letters(
    source: &dyn Source,
    span: Range<u64>,
    letters: u64,
    scratch: &mut Scratch,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    reserve(&mut out, letters as usize)?;
    uneven_runs(source, scratch, span.start, 0, letters, span.end, |run| {
        out.extend_from_slice(run);
        Ok(())
    })?;
    Ok(out)
}

/// The even lines of an address.
#[inline]
pub(crate) fn even_lines(address: &Address) -> EvenLines {
    let (room, line, gap) = match address.lines {
        Lines::Even { room, letters, gap } => (room, letters, gap),
        Lines::Uneven { .. } => (1, 1, 0),
    };
    EvenLines { letters: address.letters as usize, room: room as usize, line: line.max(1) as usize, gap: gap as usize }
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
    fn even_lines_are_cut_anywhere() {
        for room in 1..=4 {
            let whole = EvenLines { letters: 14, room, line: 4, gap: 2 };
            let letters = |lines: &EvenLines, at: u64| {
                let mut places = Vec::new();
                let each = |byte: usize, _, run: usize| {
                    places.extend((byte..byte + run).map(|byte| at + byte as u64));
                    Ok::<(), ()>(())
                };
                lines.each(each).unwrap();
                assert_eq!(places.last().map_or(0, |last| last + 1 - at), lines.bytes());
                places
            };
            let expected = letters(&whole, 100);
            assert_eq!(expected.len(), 14);
            for cut in 1..=14 {
                let (first, next, later) = whole.split(cut);
                let found = [letters(&first, 100), letters(&later, 100 + next)].concat();
                assert_eq!(found, expected, "room {room}, cut at {cut}");
            }
        }
    }

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
