//! Records exactly as samtools finds them for a `.fai`, with what it drops and where it gives up.
//!
//! This follows samtools byte by byte rather than through our own scan, because the two differ in what they call a line,
//! a blank and a record. It is for those who need the very same file; `faidx` without it loses nothing.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::io::{Scratch, Source};
use crate::watch::{Beat, Watch};

/// What the next line may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A header or a blank line.
    Header,
    /// A header, a blank line, or letters.
    Letters,
}

/// A record under way, in the terms of a `.fai`.
#[derive(Debug, Default)]
struct Current {
    name: Vec<u8>,
    length: u64,
    offset: u64,
    line_bases: u64,
    line_bytes: u64,
    /// Whether a line of its sequence has been seen: without one, samtools leaves the record out.
    has_lines: bool,
}

/// What a line holds: its length and what starts it, and its text if it is a header.
#[derive(Debug, Default)]
struct Line {
    at: u64,
    len: u64,
    graphic: u64,
    first: u8,
    header: Vec<u8>,
}

/// Scans all of `source`. `found` gets a name and the four numbers of a `.fai` for every record that samtools would list.
///
/// Returns how many records were left out for their repeated name.
pub fn scan(source: &dyn Source, watch: &dyn Watch, found: impl FnMut(&[u8], [u64; 4]) -> Result<()>) -> Result<u64> {
    let mut machine =
        Machine { found, seen: HashSet::new(), current: Current::default(), expect: Expect::Header, repeated: 0 };
    let mut scratch = Scratch::default();
    let mut line = Line::default();
    let mut beat = Beat::new(watch, source.len());
    let mut at = 0;
    while at < source.len() {
        let end = source.chunk_end(at, 1 << 20);
        source.check_unchanged()?;
        let mut rest = source.bytes(at..end, &mut scratch)?;
        while !rest.is_empty() {
            let newline = memchr::memchr(b'\n', rest);
            let (piece, after) = rest.split_at(newline.map_or(rest.len(), |n| n + 1));
            line.add(&piece[..newline.unwrap_or(piece.len())]);
            if newline.is_some() {
                let next = line.at + line.len + 1;
                machine.take(&line, next)?;
                line = Line { at: next, ..Line::default() };
            }
            rest = after;
        }
        at = end;
        beat.tell(at)?;
    }
    machine.finish(&line, source.len())
}

impl Line {
    fn add(&mut self, piece: &[u8]) {
        let Some(&first) = piece.first() else { return };
        if self.len == 0 {
            self.first = first;
        }
        if self.first == b'>' {
            self.header.extend_from_slice(piece);
        }
        self.len += piece.len() as u64;
        self.graphic += piece.iter().filter(|byte| byte.is_ascii_graphic()).count() as u64;
    }
}

struct Machine<F> {
    found: F,
    seen: HashSet<Vec<u8>>,
    current: Current,
    expect: Expect,
    repeated: u64,
}

impl<F: FnMut(&[u8], [u64; 4]) -> Result<()>> Machine<F> {
    /// Takes a line; `next` is where the line after it starts.
    fn take(&mut self, line: &Line, next: u64) -> Result<()> {
        let blank = line.len == 0 || (self.expect == Expect::Header && line.len == 1 && line.first == b'\r');
        if blank {
            self.expect = Expect::Header;
        } else if line.first == b'>' {
            self.insert()?;
            self.current = Current { name: first_word(&line.header[1..]), offset: next, ..Current::default() };
            self.expect = Expect::Letters;
        } else if self.expect == Expect::Header {
            let found = char::from(line.first).escape_default();
            let message = format!("expected '>' or a blank line, as samtools does, found '{found}'");
            return Err(Error::format(line.at, message));
        } else {
            self.letters(line)?;
        }
        Ok(())
    }

    fn letters(&mut self, line: &Line) -> Result<()> {
        let current = &mut self.current;
        let bytes = line.len + 1;
        if !current.has_lines {
            (current.line_bases, current.line_bytes) = (line.graphic, bytes);
        } else if bytes > current.line_bytes {
            let name = String::from_utf8_lossy(&current.name);
            let message =
                format!("expected lines of one length in record '{name}', as samtools does, found a longer one");
            return Err(Error::format(line.at, message));
        } else if bytes < current.line_bytes {
            self.expect = Expect::Header;
        }
        current.has_lines = true;
        current.length += line.graphic;
        Ok(())
    }

    /// Tells of the record that has ended, if it has lines and its name is new.
    fn insert(&mut self) -> Result<()> {
        let Current { name, length, offset, line_bases, line_bytes, has_lines } = std::mem::take(&mut self.current);
        if !has_lines {
            return Ok(());
        }
        if self.seen.contains(&name) {
            self.repeated += 1;
            return Ok(());
        }
        (self.found)(&name, [length, offset, line_bases, line_bytes])?;
        self.seen.insert(name);
        Ok(())
    }

    /// The file has ended, with `line` unfinished if it is not empty.
    fn finish(mut self, line: &Line, end: u64) -> Result<u64> {
        let cut_header = line.first == b'>' && line.len > 0;
        if line.len > 0 {
            self.take(line, end)?;
        }
        if cut_header || !self.current.has_lines {
            let message = "expected sequence at the end of the file, as samtools does, found none";
            return Err(Error::format(end, message));
        }
        self.insert()?;
        Ok(self.repeated)
    }
}

/// The first run of bytes that C's `isspace` does not call space.
fn first_word(text: &[u8]) -> Vec<u8> {
    let space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    text.split(space).find(|word| !word.is_empty()).unwrap_or_default().to_vec()
}
