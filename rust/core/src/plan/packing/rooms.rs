//! Open batches by the room they have left: the one with the least that suffices is found without looking at others.

use std::collections::BTreeMap;

/// No batch.
const NONE: u32 = u32::MAX;

/// Budgets up to this may have a list per token; larger ones only if there are so many sequences, too.
const SMALL: u64 = 1 << 16;

/// Batches that may still take something.
#[derive(Debug)]
pub(super) struct Rooms {
    heads: Heads,
    /// For each batch, the next one with the same room.
    next: Vec<u32>,
}

/// The batch that was put last, for each room that some batch has.
#[derive(Debug)]
enum Heads {
    Dense(Bits, Vec<u32>),
    /// For budgets that memory should not grow with.
    Sparse(BTreeMap<u64, u32>),
}

impl Rooms {
    /// No batches yet, which will have `budget` tokens at most and hold `pieces` pieces in all.
    pub fn new(budget: u64, pieces: usize) -> Self {
        let dense = budget <= SMALL.max(pieces as u64);
        let heads = if dense {
            Heads::Dense(Bits::new(budget as usize + 1), vec![NONE; budget as usize + 1])
        } else {
            Heads::Sparse(BTreeMap::new())
        };
        Self { heads, next: Vec::new() }
    }

    /// Takes out the batch with the least room that is at least `cost`: its number and its room.
    #[inline]
    pub fn take(&mut self, cost: u64) -> Option<(u32, u64)> {
        match &mut self.heads {
            Heads::Dense(bits, heads) => {
                let room = bits.first_from(cost as usize)?;
                let batch = heads[room];
                heads[room] = self.next[batch as usize];
                if heads[room] == NONE {
                    bits.clear(room);
                }
                Some((batch, room as u64))
            }
            Heads::Sparse(heads) => {
                let (&room, head) = heads.range_mut(cost..).next()?;
                let batch = std::mem::replace(head, self.next[*head as usize]);
                if *head == NONE {
                    heads.remove(&room);
                }
                Some((batch, room))
            }
        }
    }

    /// Puts in a batch with so much room. Batches are numbered in the order in which they are first put in.
    #[inline]
    pub fn put(&mut self, batch: u32, room: u64) {
        if batch as usize == self.next.len() {
            self.next.push(NONE);
        }
        let head = match &mut self.heads {
            Heads::Dense(bits, heads) => {
                bits.set(room as usize);
                &mut heads[room as usize]
            }
            Heads::Sparse(heads) => heads.entry(room).or_insert(NONE),
        };
        self.next[batch as usize] = std::mem::replace(head, batch);
    }
}

/// A set of small numbers in which the next one is found by looking at one word per level.
#[derive(Debug)]
struct Bits {
    /// The numbers; above them, which words are not empty; and so on up to one word.
    levels: Vec<Vec<u64>>,
}

impl Bits {
    fn new(count: usize) -> Self {
        let mut levels = vec![vec![0; count.div_ceil(64).max(1)]];
        while let Some(words) = levels.last().map(Vec::len).filter(|&words| words > 1) {
            levels.push(vec![0; words.div_ceil(64)]);
        }
        Self { levels }
    }

    #[inline]
    fn set(&mut self, mut at: usize) {
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let there = *word != 0;
            *word |= 1 << (at % 64);
            if there {
                return; // so the levels above know
            }
            at /= 64;
        }
    }

    #[inline]
    fn clear(&mut self, mut at: usize) {
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The smallest number in the set that is `from` or more.
    #[inline]
    fn first_from(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let word = *level.get(at / 64)? & (u64::MAX << (at % 64));
            if word != 0 {
                let found = at / 64 * 64 + word.trailing_zeros() as usize;
                return Some(self.down(found, height));
            }
            at = at / 64 + 1;
        }
        None
    }

    /// The smallest number below a word that is known not to be empty.
    #[inline]
    fn down(&self, mut at: usize, height: usize) -> usize {
        for level in self.levels[..height].iter().rev() {
            at = at * 64 + level[at].trailing_zeros() as usize;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_number_is_that_of_a_sorted_set() {
        for count in [1, 2, 63, 64, 65, 4096, 4097, 300_000] {
            let (mut bits, mut sorted) = (Bits::new(count), std::collections::BTreeSet::new());
            let mut state = 1_u64;
            for step in 0..3000 {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let at = (state >> 33) as usize % count;
                if step % 3 == 2 {
                    bits.clear(at);
                    sorted.remove(&at);
                } else {
                    bits.set(at);
                    sorted.insert(at);
                }
                let from = (state >> 20) as usize % (count + 1);
                assert_eq!(bits.first_from(from), sorted.range(from..).next().copied(), "{from} of {count}");
            }
        }
    }

    #[test]
    fn dense_and_sparse_rooms_give_the_same_batches() {
        let (mut dense, mut sparse) = (Rooms::new(100, 0), Rooms::new(1 << 60, 0));
        assert!(matches!((&dense.heads, &sparse.heads), (Heads::Dense(..), Heads::Sparse(_))));
        for (batch, room) in [(0, 100), (1, 7), (2, 7), (3, 0), (4, 9)] {
            dense.put(batch, room);
            sparse.put(batch, room);
        }
        for (cost, expected) in
            [(5, Some((2, 7))), (5, Some((1, 7))), (5, Some((4, 9))), (0, Some((3, 0))), (5, Some((0, 100))), (0, None)]
        {
            assert_eq!((dense.take(cost), sparse.take(cost)), (expected, expected));
        }
    }
}
