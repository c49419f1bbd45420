//! What a model is to predict: which labels count.

use rayon::prelude::*;

use super::kernel::Id;
use crate::error::Result;
use crate::io::threads;

/// Ids below this are looked up in a table.
const LOOKED_UP: usize = 1 << 10;

/// Fewer labels than this are looked at on the calling thread: handing over would cost more.
const FEW: usize = 1 << 14;

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
    fn rows_have_a_token_more_than_labels() {
        let uncounted = Uncounted::new(&[0_i64, 1]);
        let of = |tokens: &[i64], columns: usize| {
            let mut mask = vec![9.0; tokens.len() / columns * (columns - 1)];
            uncounted.write_rows(tokens, columns, &mut mask).unwrap();
            mask
        };
        assert_eq!(of(&[2, 65, 0, 1, 66, 67], 3), [1.0, 0.0, 1.0, 1.0]);
        assert!(of(&[5, 6], 1).is_empty());
        let tokens: Vec<i64> = (0..4 * FEW as i64).map(|k| k % 3).collect();
        let labels: Vec<i64> = tokens.chunks_exact(64).flat_map(|row| &row[1..]).copied().collect();
        let mut expected = vec![9.0; labels.len()];
        uncounted.write(&labels, &mut expected);
        assert_eq!(of(&tokens, 64), expected, "many rows are shared out over threads");
    }
}
