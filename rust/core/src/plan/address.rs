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
