//! The order of batches in an epoch, such that ranks which take every n-th of them have about as many tokens each.

use super::permutation::{Permutation, mix};
use crate::error::{Error, Result};

// What the numbers of one seed and epoch are drawn for.
const SHIFT: u64 = 0x7368_6966_7400_0000;
const MEMBERS: u64 = 0x6d65_6d62_6572_7300;

/// An order of batches that are sorted by tokens, for a number of ranks.
///
/// Batches are taken in groups of one for each rank, neighbours in the sorted order and so of about as many tokens. Groups are
/// permuted; inside a group, who gets which batch is rotated. The batches that are left over when all ranks have as many
/// stand last; the sorted order is rotated beforehand, so that they are others in every epoch. All of it is a pure
/// function of (batches, ranks, seed, epoch), frozen by the tests.
///
/// ```
/// use seekset_core::plan::BalancedOrder;
/// let order = BalancedOrder::new(10, 4, 7, 0)?;
/// let mut batches: Vec<u64> = (0..10).map(|place| order.at(place).unwrap()).collect();
/// assert_eq!(order.place_of(batches[3])?, 3);
/// batches.sort();
/// assert!(batches.into_iter().eq(0..10));
/// # Ok::<(), seekset_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BalancedOrder {
    len: u64,
    ranks: u64,
    groups: Permutation,
    /// Which batch stands first in the rotated order.
    shift: u64,
    members: u64,
}

impl BalancedOrder {
    /// The order of `len` batches for `ranks` ranks in an epoch.
    pub fn new(len: u64, ranks: u64, seed: u64, epoch: u64) -> Result<Self> {
        if ranks == 0 {
            return Err(Error::Mismatch("batches are for at least 1 rank, but 0 were given".to_owned()));
        }
        if len > Permutation::MAX_LEN {
            return Err(Error::Mismatch(format!("an order has at most 2^63 batches, but {len} were asked for")));
        }
        let base = mix(mix(seed).wrapping_add(epoch));
        let shift = mix(base ^ SHIFT).checked_rem(len).unwrap_or(0);
        let groups = Permutation::new(len / ranks, seed, epoch)?;
        Ok(Self { len, ranks, groups, shift, members: mix(base ^ MEMBERS) })
    }

    /// How many batches there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// For how many ranks the order is.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        self.ranks
    }

    /// The batch at a place of the order.
    pub fn at(&self, place: u64) -> Result<u64> {
        self.check(place)?;
        let (group, member) = (place / self.ranks, place % self.ranks);
        let sorted = if group < self.groups.len() {
            let group = self.groups.at(group)?;
            group * self.ranks + add(member, self.turn(group), self.ranks)
        } else {
            place
        };
        Ok(add(sorted, self.shift, self.len))
    }

    /// The place of a batch in the order: what [`BalancedOrder::at`] undoes.
    pub fn place_of(&self, batch: u64) -> Result<u64> {
        self.check(batch)?;
        let sorted = add(batch, self.len - self.shift, self.len);
        let (group, member) = (sorted / self.ranks, sorted % self.ranks);
        if group >= self.groups.len() {
            return Ok(sorted);
        }
        Ok(self.groups.place_of(group)? * self.ranks + add(member, self.ranks - self.turn(group), self.ranks))
    }

    /// The batches at many places, as signed numbers because Python's are.
    pub fn take(&self, places: &[i64]) -> Result<Vec<i64>> {
        let batch = |&place: &i64| {
            let inside = u64::try_from(place).map_err(|_| self.outside(place))?;
            self.at(inside).map(|batch| batch as i64)
        };
        places.iter().map(batch).collect()
    }

    /// By how many ranks the members of a group are moved on.
    fn turn(&self, group: u64) -> u64 {
        mix(self.members.wrapping_add(group)) % self.ranks
    }

    fn check(&self, value: u64) -> Result<()> {
        if value < self.len { Ok(()) } else { Err(self.outside(i64::try_from(value).unwrap_or(i64::MAX))) }
    }

    fn outside(&self, row: i64) -> Error {
        Error::RowOutOfRange { row, rows: self.len }
    }
}

/// A sum in a ring. Both numbers are at most `ring`, which may be as large as they come.
fn add(a: u64, b: u64, ring: u64) -> u64 {
    ((u128::from(a) + u128::from(b)) % u128::from(ring)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(len: u64, ranks: u64, seed: u64, epoch: u64) -> Vec<u64> {
        let order = BalancedOrder::new(len, ranks, seed, epoch).unwrap();
        (0..len).map(|place| order.at(place).unwrap()).collect()
    }

    #[test]
    fn every_batch_has_one_place() {
        for (len, ranks) in (0..40).flat_map(|len| (1..12).chain([50, u64::MAX]).map(move |ranks| (len, ranks))) {
            for epoch in 0..3 {
                let order = BalancedOrder::new(len, ranks, 9, epoch).unwrap();
                let mut batches: Vec<u64> = (0..len).map(|place| order.at(place).unwrap()).collect();
                for (place, &batch) in (0..).zip(&batches) {
                    assert_eq!(order.place_of(batch).unwrap(), place, "{len} batches, {ranks} ranks");
                }
                batches.sort_unstable();
                assert!(batches.into_iter().eq(0..len), "{len} batches, {ranks} ranks");
            }
        }
    }

    #[test]
    fn orders_never_change_between_versions() {
        assert_eq!(order(10, 4, 0, 0), [6, 7, 4, 5, 0, 1, 2, 3, 8, 9]);
        assert_eq!(order(10, 4, 0, 1), [2, 3, 4, 5, 8, 9, 6, 7, 0, 1]);
        assert_eq!(order(10, 3, 1, 0), [8, 9, 7, 1, 2, 0, 6, 4, 5, 3]);
        let large = BalancedOrder::new(1 << 63, 1000, 42, 3).unwrap();
        assert_eq!(
            [0, 1, 1 << 62, (1 << 63) - 1].map(|place| large.at(place).unwrap()),
            [4_801_183_680_489_334_130, 4_801_183_680_489_334_131, 3_697_165_530_813_999_096, 920_893_791_258_004_009]
        );
    }

    /// Tokens per rank where each takes every n-th batch.
    fn shares(tokens: &[u64], ranks: u64, seed: u64, epoch: u64) -> Vec<u64> {
        let order = order(tokens.len() as u64, ranks, seed, epoch);
        let sum =
            |rank: u64| order.iter().skip(rank as usize).step_by(ranks as usize).map(|&b| tokens[b as usize]).sum();
        (0..ranks).map(sum).collect()
    }

    #[test]
    fn shares_differ_by_two_batches_and_the_one_left_over() {
        // Tokens that fall by much: from 16384 down to 0, which no packing is as bad as.
        for (len, ranks) in [(1000, 2), (1001, 2), (1000, 3), (1003, 8), (64, 8), (65, 8), (7, 8)] {
            let tokens: Vec<u64> = (0..len).rev().map(|k| k * 16384 / len).collect();
            let left_over = if len % ranks == 0 { 0 } else { 16384 };
            for epoch in 0..50 {
                let shares = shares(&tokens, ranks, 3, epoch);
                let spread = shares.iter().max().unwrap() - shares.iter().min().unwrap();
                assert!(spread <= 2 * 16384 + left_over, "{len} batches, {ranks} ranks: {shares:?}");
            }
        }
    }

    #[test]
    fn what_is_left_over_is_another_batch_from_epoch_to_epoch() {
        let last: std::collections::BTreeSet<u64> = (0..200).map(|epoch| order(9, 4, 0, epoch)[8]).collect();
        assert!(last.into_iter().eq(0..9));
    }

    #[test]
    fn every_batch_comes_to_every_rank() {
        let mut met = [[false; 4]; 12];
        for epoch in 0..200 {
            for (place, batch) in order(12, 4, 0, epoch).into_iter().enumerate() {
                met[batch as usize][place % 4] = true;
            }
        }
        assert!(met.as_flattened().iter().all(|&met| met));
    }

    #[test]
    fn places_outside_and_no_ranks_are_refused() {
        let order = BalancedOrder::new(10, 3, 0, 0).unwrap();
        for outside in [10, 11, u64::MAX] {
            assert!(matches!(order.at(outside), Err(Error::RowOutOfRange { .. })));
            assert!(matches!(order.place_of(outside), Err(Error::RowOutOfRange { .. })));
        }
        assert!(matches!(order.take(&[0, -1]), Err(Error::RowOutOfRange { row: -1, .. })));
        assert!(BalancedOrder::new(10, 0, 0, 0).is_err() && BalancedOrder::new(u64::MAX, 1, 0, 0).is_err());
    }
}
