//! Chunks in order become records: what a chunk could not know about its ends is settled here.

use super::fragment::{self, Fragment, Open, Piece, bad_byte};
use super::header::Header;
use super::lines::{Line, LineRun};
use super::{Record, Rows, Sink};
use crate::error::{Error, Result};
use crate::io::{Scratch, Source};

/// The line that the bytes seen so far end in.
#[derive(Debug, Clone, Copy)]
enum Current {
    /// None: the last byte was a newline, or there was no byte yet.
    Start,
    /// A header that starts at this offset.
    Header(u64),
    /// A line of letters.
    Sequence(Line),
}

/// Takes fragments in order and gives whole records to a sink.
pub(crate) struct Stitcher<'a, S> {
    source: &'a dyn Source,
    sink: &'a mut S,
    current: Current,
    open: Option<Open>,
    /// Where the bytes seen so far end.
    at: u64,
}

impl<'a, S: Sink> Stitcher<'a, S> {
    pub fn new(source: &'a dyn Source, sink: &'a mut S) -> Self {
        Self { source, sink, current: Current::Start, open: None, at: 0 }
    }

    pub fn take(&mut self, fragment: Fragment<S::Rows>) -> Result<()> {
        self.piece(&fragment.head)?;
        if !fragment.head_ends {
            return Ok(());
        }
        self.newline()?;
        self.lead(&fragment.lead)?;
        let no_header = fragment.first_header.is_none();
        if let Some(at) = fragment.first_header {
            self.close(at)?;
            self.sink.take(fragment.rows)?;
            self.open = fragment.open;
        }
        match fragment.fault {
            // No record has started, so that there is no sequence to hold a wrong byte.
            Some(Error::Format { .. }) if self.open.is_none() && no_header => {
                return Err(before_first_header(self.source));
            }
            Some(fault) => return Err(fault),
            None => {}
        }
        self.piece(&fragment.tail)
    }

    pub fn finish(self) -> Result<()> {
        let end = self.source.len();
        self.finish_at(end)
    }

    /// Whether some record that starts before `limit` has not been seen up to its end, nor as far as `letters` letters.
    /// Where no header has come yet, one may.
    pub fn lacks(&self, limit: u64, letters: u64) -> bool {
        match (&self.current, &self.open) {
            (Current::Header(at), _) => *at < limit,
            (_, None) => true,
            (current, Some(Open { record, .. })) => {
                let more = if let Current::Sequence(line) = current { line.bytes - line.blanks } else { 0 };
                record.header_offset < limit && record.lines.bases + more < letters
            }
        }
    }

    /// Gives the last record that starts before `limit` as far as it was seen: up to `end`.
    pub fn finish_before(self, limit: u64, end: u64) -> Result<()> {
        match self.current {
            Current::Header(at) if at >= limit => Ok(()),
            _ => self.finish_at(end),
        }
    }

    fn finish_at(mut self, end: u64) -> Result<()> {
        if !matches!(self.current, Current::Start) {
            self.newline()?;
        }
        self.close(end)
    }

    fn piece(&mut self, piece: &Piece) -> Result<()> {
        if piece.len == 0 {
            return Ok(());
        }
        self.at = piece.at + piece.len;
        if matches!(self.current, Current::Start) {
            self.current = if piece.first == b'>' {
                self.close(piece.at)?;
                Current::Header(piece.at)
            } else {
                Current::Sequence(Line { at: piece.at, bytes: 0, blanks: 0, carriage: false })
            };
        }
        if let Current::Sequence(line) = &mut self.current {
            if self.open.is_none() && (piece.blanks < piece.len || piece.bad.is_some()) {
                return Err(before_first_header(self.source));
            }
            if let Some((at, byte)) = piece.bad {
                return Err(bad_byte(at, byte));
            }
            line.bytes += piece.len;
            line.blanks += piece.blanks;
            line.carriage = piece.carriage;
        }
        Ok(())
    }

    /// The current line has ended, by a newline or by the end of the file.
    fn newline(&mut self) -> Result<()> {
        let line = match std::mem::replace(&mut self.current, Current::Start) {
            Current::Header(offset) => {
                self.at += 1;
                return self.open_record(offset, self.at);
            }
            Current::Start => Line { at: self.at, bytes: 1, blanks: 0, carriage: false },
            Current::Sequence(line) => Line { bytes: line.bytes + 1, ..line },
        };
        self.at += 1;
        if let Some(open) = &mut self.open {
            open.record.lines.push(line);
        }
        Ok(())
    }

    fn lead(&mut self, lead: &LineRun) -> Result<()> {
        match &mut self.open {
            Some(open) => open.record.lines.join(lead),
            None if lead.lines > 0 => return Err(before_first_header(self.source)),
            None => {}
        }
        Ok(())
    }

    /// A header line from `offset` to `after` has been seen whole, in however many chunks.
    fn open_record(&mut self, offset: u64, after: u64) -> Result<()> {
        let sequence_offset = after.min(self.source.len());
        let mut scratch = Scratch::default();
        let header = Header::parse(self.source.bytes(offset..sequence_offset, &mut scratch)?, offset)?;
        let lines = LineRun::default();
        let record = Record { header_offset: offset, sequence_offset, end: offset, lines, unnamed: header.is_empty };
        self.open = Some(Open { id: header.id.into_owned(), record });
        Ok(())
    }

    /// Gives the open record, which ends at `end`, to the sink.
    fn close(&mut self, end: u64) -> Result<()> {
        let Some(Open { id, record }) = self.open.take() else { return Ok(()) };
        let mut rows = S::Rows::default();
        rows.push(&Record { end, ..record }, id.as_bytes());
        self.sink.take(rows)
    }
}

/// The error for the first byte of the source that is neither blank nor the start of a header.
#[cold]
fn before_first_header(source: &dyn Source) -> Error {
    let mut scratch = Scratch::default();
    let mut at = 0;
    while let Ok(&[byte]) = source.bytes(at..at + 1, &mut scratch)
        && fragment::is_blank(byte)
    {
        at += 1;
    }
    let start = source.bytes(at..source.len().min(at + 4), &mut scratch).unwrap_or(b"");
    let found = match start {
        [b'@', ..] => "'@': this looks like FASTQ, which seekset does not read; convert it to FASTA".to_owned(),
        [0xef, 0xbb, 0xbf, ..] => "a UTF-8 byte-order mark; remove the first three bytes".to_owned(),
        [byte, ..] if byte.is_ascii_graphic() => format!("'{}'", char::from(*byte)),
        [byte, ..] => format!("the byte 0x{byte:02x}"),
        [] => "nothing".to_owned(),
    };
    Error::format(at, format!("expected '>' before any other text, found {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::fasta::fragment;

    #[derive(Default)]
    struct Spans(Vec<(String, u64, u64)>);

    impl Rows for Spans {
        fn push(&mut self, record: &Record, id: &[u8]) {
            self.0.push((String::from_utf8(id.to_vec()).unwrap(), record.end, record.lines.bases));
        }
    }

    impl Sink for Spans {
        type Rows = Self;

        fn take(&mut self, rows: Self) -> Result<()> {
            self.0.extend(rows.0);
            Ok(())
        }
    }

    /// Ids, ends and lengths of the records of a file that comes in these chunks.
    fn stitched(chunks: &[&str]) -> Result<Vec<(String, u64, u64)>> {
        let source = chunks.concat().into_bytes();
        let mut sink = Spans::default();
        let mut stitcher = Stitcher::new(&source, &mut sink);
        let mut at = 0;
        for chunk in chunks {
            stitcher.take(fragment::scan(chunk.as_bytes(), at))?;
            at += chunk.len() as u64;
        }
        stitcher.finish()?;
        Ok(sink.0)
    }

    #[test]
    fn records_are_whole_wherever_chunks_end() {
        for chunks in [
            &[">a x\nAC\nG\n>b\nTT"][..],
            &[">a", " x\nAC", "\nG\n>", "b\nTT"],
            &[">a x", "\n", "AC\nG", "\n", ">b\nTT"],
            &[">a x\n", "AC\nG\n", ">b\n", "TT"],
        ] {
            let expected = [("a".to_owned(), 10, 3), ("b".to_owned(), 15, 2)];
            assert_eq!(stitched(chunks).unwrap(), expected, "{chunks:?}");
        }
        assert_eq!(stitched(&[]).unwrap(), []);
        assert_eq!(stitched(&["\n", " \n"]).unwrap(), []);
    }

    #[test]
    fn what_stands_before_the_first_header_is_named() {
        for (start, found) in [
            ("@read\nACGT\n", "'@': this looks like FASTQ, which seekset does not read; convert it to FASTA"),
            ("\u{feff}>a\n", "a UTF-8 byte-order mark; remove the first three bytes"),
            ("ACGT\n>a\n", "'A'"),
            ("\u{e9}\n", "the byte 0xc3"),
        ] {
            let message = format!("<bytes>: byte 0: expected '>' before any other text, found {found}");
            assert_eq!(stitched(&[start]).unwrap_err().to_string(), message);
        }
    }
}
