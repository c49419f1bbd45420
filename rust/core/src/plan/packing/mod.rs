//! Which sequences share a batch, decided from their lengths alone, for all of them at once.
//!
//! Sequences become pieces ([`rules`]), pieces are sorted by length, and each goes into the batch that it fills best
//! (`rooms`): best fit decreasing, which leaves next to nothing of a batch empty where there are many sequences. Equal
//! lengths keep the order of rows, so that a plan follows from lengths and rules.

mod pieces;
pub mod repacking;
mod rooms;
pub mod rules;

pub use pieces::{MOST_LETTERS, MOST_PIECES};
pub use repacking::{check_descending, repack};
pub use rules::{Layout, Overflow, Piece, Rules};

use std::cmp::Reverse;

use crate::error::{Error, Result};
use pieces::{Pieces, Weighed};
use rooms::Rooms;

/// Batches of pieces, those with the most tokens first.
///
/// ```
/// use seekset_core::plan::packing::{Layout, Overflow, Rules, pack};
/// let rules = Rules {
///     max_tokens: 12,
///     max_length: Some(10),
///     specials: 2,
///     overflow: Overflow::Truncate,
///     layout: Layout::Packed,
/// };
/// let packing = pack(&[3, 30, 5, 0], rules)?;
/// let rows = |batch| packing.batch(batch).map(|piece| piece.row).collect::<Vec<_>>();
/// assert_eq!((rows(0), rows(1)), (vec![1], vec![2, 0]));
/// assert_eq!((packing.tokens(), packing.truncated), (&[12, 12, 2][..], 1));
/// # Ok::<(), seekset_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Packing {
    /// What was asked for.
    pub rules: Rules,
    /// How many sequences there are.
    pub sequences: u64,
    /// How many of them were cut.
    pub truncated: u64,
    /// Tokens of all batches.
    pub total_tokens: u64,
    /// Tokens that the batches would take if none were empty: their budgets, or, padded, with their padding.
    pub capacity: u128,
    ends: Vec<u64>,
    rows: Vec<u32>,
    starts: Vec<u64>,
    letters: Vec<u32>,
    tokens: Vec<u64>,
}

impl Packing {
    /// How many batches there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// How many tokens each batch has.
    #[must_use]
    pub fn tokens(&self) -> &[u64] {
        &self.tokens
    }

    /// Where the pieces of each batch end among all pieces, starting with a 0.
    #[must_use]
    pub fn ends(&self) -> &[u64] {
        &self.ends
    }

    /// Rows, starts and letters of all pieces, batch after batch.
    #[must_use]
    pub fn columns(&self) -> (&[u32], &[u64], &[u32]) {
        (&self.rows, &self.starts, &self.letters)
    }

    /// The pieces of a batch, longest first; of a batch that is not there, none.
    pub fn batch(&self, batch: usize) -> impl Iterator<Item = Piece> + '_ {
        let end = |at: usize| self.ends.get(at).map_or(self.rows.len(), |&end| end as usize);
        let piece = |at: usize| Piece { row: self.rows[at], start: self.starts[at], letters: self.letters[at].into() };
        (end(batch)..end(batch.saturating_add(1))).map(piece)
    }

    /// Which part of the batches' capacity is tokens: from 0 to 1.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        efficiency(self.total_tokens, self.capacity)
    }
}

/// Tokens as a part of the capacity; all of it where there is none.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a ratio has no more digits")]
pub fn efficiency(tokens: u64, capacity: u128) -> f64 {
    if capacity == 0 { 1.0 } else { tokens as f64 / capacity as f64 }
}

/// Packs sequences of these lengths into batches: every letter that the rules keep is in one batch, empty sequences too.
pub fn pack(lengths: &[u64], rules: Rules) -> Result<Packing> {
    rules.check()?;
    let pieces = Pieces::of(lengths, &rules)?;
    let order = pieces.by_length();
    let filled = match rules.layout {
        Layout::Packed => best_fit(&order, &rules),
        Layout::Padded => alike(&order, &rules),
    };
    filled.into_packing(&pieces, &order, rules, lengths.len() as u64)
}

/// Which batch each piece is in, in the order of pieces, and what the batches hold.
#[derive(Default)]
struct Filled {
    batch_of: Vec<u32>,
    tokens: Vec<u64>,
    counts: Vec<u32>,
    capacity: u128,
}

impl Filled {
    fn open(&mut self) -> u32 {
        self.tokens.push(0);
        self.counts.push(0);
        (self.tokens.len() - 1) as u32
    }

    #[inline]
    fn add(&mut self, batch: u32, cost: u64) {
        self.batch_of.push(batch);
        self.tokens[batch as usize] += cost; // at most the budget
        self.counts[batch as usize] += 1;
    }

    /// Numbers batches by tokens and puts their pieces together.
    fn into_packing(self, pieces: &Pieces<'_>, order: &[Weighed], rules: Rules, sequences: u64) -> Result<Packing> {
        let mut by_tokens: Vec<u32> = (0..self.tokens.len() as u32).collect();
        by_tokens.sort_by_key(|&batch| Reverse(self.tokens[batch as usize]));
        let mut ends = Vec::with_capacity(by_tokens.len() + 1);
        ends.push(0);
        // Where the next piece of each batch goes.
        let mut places = vec![0_u32; by_tokens.len()];
        let mut end = 0;
        for &batch in &by_tokens {
            places[batch as usize] = end;
            end += self.counts[batch as usize];
            ends.push(u64::from(end));
        }
        let (mut rows, mut letters) = (vec![0; order.len()], vec![0; order.len()]);
        let mut starts = vec![0; order.len()];
        for (piece, &batch) in order.iter().zip(&self.batch_of) {
            let (place, (row, start)) = (&mut places[batch as usize], pieces.place(piece.number));
            rows[*place as usize] = row;
            letters[*place as usize] = piece.letters;
            if start > 0 {
                starts[*place as usize] = start; // where none is split, pages of zeros are never touched
            }
            *place += 1;
        }
        let tokens: Vec<u64> = by_tokens.iter().map(|&batch| self.tokens[batch as usize]).collect();
        let total = tokens.iter().try_fold(0_u64, |sum, &tokens| sum.checked_add(tokens));
        let total_tokens = total.ok_or_else(|| Error::Mismatch("a plan has less than 2^64 tokens".to_owned()))?;
        let (truncated, capacity) = (pieces.truncated, self.capacity);
        Ok(Packing { rules, sequences, truncated, total_tokens, capacity, ends, rows, starts, letters, tokens })
    }
}

/// Each piece goes into the batch that it leaves the least room in. What costs nothing goes into the fullest one.
fn best_fit(order: &[Weighed], rules: &Rules) -> Filled {
    let mut filled = Filled { batch_of: Vec::with_capacity(order.len()), ..Filled::default() };
    let mut rooms = Rooms::new(rules.max_tokens, order.len());
    for piece in order {
        let cost = rules.cost(piece.letters.into());
        let (batch, room) = rooms.take(cost).unwrap_or_else(|| (filled.open(), rules.max_tokens));
        filled.add(batch, cost);
        rooms.put(batch, room - cost);
    }
    filled.capacity = filled.tokens.len() as u128 * u128::from(rules.max_tokens);
    filled
}

/// Neighbours in the order share a batch, as many as fit when each is as long as the first.
fn alike(order: &[Weighed], rules: &Rules) -> Filled {
    let mut filled = Filled { batch_of: Vec::with_capacity(order.len()), ..Filled::default() };
    let mut rest = order;
    while let Some(first) = rest.first() {
        let longest = rules.cost(first.letters.into());
        let fit = rules.max_tokens.checked_div(longest).unwrap_or(u64::MAX);
        let (now, later) = rest.split_at(rest.len().min(usize::try_from(fit).unwrap_or(usize::MAX)));
        let batch = filled.open();
        for piece in now {
            filled.add(batch, rules.cost(piece.letters.into()));
        }
        filled.capacity += now.len() as u128 * u128::from(longest);
        rest = later;
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(max_tokens: u64, max_length: Option<u64>, overflow: Overflow) -> Rules {
        Rules { max_tokens, max_length, specials: 2, overflow, layout: Layout::Packed }
    }

    fn rows(packing: &Packing) -> Vec<Vec<u32>> {
        (0..packing.len()).map(|batch| packing.batch(batch).map(|piece| piece.row).collect()).collect()
    }

    #[test]
    fn pieces_go_where_they_leave_the_least_room() {
        // 10 and 7 open batches of 13; 3 fills the first exactly, 6 the second.
        let packing = pack(&[4, 1, 8, 5], rules(13, None, Overflow::Truncate)).unwrap();
        assert_eq!(rows(&packing), [[2, 1], [3, 0]]);
        assert_eq!(packing.tokens(), [13, 13]);
        assert!((packing.efficiency() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn batches_come_by_tokens_and_equal_ones_as_they_were_opened() {
        let packing = pack(&[3, 8, 8, 6], rules(10, None, Overflow::Truncate)).unwrap();
        assert_eq!(rows(&packing), [[1], [2], [3], [0]]);
        assert_eq!(packing.tokens(), [10, 10, 8, 5]);
        assert_eq!((packing.total_tokens, packing.capacity), (33, 40));
    }

    #[test]
    fn empty_sequences_are_in_one_batch_each_whatever_they_cost() {
        assert_eq!(rows(&pack(&[0, 5, 0], rules(7, None, Overflow::Error)).unwrap()), [vec![1], vec![0, 2]]);
        // Without specials they cost nothing: they go to the batch that is fullest.
        let free = Rules { specials: 0, ..rules(7, None, Overflow::Error) };
        assert_eq!(rows(&pack(&[0, 7, 0, 3], free).unwrap()), [vec![1, 0, 2], vec![3]]);
        let nothing = pack(&[0, 0], free).unwrap();
        assert_eq!((rows(&nothing), nothing.tokens()), (vec![vec![0, 1]], &[0][..]));
        let padded = pack(&[0, 0], Rules { layout: Layout::Padded, ..free }).unwrap();
        assert_eq!((rows(&padded), padded.capacity, padded.efficiency()), (vec![vec![0, 1]], 0, 1.0));
    }

    #[test]
    fn no_sequences_are_no_batches() {
        let packing = pack(&[], rules(10, None, Overflow::Truncate)).unwrap();
        assert!(packing.is_empty() && packing.ends() == [0] && packing.batch(0).next().is_none());
    }

    #[test]
    fn long_sequences_are_cut_split_or_refused() {
        let lengths = [9, 30, 10];
        let cut = pack(&lengths, rules(24, Some(10), Overflow::Truncate)).unwrap();
        assert_eq!((cut.truncated, cut.total_tokens), (1, 35));
        let split = pack(&lengths, rules(24, Some(10), Overflow::Split { overlap: 2 })).unwrap();
        let pieces: Vec<(u32, u64, u64)> = (0..split.len())
            .flat_map(|k| split.batch(k))
            .map(|piece| (piece.row, piece.start, piece.letters))
            .collect();
        assert_eq!(pieces, [(1, 0, 10), (1, 8, 10), (1, 16, 10), (2, 0, 10), (0, 0, 9), (1, 24, 6)]);
        assert_eq!(split.truncated, 0);
        let message = pack(&lengths, rules(24, Some(9), Overflow::Error)).unwrap_err().to_string();
        assert!(message.contains("2 sequences are longer than max_length, which is 9"), "{message}");
        assert!(message.contains("the first is row 1 with 30 letters"), "{message}");
    }

    #[test]
    fn a_budget_smaller_than_the_longest_sequence_is_refused() {
        let message = pack(&[3, 30, 5], rules(11, Some(10), Overflow::Truncate)).unwrap_err().to_string();
        assert_eq!(
            message,
            "the budget of 11 tokens is smaller than the longest sequence: row 1 costs 12 tokens (10 letters and 2 \
             specials); raise max_tokens to 12, or set max_length to 9 or less"
        );
        assert!(
            pack(&[0], rules(1, None, Overflow::Truncate)).unwrap_err().to_string().ends_with("raise max_tokens to 2")
        );
    }

    #[test]
    fn hostile_lengths_and_budgets_take_no_memory_and_do_not_overflow() {
        for budget in [1 << 60, u64::MAX] {
            let packing = pack(&[5, 1 << 20, 7], rules(budget, None, Overflow::Truncate)).unwrap();
            assert_eq!((rows(&packing), packing.total_tokens), (vec![vec![1, 2, 0]], (1 << 20) + 18));
            let padded = Rules { layout: Layout::Padded, ..rules(budget, None, Overflow::Truncate) };
            assert_eq!(pack(&[5, 1 << 20, 7], padded).unwrap().capacity, 3 * ((1 << 20) + 2));
        }
        for (lengths, wrong) in [
            (&[u64::MAX][..], rules(100, None, Overflow::Truncate)),
            (&[u64::MAX], rules(u64::MAX, None, Overflow::Truncate)),
            (&[u64::MAX, u64::MAX], rules(100, Some(1), Overflow::Split { overlap: 0 })),
            (&[u64::MAX], rules(100, Some(98), Overflow::Error)),
            (&[1 << 40], rules(u64::MAX, None, Overflow::Truncate)),
        ] {
            assert!(matches!(pack(lengths, wrong), Err(Error::Mismatch(_))), "{lengths:?}, {wrong:?}");
        }
        let cut = pack(&[u64::MAX], rules(100, Some(98), Overflow::Truncate)).unwrap();
        assert_eq!((cut.truncated, cut.tokens()), (1, &[100][..]));
    }

    #[test]
    fn padded_batches_are_of_similar_length() {
        let padded = Rules { layout: Layout::Padded, ..rules(20, None, Overflow::Truncate) };
        let packing = pack(&[3, 8, 8, 6, 1, 2], padded).unwrap();
        assert_eq!(rows(&packing), [vec![1, 2], vec![3, 0], vec![5, 4]]);
        assert_eq!((packing.tokens(), packing.capacity), (&[20, 13, 7][..], 20 + 16 + 8));
    }
}
