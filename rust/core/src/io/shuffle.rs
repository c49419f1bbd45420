//! A table of 256 bytes applied to sixty-four bytes at a time.

/// Bytes in a block.
pub(crate) const BLOCK: usize = 64;

/// A byte for every byte. Letters are looked up by the processor's shuffles where it has them.
#[derive(Debug, Clone)]
pub(crate) struct Shuffle {
    table: [u8; 256],
    /// The entries of letters, sixteen at a time, as shuffles take them.
    #[cfg(target_arch = "x86_64")]
    letters: [[u8; 16]; 4],
    #[cfg(target_arch = "x86_64")]
    avx2: bool,
}

impl Shuffle {
    pub fn new(table: [u8; 256]) -> Self {
        Self {
            table,
            #[cfg(target_arch = "x86_64")]
            letters: std::array::from_fn(|sixteen| std::array::from_fn(|k| table[0x40 + 16 * sixteen + k])),
            #[cfg(target_arch = "x86_64")]
            avx2: std::arch::is_x86_feature_detected!("avx2"),
        }
    }

    /// Looks up the first `count` bytes of `from`, at least. The rest of `to` may come to hold anything.
    #[inline]
    pub fn apply(&self, from: &[u8; BLOCK], count: usize, to: &mut [u8; BLOCK]) {
        #[cfg(target_arch = "x86_64")]
        if self.avx2 {
            // SAFETY: the processor was asked, and has AVX2.
            if unsafe { letters(&self.letters, from, count, to) } {
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
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn letters(tables: &[[u8; 16]; 4], from: &[u8; BLOCK], count: usize, to: &mut [u8; BLOCK]) -> bool {
    use std::arch::x86_64::{
        __m256i, _mm256_andnot_si256, _mm256_blendv_epi8, _mm256_broadcastsi128_si256, _mm256_movemask_epi8,
        _mm256_shuffle_epi8, _mm256_slli_epi16,
    };
    let tables = tables.map(|sixteen| _mm256_broadcastsi128_si256(bytemuck::cast(sixteen)));
    let halves: [__m256i; 2] = bytemuck::cast(*from);
    // The highest bit of a byte must be clear and the next one set.
    let within = halves.map(|half| _mm256_movemask_epi8(_mm256_andnot_si256(half, _mm256_slli_epi16::<1>(half))));
    let within = u64::from(within[0].cast_unsigned()) | u64::from(within[1].cast_unsigned()) << 32;
    if (within.trailing_ones() as usize) < count {
        return false;
    }
    let looked_up = halves.map(|half| {
        let [a, b, c, d] = tables.map(|table| _mm256_shuffle_epi8(table, half));
        let (fifth, sixth) = (_mm256_slli_epi16::<3>(half), _mm256_slli_epi16::<2>(half));
        _mm256_blendv_epi8(_mm256_blendv_epi8(a, b, fifth), _mm256_blendv_epi8(c, d, fifth), sixth)
    });
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
