//! A table of 256 bytes applied to sixty-four bytes at a time.

/// Bytes in a block.
pub(crate) const BLOCK: usize = 64;

/// A byte for every byte. Letters are looked up by the processor's shuffles where it has them.
#[derive(Debug, Clone)]
pub(crate) struct Shuffle {
    table: [u8; 256],
    /// What shuffles take, if the processor has AVX2.
    #[cfg(target_arch = "x86_64")]
    quarters: Option<Quarters>,
}

/// The table's entries for the bytes from 0x40, 0x50, 0x60 and 0x70 on: sixteen each, for both lanes of a register.
#[cfg(target_arch = "x86_64")]
type Quarters = [[u8; 32]; 4];

impl Shuffle {
    pub fn new(table: [u8; 256]) -> Self {
        Self {
            table,
            #[cfg(target_arch = "x86_64")]
            quarters: std::arch::is_x86_feature_detected!("avx2").then(|| {
                let entry = |quarter: usize, k: usize| table[0x40 + 16 * quarter + k % 16];
                std::array::from_fn(|quarter| std::array::from_fn(|k| entry(quarter, k)))
            }),
        }
    }

    /// Looks up the first `count` bytes of `from`, at least. The rest of `to` may come to hold anything.
    #[inline]
    pub fn apply(&self, from: &[u8; BLOCK], count: usize, to: &mut [u8; BLOCK]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(quarters) = &self.quarters {
            // SAFETY: the processor was asked, and has AVX2.
            if unsafe { letters(quarters, from, count, to) } {
                return;
            }
        }
        for (to, &from) in to.iter_mut().zip(from) {
            *to = self.table[usize::from(from)];
        }
    }
}

/// Looks up bytes if the first `count` all lie between `@` and DEL, where the letters are; `false`, and nothing written, if
/// others are among them. A shuffle looks up the low four bits of a byte in sixteen entries: four of them, and the next two bits to
/// choose between their results, cover those sixty-four values.
///
/// There are no closures here: functions of the standard library that call them don't have AVX2, so that none would be
/// inlined, and each call takes longer than the block.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn letters(quarters: &Quarters, from: &[u8; BLOCK], count: usize, to: &mut [u8; BLOCK]) -> bool {
    use std::arch::x86_64::{
        __m256i, _mm256_andnot_si256, _mm256_blendv_epi8, _mm256_movemask_epi8, _mm256_shuffle_epi8, _mm256_slli_epi16,
    };
    let [a, b, c, d]: [__m256i; 4] = bytemuck::cast(*quarters);
    let halves: [__m256i; 2] = bytemuck::cast(*from);
    let mut within = 0;
    for (k, half) in halves.into_iter().enumerate() {
        // The highest bit of a byte must be clear and the next one set.
        let mask = _mm256_movemask_epi8(_mm256_andnot_si256(half, _mm256_slli_epi16::<1>(half)));
        within |= u64::from(mask.cast_unsigned()) << (32 * k);
    }
    if (within.trailing_ones() as usize) < count {
        return false;
    }
    let mut looked_up = halves;
    for half in &mut looked_up {
        let (fifth, sixth) = (_mm256_slli_epi16::<3>(*half), _mm256_slli_epi16::<2>(*half));
        let low = _mm256_blendv_epi8(_mm256_shuffle_epi8(a, *half), _mm256_shuffle_epi8(b, *half), fifth);
        let high = _mm256_blendv_epi8(_mm256_shuffle_epi8(c, *half), _mm256_shuffle_epi8(d, *half), fifth);
        *half = _mm256_blendv_epi8(low, high, sixth);
    }
    *to = bytemuck::cast(looked_up);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_looked_up_wherever_it_stands() {
        let table: [u8; 256] = std::array::from_fn(|byte| (byte as u8).wrapping_mul(167).wrapping_add(13));
        let shuffle = Shuffle::new(table);
        for byte in 0..=255 {
            for at in [0, 15, 16, 31, 32, 63] {
                let mut from: [u8; BLOCK] = std::array::from_fn(|k| 0x40 + k as u8);
                from[at] = byte;
                let mut to = [0; BLOCK];
                shuffle.apply(&from, BLOCK, &mut to);
                assert_eq!(to, from.map(|byte| table[usize::from(byte)]), "{byte} at {at}");
                shuffle.apply(&from, at, &mut to);
                assert_eq!(to[..at], from.map(|byte| table[usize::from(byte)])[..at], "{byte} after {at}");
            }
        }
    }
}
