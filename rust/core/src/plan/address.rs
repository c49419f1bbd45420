//! Where the letters of a window lie.

use crate::error::{Error, Result};
use crate::index::sidx::{Entry, Sidx};
use crate::scan::fasta::marks::MARK_STEP;

/// The place of some consecutive letters of a record, line ends among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Where the first letter stands; among uneven lines, where to start counting.
    pub offset: u64,
    /// How many letters to take.
    pub letters: u32,
    /// How the lines are shaped.
    pub lines: Lines,
}

/// How the lines of an addressed window are shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// Alike: after `room` letters come `gap` bytes of line end, then lines of `letters` letters.
    Even {
        /// Letters from the first one to the end of its line.
        room: u32,
        /// Letters per line.
        letters: u32,
        /// Bytes of a line's end.
        gap: u32,
    },
    /// They differ: count letters.
    Uneven {
        /// Letters to pass over.
        skip: u32,
        /// Where the record ends.
        end: u64,
    },
}

impl Default for Address {
    fn default() -> Self {
        Self { offset: 0, letters: 0, lines: Lines::Even { room: 1, letters: 1, gap: 0 } }
    }
}

impl Address {
    /// The most letters that one address covers; longer windows are made of several.
    pub const MOST: u32 = 1 << 20;

    /// The address of `letters` letters of record `row` from letter `start` on. The window must lie inside the record
    /// and be no longer than [`Address::MOST`].
    #[inline]
    pub fn window(index: &Sidx, row: u64, entry: &Entry, start: u64, letters: u64) -> Result<Self> {
        let inside = start.checked_add(letters).is_some_and(|end| end <= entry.length);
        if !inside || letters > Self::MOST.into() {
            return Err(Error::Mismatch(format!(
                "letters {start} to {} of row {row} were asked for at once, but it has {}",
                start.saturating_add(letters),
                entry.length
            )));
        }
        let letters = letters as u32;
        if entry.is_uneven() {
            Self::uneven(index, row, entry, start, letters)
        } else {
            Ok(Self::even(entry, start, letters))
        }
    }

    #[inline]
    fn even(entry: &Entry, start: u64, letters: u32) -> Self {
        // An empty record has no lines; one letter per line keeps the arithmetic whole.
        let line_bases = entry.line_bases.max(1);
        let (line, column) = (start / u64::from(line_bases), (start % u64::from(line_bases)) as u32);
        // Saturation ends beyond any file, where the read is refused.
        let offset = entry
            .sequence_offset
            .saturating_add(line.saturating_mul(entry.line_bytes.into()))
            .saturating_add(column.into());
        let gap = entry.line_bytes.saturating_sub(line_bases);
        Self { offset, letters, lines: Lines::Even { room: line_bases - column, letters: line_bases, gap } }
    }

    fn uneven(index: &Sidx, row: u64, entry: &Entry, start: u64, letters: u32) -> Result<Self> {
        let marks = index.marks(row)?;
        let step = marks.partition_point(|&before| before <= start);
        let before = if step == 0 { 0 } else { marks[step - 1] };
        let offset = entry.sequence_offset.saturating_add(step as u64 * MARK_STEP);
        // A mark stands every MARK_STEP bytes, so that more letters than those can't lie between.
        let skip = u32::try_from(start - before).map_err(|_| Error::stale("the marks in its index are damaged"))?;
        Ok(Self { offset, letters, lines: Lines::Uneven { skip, end: index.end(row)? } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::sidx::tests::index_of;

    #[test]
    fn letters_of_even_lines_are_found_by_arithmetic() {
        // Lines of four letters and two bytes of line end, from byte 4 on.
        let index = index_of(b">a\r\nACGT\r\nACGT\r\nAC\r\n");
        for (start, letters, offset, room) in
            [(0, 10, 4, 4), (3, 1, 7, 1), (4, 6, 10, 4), (9, 1, 17, 3), (10, 0, 18, 2)]
        {
            let found = Address::window(&index, 0, &index.entry(0).unwrap(), start, letters).unwrap();
            let lines = Lines::Even { room, letters: 4, gap: 2 };
            assert_eq!(found, Address { offset, letters: letters as u32, lines }, "{start}");
        }
    }

    #[test]
    fn letters_of_uneven_lines_are_counted_from_the_mark_before() {
        let lines = b"ACGTA\nA\n".repeat(20_000);
        let index = index_of(&[b">a\n", &*lines, b">b\n"].concat());
        let (entry, end) = (index.entry(0).unwrap(), 3 + lines.len() as u64);
        // Six letters in eight bytes: 49152 letters before each mark.
        for (start, offset, skip) in
            [(0, 3, 0), (49_151, 3, 49_151), (49_152, 3 + MARK_STEP, 0), (99_000, 3 + 2 * MARK_STEP, 696)]
        {
            let found = Address::window(&index, 0, &entry, start, 5).unwrap();
            assert_eq!(found, Address { offset, letters: 5, lines: Lines::Uneven { skip, end } }, "{start}");
        }
    }

    #[test]
    fn windows_beyond_the_record_are_refused() {
        let index = index_of(b">a\nACGT\n>b\n");
        for (row, start, letters) in [(0, 0, 5), (0, 4, 1), (0, 1, u64::MAX), (1, 0, 1)] {
            let entry = index.entry(row).unwrap();
            assert!(Address::window(&index, row, &entry, start, letters).is_err(), "{start}, {letters}");
        }
        assert_eq!(Address::window(&index, 1, &index.entry(1).unwrap(), 0, 0).unwrap().letters, 0);
    }
}
