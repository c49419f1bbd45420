//! Which split a contig belongs to: by a hash of its id, so that it is the same in every file, process and version.

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};

/// Bits of a hash that a double holds exactly.
const EXACT: u32 = 53;

/// Where an id falls between 0 and 1.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "53 bits are what a double holds exactly")]
pub fn fraction(id: &[u8]) -> f64 {
    (xxh3_64(id) >> (u64::BITS - EXACT)) as f64 / (1_u64 << EXACT) as f64
}

/// Shares of all ids, which belong to one split each.
///
/// ```
/// use seekset_core::plan::split::Splits;
/// let splits = Splits::new(&[0.9, 0.05, 0.05])?;
/// assert_eq!(splits.of(b"chr1"), splits.of(b"chr1"));
/// assert!(Splits::new(&[0.9, 0.2]).is_err());
/// # Ok::<(), seekset_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Splits {
    ends: Vec<f64>,
}

impl Splits {
    /// Splits of these shares. Where they add up to less than 1, the rest of the ids is in none.
    pub fn new(shares: &[f64]) -> Result<Self> {
        let mut end = 0.0;
        let ends: Vec<f64> = shares
            .iter()
            .map(|share| {
                end += share;
                end
            })
            .collect();
        if shares.is_empty() || !shares.iter().all(|&share| share.is_finite() && share >= 0.0) {
            return Err(Error::Mismatch(format!("splits must be shares from 0 to 1, not {shares:?}")));
        }
        // Shares such as 0.9, 0.05 and 0.05 add up to 1 only nearly.
        let whole = (end - 1.0).abs() < 1e-9;
        if end > 1.0 && !whole {
            return Err(Error::Mismatch(format!("splits add up to {end}, which is more than 1")));
        }
        let mut splits = Self { ends };
        if let (true, Some(last)) = (whole, splits.ends.last_mut()) {
            *last = 1.0;
        }
        Ok(splits)
    }

    /// The number of the split that an id belongs to, if it does to any.
    #[must_use]
    pub fn of(&self, id: &[u8]) -> Option<usize> {
        let at = fraction(id);
        self.ends.iter().position(|&end| at < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept_and_never_change() {
        let splits = Splits::new(&[0.5, 0.3, 0.2]).unwrap();
        let mut counts = [0; 3];
        for number in 0..20_000 {
            counts[splits.of(format!("contig{number}").as_bytes()).unwrap()] += 1;
        }
        assert!((9_700..10_300).contains(&counts[0]) && (5_700..6_300).contains(&counts[1]), "{counts:?}");
        let frozen = ["chr1", "chr2", "chrX", ""].map(|id| splits.of(id.as_bytes()).unwrap());
        assert_eq!(frozen, [2, 0, 0, 0]);
    }

    #[test]
    fn what_is_left_over_is_in_no_split() {
        let splits = Splits::new(&[0.0, 0.1]).unwrap();
        let found: Vec<_> = (0..1000).map(|number| splits.of(format!("c{number}").as_bytes())).collect();
        assert!(found.contains(&None) && found.contains(&Some(1)) && !found.contains(&Some(0)));
        for wrong in [&[][..], &[-0.1], &[f64::NAN], &[1.5], &[0.6, 0.6]] {
            assert!(Splits::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
