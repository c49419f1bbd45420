//! Sixty-four bytes at a time: which of them end lines, which are no plain letters.

use wide::i8x32;

/// Bit `i` of a mask speaks of byte `i` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Masks {
    /// The byte is `\n`.
    pub newline: u64,
    /// The byte is not a printable ASCII character: a newline, a blank, a control character or above 127.
    pub odd: u64,
    /// The byte is `>`.
    pub angle: u64,
}

/// How many bytes a block has.
pub(crate) const BLOCK: usize = 64;

/// The masks of the block at `at`; bits beyond the end of `bytes` are zero.
#[inline]
pub(crate) fn masks(bytes: &[u8], at: usize) -> Masks {
    if let Some(block) = bytes.get(at..at + BLOCK).and_then(|b| <&[u8; BLOCK]>::try_from(b).ok()) {
        return classify(block);
    }
    // 'A' is neither odd nor a newline nor '>': padding sets no bit.
    let mut block = [b'A'; BLOCK];
    let rest = &bytes[at.min(bytes.len())..];
    block[..rest.len()].copy_from_slice(rest);
    classify(&block)
}

#[inline]
fn classify(block: &[u8; BLOCK]) -> Masks {
    let [low, high]: [[u8; 32]; 2] = bytemuck::cast(*block);
    let (low, high) = (half(low), half(high));
    let join = |a: u32, b: u32| u64::from(a) | u64::from(b) << 32;
    Masks { newline: join(low.0, high.0), odd: join(low.1, high.1), angle: join(low.2, high.2) }
}

#[inline]
fn half(bytes: [u8; 32]) -> (u32, u32, u32) {
    let v = i8x32::new(bytemuck::cast(bytes));
    // As signed numbers, everything that is not printable ASCII is below '!': bytes above 127 are negative.
    let odd = i8x32::splat(b'!' as i8).simd_gt(v) | v.simd_eq(i8x32::splat(0x7f));
    (
        v.simd_eq(i8x32::splat(b'\n' as i8)).to_bitmask(),
        odd.to_bitmask(),
        v.simd_eq(i8x32::splat(b'>' as i8)).to_bitmask(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_classified_as_by_its_definition() {
        for byte in 0..=255_u8 {
            for at in [0, 15, 16, 31, 32, 63] {
                let mut block = [b'A'; BLOCK];
                block[at] = byte;
                let found = masks(&block, 0);
                let bit = |set: bool| u64::from(set) << at;
                assert_eq!(found.newline, bit(byte == b'\n'), "{byte}");
                assert_eq!(found.odd, bit(!byte.is_ascii_graphic()), "{byte}");
                assert_eq!(found.angle, bit(byte == b'>'), "{byte}");
            }
        }
    }

    #[test]
    fn a_short_block_has_no_bits_beyond_its_end() {
        assert_eq!(masks(b"A\n>", 0), Masks { newline: 2, odd: 2, angle: 4 });
        assert_eq!(masks(b"A\n>", 3), Masks { newline: 0, odd: 0, angle: 0 });
    }
}
