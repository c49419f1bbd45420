//! Rows by length, the longest first; rows of one length stay in the order they came in.

use std::collections::BTreeMap;

use super::Turns;
use super::builder::Rows;
use super::reader::TAKEN;
use crate::error::Result;
use crate::index::lookup::{Hashed, Sorter};
use crate::io::Spills;

/// Lengths below this have their counts in an array.
const SHORT: u64 = 1 << 16;

/// A row, and its place in the order in the upper bits, which spreads rows evenly over the parts of a [`Sorter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Placed {
    place: u64,
    row: u64,
}

impl Hashed for Placed {
    fn hash(&self) -> u64 {
        self.place
    }
}

/// For each length, the place of the next row that has it.
struct Places {
    short: Vec<u64>,
    long: BTreeMap<u64, u64>,
}

impl Places {
    /// Counts lengths; from the counts follows where the rows of each length go.
    fn of<'a>(lengths: impl Iterator<Item = &'a u64>) -> Self {
        let mut places = Self { short: vec![0; SHORT as usize], long: BTreeMap::new() };
        for &length in lengths {
            *places.next(length) += 1;
        }
        let mut before = 0;
        let counts = places.long.values_mut().rev().chain(places.short.iter_mut().rev());
        for count in counts {
            before += std::mem::replace(count, before);
        }
        places
    }

    fn next(&mut self, length: u64) -> &mut u64 {
        if length < SHORT { &mut self.short[length as usize] } else { self.long.entry(length).or_default() }
    }
}

/// Hands over rows by length, some at a time, in bounded memory: it spills to an unnamed file. Rows are
/// numbered through all of `lengths`, and read by their numbers, by several threads.
pub fn by_length(
    lengths: &[&[u64]],
    spills: &Spills,
    read: impl Fn(&[u64], &mut Rows) -> Result<()> + Sync,
    mut take: impl FnMut(&Rows) -> Result<()>,
) -> Result<()> {
    let mut places = Places::of(lengths.iter().copied().flatten());
    let mut sorter = Sorter::<Placed>::new(spills);
    let shift = lengths.iter().map(|part| part.len() as u64).sum::<u64>().leading_zeros();
    for (&length, row) in lengths.iter().copied().flatten().zip(0..) {
        let next = places.next(length);
        sorter.push(Placed { place: *next << shift, row })?;
        *next += 1;
    }
    let mut turns = Turns::default();
    sorter.finish(|placed| {
        let rows: Vec<u64> = placed.iter().map(|placed| placed.row).collect();
        let parts: Vec<&[u64]> = rows.chunks(TAKEN as usize).collect();
        turns.next(&parts, |part, rows| read(part, rows), &mut take)
    })?;
    turns.end(take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_a_stable_sort() {
        for lengths in
            [vec![], vec![5], vec![0, 0, 0], vec![3, 70_000, 3, 0, 1 << 40, 70_000, 65_535, 65_536, u64::MAX]]
        {
            let mut places = Places::of(lengths.iter());
            let mut expected: Vec<usize> = (0..lengths.len()).collect();
            expected.sort_by_key(|&row| std::cmp::Reverse(lengths[row]));
            let mut got = vec![0; lengths.len()];
            for (row, &length) in lengths.iter().enumerate() {
                let next = places.next(length);
                got[*next as usize] = row;
                *next += 1;
            }
            assert_eq!(got, expected, "{lengths:?}");
        }
    }
}
