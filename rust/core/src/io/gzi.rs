//! `.gzi`: where the blocks of a BGZF file start, as `bgzip -r` writes it.
//!
//! A count, then that many pairs of (compressed offset, uncompressed offset), all little-endian u64. The first block,
//! which starts at (0, 0), has no pair, nor has the empty block that marks the end.

use std::io::Write;

use super::bgzf::{Span, walk};
use super::{Source, Store};
use crate::error::{Error, Result};
use crate::watch::{Beat, Watch};

/// How many entries are looked at before a table is believed.
const SAMPLES: usize = 16;

/// The blocks of a BGZF file.
#[derive(Debug, Clone)]
pub struct Gzi {
    store: Store,
}

impl Gzi {
    /// Opens the bytes of a `.gzi`; pairs must rise strictly.
    pub fn open(store: Store) -> Result<Self> {
        let bytes = store.bytes();
        let words: &[u64] = bytemuck::try_cast_slice(bytes).map_err(|_| {
            Error::format(0, format!("a .gzi is a row of 8-byte numbers; this one has {} bytes", bytes.len()))
        })?;
        let pairs = words.split_first().filter(|(count, rest)| rest.len() as u64 == count.saturating_mul(2));
        let Some((_, pairs)) = pairs else {
            return Err(Error::format(
                0,
                format!("a .gzi starts with its number of entries; this one does not ({} bytes)", bytes.len()),
            ));
        };
        let mut last = (0, 0);
        for (k, pair) in pairs.chunks_exact(2).enumerate() {
            if pair[0] <= last.0 || pair[1] <= last.1 || pair[1] - last.1 > 1 << 16 {
                return Err(Error::format(
                    8 + 16 * k as u64,
                    format!("entry {k} of the .gzi does not follow the one before"),
                ));
            }
            last = (pair[0], pair[1]);
        }
        Ok(Self { store })
    }

    /// Finds the blocks of a compressed source by walking over their headers, without inflating any.
    pub fn build(raw: &dyn Source, watch: &dyn Watch) -> Result<Vec<u8>> {
        let mut beat = Beat::new(watch, raw.len());
        let mut text = vec![0; 8];
        let mut inflated = 0_u64;
        walk(raw, 0..raw.len(), |at, _, size| {
            beat.tell(0)?; // nothing is read yet, but whoever wants to stop is heard
            // Whoever starts at 0 passes over empty blocks by himself: the first block with bytes needs no entry.
            if inflated > 0 && size > 0 {
                text.write_all(&at.to_le_bytes())?;
                text.write_all(&inflated.to_le_bytes())?;
            }
            inflated += size;
            Ok(())
        })?;
        let count = (text.len() as u64 - 8) / 16;
        text[..8].copy_from_slice(&count.to_le_bytes());
        Ok(text)
    }

    /// An error if the file that the table is mapped from was cut or overwritten.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        self.store.check_unchanged()
    }

    fn pairs(&self) -> &[[u64; 2]] {
        let words: &[u64] = bytemuck::try_cast_slice(self.store.bytes()).unwrap_or(&[]);
        words.get(1..).map_or(&[], |pairs| pairs.as_chunks().0)
    }

    /// Where block `number` starts, compressed and uncompressed.
    fn start(&self, number: usize) -> Option<[u64; 2]> {
        if number == 0 { Some([0, 0]) } else { self.pairs().get(number - 1).copied() }
    }

    /// The number of the block that holds the byte at `offset`.
    pub(crate) fn block_of(&self, offset: u64) -> usize {
        self.pairs().partition_point(|pair| pair[1] <= offset)
    }

    /// Where block `number` of a file of `raw` compressed and `len` uncompressed bytes lies.
    pub(crate) fn span(&self, number: usize, raw: u64, len: u64) -> Result<Span> {
        let start = self.start(number).ok_or_else(|| Error::format(0, format!("the .gzi has no block {number}")))?;
        let next = self.start(number + 1).unwrap_or([raw, len]);
        if next[0] > raw || start[0] >= next[0] || start[1] > next[1] || next[1] - start[1] > 1 << 16 {
            return Err(Error::stale(format!(
                "block {number} of its .gzi is not where the file has one; delete the .gzi"
            )));
        }
        Ok(Span { compressed: start[0]..next[0], inflated: start[1]..next[1] })
    }

    /// Whether the table is that of `raw`, as far as some entries all over it and its end can tell.
    pub(crate) fn fits(&self, raw: &dyn Source) -> bool {
        let last = self.pairs().len();
        let step = last.div_ceil(SAMPLES).max(1);
        (0..last).step_by(step).chain([last]).all(|number| self.leads_to_a_block(number, raw).unwrap_or(false))
    }

    /// Whether entry `number` is followed by one block of the size it says, and empty ones, up to the next entry.
    fn leads_to_a_block(&self, number: usize, raw: &dyn Source) -> Result<bool> {
        let Some([start, inflated]) = self.start(number) else { return Ok(false) };
        let next = self.start(number + 1);
        let end = next.map_or(raw.len(), |next| next[0]);
        let (mut at, mut size) = (start, 0);
        walk(raw, start..end, |block, bytes, more| {
            at = block + bytes;
            if more > 0 && size > 0 {
                return Err(Error::stale("its .gzi leaves out a block"));
            }
            size += more;
            Ok(())
        })?;
        let all = next.map_or(number == 0 || size > 0, |next| next[1] - inflated == size);
        Ok(at == end && all)
    }

    /// How many bytes `raw` inflates to: what the last entry says and the blocks from there on add.
    pub(crate) fn inflated_len(&self, raw: &dyn Source) -> Result<u64> {
        let [at, mut len] = self.start(self.pairs().len()).unwrap_or_default();
        if at > 0 && at >= raw.len() {
            return Err(Error::stale("its .gzi leads beyond its end; delete the .gzi"));
        }
        walk(raw, at..raw.len(), |block, _, size| {
            if block == at && at > 0 && size == 0 {
                return Err(Error::stale("the last entry of its .gzi leads to an empty block; delete the .gzi"));
            }
            len += size;
            Ok(())
        })?;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gzi(words: &[u64]) -> Result<Gzi> {
        Gzi::open(Store::memory(bytemuck::cast_slice(words)))
    }

    #[test]
    fn damaged_tables_are_refused() {
        for words in [
            &[][..],
            &[1],
            &[1, 5],
            &[2, 5, 6],
            &[1, 0, 5],
            &[2, 5, 9, 5, 10],
            &[2, 5, 9, 6, 8],
            &[1, 5, 70_000],
            &[u64::MAX, 1, 1],
        ] {
            assert!(gzi(words).is_err(), "{words:?}");
        }
        assert!(Gzi::open(Store::memory(b"\0\0\0\0\0\0\0")).is_err());
    }

    #[test]
    fn blocks_are_found_by_offset() {
        let gzi = gzi(&[2, 100, 1000, 200, 1500]).unwrap();
        assert_eq!([0, 999, 1000, 1499, 1500, 9999].map(|at| gzi.block_of(at)), [0, 0, 1, 1, 2, 2]);
        let span = gzi.span(1, 300, 2000).unwrap();
        assert_eq!((span.compressed, span.inflated), (100..200, 1000..1500));
        assert_eq!(gzi.span(2, 300, 2000).unwrap().compressed, 200..300);
        assert!(gzi.span(3, 300, 2000).is_err());
        assert!(gzi.span(2, 150, 2000).is_err());
    }
}
