//! From a name to its row without a hash table in memory: hashes sorted on disk, found by interpolation.

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Result;
use crate::io::spool::Spool;
use crate::io::{Spills, threads};

const PARTS: usize = 256;
/// Items that a part collects before it hands them to the spool.
const PENDING: usize = 2048;
/// Bytes of spilled items that stay in memory.
const IN_MEMORY: usize = 64 << 20;
/// Bytes of items that are sorted in one go, and a part.
const SORTED_AT_ONCE: usize = 64 << 20;

/// The hash that names are found by.
#[must_use]
pub fn hash_name(name: &[u8]) -> u64 {
    xxh3_64(name)
}

/// A hash and the row it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Pair {
    /// [`hash_name`] of the row's name.
    pub hash: u64,
    /// The row.
    pub row: u64,
}

/// What is sorted by a hash.
pub trait Hashed: bytemuck::Pod + Ord + Send {
    /// The hash.
    fn hash(&self) -> u64;
}

impl Hashed for Pair {
    fn hash(&self) -> u64 {
        self.hash
    }
}

/// A bare hash.
impl Hashed for u64 {
    fn hash(&self) -> u64 {
        *self
    }
}

/// Items whose hashes start with the same byte: those not spilled yet, and where in the spool the others lie.
#[derive(Debug)]
struct PartOfHashes<T> {
    pending: Vec<T>,
    runs: Vec<u64>,
}

/// Collects items in row order and gives them back in hash order, in bounded memory.
#[derive(Debug)]
pub struct Sorter<T = Pair> {
    parts: Vec<PartOfHashes<T>>,
    /// Runs of `PENDING` items, of all parts.
    spool: Spool,
    rows: u64,
}

impl<T: Hashed> Sorter<T> {
    /// A sorter that spills to an unnamed file.
    #[must_use]
    pub fn new(spills: &Spills) -> Self {
        let parts = (0..PARTS).map(|_| PartOfHashes { pending: Vec::new(), runs: Vec::new() }).collect();
        Self { parts, spool: spills.spool(IN_MEMORY), rows: 0 }
    }

    /// How many rows it holds.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds the item of the next row.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<()> {
        let part = &mut self.parts[(item.hash() >> 56) as usize];
        if part.pending.len() == PENDING {
            part.runs.push(self.spool.len());
            self.spool.append(bytemuck::cast_slice(&part.pending))?;
            part.pending.clear();
        }
        part.pending.push(item);
        self.rows += 1;
        Ok(())
    }

    /// Gives all items in order, in a few long slices that never part equal hashes.
    pub fn finish(mut self, mut take: impl FnMut(&[T]) -> Result<()>) -> Result<()> {
        let mut parts = std::mem::take(&mut self.parts).into_iter().peekable();
        while parts.peek().is_some() {
            let mut loaded = Vec::new();
            let mut held = 0;
            while let Some(part) = parts.next_if(|_| held < SORTED_AT_ONCE) {
                let items = load(&mut self.spool, part)?;
                held += size_of_val(&items[..]);
                loaded.push(items);
            }
            threads::in_pool(|| loaded.par_iter_mut().for_each(|items| items.sort_unstable()))?;
            loaded.iter().try_for_each(|items| take(items))?;
        }
        Ok(())
    }
}

fn load<T: Hashed>(spool: &mut Spool, part: PartOfHashes<T>) -> Result<Vec<T>> {
    let mut items = vec![T::zeroed(); part.runs.len() * PENDING];
    for (run, at) in items.chunks_exact_mut(PENDING).zip(part.runs) {
        spool.read_at(at, bytemuck::cast_slice_mut(run))?;
    }
    items.extend(part.pending);
    Ok(items)
}

impl Sorter<Pair> {
    /// Adds the hash of the next row.
    #[inline]
    pub fn push_hash(&mut self, hash: u64) -> Result<()> {
        self.push(Pair { hash, row: self.rows })
    }
}

/// Names that are given to more than one row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repeats {
    /// Rows whose name an earlier row has.
    pub count: u64,
    /// The earliest of them, with the row that has its name first.
    pub earliest: Option<(u64, u64)>,
}

impl Repeats {
    /// Looks through pairs in hash order; `same` compares the names of two rows.
    pub fn look(&mut self, pairs: &[Pair], mut same: impl FnMut(u64, u64) -> Result<bool>) -> Result<()> {
        for group in pairs.chunk_by(|a, b| a.hash == b.hash).filter(|group| group.len() > 1) {
            // Rows of one hash nearly always share one name: comparing with the first decides.
            for (k, pair) in group.iter().enumerate().skip(1) {
                for earlier in &group[..k] {
                    if same(earlier.row, pair.row)? {
                        self.count += 1;
                        if self.earliest.is_none_or(|(_, row)| pair.row < row) {
                            self.earliest = Some((earlier.row, pair.row));
                        }
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The slots of `hashes`, sorted upper halves of name hashes, that may hold `hash`.
#[must_use]
pub fn candidates(hashes: &[u32], hash: u64) -> std::ops::Range<usize> {
    let key = (hash >> 32) as u32;
    // Hashes are evenly spread, so the slot is near key / 2^32 of the way; widen until it is surely inside.
    let guess = ((u128::from(hash) * hashes.len() as u128) >> 64) as usize;
    let (mut low, mut high, mut step) = (guess, guess, 32);
    while low > 0 && hashes[low.min(hashes.len() - 1)] >= key {
        low = low.saturating_sub(step);
        step *= 4;
    }
    step = 32;
    while high < hashes.len() && hashes[high] <= key {
        high = high.saturating_add(step).min(hashes.len());
        step *= 4;
    }
    let start = low + hashes[low..high].partition_point(|&h| h < key);
    start..start + hashes[start..high].iter().take_while(|&&h| h == key).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_out_by_hash_then_row() {
        let folder = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(&Spills::into(folder.path()));
        let hashes: Vec<u64> = (0..700_000_u64).map(|i| xxh3_64(&(i / 2).to_le_bytes())).collect();
        for &hash in &hashes {
            sorter.push_hash(hash).unwrap();
        }
        let mut expected: Vec<Pair> = hashes.iter().zip(0..).map(|(&hash, row)| Pair { hash, row }).collect();
        expected.sort_unstable();
        let mut got = Vec::new();
        sorter
            .finish(|pairs| {
                got.extend_from_slice(pairs);
                Ok(())
            })
            .unwrap();
        assert_eq!(got, expected);
    }

    #[test]
    fn repeats_are_counted_and_the_earliest_kept() {
        let names = ["a", "b", "c", "b", "a", "a"];
        let mut pairs: Vec<Pair> = names.iter().zip(0..).map(|(n, row)| Pair { hash: n.len() as u64, row }).collect();
        pairs.sort_unstable();
        let mut repeats = Repeats::default();
        repeats.look(&pairs, |a, b| Ok(names[a as usize] == names[b as usize])).unwrap();
        assert_eq!(repeats, Repeats { count: 3, earliest: Some((1, 3)) });
    }

    #[test]
    fn candidates_are_found_wherever_they_lie() {
        for hashes in [
            vec![],
            vec![5],
            vec![0, 0, 1 << 31, 1 << 31, u32::MAX],
            (0..5000).map(|i| i * 800_000).collect::<Vec<u32>>(),
            vec![7; 300],
        ] {
            for key in hashes.iter().copied().chain([0, 1, 7, 1 << 31, u32::MAX]) {
                let found = candidates(&hashes, u64::from(key) << 32 | 0x63);
                let expected: Vec<usize> = (0..hashes.len()).filter(|&i| hashes[i] == key).collect();
                assert_eq!(found.collect::<Vec<_>>(), expected, "{key} in {} hashes", hashes.len());
            }
        }
    }
}
