//! What was delivered, summed up in one number that does not depend on the order.

use super::permutation::mix;

/// The sum, modulo 2^64, of a hash of each piece: of its row, and of where in the row it starts.
///
/// Sums of parts add up to the sum of the whole, so that processes can each keep their own. A piece that comes twice, or
/// not at all, changes it.
///
/// ```
/// use seekset_core::plan::ledger::digest;
/// let whole = digest([(0, 0), (1, 0), (2, 0)]);
/// assert_eq!(whole, digest([(2, 0)]).wrapping_add(digest([(1, 0), (0, 0)])));
/// assert_ne!(whole, digest([(0, 0), (1, 0), (1, 0), (2, 0)]));
/// ```
pub fn digest(pieces: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    pieces.into_iter().fold(0, |sum, (row, start)| sum.wrapping_add(mix(mix(row).wrapping_add(start))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_frozen() {
        // Ledgers are kept in states of runs: another sum would call a run that resumes incomplete.
        assert_eq!(digest([]), 0);
        assert_eq!(digest([(0, 0)]), 0x3f09_549a_623d_28b7);
        assert_eq!(digest([(7, 1022)]), 0x5cb7_cf71_628f_8750);
    }

    #[test]
    fn rows_and_starts_are_told_apart() {
        let digests = [[(0, 1)], [(1, 0)], [(1, 1)], [(2, 0)], [(0, 2)]].map(digest);
        for (k, one) in digests.iter().enumerate() {
            assert!(digests[k + 1..].iter().all(|other| other != one));
        }
    }
}
