//! `.fai`: five tab-separated columns per record, as `samtools faidx` writes them.

use super::lookup::{Sorter, hash_name};
use crate::error::{Error, Place, Result};
use crate::io::{Scratch, Source, Spills};
use crate::scan::fasta::{LineShape, Record, Rows, Sink};
use crate::watch::{Beat, Watch};

/// One line of a `.fai`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaiEntry {
    /// The record's name.
    pub name: String,
    /// Letters in the record.
    pub length: u64,
    /// Where its first letter stands.
    pub offset: u64,
    /// Letters per line.
    pub line_bases: u64,
    /// Bytes per line, its end included.
    pub line_bytes: u64,
}

/// Reads a `.fai`. Every line must have a name and four numbers that make sense together.
///
/// ```
/// use seekset_core::index::fai::read;
/// let entries = read(b"chr1\t6\t6\t4\t5\nchr2\t2\t20\t2\t3\n")?;
/// assert_eq!((&*entries[1].name, entries[1].length, entries[1].offset), ("chr2", 2, 20));
///
/// let error = read(b"chr1\t6\t6\t4\n").unwrap_err();
/// assert_eq!(error.to_string(), "<bytes>: line 1: expected 5 columns parted by tabs, found 4");
/// # Ok::<(), seekset_core::Error>(())
/// ```
pub fn read(text: &[u8]) -> Result<Vec<FaiEntry>> {
    let lines = text.strip_suffix(b"\n").unwrap_or(text).split(|&b| b == b'\n');
    lines.enumerate().filter(|_| !text.is_empty()).map(|(k, line)| read_line(line, k as u64 + 1)).collect()
}

fn read_line(line: &[u8], number: u64) -> Result<FaiEntry> {
    let wrong = |message: String| Error::Format { path: None, place: Place::line(number), message };
    let text = std::str::from_utf8(line).map_err(|_| wrong("expected text in UTF-8".to_owned()))?;
    let text = text.strip_suffix('\r').unwrap_or(text);
    let columns: Vec<&str> = text.split('\t').collect();
    let [name, numbers @ ..] = &columns[..] else { return Err(wrong("found no columns".to_owned())) };
    if numbers.len() != 4 {
        return Err(wrong(format!("expected 5 columns parted by tabs, found {}", columns.len())));
    }
    let number = |k: usize| {
        let text: &str = numbers[k];
        text.parse::<u64>().map_err(|_| wrong(format!("expected a number in column {}, found '{text}'", k + 2)))
    };
    let (length, offset, line_bases, line_bytes) = (number(0)?, number(1)?, number(2)?, number(3)?);
    if length > 0 && (line_bases == 0 || line_bytes < line_bases) {
        return Err(wrong(format!("lines of {line_bases} letters in {line_bytes} bytes can't hold {length} letters")));
    }
    Ok(FaiEntry { name: (*name).to_owned(), length, offset, line_bases, line_bytes })
}

/// The rows of one chunk as text.
#[derive(Debug, Default)]
pub struct FaiRows {
    text: Vec<u8>,
    hashes: Vec<u64>,
    /// Where the first record stands.
    first: Option<u64>,
    refusal: Option<Error>,
}

impl Rows for FaiRows {
    fn push(&mut self, record: &Record, id: &[u8]) {
        if self.refusal.is_some() {
            return;
        }
        self.refusal = refuse(record, id);
        let LineShape { bases, bytes } = record.lines.first;
        push_line(&mut self.text, id, [record.lines.bases, record.sequence_offset, bases, bytes]);
        self.hashes.push(hash_name(id));
        self.first.get_or_insert(record.header_offset);
    }
}

/// Adds a line of a `.fai`: a name and four numbers.
#[inline]
pub(crate) fn push_line(text: &mut Vec<u8>, name: &[u8], numbers: [u64; 4]) {
    text.extend_from_slice(name);
    // The numbers are put together here and copied at once: they take at most twenty digits each.
    let mut line = [0; 4 * 21 + 1];
    let mut digits = itoa::Buffer::new();
    let mut at = 0;
    for number in numbers {
        let digits = digits.format(number).as_bytes();
        line[at] = b'\t';
        line[at + 1..=at + digits.len()].copy_from_slice(digits);
        at += 1 + digits.len();
    }
    line[at] = b'\n';
    text.extend_from_slice(&line[..=at]);
}

/// Why a record can't have a line in a `.fai`, if it can't.
#[inline]
fn refuse(record: &Record, id: &[u8]) -> Option<Error> {
    let lines = &record.lines;
    let (what, samtools) = if lines.uneven.ragged {
        ("its lines differ in length", "samtools fails on it too")
    } else if lines.uneven.blank {
        ("it has a blank line in the middle", "samtools fails on it too")
    } else if lines.uneven.spaced {
        (
            "it has blanks inside its lines or mixed line ends",
            "--like-samtools writes places that lead to wrong letters",
        )
    } else if lines.lines == 0 {
        ("it has no sequence", "--like-samtools leaves it out")
    } else if lines.loose {
        ("it has a line that holds nothing but blanks", "samtools fails on some of these")
    } else if record.unnamed {
        ("its header has no name", "--like-samtools writes a line without a name")
    } else {
        return None;
    };
    let id = String::from_utf8_lossy(id);
    let message = format!(
        "record '{id}' has no place in a .fai: {what}; mend the file, or use its .sidx, which holds it ({samtools})"
    );
    Some(Error::format(record.header_offset, message))
}

/// An error if anything but empty lines stands before the first header, as samtools has it.
fn refuse_blanks_before(source: &dyn Source, header: u64) -> Result<()> {
    let mut scratch = Scratch::default();
    let before = source.bytes(0..header, &mut scratch)?;
    let mut at = 0;
    for line in before.split(|&byte| byte == b'\n') {
        if !matches!(line, b"" | b"\r") {
            let message = "expected '>' or an empty line, found blanks; remove them (samtools fails on them too)";
            return Err(Error::format(at, message));
        }
        at += line.len() as u64 + 1;
    }
    Ok(())
}

/// Lines of a `.fai`, handed over while a file is scanned.
pub struct FaiWriter<'a, W> {
    source: &'a dyn Source,
    out: W,
    hashes: Sorter<u64>,
}

impl<'a, W: FnMut(&[u8]) -> Result<()>> FaiWriter<'a, W> {
    /// Begins with the first record of `source`; `out` is given some lines at a time.
    pub fn new(source: &'a dyn Source, spills: &Spills, out: W) -> Self {
        Self { source, out, hashes: Sorter::new(spills) }
    }

    /// Whether records may share a name, after the last one.
    pub fn finish(self, watch: &dyn Watch) -> Result<bool> {
        let mut beat = Beat::new(watch, self.source.len());
        let mut repeated = false;
        self.hashes.finish(|hashes| {
            repeated |= hashes.windows(2).any(|two| two[0] == two[1]);
            beat.go_on()
        })?;
        Ok(repeated)
    }
}

impl<W: FnMut(&[u8]) -> Result<()>> Sink for FaiWriter<'_, W> {
    type Rows = FaiRows;

    fn take(&mut self, rows: FaiRows) -> Result<()> {
        if let Some(first) = rows.first.filter(|_| self.hashes.rows() == 0) {
            refuse_blanks_before(self.source, first)?;
        }
        if let Some(refusal) = rows.refusal {
            return Err(refusal);
        }
        rows.hashes.iter().try_for_each(|&hash| self.hashes.push(hash))?;
        (self.out)(&rows.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_faults_named() {
        let entry = |name: &str, n: [u64; 4]| FaiEntry {
            name: name.into(),
            length: n[0],
            offset: n[1],
            line_bases: n[2],
            line_bytes: n[3],
        };
        assert_eq!(read(b"").unwrap(), []);
        assert_eq!(
            read(b"a\t5\t3\t4\t5\nb c\t0\t9\t0\t0").unwrap(),
            [entry("a", [5, 3, 4, 5]), entry("b c", [0, 9, 0, 0])]
        );
        for (text, message) in [
            (&b"a\t5\t3\t4\n"[..], "<bytes>: line 1: expected 5 columns parted by tabs, found 4"),
            (b"a\t5\t3\t4\t5\nb\tx\t3\t4\t5\n", "<bytes>: line 2: expected a number in column 2, found 'x'"),
            (b"a\t5\t3\t4\t-5\n", "<bytes>: line 1: expected a number in column 5, found '-5'"),
            (b"a\t5\t3\t0\t5\n", "<bytes>: line 1: lines of 0 letters in 5 bytes can't hold 5 letters"),
            (b"a\xff\t5\t3\t0\t5\n", "<bytes>: line 1: expected text in UTF-8"),
            (b"\n\n", "<bytes>: line 1: expected 5 columns parted by tabs, found 1"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }
}
