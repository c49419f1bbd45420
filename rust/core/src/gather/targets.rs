//! What a model is to predict: which labels count.

use rayon::prelude::*;

use super::kernel::Id;
use crate::error::Result;
use crate::io::threads;

/// Ids below this are looked up in a table.
const LOOKED_UP: usize = 1 << 10;

/// Fewer labels than this are looked at on the calling thread: handing over would cost more.
const FEW: usize = 1 << 20;

/// Ids whose labels don't count.
#[derive(Debug, Clone)]
pub struct Uncounted<T> {
    /// Where all of them are one range: comparing with its ends is all there is to it.
    range: Option<(T, T)>,
    table: Vec<f32>,
    large: Vec<T>,
}

impl<T: Id + Ord> Uncounted<T> {
    /// The labels with these ids don't count.
    #[must_use]
    pub fn new(ids: &[T]) -> Self {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let range = match (sorted.first(), sorted.last()) {
            (Some(&first), Some(&last)) if last.number() - first.number() + 1 == sorted.len() as i64 => {
                Some((first, last))
            }
            _ => None,
        };
        let mut table = vec![1.0; LOOKED_UP];
        let small = |id: &T| usize::try_from(id.number()).ok().filter(|&id| id < LOOKED_UP);
        sorted.iter().filter_map(small).for_each(|id| table[id] = 0.0);
        let large = sorted.iter().copied().filter(|id| small(id).is_none()).collect();
        Self { range, table, large }
    }

    /// Writes 0 where a label does not count and 1 elsewhere.
    ///
    /// ```
    /// use seekset_core::gather::targets::Uncounted;
    /// let mut mask = [0.0; 4];
    /// Uncounted::new(&[0_i64, 1, 5]).write(&[65, 5, 1, 2], &mut mask);
    /// assert_eq!(mask, [1.0, 0.0, 0.0, 1.0]);
    /// ```
    pub fn write(&self, labels: &[T], mask: &mut [f32]) {
        if let Some((first, last)) = self.range {
            T::outside(labels, (first, last), mask);
            return;
        }
        for (value, label) in mask.iter_mut().zip(labels) {
            *value = match usize::try_from(label.number()) {
                Ok(id) if id < LOOKED_UP => self.table[id],
                _ => f32::from(u8::from(!self.large.contains(label))),
            };
        }
    }
}

impl<T: Id + Ord> Uncounted<T> {
    /// Writes the mask of rows of tokens, each of which has one token more than labels: the first is no label.
    pub fn write_rows(&self, tokens: &[T], columns: usize, mask: &mut [f32]) -> Result<()> {
        let labels = columns.saturating_sub(1);
        if labels == 0 {
            return Ok(());
        }
        let write = |(row, mask): (&[T], &mut [f32])| self.write(&row[1..], mask);
        if mask.len() < FEW {
            tokens.chunks_exact(columns).zip(mask.chunks_exact_mut(labels)).for_each(write);
            return Ok(());
        }
        threads::in_pool(|| tokens.par_chunks_exact(columns).zip(mask.par_chunks_exact_mut(labels)).for_each(write))
    }
}

/// Writes the mask of rows of which only the letters count, by where letters start in each row's tokens and how many there
/// are: the tokens need not be read again, which other threads may have written. The first token of a row is no label.
pub fn write_letters(letters: impl Iterator<Item = (usize, usize)>, labels: usize, mask: &mut [f32]) {
    if labels == 0 {
        return;
    }
    for ((start, count), mask) in letters.zip(mask.chunks_exact_mut(labels)) {
        let end = (start + count).saturating_sub(1).min(labels);
        let start = start.saturating_sub(1).min(end);
        mask[..start].fill(0.0);
        mask[start..end].fill(1.0);
        mask[end..].fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_count_unless_their_id_is_named() {
        let mask = |ids: &[i64], labels: &[i64]| {
            let mut mask = vec![9.0; labels.len()];
            Uncounted::new(ids).write(labels, &mut mask);
            mask
        };
        assert_eq!(mask(&[3, 1, 2, 2], &[0, 1, 2, 3, 4]), [1.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(mask(&[1, 70_000], &[1, 2, 70_000, 70_001]), [0.0, 1.0, 0.0, 1.0]);
        assert_eq!(mask(&[], &[0, -1]), [1.0, 1.0]);
        assert_eq!(mask(&[-5, 4], &[-5, -4, 4]), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn letters_count_where_they_are_labels() {
        let of = |letters: &[(usize, usize)], labels: usize| {
            let mut mask = vec![9.0; letters.len() * labels];
            write_letters(letters.iter().copied(), labels, &mut mask);
            mask
        };
        assert_eq!(of(&[(1, 2), (0, 2), (2, 1)], 3), [1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        assert_eq!(of(&[(0, 0), (1, 0), (0, 9)], 2), [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
        assert!(of(&[(0, 1)], 0).is_empty());
    }

    #[test]
    fn rows_have_a_token_more_than_labels() {
        let uncounted = Uncounted::new(&[0_i64, 1]);
        let of = |tokens: &[i64], columns: usize| {
            let mut mask = vec![9.0; tokens.len() / columns * (columns - 1)];
            uncounted.write_rows(tokens, columns, &mut mask).unwrap();
            mask
        };
        assert_eq!(of(&[2, 65, 0, 1, 66, 67], 3), [1.0, 0.0, 1.0, 1.0]);
        assert!(of(&[5, 6], 1).is_empty());
        let tokens: Vec<i64> = (0..2 * FEW as i64).map(|k| k % 3).collect();
        let labels: Vec<i64> = tokens.chunks_exact(64).flat_map(|row| &row[1..]).copied().collect();
        let mut expected = vec![9.0; labels.len()];
        uncounted.write(&labels, &mut expected);
        assert_eq!(of(&tokens, 64), expected, "many rows are shared out over threads");
    }
}
