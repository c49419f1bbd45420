//! Text as pickles have it: UTF-8 with halves of surrogate pairs, and the escapes of protocol 0.

use super::heap::damaged;
use crate::error::{Error, Result};

/// Refuses bytes that are no text. Halves of surrogate pairs are, because Python's strings may have them.
pub fn check(mut bytes: &[u8]) -> Result<()> {
    while let Err(wrong) = std::str::from_utf8(bytes) {
        let rest = &bytes[wrong.valid_up_to()..];
        match rest {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, after @ ..] => bytes = after,
            _ => return Err(damaged("UnicodeDecodeError: expected text in UTF-8")),
        }
    }
    Ok(())
}

/// The text of a line of protocol 0, in which `\u` and four digits, or `\U` and eight, are a character.
pub fn unescaped(line: &[u8]) -> Result<Vec<u8>> {
    let mut text = Vec::with_capacity(line.len());
    let mut rest = line;
    while let [byte, after @ ..] = rest {
        rest = after;
        let digits = match (byte, after) {
            (b'\\', [b'u', ..]) => 4,
            (b'\\', [b'U', ..]) => 8,
            // A backslash takes what follows along, which may be another one.
            (b'\\', [next, after @ ..]) => {
                push(&mut text, u32::from(b'\\'))?;
                push(&mut text, u32::from(*next))?;
                rest = after;
                continue;
            }
            _ => {
                push(&mut text, u32::from(*byte))?;
                continue;
            }
        };
        let code = after.get(1..=digits).ok_or_else(truncated)?;
        push(&mut text, hexadecimal(code).ok_or_else(truncated)?)?;
        rest = &after[1 + digits..];
    }
    Ok(text)
}

fn truncated() -> Error {
    damaged("UnicodeDecodeError: expected the digits of a character")
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |number, &digit| Some(number << 4 | char::from(digit).to_digit(16)?))
}

/// Appends a character, or half of a surrogate pair.
fn push(text: &mut Vec<u8>, code: u32) -> Result<()> {
    match char::from_u32(code) {
        Some(character) => text.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
        None if code < 0x1_0000 => text.extend([0xed, 0x80 | (code >> 6 & 0x3f) as u8, 0x80 | (code & 0x3f) as u8]),
        None => return Err(damaged("UnicodeDecodeError: expected a character")),
    }
    Ok(())
}

/// The bytes that text stands for in latin1, if it has no other characters.
pub fn latin1(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    loop {
        let plain = text.iter().position(|byte| !byte.is_ascii()).unwrap_or(text.len());
        bytes.extend_from_slice(&text[..plain]);
        match &text[plain..] {
            [] => return Some(bytes),
            [high @ 0xc2..=0xc3, low, rest @ ..] => {
                bytes.push(high << 6 | low & 0x3f);
                text = rest;
            }
            _ => return None,
        }
    }
}

/// The text of a quoted string of Python 2, which must be ASCII.
pub fn unquoted(line: &[u8]) -> Result<Vec<u8>> {
    let refused = || damaged("UnpicklingError: the STRING opcode argument must be quoted, and ASCII");
    let ([b'\'', inside @ .., b'\''] | [b'"', inside @ .., b'"']) = line else { return Err(refused()) };
    let mut text = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let [byte, after @ ..] = rest {
        let (byte, after) = if *byte == b'\\' { escape(after).ok_or_else(refused)? } else { (*byte, after) };
        text.push(byte);
        rest = after;
    }
    if text.is_ascii() { Ok(text) } else { Err(refused()) }
}

/// The byte that is written after a backslash, and the rest.
fn escape(after: &[u8]) -> Option<(u8, &[u8])> {
    let (&kind, rest) = after.split_first()?;
    Some(match kind {
        b'\\' | b'\'' | b'"' => (kind, rest),
        b'n' => (b'\n', rest),
        b'r' => (b'\r', rest),
        b't' => (b'\t', rest),
        b'x' => (hexadecimal(rest.get(..2)?)? as u8, &rest[2..]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_may_have_halves_of_pairs() {
        for good in [&b""[..], b"abc", "gr\u{fc}n \u{1f600}".as_bytes(), b"a\xed\xa0\x80b\xed\xbf\xbf"] {
            assert!(check(good).is_ok(), "{good:?}");
        }
        for bad in [&b"\xff"[..], b"\xc3", b"\xed\xa0", b"\xc0\x80", b"\xf8\x88\x80\x80\x80"] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn escapes_are_characters() {
        for (line, expected) in [
            (&b"abc"[..], &b"abc"[..]),
            (b"\xfc", "\u{fc}".as_bytes()),
            (b"\\u005cu0041", b"\\u0041"),
            (b"a\\\\u0041", b"a\\\\u0041"),
            (b"\\n\\", b"\\n\\"),
            (b"\\U0001F600", "\u{1f600}".as_bytes()),
            (b"\\ud83d", b"\xed\xa0\xbd"),
        ] {
            assert_eq!(unescaped(line).unwrap(), expected, "{line:?}");
        }
        for bad in [&b"\\u12"[..], b"\\uzzzz", b"\\U00110000"] {
            assert!(unescaped(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn text_in_latin1_is_bytes() {
        let all: String = (0..=255).map(char::from).collect();
        assert_eq!(latin1(all.as_bytes()).unwrap(), (0..=255).collect::<Vec<u8>>());
        assert_eq!(latin1("\u{100}".as_bytes()), None);
    }

    #[test]
    fn quoted_strings_are_ascii() {
        for (line, expected) in [(&b"'a'"[..], &b"a"[..]), (b"\"it's\"", b"it's"), (br"'\\\'\n\x41'", b"\\'\nA")] {
            assert_eq!(unquoted(line).unwrap(), expected);
        }
        for bad in [&b"a"[..], b"'", b"'a\"", br"'\x'", br"'\xff'", b"'\xff'", br"'\'"] {
            assert!(unquoted(bad).is_err(), "{bad:?}");
        }
    }
}
