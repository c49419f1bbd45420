//! The pieces that sequences become, and their order by length.

use std::cmp::Reverse;

use super::rules::{Overflow, Rules};
use crate::error::{Error, Result};

/// The most pieces of a plan: they are numbered with 32 bits.
pub const MOST_PIECES: u64 = u32::MAX as u64;

/// The most letters of a piece: it is part of a batch, whose places are counted with 32 bits.
pub const MOST_LETTERS: u64 = u32::MAX as u64;

/// Lengths up to this are always sorted by counting; longer ones if there are as many pieces.
const SHORT: u64 = 1 << 16;

/// A piece by its number, with its letters: what packing looks at, all in one place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weighed {
    pub number: u32,
    pub letters: u32,
}

/// The pieces of all sequences, in the order of rows, none of which is stored unless some sequence is split.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    lengths: &'a [u64],
    rules: &'a Rules,
    /// Row and part of each piece, where they don't follow from its number.
    split: Option<Vec<(u32, u32)>>,
    /// Letters of the longest piece.
    longest: u64,
    /// How many sequences are cut.
    pub truncated: u64,
}

impl<'a> Pieces<'a> {
    /// The pieces of sequences; an error if the rules don't allow one of them.
    pub fn of(lengths: &'a [u64], rules: &'a Rules) -> Result<Self> {
        let mut count = 0_u64;
        let mut too_long = 0;
        let mut longest = 0;
        for &length in lengths {
            count = count.saturating_add(rules.parts(length));
            too_long += u64::from(rules.is_too_long(length));
            longest = longest.max(length.min(rules.max_length.unwrap_or(u64::MAX)));
        }
        if rules.overflow == Overflow::Error && too_long > 0 {
            return Err(refuse_too_long(lengths, rules, too_long));
        }
        if count > MOST_PIECES {
            return Err(Error::Mismatch(format!(
                "the sequences are {count} pieces, but a plan has at most {MOST_PIECES}; plan parts of them, or raise max_length"
            )));
        }
        if rules.cost(longest) > rules.max_tokens || longest > MOST_LETTERS {
            return Err(refuse_longest(lengths, rules, longest));
        }
        let split = (count > lengths.len() as u64).then(|| {
            let parts = |(row, &length): (u32, &u64)| (0..rules.parts(length) as u32).map(move |part| (row, part));
            let mut split = Vec::with_capacity(count as usize);
            split.extend((0..).zip(lengths).flat_map(parts));
            split
        });
        let truncated = if rules.overflow == Overflow::Truncate { too_long } else { 0 };
        Ok(Self { lengths, rules, split, longest, truncated })
    }

    pub fn len(&self) -> usize {
        self.split.as_ref().map_or(self.lengths.len(), Vec::len)
    }

    /// Row and start of a piece.
    #[inline]
    pub fn place(&self, number: u32) -> (u32, u64) {
        match &self.split {
            None => (number, 0),
            Some(split) => {
                let (row, part) = split[number as usize];
                (row, u64::from(part) * self.rules.step())
            }
        }
    }

    /// All pieces, the longest first, equal ones as they were.
    pub fn by_length(&self) -> Vec<Weighed> {
        if self.longest > SHORT.max(self.len() as u64) {
            let mut sorted: Vec<Weighed> = self.sizes().collect();
            sorted.sort_by_key(|piece| Reverse(piece.letters));
            return sorted;
        }
        let rank = |piece: &Weighed| (self.longest - u64::from(piece.letters)) as usize;
        let mut starts = vec![0_u32; self.longest as usize + 1];
        self.sizes().for_each(|piece| starts[rank(&piece)] += 1);
        let mut before = 0;
        for start in &mut starts {
            before += std::mem::replace(start, before);
        }
        let mut sorted = vec![Weighed::default(); self.len()];
        for piece in self.sizes() {
            let start = &mut starts[rank(&piece)];
            sorted[*start as usize] = piece;
            *start += 1;
        }
        sorted
    }

    /// All pieces, in the order of rows.
    fn sizes(&self) -> impl Iterator<Item = Weighed> + '_ {
        let letters = move |(row, &length): (u32, &u64)| {
            (0..self.rules.parts(length)).map(move |part| self.rules.piece(row, length, part).letters as u32)
        };
        (0..).zip((0..).zip(self.lengths).flat_map(letters)).map(|(number, letters)| Weighed { number, letters })
    }
}

#[cold]
fn refuse_too_long(lengths: &[u64], rules: &Rules, count: u64) -> Error {
    let row = lengths.iter().position(|&length| rules.is_too_long(length)).unwrap_or(0);
    let (most, length) = (rules.max_length.unwrap_or(u64::MAX), lengths.get(row).copied().unwrap_or(0));
    let (are, them) = if count == 1 { ("1 sequence is", "it") } else { (&*format!("{count} sequences are"), "them") };
    Error::Mismatch(format!(
        "{are} longer than max_length, which is {most}; the first is row {row} with {length} letters; overflow=\"truncate\" cuts {them}, \"split\" splits {them}"
    ))
}

#[cold]
fn refuse_longest(lengths: &[u64], rules: &Rules, longest: u64) -> Error {
    let row = lengths.iter().position(|&length| length >= longest).unwrap_or(0);
    let (cost, specials, budget) = (rules.cost(longest), rules.specials, rules.max_tokens);
    if cost <= budget {
        return Error::Mismatch(format!(
            "row {row} has {longest} letters, but a piece has at most {MOST_LETTERS}; set max_length"
        ));
    }
    let shorten = match budget.saturating_sub(specials) {
        0 => String::new(),
        most => format!(", or set max_length to {most} or less"),
    };
    Error::Mismatch(format!(
        "the budget of {budget} tokens is smaller than the longest sequence: row {row} costs {cost} tokens ({longest} letters and {specials} specials); raise max_tokens to {cost}{shorten}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::rules::Layout;
    use super::*;

    fn sorted(lengths: &[u64], rules: &Rules) -> Vec<(u32, u64, u64)> {
        let pieces = Pieces::of(lengths, rules).unwrap();
        let piece = |piece: Weighed| (pieces.place(piece.number), piece.letters.into());
        pieces.by_length().into_iter().map(piece).map(|((row, start), letters)| (row, start, letters)).collect()
    }

    fn rules(max_length: Option<u64>, overflow: Overflow) -> Rules {
        Rules { max_tokens: 1 << 40, max_length, specials: 0, overflow, layout: Layout::Packed }
    }

    #[test]
    fn pieces_come_by_length_then_row_then_start() {
        let split = rules(Some(4), Overflow::Split { overlap: 1 });
        assert_eq!(sorted(&[2, 9, 4], &split), [(1, 0, 4), (1, 3, 4), (2, 0, 4), (1, 6, 3), (0, 0, 2)]);
        let cut = rules(Some(4), Overflow::Truncate);
        assert_eq!(sorted(&[2, 9, 4], &cut), [(1, 0, 4), (2, 0, 4), (0, 0, 2)]);
        assert_eq!(sorted(&[], &cut), []);
    }

    #[test]
    fn long_sequences_are_sorted_as_short_ones_are() {
        let lengths: Vec<u64> = (0..1000).map(|k| k * 7919 % 97).collect();
        let long: Vec<u64> = lengths.iter().map(|length| length << 24).collect();
        let rows = |lengths: &[u64]| -> Vec<u32> {
            sorted(lengths, &rules(None, Overflow::Truncate)).iter().map(|piece| piece.0).collect()
        };
        assert_eq!(rows(&lengths), rows(&long));
    }
}
