//! An order of `0..n` that is computed, not stored: the global shuffle of an epoch in constant memory.
//!
//! A Feistel network permutes the numbers of `w` bits, `w` just large enough for `n`; a number that lands outside `0..n`
//! is sent through again until it lands inside (cycle walking), which is again a permutation. Every value is a pure
//! function of (n, seed, epoch), frozen by the tests: an order that changed between versions would break resumed runs.

use crate::error::{Error, Result};

/// Alternating rounds. Four make pairs of values look independent; small domains need the rest.
const ROUNDS: usize = 8;

/// With fewer bits, too few different orders would come out. Walking through them costs 256 steps for all values.
const MIN_BITS: u32 = 8;

/// A permutation of `0..n` that takes the same few bytes for any `n`.
///
/// ```
/// use seekset_core::plan::Permutation;
/// let order = Permutation::new(1_000_000_000_000, 7, 0)?;
/// let row = order.at(123)?;
/// assert!(row < 1_000_000_000_000);
/// assert_eq!(order.place_of(row)?, 123);
/// # Ok::<(), seekset_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Permutation {
    len: u64,
    /// Bits of the lower half; the upper half has as many or one more.
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The most values a permutation can have: rows are counted with an `i64` in Python.
    pub const MAX_LEN: u64 = 1 << 63;

    /// The order of `len` rows in an epoch.
    pub fn new(len: u64, seed: u64, epoch: u64) -> Result<Self> {
        if len > Self::MAX_LEN {
            return Err(Error::Mismatch(format!("a permutation has at most 2^63 rows, but {len} were asked for")));
        }
        let bits = (u64::BITS - len.saturating_sub(1).leading_zeros()).max(MIN_BITS);
        let low_bits = bits / 2;
        // Seed and epoch are mixed one after the other, so that (1, 0) and (0, 1) have nothing in common.
        let base = mix(mix(seed).wrapping_add(epoch));
        let keys = std::array::from_fn(|round| mix(base.wrapping_add(round as u64)));
        Ok(Self { len, low_bits, low_mask: mask(low_bits), high_mask: mask(bits - low_bits), keys })
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The row at a place of the order.
    pub fn at(&self, place: u64) -> Result<u64> {
        self.check(place)?;
        Ok(self.walk(place, Self::forward))
    }

    /// The place of a row in the order: what [`Permutation::at`] undoes.
    pub fn place_of(&self, row: u64) -> Result<u64> {
        self.check(row)?;
        Ok(self.walk(row, Self::backward))
    }

    /// The rows at many places, as signed numbers because Python's are.
    pub fn take(&self, places: &[i64]) -> Result<Vec<i64>> {
        let row = |&place: &i64| {
            let inside = u64::try_from(place).map_err(|_| self.outside(place))?;
            self.at(inside).map(|row| row as i64)
        };
        places.iter().map(row).collect()
    }

    fn check(&self, value: u64) -> Result<()> {
        if value < self.len { Ok(()) } else { Err(self.outside(i64::try_from(value).unwrap_or(i64::MAX))) }
    }

    fn outside(&self, row: i64) -> Error {
        Error::RowOutOfRange { row, rows: self.len }
    }

    /// Steps until a value is inside. It ends: a cycle that starts inside comes back to its start at the latest.
    fn walk(&self, start: u64, step: impl Fn(&Self, u64) -> u64) -> u64 {
        let mut value = step(self, start);
        while value >= self.len {
            value = step(self, value);
        }
        value
    }

    fn forward(&self, value: u64) -> u64 {
        let (mut high, mut low) = self.split(value);
        for pair in self.keys.chunks_exact(2) {
            low ^= mix(high ^ pair[0]) & self.low_mask;
            high ^= mix(low ^ pair[1]) & self.high_mask;
        }
        high << self.low_bits | low
    }

    fn backward(&self, value: u64) -> u64 {
        let (mut high, mut low) = self.split(value);
        for pair in self.keys.chunks_exact(2).rev() {
            high ^= mix(low ^ pair[1]) & self.high_mask;
            low ^= mix(high ^ pair[0]) & self.low_mask;
        }
        high << self.low_bits | low
    }

    fn split(&self, value: u64) -> (u64, u64) {
        (value >> self.low_bits, value & self.low_mask)
    }
}

/// The lowest `bits` bits set; there are never 64.
fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// A bijection of 64 bits in which every input bit reaches every output bit: an increment by the golden ratio, then two
/// rounds of multiply and fold.
pub(super) fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(len: u64, seed: u64, epoch: u64) -> Vec<u64> {
        let permutation = Permutation::new(len, seed, epoch).unwrap();
        (0..len).map(|place| permutation.at(place).unwrap()).collect()
    }

    #[test]
    fn every_row_has_one_place() {
        for len in (0..300).chain([511, 512, 513, 1000, 4095, 4096, 4097, 65_537]) {
            for seed in 0..if len < 300 { 8 } else { 2 } {
                let mut rows = order(len, seed, seed / 2);
                let permutation = Permutation::new(len, seed, seed / 2).unwrap();
                for (place, &row) in rows.iter().enumerate() {
                    assert_eq!(permutation.place_of(row).unwrap(), place as u64, "{len} rows, seed {seed}");
                }
                rows.sort_unstable();
                assert!(rows.into_iter().eq(0..len), "{len} rows, seed {seed}");
            }
        }
    }

    #[test]
    fn orders_never_change_between_versions() {
        assert_eq!(order(10, 0, 0), [7, 3, 1, 8, 5, 4, 9, 2, 0, 6]);
        assert_eq!(order(10, 0, 1), [3, 7, 5, 0, 1, 8, 9, 2, 4, 6]);
        assert_eq!(order(10, 1, 0), [5, 8, 4, 9, 3, 1, 2, 7, 6, 0]);
        for (len, seed, epoch, rows) in [
            (1000, 42, 3, [628, 777, 308, 496]),
            (1 << 32, 42, 3, [3_771_231_767, 609_863_727, 1_032_558_164, 1_615_034_188]),
            (1_000_000_000_007, u64::MAX, u64::MAX, [780_729_943_766, 212_181_728_609, 420_895_324_157, 4_130_533_394]),
            (
                1 << 63,
                0,
                0,
                [
                    2_326_877_508_277_277_251,
                    5_718_043_021_111_009_081,
                    8_370_462_683_256_357_055,
                    2_214_112_002_489_900_165,
                ],
            ),
        ] {
            let permutation = Permutation::new(len, seed, epoch).unwrap();
            assert_eq!([0, 1, len / 2, len - 1].map(|place| permutation.at(place).unwrap()), rows, "{len} rows");
        }
    }

    #[test]
    fn the_largest_orders_stay_inside_and_can_be_undone() {
        for len in [1 << 62, (1 << 62) + 1, (1 << 63) - 1, 1 << 63] {
            let permutation = Permutation::new(len, 3, 4).unwrap();
            for place in (0..100).chain(len - 100..len) {
                let row = permutation.at(place).unwrap();
                assert!(row < len);
                assert_eq!(permutation.place_of(row).unwrap(), place);
            }
        }
        assert!(Permutation::new((1 << 63) + 1, 0, 0).is_err());
    }

    #[test]
    fn places_outside_are_refused() {
        for len in [0, 1, 2, 10] {
            let permutation = Permutation::new(len, 0, 0).unwrap();
            for outside in [len, len + 1, u64::MAX] {
                assert!(matches!(permutation.at(outside), Err(Error::RowOutOfRange { .. })), "{outside} of {len}");
                assert!(matches!(permutation.place_of(outside), Err(Error::RowOutOfRange { .. })));
            }
            assert!(matches!(permutation.take(&[-1]), Err(Error::RowOutOfRange { row: -1, .. })));
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    fn ratio(part: u64, whole: u64) -> f64 {
        part as f64 / whole as f64
    }

    /// Pearson's statistic, per degree of freedom: about 1 where all counts are equally likely.
    fn chi_square(counts: &[u64]) -> f64 {
        let expected = ratio(counts.iter().sum(), counts.len() as u64);
        let sum: f64 = counts.iter().map(|&count| (ratio(count, 1) - expected).powi(2) / expected).sum();
        sum / ratio(counts.len() as u64 - 1, 1)
    }

    #[test]
    fn small_orders_are_all_equally_likely() {
        for len in [2, 3, 4, 5] {
            let mut seen = std::collections::BTreeMap::new();
            let orders: u64 = (1..=len).product();
            for seed in 0..orders * 200 {
                *seen.entry(order(len, seed, 5)).or_insert(0) += 1;
            }
            assert_eq!(seen.len() as u64, orders, "{len} rows");
            let counts: Vec<u64> = seen.into_values().collect();
            assert!(chi_square(&counts) < 2.5, "{len} rows: {counts:?}");
        }
    }

    #[test]
    fn every_row_is_equally_likely_at_every_place() {
        for len in [13, 64, 100, 256] {
            let mut counts = vec![0; (len * len) as usize];
            for epoch in 0..2000 {
                for (place, row) in order(len, 11, epoch).into_iter().enumerate() {
                    counts[place * len as usize + row as usize] += 1;
                }
            }
            let statistic = chi_square(&counts);
            assert!((0.8..1.2).contains(&statistic), "{len} rows: {statistic}");
        }
    }

    #[test]
    fn neighbours_and_fixed_points_are_as_rare_as_chance_has_them() {
        // In a random order of n rows, about one row keeps its place and about one is followed by its successor.
        let (len, epochs) = (10_000, 200);
        let (mut fixed, mut followed, mut rising) = (0, 0, 0);
        for epoch in 0..epochs {
            let rows = order(len, 5, epoch);
            fixed += rows.iter().enumerate().filter(|&(place, &row)| place as u64 == row).count();
            followed += rows.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
            rising += rows.windows(2).filter(|pair| pair[0] < pair[1]).count();
        }
        assert!((150..250).contains(&fixed), "{fixed} fixed points in {epochs} orders");
        assert!((150..250).contains(&followed), "{followed} successors in {epochs} orders");
        let share = ratio(rising as u64, epochs * (len - 1));
        assert!((0.499..0.501).contains(&share), "{share} of neighbours rise");
    }

    #[test]
    fn epochs_and_seeds_have_nothing_in_common() {
        // Two random orders agree in about one place.
        let len = 1000;
        let first = order(len, 0, 0);
        let agreeing = |other: Vec<u64>| first.iter().zip(other).filter(|&(&a, b)| a == b).count();
        for other in [(0, 1), (1, 0), (0, 2), (1 << 32, 0), (0, 1 << 32), (u64::MAX, 0)] {
            assert!(agreeing(order(len, other.0, other.1)) < 10, "{other:?}");
        }
    }
}
