//! The header line of a record: its id is the first word.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::scan::block::odd;

/// A header line, checked: valid UTF-8 without NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header<'a> {
    /// The whole line without `>` and line end.
    pub text: &'a str,
    /// The first word; where there is none, the byte offset of the `>` as text.
    pub id: Cow<'a, str>,
    /// Whether the line has no word at all.
    pub is_empty: bool,
}

impl<'a> Header<'a> {
    /// Reads a header line that stands at `offset`. `line` starts with `>`; a line end may follow.
    pub fn parse(line: &'a [u8], offset: u64) -> Result<Self> {
        let text = line
            .strip_prefix(b">")
            .ok_or_else(|| Error::format(offset, "expected a header line that starts with '>'"))?;
        let text = trim_line_end(text);
        let at = offset + 1;
        let valid = std::str::from_utf8(text);
        let readable = valid.as_ref().map_or_else(std::str::Utf8Error::valid_up_to, |text| text.len());
        if let Some(odd) = memchr::memchr2(0, b'\r', &text[..readable]).filter(|&odd| is_wrong(&text[odd..])) {
            return Err(wrong(at + odd as u64, text[odd]));
        }
        let Ok(text) = valid else { return Err(wrong(at + readable as u64, text[readable])) };
        let word = first_word(text);
        let id = if word.is_empty() { Cow::Owned(offset.to_string()) } else { Cow::Borrowed(word) };
        Ok(Self { text, id, is_empty: word.is_empty() })
    }
}

/// Whether a NUL byte or a carriage return, which starts `rest`, may not stand there: those at a line's end may.
fn is_wrong(rest: &[u8]) -> bool {
    rest.iter().any(|&byte| byte != b'\r')
}

#[cold]
fn wrong(at: u64, byte: u8) -> Error {
    let message = match byte {
        0 => "expected text in UTF-8 in a header, found a NUL byte".to_owned(),
        // Old Macs ended lines with it: what follows would be taken for a part of the header, and be lost.
        b'\r' => "expected LF or CRLF at the end of a header, found a carriage return without a line feed; \
                  convert the file: tr '\\r' '\\n' < FILE > NEW"
            .to_owned(),
        byte => format!("expected text in UTF-8 in a header, found the byte 0x{byte:02x}"),
    };
    Error::format(at, message)
}

/// The id in a header line, as checked as by [`Header::parse`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Name<'a> {
    /// UTF-8.
    pub id: Cow<'a, [u8]>,
    /// Whether the line has no word to be it.
    pub unnamed: bool,
    /// Bytes in the line, its newline not counted.
    pub line: usize,
}

/// Reads the header line that starts `bytes` and stands at `offset`; `None` if its newline is not in `bytes`.
#[inline]
pub(crate) fn name(bytes: &[u8], offset: u64) -> Result<Option<Name<'_>>> {
    if let Some(plain) = plain_name(bytes) {
        return Ok(Some(plain));
    }
    let Some(line) = memchr::memchr(b'\n', bytes) else { return Ok(None) };
    let header = Header::parse(&bytes[..line], offset)?;
    let id = match header.id {
        Cow::Borrowed(id) => Cow::Borrowed(id.as_bytes()),
        Cow::Owned(id) => Cow::Owned(id.into_bytes()),
    };
    Ok(Some(Name { id, unnamed: header.is_empty, line }))
}

/// The name in a short line that starts with a word and holds nothing but ASCII, spaces and tabs: as nearly all do.
#[inline]
fn plain_name(bytes: &[u8]) -> Option<Name<'_>> {
    let mut odd = odd(bytes, 0);
    let end = odd.trailing_zeros() as usize;
    while odd != 0 {
        let at = odd.trailing_zeros() as usize;
        match bytes[at] {
            b' ' | b'\t' => odd &= odd - 1,
            b'\n' => {
                let word = bytes.get(1..end).filter(|word| !word.is_empty() && bytes[0] == b'>')?;
                return Some(Name { id: Cow::Borrowed(word), unnamed: false, line: at });
            }
            _ => return None,
        }
    }
    None
}

/// The first run of bytes that C's `isspace` does not call space.
fn first_word(text: &str) -> &str {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    let text = text.trim_start_matches(blank);
    let end = text.bytes().position(|b| matches!(b, b' ' | b'\t'..=b'\r')).unwrap_or(text.len());
    &text[..end]
}

fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_the_first_word() {
        for (line, text, id) in [
            (&b">a b c\n"[..], "a b c", "a"),
            (b"> a\tb\r\n", " a\tb", "a"),
            (b">a", "a", "a"),
            (b">a>b", "a>b", "a>b"),
            (&[&b">"[..], &[b'x'; 90], b" y"].concat(), &format!("{} y", "x".repeat(90)), &"x".repeat(90)),
            (">\u{e9}t\u{e9} x".as_bytes(), "\u{e9}t\u{e9} x", "\u{e9}t\u{e9}"),
            (b">\n", "", "7"),
            (b">  \n", "  ", "7"),
            (b">a\r\r\n", "a\r", "a"),
        ] {
            let header = Header::parse(line, 7).unwrap();
            assert_eq!((header.text, &*header.id), (text, id));
            let length = line.strip_suffix(b"\n").unwrap_or(line).len();
            let id = Cow::Owned(header.id.into_owned().into_bytes());
            let name = Name { id, unnamed: header.is_empty, line: length };
            assert_eq!(super::name(&[line, b"\nACGT"].concat(), 7).unwrap(), Some(name));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_at_their_place() {
        for (line, message) in [
            (&b">ab\xffc\n"[..], "<bytes>: byte 13: expected text in UTF-8 in a header, found the byte 0xff"),
            (b">a\0c\n", "<bytes>: byte 12: expected text in UTF-8 in a header, found a NUL byte"),
            (b"ACGT\n", "<bytes>: byte 10: expected a header line that starts with '>'"),
            (
                b">a b\rACGT\r>c\rAC\n",
                "<bytes>: byte 14: expected LF or CRLF at the end of a header, found a carriage return without a line \
                 feed; convert the file: tr '\\r' '\\n' < FILE > NEW",
            ),
        ] {
            assert_eq!(Header::parse(line, 10).unwrap_err().to_string(), message);
            assert_eq!(name(line, 10).unwrap_err().to_string(), message);
        }
    }
}
