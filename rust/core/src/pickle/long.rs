//! Integers of any size, of which those beyond 64 bits are known by how many bits they take.

use super::heap::{Value, damaged};
use crate::error::Result;

/// As many digits as Python reads, because reading takes the square of their number.
const MOST_DIGITS: usize = 4300;

/// An integer of bytes, the lowest first, in two's complement.
pub fn from_bytes(bytes: &[u8]) -> Value {
    let negative = bytes.last().is_some_and(|&last| last >= 0x80);
    let sign = if negative { 0xff } else { 0 };
    let len = bytes.iter().rposition(|&byte| byte != sign).map_or(0, |at| at + 1);
    // The highest bit that counts says the sign: eight bytes hold it, if it is that of the number.
    if len < 8 || (len == 8 && (bytes[7] >= 0x80) == negative) {
        let mut wide = [sign; 8];
        wide[..len].copy_from_slice(&bytes[..len]);
        return Value::Int(i64::from_le_bytes(wide));
    }
    let highest = bytes[len - 1] ^ sign;
    let bits = 8 * (len - 1) + (8 - highest.leading_zeros() as usize);
    // The size of a negative number is that of its complement and one more: a power of two takes another bit.
    let all_ones = negative && bytes[..len - 1].iter().all(|&byte| byte == 0) && highest & highest.wrapping_add(1) == 0;
    Value::Long(bits + usize::from(all_ones))
}

/// An integer of decimal digits, as Python writes it.
pub fn from_digits(text: &[u8]) -> Result<Value> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let sound = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && (digits[0] != b'0' || digits.len() == 1);
    if !sound || digits.len() > MOST_DIGITS {
        return Err(damaged("ValueError: expected an integer in decimal digits, not too many of them"));
    }
    if let Some(number) = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()) {
        return Ok(Value::Int(number));
    }
    let mut limbs: Vec<u64> = Vec::new();
    for piece in digits.rchunks(18).rev() {
        let number = piece.iter().fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'));
        let mut carry = u128::from(number);
        for limb in &mut limbs {
            carry += u128::from(*limb) * 10_u128.pow(piece.len() as u32);
            *limb = carry as u64;
            carry >>= 64;
        }
        if carry > 0 {
            limbs.push(carry as u64);
        }
    }
    let highest = limbs.last().copied().unwrap_or(0);
    Ok(Value::Long(64 * limbs.len() - highest.leading_zeros() as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_integers_or_their_bits() {
        for (bytes, expected) in [
            (&[][..], "Int(0)"),
            (&[0xff], "Int(-1)"),
            (&[0, 0x80], "Int(-32768)"),
            (&[0xff, 0], "Int(255)"),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "Int(9223372036854775807)"),
            (&[0, 0, 0, 0, 0, 0, 0, 0x80], "Int(-9223372036854775808)"),
            (&[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0xff], "Int(-9223372036854775808)"),
            (&[0, 0, 0, 0, 0, 0, 0, 0x80, 0], "Long(64)"),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff], "Long(64)"),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 0xff], "Long(65)"),
            (&[1, 0, 0, 0, 0, 0, 0, 0, 0xff], "Long(64)"),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 0x40], "Long(71)"),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 0xc0], "Long(71)"),
        ] {
            assert_eq!(format!("{:?}", from_bytes(bytes)), expected, "{bytes:?}");
        }
    }

    #[test]
    fn digits_are_integers_or_their_bits() {
        for (text, expected) in [
            ("0", "Int(0)"),
            ("-7", "Int(-7)"),
            ("9223372036854775808", "Long(64)"),
            ("-9223372036854775808", "Int(-9223372036854775808)"),
            ("1180591620717411303424", "Long(71)"),
            ("18446744073709551615", "Long(64)"),
            ("340282366920938463463374607431768211456", "Long(129)"),
        ] {
            assert_eq!(format!("{:?}", from_digits(text.as_bytes()).unwrap()), expected);
        }
        let many = "9".repeat(4301);
        for text in ["", "-", "01", "00", "+1", "1L", "0x1", " 1", "1_0", &many] {
            assert!(from_digits(text.as_bytes()).is_err(), "{text}");
        }
    }
}
