//! Sixty-four bytes at a time: which of them are no plain letters.

use wide::i8x32;

/// How many bytes a block has.
pub(crate) const BLOCK: usize = 64;

/// Bit `i` says that byte `at + i` is not a printable ASCII character: a line end, a blank, a control character or above
/// 127. Bits beyond the end of `bytes` are zero.
#[inline]
pub(crate) fn odd(bytes: &[u8], at: usize) -> u64 {
    if let Some(block) = bytes.get(at..at + BLOCK).and_then(|b| <&[u8; BLOCK]>::try_from(b).ok()) {
        return classify(block);
    }
    // 'A' is not odd: padding sets no bit.
    let mut block = [b'A'; BLOCK];
    let rest = &bytes[at.min(bytes.len())..];
    block[..rest.len()].copy_from_slice(rest);
    classify(&block)
}

#[inline]
fn classify(block: &[u8; BLOCK]) -> u64 {
    let [low, high]: [[u8; 32]; 2] = bytemuck::cast(*block);
    u64::from(half(low)) | u64::from(half(high)) << 32
}

#[inline]
fn half(bytes: [u8; 32]) -> u32 {
    // As signed numbers plus one, everything that is not printable ASCII is below '"': bytes above 127 are negative, and
    // 127 becomes so.
    let next = i8x32::new(bytemuck::cast(bytes)) + i8x32::splat(1);
    i8x32::splat(b'"' as i8).simd_gt(next).to_bitmask()
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
                assert_eq!(odd(&block, 0), u64::from(!byte.is_ascii_graphic()) << at, "{byte}");
            }
        }
    }

    #[test]
    fn a_short_block_has_no_bits_beyond_its_end() {
        assert_eq!(odd(b"A\n>", 0), 2);
        assert_eq!(odd(b"A\n>", 3), 0);
        assert_eq!(odd(b"", 0), 0);
    }
}
