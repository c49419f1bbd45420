//! One chunk of a FASTA file, scanned without knowing what came before it.

use super::header::{self, Name};
use super::lines::{Line, LineRun};
use super::{Record, Rows};
use crate::error::{Error, Result};
use crate::io::prefetch::prefetch;
use crate::scan::block::{BLOCK, odd};

/// How far ahead of the lines memory is asked for: it takes longer to come than a line takes to be looked at.
const AHEAD: usize = 4096;

/// What a chunk holds. In file order: `head`, `lead`, `rows`, `open`, `tail`.
#[derive(Debug)]
pub(crate) struct Fragment<R> {
    /// The bytes up to the first newline: the end of a line that may have started before.
    pub head: Piece,
    /// Whether a newline ended the head; if not, the head is all there is.
    pub head_ends: bool,
    /// Whole lines after the head that belong to a record from before.
    pub lead: LineRun,
    /// Records that start and end within the chunk.
    pub rows: R,
    /// Where the first header line of the chunk starts; the lead ends there.
    pub first_header: Option<u64>,
    /// The last record, which may go on after the chunk.
    pub open: Option<Open>,
    /// The bytes after the last newline: the start of a line that ends later.
    pub tail: Piece,
    /// What stopped the scan of this chunk.
    pub fault: Option<Error>,
}

impl<R> Fragment<R> {
    /// The same chunk without what belongs to a record from before; nothing if no header starts in it.
    ///
    /// The lines from before were looked at all the same: what is wrong with them is an error.
    pub fn without_lead(mut self) -> Result<Option<Self>> {
        if self.first_header.is_none() {
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            if self.tail.first != b'>' {
                return Ok(None);
            }
        }
        Ok(Some(Self { head: Piece::default(), head_ends: true, lead: LineRun::default(), ..self }))
    }
}

/// A record whose end has not been seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Open {
    pub id: String,
    /// The record so far; its `end` is not known yet.
    pub record: Record,
}

/// A part of a line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Piece {
    pub at: u64,
    pub len: u64,
    /// Bytes that are not letters.
    pub blanks: u64,
    /// Whether the last byte is a carriage return.
    pub carriage: bool,
    pub first: u8,
    /// The first byte that no sequence may hold, with its offset.
    pub bad: Option<(u64, u8)>,
}

impl Piece {
    fn of(bytes: &[u8], at: u64) -> Self {
        let mut piece = Self { at, len: bytes.len() as u64, ..Self::default() };
        let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return piece };
        piece.first = first;
        piece.carriage = last == b'\r';
        for block in (0..bytes.len()).step_by(BLOCK) {
            let mut odd = odd(bytes, block);
            while odd != 0 {
                let place = block + odd.trailing_zeros() as usize;
                piece.blanks += 1;
                if piece.bad.is_none() && !is_blank(bytes[place]) {
                    piece.bad = Some((at + place as u64, bytes[place]));
                }
                odd &= odd - 1;
            }
        }
        piece
    }
}

/// What is dropped from sequence lines, as C's `isspace` has it.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The error for a byte that no sequence may hold.
#[cold]
pub(crate) fn bad_byte(at: u64, byte: u8) -> Error {
    let what = match byte {
        0 => "a NUL byte".to_owned(),
        128.. => format!("the byte 0x{byte:02x}, which is not ASCII"),
        _ => format!("the control character 0x{byte:02x}"),
    };
    Error::format(at, format!("expected letters in a sequence line, found {what}"))
}

/// Scans one chunk that stands at `base`.
pub(crate) fn scan<R: Rows>(bytes: &[u8], base: u64) -> Fragment<R> {
    let newline = memchr::memchr(b'\n', bytes);
    let head = Piece::of(&bytes[..newline.unwrap_or(bytes.len())], base);
    let mut fragment = Fragment {
        head,
        head_ends: newline.is_some(),
        lead: LineRun::default(),
        rows: R::default(),
        first_header: None,
        open: None,
        tail: Piece::default(),
        fault: None,
    };
    if let Some(newline) = newline {
        fragment.fault = body(bytes, base, newline + 1, &mut fragment).err();
    }
    fragment
}

/// Where a run of sequence lines stopped.
enum Stop {
    /// At a header line.
    Header(usize),
    /// At a line whose end is not in the chunk, or at the chunk's end.
    Tail(usize),
}

/// Everything after the head: from here on, line starts are known.
fn body<R: Rows>(bytes: &[u8], base: u64, from: usize, fragment: &mut Fragment<R>) -> Result<()> {
    let mut stop = sequence_lines(bytes, base, from, &mut fragment.lead)?;
    if let Stop::Header(at) = stop {
        fragment.first_header = Some(base + at as u64);
    }
    loop {
        let start = match stop {
            Stop::Header(start) => start,
            Stop::Tail(start) => {
                fragment.tail = Piece::of(&bytes[start..], base + start as u64);
                return Ok(());
            }
        };
        let header_offset = base + start as u64;
        let Some(Name { id, unnamed, line }) = header::name(&bytes[start..], header_offset)? else {
            stop = Stop::Tail(start);
            continue;
        };
        let after = start + line + 1;
        let sequence_offset = base + after as u64;
        let mut lines = LineRun::default();
        stop = sequence_lines(bytes, base, after, &mut lines)?;
        let (Stop::Header(end) | Stop::Tail(end)) = stop;
        let end = base + end as u64;
        let record = Record { header_offset, sequence_offset, end, lines, unnamed };
        match stop {
            Stop::Header(_) => fragment.rows.push(&record, &id),
            // The tail may go on with this record or start the next header: stitching tells.
            Stop::Tail(_) => fragment.open = Some(Open { id: String::from_utf8_lossy(&id).into_owned(), record }),
        }
    }
}

/// Adds whole sequence lines to `run`, from the line start `from` to the next header line or the last newline.
fn sequence_lines(bytes: &[u8], base: u64, from: usize, run: &mut LineRun) -> Result<Stop> {
    let mut start = from;
    while let Some(&first) = bytes.get(start) {
        if first == b'>' {
            return Ok(Stop::Header(start));
        }
        // Most lines hold nothing but letters up to a newline within one block.
        let letters = odd(bytes, start).trailing_zeros() as usize;
        let line = if bytes.get(start + letters) == Some(&b'\n') {
            Line { at: base + start as u64, bytes: letters as u64 + 1, blanks: 0, carriage: false }
        } else {
            match long_line(bytes, base, start)? {
                Some(line) => line,
                None => break,
            }
        };
        run.push(line);
        start += line.bytes as usize;
        if let Some(letters) = run.plain_line() {
            let alike = lines_of(bytes, start, letters as usize);
            run.push_alike(alike as u64);
            start += alike * (letters as usize + 1);
        }
    }
    Ok(Stop::Tail(start))
}

/// How many lines from `start` on hold exactly `letters` letters and a newline: nearly all lines of nearly all files.
#[inline]
fn lines_of(bytes: &[u8], start: usize, letters: usize) -> usize {
    if letters >= BLOCK {
        return 0;
    }
    let mut at = start;
    while at + BLOCK <= bytes.len()
        && odd(bytes, at).trailing_zeros() as usize == letters
        && bytes[at + letters] == b'\n'
        && bytes[at] != b'>'
    {
        prefetch(bytes.get(at + AHEAD..=at + AHEAD).unwrap_or_default());
        at += letters + 1;
    }
    (at - start) / (letters + 1)
}

/// The line at `start`, whatever its length and its blanks; `None` if its end is not in the chunk.
fn long_line(bytes: &[u8], base: u64, start: usize) -> Result<Option<Line>> {
    let mut blanks = 0;
    let mut block = start;
    while block < bytes.len() {
        let mut odd = odd(bytes, block);
        while odd != 0 {
            let place = block + odd.trailing_zeros() as usize;
            match bytes[place] {
                b'\n' => {
                    let carriage = blanks > 0 && bytes[place - 1] == b'\r';
                    let len = (place + 1 - start) as u64;
                    return Ok(Some(Line { at: base + start as u64, bytes: len, blanks, carriage }));
                }
                byte if is_blank(byte) => blanks += 1,
                byte => return Err(bad_byte(base + place as u64, byte)),
            }
            odd &= odd - 1;
        }
        block += BLOCK;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Ids(Vec<String>);

    impl Rows for Ids {
        fn push(&mut self, _record: &Record, id: &[u8]) {
            self.0.push(String::from_utf8(id.to_vec()).unwrap());
        }
    }

    /// Where the parts of a chunk lie; all offsets are counted from the chunk's start.
    type Parts<'a> = ((u64, bool), u64, &'a [&'a str], Option<u64>, Option<&'a str>, u64);

    #[test]
    fn a_chunk_falls_into_parts_whatever_came_before() {
        let table: &[(&[u8], Parts<'_>)] = &[
            (b"", ((0, false), 0, &[], None, None, 0)),
            (b"ACGT", ((4, false), 0, &[], None, None, 0)),
            (b">a", ((2, false), 0, &[], None, None, 0)),
            (b"ACGT\n", ((4, true), 0, &[], None, None, 0)),
            (b"\nACGT\nAC", ((0, true), 1, &[], None, None, 2)),
            (b">a\nACGT\n", ((2, true), 1, &[], None, None, 0)),
            (b"A\nC\nG\n>a\nAC\n>b\n\n>c", ((1, true), 2, &["a", "b"], Some(6), None, 2)),
            (b"\n>a b\nAC", ((0, true), 0, &[], Some(1), Some("a"), 2)),
            (b"\n>a\n>b\n>c\n", ((0, true), 0, &["a", "b"], Some(1), Some("c"), 0)),
            (b"\n>a", ((0, true), 0, &[], Some(1), None, 2)),
        ];
        for (bytes, expected) in table {
            let base = 1 << 40;
            let Fragment { head, head_ends, lead, rows, first_header, open, tail, fault } = scan::<Ids>(bytes, base);
            assert!(fault.is_none());
            let rows: Vec<&str> = rows.0.iter().map(String::as_str).collect();
            let open = open.as_ref().map(|open| &*open.id);
            let first_header = first_header.map(|at| at - base);
            let found: Parts<'_> = ((head.len, head_ends), lead.lines, &rows, first_header, open, tail.len);
            assert_eq!(found, *expected, "{:?}", String::from_utf8_lossy(bytes));
            assert!(tail.len == 0 || tail.at + tail.len == base + bytes.len() as u64);
        }
    }

    #[test]
    fn a_piece_counts_what_is_no_letter_and_keeps_the_first_that_may_not_be() {
        let long = [&[b'A'; 100][..], b" \0\xff\r"].concat();
        for (bytes, blanks, carriage, bad) in [
            (&b""[..], 0, false, None),
            (b"ACGT", 0, false, None),
            (b"\tA C\r", 3, true, None),
            (b"A\rC", 1, false, None),
            (&long, 4, true, Some((107, 0))),
            (b"\x80", 1, false, Some((6, 0x80))),
        ] {
            let piece = Piece::of(bytes, 6);
            assert_eq!((piece.blanks, piece.carriage, piece.bad), (blanks, carriage, bad), "{bytes:?}");
        }
    }

    #[test]
    fn a_fault_keeps_what_came_before_it() {
        let fragment = scan::<Ids>(b"\n>a\nAC\n>b\nG\0\n>c\n", 100);
        assert_eq!(fragment.rows.0, ["a"]);
        assert_eq!(
            fragment.fault.unwrap().to_string(),
            "<bytes>: byte 111: expected letters in a sequence line, found a NUL byte"
        );
    }
}
