//! `.idx`: where each record of a TFRecord file lies, in the text that DALI reads.

use crate::error::{Error, Place, Result};
use crate::io::{Scratch, Source};
use crate::scan::tfrecord::{AROUND, Entry, HEADER, frame};

/// Records of an index whose headers are compared with the data, besides the first and the last.
const SAMPLES: u64 = 62;

/// Adds the lines of some records.
pub fn push_lines(text: &mut Vec<u8>, entries: &[Entry]) {
    for &entry in entries {
        push_line(text, entry);
    }
}

/// Adds a record's line.
#[inline]
pub fn push_line(text: &mut Vec<u8>, entry: Entry) {
    let mut digits = itoa::Buffer::new();
    text.extend_from_slice(digits.format(entry.offset).as_bytes());
    text.push(b' ');
    text.extend_from_slice(digits.format(entry.size).as_bytes());
    text.push(b'\n');
}

/// Reads an index: one offset and one size per line, with any blanks around them, in any order.
///
/// DALI takes numbers as they come and stops without a word at the first thing that is none. Here that is an error, and
/// so are a line with another number of columns and a number that DALI has no room for.
///
/// ```
/// use seekset_core::Entry;
/// use seekset_core::index::idx::read;
/// let entries = read(b"18 40\r\n\n 0\t18")?;
/// assert_eq!(entries, [Entry { offset: 18, size: 40 }, Entry { offset: 0, size: 18 }]);
///
/// let error = read(b"0 18\n18 40 3\n").unwrap_err();
/// assert_eq!(error.to_string(), "<bytes>: line 2: expected an offset and a size, found 3 columns");
/// # Ok::<(), seekset_core::Error>(())
/// ```
pub fn read(text: &[u8]) -> Result<Vec<Entry>> {
    let mut entries = Vec::with_capacity(memchr::memchr_iter(b'\n', text).count() + 1);
    let (mut rest, mut line) = (text, 1);
    while !rest.is_empty() {
        if let Some((entry, after)) = quick(rest) {
            entries.push(entry);
            rest = after;
        } else {
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            entries.extend(slow(&rest[..end], line)?);
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        line += 1;
    }
    Ok(entries)
}

/// A line exactly as it is written here, and what follows it.
#[inline]
fn quick(text: &[u8]) -> Option<(Entry, &[u8])> {
    let (offset, rest) = digits(text)?;
    let (size, rest) = digits(rest.strip_prefix(b" ")?)?;
    Some((Entry { offset, size }, rest.strip_prefix(b"\n")?))
}

/// A number of up to 18 digits, which always fits, and what follows it.
#[inline]
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    let mut read = 0;
    while let Some(digit) = text.get(read).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        number = number * 10 + u64::from(digit);
        read += 1;
        if read > 18 {
            return None;
        }
    }
    (read > 0).then(|| (number, &text[read..]))
}

/// Any other line: blank, oddly spaced, or wrong.
fn slow(line: &[u8], number: u64) -> Result<Option<Entry>> {
    let wrong = |message: String| Error::Format { path: None, place: Place::line(number), message };
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c);
    let columns: Vec<&[u8]> = line.split(blank).filter(|column| !column.is_empty()).take(4).collect();
    let parse = |column: &[u8]| {
        let text = String::from_utf8_lossy(&column[..column.len().min(40)]).escape_debug().to_string();
        if column.iter().all(u8::is_ascii_digit) {
            let number = std::str::from_utf8(column).ok().and_then(|text| text.parse::<i64>().ok());
            number.map(i64::cast_unsigned).ok_or_else(|| wrong(format!("{text} is more than any file holds")))
        } else if column.len() > 1 && column[0] == b'-' && column[1..].iter().all(u8::is_ascii_digit) {
            Err(wrong(format!("expected numbers from 0 on, found {text}")))
        } else {
            Err(wrong(format!("expected a number, found '{text}'")))
        }
    };
    match columns[..] {
        [] => Ok(None),
        [offset, size] => Ok(Some(Entry { offset: parse(offset)?, size: parse(size)? })),
        _ => {
            columns.iter().try_for_each(|column| parse(column).map(drop))?;
            let found = if columns.len() == 1 { "1 column".to_owned() } else { format!("{} columns", columns.len()) };
            Err(wrong(format!("expected an offset and a size, found {found}")))
        }
    }
}

/// How an index lies over its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// Every record, in file order.
    Whole,
    /// The records from the start on, in file order, up to this byte: the file has grown, or the index was cut.
    UpTo(u64),
    /// A selection, an order or repeats of somebody's own.
    Own,
}

/// How these entries lie over a file of `len` bytes.
///
/// ```
/// use seekset_core::Entry;
/// use seekset_core::index::idx::{Cover, cover};
/// let entries = [Entry { offset: 0, size: 18 }, Entry { offset: 18, size: 20 }];
/// assert_eq!(cover(&entries, 38), Cover::Whole);
/// assert_eq!(cover(&entries[..1], 38), Cover::UpTo(18));
/// assert_eq!(cover(&entries[1..], 38), Cover::Own);
/// ```
#[must_use]
pub fn cover(entries: &[Entry], len: u64) -> Cover {
    let mut at = 0;
    for entry in entries {
        match entry.end() {
            Some(end) if entry.offset == at => at = end,
            _ => return Cover::Own,
        }
    }
    if at == len { Cover::Whole } else { Cover::UpTo(at) }
}

/// An error if these entries can't be of this data: all must lie inside, and the first, the last and some between must
/// have the length that the data states.
pub fn check(entries: &[Entry], source: &dyn Source) -> Result<()> {
    let len = source.len();
    for (row, entry) in entries.iter().enumerate() {
        if entry.size < AROUND || entry.end().is_none_or(|end| end > len) {
            return Err(disagrees(row as u64, *entry, &format!("the file has {len} bytes")));
        }
    }
    let mut scratch = Scratch::default();
    let last = (entries.len() as u64).saturating_sub(1);
    let between = SAMPLES.min(last) + 1;
    for k in (0..=between).filter(|_| !entries.is_empty()) {
        let row = (u128::from(last) * u128::from(k) / u128::from(between)) as u64;
        check_header(row, entries[row as usize], source, &mut scratch)?;
    }
    Ok(())
}

fn check_header(row: u64, entry: Entry, source: &dyn Source, scratch: &mut Scratch) -> Result<()> {
    let bytes = source.bytes(entry.offset..entry.offset + HEADER, scratch)?;
    let stated = bytes.first_chunk().map(frame::stated_length);
    if stated == Some(entry.size - AROUND) {
        return Ok(());
    }
    let found = stated.map_or(String::new(), |length| format!("the data states a payload of {length} bytes there"));
    Err(disagrees(row, entry, &found))
}

/// The error about an index that says something else than its data.
#[cold]
pub(crate) fn disagrees(row: u64, entry: Entry, found: &str) -> Error {
    let Entry { offset, size } = entry;
    Error::stale(format!(
        "its index does not fit: row {row} has a record of {size} bytes at byte {offset}, but {found}; the index is of \
         another file, or the file has changed: make it again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[u8]) -> Vec<(u64, u64)> {
        read(text).unwrap().iter().map(|entry| (entry.offset, entry.size)).collect()
    }

    #[test]
    fn one_pair_per_line_is_read_however_it_is_spaced() {
        let two = [(0, 18), (18, 40)];
        for (text, expected) in [
            (&b""[..], &[][..]),
            (b"0 18\n18 40\n", &two),
            (b"0 18\n18 40", &two),
            (b"0\t18\n18\t40\n", &two),
            (b"  0   18  \n\t18 \t 40\t\n", &two),
            (b"0 18\r\n18 40\r\n", &two),
            (b"\n\n0 18\n \t\r\n18 40\n\n", &two),
            (b"18 40\n0 18\n", &[(18, 40), (0, 18)]),
            (b"18 40\n", &[(18, 40)]),
            (b"0 18\n0 18\n", &[(0, 18), (0, 18)]),
            (b"007 0000000000000000000000018\n", &[(7, 18)]),
            (b"9223372036854775807 999999999999999999\n", &[(9_223_372_036_854_775_807, 999_999_999_999_999_999)]),
            (b"\n\r\n \n", &[]),
        ] {
            assert_eq!(pairs(text), expected, "{:?}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_dali_would_misread_is_refused_with_its_line() {
        for (text, line, message) in [
            (&b"x 18\n"[..], 1, "expected a number, found 'x'"),
            (b"0 18\nhello\n", 2, "expected a number, found 'hello'"),
            (b"0 18\n\n18 0x28\n", 3, "expected a number, found '0x28'"),
            (b"0 18\n18 4.5\n", 2, "expected a number, found '4.5'"),
            (b"0 +18\n", 1, "expected a number, found '+18'"),
            (b"0,18\n", 1, "expected a number, found '0,18'"),
            (b"\xef\xbb\xbf0 18\n", 1, "expected a number, found '\\u{feff}0'"),
            (b"0 1\x008\n", 1, "expected a number, found '1\\08'"),
            (b"\xff 18\n", 1, "expected a number, found '\u{fffd}'"),
            (b"- 18\n", 1, "expected a number, found '-'"),
            (b"-1 18\n", 1, "expected numbers from 0 on, found -1"),
            (b"0 18\r\n18 -40\r\n", 2, "expected numbers from 0 on, found -40"),
            (b"0 18 3\n", 1, "expected an offset and a size, found 3 columns"),
            (b"0 18 18 40\n", 1, "expected an offset and a size, found 4 columns"),
            (b"0 18\r18 40\r", 1, "expected an offset and a size, found 4 columns"),
            (b"0 18\n18\n", 2, "expected an offset and a size, found 1 column"),
            (b"0 18\n18", 2, "expected an offset and a size, found 1 column"),
            (b"0 18\n18 40 x\n", 2, "expected a number, found 'x'"),
            (b"9223372036854775808 18\n", 1, "9223372036854775808 is more than any file holds"),
            (b"0 18446744073709551616\n", 1, "18446744073709551616 is more than any file holds"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.to_string(), format!("<bytes>: line {line}: {message}"));
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let entries: Vec<Entry> = [(0, 16), (16, 1 << 40), (i64::MAX as u64, i64::MAX as u64)]
            .map(|(offset, size)| Entry { offset, size })
            .into();
        let mut text = Vec::new();
        push_lines(&mut text, &entries);
        assert_eq!(read(&text).unwrap(), entries);
    }
}
