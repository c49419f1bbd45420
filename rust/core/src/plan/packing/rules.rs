//! What a plan was asked for, and the arithmetic of pieces that follows from it.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// How sequences become batches.
///
/// ```
/// use seekset_core::plan::packing::{Layout, Overflow, Rules};
/// let rules = Rules {
///     max_tokens: 4096,
///     max_length: Some(1000),
///     specials: 2,
///     overflow: Overflow::Split { overlap: 100 },
///     layout: Layout::Packed,
/// };
/// assert_eq!(rules.parts(2000), 3);
/// let piece = rules.piece(7, 2000, 2);
/// assert_eq!((piece.row, piece.start, piece.letters), (7, 1800, 200));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The most tokens of a batch.
    pub max_tokens: u64,
    /// The most letters of a piece; `None` leaves sequences as long as they are.
    pub max_length: Option<u64>,
    /// Tokens that every piece has beside its letters.
    pub specials: u64,
    /// What becomes of sequences longer than `max_length`.
    pub overflow: Overflow,
    /// What a batch's tokens are counted as.
    pub layout: Layout,
}

/// What becomes of sequences longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// They are cut, and counted.
    Truncate,
    /// They become several pieces, each of which repeats the last `overlap` letters of the one before it.
    Split {
        /// Letters that neighbouring pieces share.
        overlap: u64,
    },
    /// They are refused.
    Error,
}

/// How a batch lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One piece after another.
    Packed,
    /// Each piece filled up to the longest.
    Padded,
}

/// Some consecutive letters of a sequence, or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The sequence.
    pub row: u32,
    /// Its letter that comes first.
    pub start: u64,
    /// How many letters there are.
    pub letters: u64,
}

/// Specials beyond this are a mistake, and would make sums overflow.
const MOST_SPECIALS: u64 = u32::MAX as u64;

impl Rules {
    /// An error if the rules contradict each other.
    pub fn check(&self) -> Result<()> {
        let wrong = match (self.max_tokens, self.max_length, self.overflow) {
            (0, ..) => "max_tokens must be at least 1, but is 0".to_owned(),
            (_, Some(0), _) => "max_length must be at least 1, but is 0".to_owned(),
            (_, None, Overflow::Split { .. }) => "overflow=\"split\" needs a max_length to split at".to_owned(),
            (_, Some(most), Overflow::Split { overlap }) if overlap >= most => {
                format!("the overlap must be less than max_length, which is {most}, but is {overlap}")
            }
            _ if self.specials > MOST_SPECIALS => {
                format!("a sequence has at most {MOST_SPECIALS} specials, but {} were given", self.specials)
            }
            _ => return Ok(()),
        };
        Err(Error::Mismatch(wrong))
    }

    /// Whether a sequence of this length is longer than allowed.
    #[must_use]
    pub fn is_too_long(&self, length: u64) -> bool {
        self.max_length.is_some_and(|most| length > most)
    }

    /// How many pieces a sequence of this length becomes.
    #[must_use]
    pub fn parts(&self, length: u64) -> u64 {
        match (self.overflow, self.max_length) {
            (Overflow::Split { .. }, Some(most)) if length > most => 1 + (length - most).div_ceil(self.step()),
            _ => 1,
        }
    }

    /// Piece `part` of sequence `row`, which has `length` letters.
    #[must_use]
    pub fn piece(&self, row: u32, length: u64, part: u64) -> Piece {
        let start = part.saturating_mul(self.step()).min(length);
        let most = self.max_length.unwrap_or(u64::MAX);
        Piece { row, start, letters: (length - start).min(most) }
    }

    /// How far the starts of neighbouring pieces are apart.
    pub(super) fn step(&self) -> u64 {
        match (self.overflow, self.max_length) {
            (Overflow::Split { overlap }, Some(most)) => most.saturating_sub(overlap).max(1),
            _ => u64::MAX,
        }
    }

    /// Whether a piece is one that these rules make of a sequence of `length` letters.
    #[must_use]
    pub fn makes(&self, piece: Piece, length: u64) -> bool {
        let part = piece.start / self.step();
        part < self.parts(length) && self.piece(piece.row, length, part) == piece
    }

    /// The tokens of a piece with so many letters.
    #[must_use]
    pub fn cost(&self, letters: u64) -> u64 {
        letters.saturating_add(self.specials)
    }

    /// Sequences with the same number here can change places in a plan: they become the same pieces.
    #[must_use]
    pub fn class(&self, length: u64) -> u64 {
        match self.overflow {
            Overflow::Truncate => length.min(self.max_length.unwrap_or(u64::MAX)),
            Overflow::Split { .. } | Overflow::Error => length,
        }
    }
}

impl Overflow {
    /// Letters that neighbouring pieces share.
    #[must_use]
    pub fn overlap(self) -> u64 {
        if let Self::Split { overlap } = self { overlap } else { 0 }
    }

    /// The overflow of this name. Only pieces can overlap.
    pub fn named(name: &str, overlap: u64) -> Result<Self> {
        match (name, overlap) {
            ("split", overlap) => Ok(Self::Split { overlap }),
            ("truncate", 0) => Ok(Self::Truncate),
            ("error", 0) => Ok(Self::Error),
            ("truncate" | "error", overlap) => {
                Err(Error::Mismatch(format!("an overlap of {overlap} needs overflow=\"split\", not \"{name}\"")))
            }
            _ => Err(Error::Mismatch(format!("overflow must be \"truncate\", \"split\" or \"error\", not \"{name}\""))),
        }
    }
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncate => "truncate",
            Self::Split { .. } => "split",
            Self::Error => "error",
        })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Packed => "packed",
            Self::Padded => "padded",
        })
    }
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "packed" => Ok(Self::Packed),
            "padded" => Ok(Self::Padded),
            _ => Err(Error::Mismatch(format!("layout must be \"packed\" or \"padded\", not \"{name}\""))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(max_length: Option<u64>, overflow: Overflow) -> Rules {
        Rules { max_tokens: 100, max_length, specials: 2, overflow, layout: Layout::Packed }
    }

    #[test]
    fn pieces_of_a_split_sequence_cover_it_and_overlap() {
        for (most, overlap, length) in (1..8)
            .flat_map(|most| (0..most).flat_map(move |overlap| (0..40).map(move |length| (most, overlap, length))))
        {
            let rules = rules(Some(most), Overflow::Split { overlap });
            let pieces: Vec<Piece> = (0..rules.parts(length)).map(|part| rules.piece(0, length, part)).collect();
            let ends: Vec<u64> = pieces.iter().map(|piece| piece.start + piece.letters).collect();
            assert_eq!((pieces[0].start, *ends.last().unwrap()), (0, length));
            for (end, next) in ends.iter().zip(&pieces[1..]) {
                assert_eq!(next.start + overlap, *end);
                assert!(next.letters > overlap, "a piece of nothing new: {next:?} of {length}, {most} at a time");
            }
            assert!(pieces.iter().all(|piece| piece.letters <= most && rules.makes(*piece, length)));
        }
    }

    #[test]
    fn only_pieces_that_the_rules_make_are_recognised() {
        let split = rules(Some(10), Overflow::Split { overlap: 2 });
        let piece = |start, letters| Piece { row: 3, start, letters };
        for (wrong, length) in [(piece(0, 9), 20), (piece(1, 10), 20), (piece(16, 10), 20), (piece(24, 0), 20)] {
            assert!(!split.makes(wrong, length), "{wrong:?} of {length}");
        }
        let cut = rules(Some(10), Overflow::Truncate);
        assert!(cut.makes(piece(0, 10), 20) && cut.makes(piece(0, 0), 0));
        assert!(!cut.makes(piece(0, 10), 9) && !cut.makes(piece(10, 10), 20) && !cut.makes(piece(u64::MAX, 0), 20));
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let split = rules(Some(1), Overflow::Split { overlap: 0 });
        assert_eq!(split.parts(u64::MAX), u64::MAX);
        assert_eq!(split.piece(0, u64::MAX, u64::MAX - 1), Piece { row: 0, start: u64::MAX - 1, letters: 1 });
        assert_eq!(rules(None, Overflow::Truncate).piece(0, u64::MAX, 0).letters, u64::MAX);
        assert_eq!(split.cost(u64::MAX), u64::MAX);
    }

    #[test]
    fn rules_that_contradict_each_other_are_refused() {
        let sound = rules(Some(10), Overflow::Truncate);
        sound.check().unwrap();
        for (wrong, word) in [
            (Rules { max_tokens: 0, ..sound }, "max_tokens"),
            (Rules { max_length: Some(0), ..sound }, "max_length must be at least 1"),
            (Rules { specials: u64::MAX, ..sound }, "specials"),
            (rules(None, Overflow::Split { overlap: 0 }), "needs a max_length"),
            (rules(Some(10), Overflow::Split { overlap: 10 }), "less than max_length, which is 10, but is 10"),
        ] {
            assert!(wrong.check().unwrap_err().to_string().contains(word), "{word}");
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for overflow in [Overflow::Truncate, Overflow::Split { overlap: 5 }, Overflow::Error] {
            assert_eq!(Overflow::named(&overflow.to_string(), overflow.overlap()).unwrap(), overflow);
        }
        for layout in [Layout::Packed, Layout::Padded] {
            assert_eq!(layout.to_string().parse::<Layout>().unwrap(), layout);
        }
        assert!(Overflow::named("cut", 0).is_err() && Overflow::named("error", 1).is_err());
        assert!("Packed".parse::<Layout>().is_err());
    }
}
