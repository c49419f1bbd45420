//! Where the letters of a window lie.

use crate::error::{Error, Result};
use crate::index::sidx::{Entry, Sidx};
use crate::scan::fasta::marks::MARK_STEP;

/// The place of some consecutive letters of a record, line ends among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// Lines are alike: after `room` letters come `gap` bytes of line end, then lines of `line_bases` letters.
    Even {
        /// Where the first letter stands.
        offset: u64,
        /// How many letters to take.
        letters: u64,
        /// Letters from the first one to the end of its line.
        room: u64,
        /// Letters per line.
        line_bases: u64,
        /// Bytes of a line's end.
        gap: u64,
    },
    /// Lines differ: count letters.
    Uneven {
        /// Where to start counting.
        offset: u64,
        /// Letters to pass over.
        skip: u64,
        /// How many letters to take.
        letters: u64,
        /// Where the record ends.
        end: u64,
    },
}

impl Address {
    /// The address of `letters` letters of record `row` from letter `start` on. The window must lie inside the record.
    pub fn window(index: &Sidx, row: u64, entry: &Entry, start: u64, letters: u64) -> Result<Self> {
        if start.checked_add(letters).is_none_or(|end| end > entry.length) {
            return Err(Error::Mismatch(format!(
                "letters {start} to {} of row {row} were asked for, but it has {}",
                start.saturating_add(letters),
                entry.length
            )));
        }
        if entry.is_uneven() {
            let marks = index.marks(row)?;
            let step = marks.partition_point(|&before| before <= start);
            let before = if step == 0 { 0 } else { marks[step - 1] };
            let offset = entry.sequence_offset.saturating_add(step as u64 * MARK_STEP);
            return Ok(Self::Uneven { offset, skip: start - before, letters, end: index.end(row)? });
        }
        Ok(Self::even(entry, start, letters))
    }

    fn even(entry: &Entry, start: u64, letters: u64) -> Self {
        // An empty record has no lines; one letter per line keeps the arithmetic whole.
        let line_bases = u64::from(entry.line_bases).max(1);
        let (line, column) = (start / line_bases, start % line_bases);
        // Saturation ends beyond any file, where the read is refused.
        let offset =
            entry.sequence_offset.saturating_add(line.saturating_mul(entry.line_bytes.into())).saturating_add(column);
        let gap = u64::from(entry.line_bytes).saturating_sub(line_bases);
        Self::Even { offset, letters, room: line_bases - column, line_bases, gap }
    }

    /// Where it starts.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match *self {
            Self::Even { offset, .. } | Self::Uneven { offset, .. } => offset,
        }
    }

    /// How many letters it covers.
    #[must_use]
    pub fn letters(&self) -> u64 {
        match *self {
            Self::Even { letters, .. } | Self::Uneven { letters, .. } => letters,
        }
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
            assert_eq!(found, Address::Even { offset, letters, room, line_bases: 4, gap: 2 }, "{start}");
            assert_eq!((found.offset(), found.letters()), (offset, letters));
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
            assert_eq!(found, Address::Uneven { offset, skip, letters: 5, end }, "{start}");
            assert_eq!((found.offset(), found.letters()), (offset, 5));
        }
    }

    #[test]
    fn windows_beyond_the_record_are_refused() {
        let index = index_of(b">a\nACGT\n>b\n");
        for (row, start, letters) in [(0, 0, 5), (0, 4, 1), (0, 1, u64::MAX), (1, 0, 1)] {
            let entry = index.entry(row).unwrap();
            assert!(Address::window(&index, row, &entry, start, letters).is_err(), "{start}, {letters}");
        }
        assert_eq!(Address::window(&index, 1, &index.entry(1).unwrap(), 0, 0).unwrap().letters(), 0);
    }
}
