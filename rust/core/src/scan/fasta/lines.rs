//! The lines of one record, summed up as they pass: how long, how shaped, how regular.

/// One line's letters and its bytes with the line end, as in columns 4 and 5 of a `.fai`.
///
/// A last line without a line end counts one byte for it, as samtools counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineShape {
    /// Letters in the line.
    pub bases: u64,
    /// Bytes in the line, its end included.
    pub bytes: u64,
}

/// How the lines of a record depart from "all alike, the last one shorter or equal".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unevenness {
    /// A line longer than the first, or any line after a shorter one.
    pub ragged: bool,
    /// A blank line before the last letters.
    pub blank: bool,
    /// Blanks inside a line, or line ends that differ, so that equal lines hold unequal numbers of letters.
    pub spaced: bool,
}

impl Unevenness {
    /// Whether the place of a letter can be computed.
    #[must_use]
    pub fn is_even(self) -> bool {
        self == Self::default()
    }
}

/// A run of consecutive lines of one record. Runs of neighbouring chunks are joined by [`LineRun::join`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "four facts that don't depend on each other")]
pub struct LineRun {
    /// Letters in all lines.
    pub bases: u64,
    /// The first line that is not blank.
    pub first: LineShape,
    /// Where that line starts.
    pub first_at: u64,
    /// How the lines so far depart from the rule.
    pub uneven: Unevenness,
    /// Lines that are not blank.
    pub lines: u64,
    /// A blank line has passed that holds blanks, not just a line end.
    pub loose: bool,
    /// A line shorter than the first has passed: no other may follow.
    short: bool,
    /// A blank line came before the first one that is not.
    blank_before: bool,
    /// A blank line came after the last one that is not.
    blank_after: bool,
}

/// A line as it was measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// Where it starts in the file.
    pub at: u64,
    /// Its bytes with the line end.
    pub bytes: u64,
    /// Its bytes that are neither letters nor the newline.
    pub blanks: u64,
    /// Whether a carriage return stands before the newline.
    pub carriage: bool,
}

impl LineRun {
    /// Adds the next line.
    #[inline]
    pub(super) fn push(&mut self, line: Line) {
        let bases = line.bytes - 1 - line.blanks;
        let shape = LineShape { bases, bytes: line.bytes };
        let tidy = line.blanks == u64::from(line.carriage);
        let follows = tidy && bases > 0 && !self.short && !self.blank_after;
        if follows && shape.bytes <= self.first.bytes && (shape == self.first || shape.bytes < self.first.bytes) {
            self.short = shape.bytes < self.first.bytes;
            self.bases += bases;
            self.lines += 1;
        } else if follows && self.lines == 0 && !self.blank_before {
            *self = Self { bases, first: shape, first_at: line.at, lines: 1, ..Self::default() };
        } else {
            self.push_unlike(line.at, shape, tidy);
        }
    }

    /// The letters of the first line, if another line like it may follow and its end is a bare newline.
    #[inline]
    pub(super) fn plain_line(&self) -> Option<u64> {
        let plain = self.lines > 0 && !self.short && !self.blank_after && self.first.bytes == self.first.bases + 1;
        plain.then_some(self.first.bases)
    }

    /// Adds lines like the first, after [`LineRun::plain_line`] said that they may come.
    #[inline]
    pub(super) fn push_alike(&mut self, lines: u64) {
        self.bases += lines * self.first.bases;
        self.lines += lines;
    }

    #[cold]
    fn push_unlike(&mut self, at: u64, shape: LineShape, tidy: bool) {
        if shape.bases == 0 {
            self.loose |= !tidy;
            // Blank lines at the end of a record are common and harmless; they matter once letters follow.
            if self.lines == 0 {
                self.blank_before = true;
            } else {
                self.blank_after = true;
            }
            return;
        }
        let uneven = Unevenness { spaced: !tidy, ..Unevenness::default() };
        let blank_before = self.lines == 0 && self.blank_before;
        self.join(&Self {
            bases: shape.bases,
            first: shape,
            first_at: at,
            uneven,
            lines: 1,
            blank_before,
            ..Self::default()
        });
    }

    /// Adds the lines of the run that follows this one directly.
    pub fn join(&mut self, next: &Self) {
        let loose = self.loose || next.loose;
        self.loose = loose;
        if next.lines == 0 {
            let blank = next.blank_before || next.blank_after;
            self.blank_before |= blank && self.lines == 0;
            self.blank_after |= blank && self.lines > 0;
            return;
        }
        if self.lines == 0 {
            let blank_before = self.blank_before || next.blank_before;
            *self = Self { loose, blank_before, ..*next };
            self.uneven.blank |= blank_before;
            return;
        }
        self.uneven.blank |= self.blank_after || next.blank_before || next.uneven.blank;
        self.uneven.ragged |= self.short || next.uneven.ragged;
        self.uneven.spaced |= next.uneven.spaced;
        match next.first.bytes.cmp(&self.first.bytes) {
            std::cmp::Ordering::Equal => {
                self.uneven.spaced |= next.first.bases != self.first.bases;
                self.short |= next.short;
            }
            std::cmp::Ordering::Less => {
                self.uneven.ragged |= next.lines > 1;
                self.short = true;
            }
            std::cmp::Ordering::Greater => self.uneven.ragged = true,
        }
        self.bases += next.bases;
        self.lines += next.lines;
        self.blank_after = next.blank_after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(lines: &[&str]) -> LineRun {
        let mut run = LineRun::default();
        let mut at = 0;
        for line in lines {
            let blanks = line.bytes().filter(|b| !b.is_ascii_graphic()).count() as u64;
            let bytes = line.len() as u64 + 1;
            run.push(Line { at, bytes, blanks, carriage: line.ends_with('\r') });
            at += bytes;
        }
        run
    }

    #[test]
    fn the_rule_and_its_exceptions() {
        type Flags = (bool, bool, bool);
        let table: &[(&[&str], Flags)] = &[
            (&["ACGT", "ACGT", "AC"], (false, false, false)),
            (&["ACGT", "ACGT"], (false, false, false)),
            (&["ACGT\r", "AC\r"], (false, false, false)),
            (&["ACGT", "", ""], (false, false, false)),
            (&["AC", "ACGT"], (true, false, false)),
            (&["ACGT", "AC", "ACGT"], (true, false, false)),
            (&["ACGT", "AC", "AC"], (true, false, false)),
            (&["ACGT", "", "AC"], (false, true, false)),
            (&["", "ACGT"], (false, true, false)),
            (&["AC GT", "ACGTA"], (false, false, true)),
            (&["ACGT ", "ACGT "], (false, false, true)),
            (&["ACGT\r", "ACGTA"], (false, false, true)),
            (&[], (false, false, false)),
        ];
        for (lines, (ragged, blank, spaced)) in table {
            assert_eq!(run(lines).uneven, Unevenness { ragged: *ragged, blank: *blank, spaced: *spaced }, "{lines:?}");
        }
    }

    /// Ragged lines are ragged: what else is odd about them depends on where they were cut, and nobody asks.
    fn settled(mut run: LineRun) -> LineRun {
        run.short &= !run.uneven.ragged;
        run.uneven.spaced &= !run.uneven.ragged;
        run
    }

    #[test]
    fn a_run_cut_anywhere_and_joined_is_the_whole_run() {
        let pieces = ["ACGT", "AC", "", "A CG", "ACGT\r", "ACGTACGT", " "];
        // All files of up to five of these lines, cut after every line.
        for code in 0..7_usize.pow(5) {
            let lines: Vec<&str> = (0..5).map(|k| pieces[code / 7_usize.pow(k) % 7]).collect();
            let whole = run(&lines);
            for cut in 0..=lines.len() {
                let mut joined = run(&lines[..cut]);
                let mut rest = run(&lines[cut..]);
                let before: u64 = lines[..cut].iter().map(|l| l.len() as u64 + 1).sum();
                rest.first_at += if rest.lines > 0 { before } else { 0 };
                joined.join(&rest);
                assert_eq!(settled(joined), settled(whole), "{lines:?} cut at {cut}");
            }
        }
    }
}
