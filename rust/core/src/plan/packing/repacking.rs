//! Other sequences in the same batches: those of equal length change places, from epoch to epoch.

use super::rules::Rules;
use crate::error::{Error, Result};
use crate::plan::permutation::{Permutation, mix};

/// The row that takes the place of `row` in an epoch.
///
/// Lengths must descend, so that the rows that become the same pieces stand together; among themselves they are
/// permuted. For each seed and epoch, all rows are met, and each as often as before.
///
/// ```
/// use seekset_core::plan::packing::{Layout, Overflow, Rules, repack};
/// let rules = Rules {
///     max_tokens: 100,
///     max_length: Some(10),
///     specials: 0,
///     overflow: Overflow::Truncate,
///     layout: Layout::Packed,
/// };
/// let lengths = [30, 20, 10, 5];
/// let mut rows = [0, 1, 2, 3].map(|row| repack(row, &lengths, &rules, 7, 1).unwrap());
/// assert_eq!(rows[3], 3);
/// rows.sort();
/// assert_eq!(rows, [0, 1, 2, 3]);
/// ```
pub fn repack(row: u32, lengths: &[u64], rules: &Rules, seed: u64, epoch: u64) -> Result<u32> {
    let length = lengths.get(row as usize);
    let rows = lengths.len() as u64;
    let class = rules.class(*length.ok_or(Error::RowOutOfRange { row: row.into(), rows })?);
    let first = lengths.partition_point(|&length| rules.class(length) > class) as u64;
    let end = lengths.partition_point(|&length| rules.class(length) >= class) as u64;
    if !(first..end).contains(&row.into()) {
        return Err(not_descending(row.into()));
    }
    // Classes of one size are not to be permuted alike.
    let order = Permutation::new(end - first, mix(seed ^ mix(first)), epoch)?;
    let other = first + order.at(u64::from(row) - first)?;
    // Whatever the lengths are, a row must not become one of another length.
    if rules.class(lengths[other as usize]) != class {
        return Err(not_descending(other));
    }
    Ok(other as u32)
}

/// An error unless lengths descend, which [`repack`] relies on: a look at all of them, to be taken once.
pub fn check_descending(lengths: &[u64]) -> Result<()> {
    let rise = lengths.windows(2).position(|pair| pair[0] < pair[1]);
    rise.map_or(Ok(()), |row| Err(not_descending(row as u64 + 1)))
}

#[cold]
fn not_descending(row: u64) -> Error {
    Error::Mismatch(format!(
        "sequences can change places only if their lengths descend, but row {row} is longer than one before it; use a SequenceIndex"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::rules::{Layout, Overflow};
    use super::*;

    fn rules(overflow: Overflow) -> Rules {
        Rules { max_tokens: 100, max_length: Some(10), specials: 2, overflow, layout: Layout::Packed }
    }

    #[test]
    fn rows_change_places_with_those_that_become_the_same_pieces() {
        let lengths = [40, 30, 30, 10, 9, 9, 9, 9, 0, 0];
        for (overflow, classes) in [
            (Overflow::Truncate, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]),
            (Overflow::Split { overlap: 1 }, [0, 1, 1, 2, 3, 3, 3, 3, 4, 4]),
        ] {
            let mut moved = false;
            for epoch in 0..20 {
                let row = |row| repack(row, &lengths, &rules(overflow), 1, epoch).unwrap();
                let rows: Vec<u32> = (0..10).map(row).collect();
                assert!(rows.iter().zip(classes).all(|(&row, class)| classes[row as usize] == class), "{rows:?}");
                let mut sorted = rows.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..10));
                moved |= !rows.into_iter().eq(0..10);
            }
            assert!(moved);
        }
    }

    #[test]
    fn places_never_change_between_versions() {
        let lengths = [5; 8];
        let rows = |seed, epoch| -> Vec<u32> {
            (0..8).map(|row| repack(row, &lengths, &rules(Overflow::Truncate), seed, epoch).unwrap()).collect()
        };
        assert_eq!(
            [rows(0, 0), rows(0, 1), rows(1, 0)],
            [[7, 3, 6, 4, 5, 2, 0, 1], [7, 2, 6, 4, 3, 0, 1, 5], [1, 4, 7, 3, 0, 2, 5, 6]]
        );
    }

    #[test]
    fn rows_that_are_not_there_and_lengths_that_rise_are_refused() {
        let cut = rules(Overflow::Truncate);
        assert!(matches!(repack(2, &[1, 1], &cut, 0, 0), Err(Error::RowOutOfRange { row: 2, rows: 2 })));
        assert!(repack(1, &[1, 2, 1], &cut, 0, 0).unwrap_err().to_string().contains("lengths descend"));
        assert!(check_descending(&[1, 2, 1]).unwrap_err().to_string().contains("row 1 is longer"));
        assert!([&[][..], &[1], &[2, 1, 1]].into_iter().all(|lengths| check_descending(lengths).is_ok()));
    }
}
