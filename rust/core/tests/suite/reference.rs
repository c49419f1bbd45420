//! A reader of FASTA that goes line by line and byte by byte. It shares no code with the crate.

/// What makes a file no FASTA: the first byte that can't stand where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offence {
    pub offset: u64,
    /// Counted from 1.
    pub line: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub header: String,
    pub id: String,
    pub unnamed: bool,
    pub header_offset: u64,
    pub sequence_offset: u64,
    pub end: u64,
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub start: u64,
    /// With the line end; a newline that is missing at the end of the file counts as if it were there.
    pub bytes: u64,
    pub letters: Vec<u8>,
    /// Nothing but letters before the line end.
    pub tidy: bool,
}

/// All records, or the first offence.
pub fn read(file: &[u8]) -> Result<Vec<Record>, Offence> {
    let mut records: Vec<Record> = Vec::new();
    let mut start = 0;
    for (number, line) in file.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let read = match records.last_mut() {
            _ if line[0] == b'>' => header(line, start).map(|record| records.push(record)),
            Some(record) => letters(line, start).map(|line| record.lines.push(line)),
            None => only_blanks(line),
        };
        read.map_err(|place| Offence { offset: start + place as u64, line: number as u64 + 1 })?;
        start += line.len() as u64;
    }
    for k in 0..records.len() {
        records[k].end = records.get(k + 1).map_or(file.len() as u64, |next| next.header_offset);
    }
    Ok(records)
}

/// C's `isspace`.
fn is_space(byte: u8) -> bool {
    b" \t\n\x0b\x0c\r".contains(&byte)
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn only_blanks(line: &[u8]) -> Result<(), usize> {
    line.iter().position(|&byte| !is_space(byte)).map_or(Ok(()), Err)
}

fn header(line: &[u8], start: u64) -> Result<Record, usize> {
    let text = &without_end(line)[1..];
    let nul = text.iter().position(|&byte| byte == 0);
    let last = text.iter().rposition(|&byte| byte != b'\r').unwrap_or(0);
    let carriage = text[..last].iter().position(|&byte| byte == b'\r');
    let not_text = std::str::from_utf8(text).err().map(|e| e.valid_up_to());
    if let Some(place) = nul.into_iter().chain(not_text).chain(carriage).min() {
        return Err(1 + place);
    }
    let text = String::from_utf8(text.to_vec()).expect("just checked");
    let word = text.split(|c| u8::try_from(c).is_ok_and(is_space)).find(|word| !word.is_empty());
    let after = start + line.len() as u64;
    Ok(Record {
        id: word.map_or(start.to_string(), str::to_owned),
        unnamed: word.is_none(),
        header: text,
        header_offset: start,
        sequence_offset: after,
        end: after,
        lines: Vec::new(),
    })
}

fn letters(line: &[u8], start: u64) -> Result<Line, usize> {
    if let Some(place) = line.iter().position(|&byte| !is_space(byte) && !byte.is_ascii_graphic()) {
        return Err(place);
    }
    let missing = u64::from(!line.ends_with(b"\n"));
    Ok(Line {
        start,
        bytes: line.len() as u64 + missing,
        letters: line.iter().copied().filter(u8::is_ascii_graphic).collect(),
        tidy: without_end(line).iter().all(u8::is_ascii_graphic),
    })
}

impl Record {
    pub fn letters(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| line.letters.iter().copied()).collect()
    }

    /// Lines with at least one letter.
    pub fn full(&self) -> Vec<&Line> {
        self.lines.iter().filter(|line| !line.letters.is_empty()).collect()
    }

    /// A line is longer than the first, or one that is not the last is shorter.
    pub fn ragged(&self) -> bool {
        let full = self.full();
        let Some((first, rest)) = full.split_first() else { return false };
        rest.iter().enumerate().any(|(k, line)| {
            let last = k + 1 == rest.len();
            line.bytes > first.bytes || (!last && line.bytes < first.bytes)
        })
    }

    /// A line without letters comes before the last one with some.
    pub fn blank(&self) -> bool {
        let last = self.lines.iter().rposition(|line| !line.letters.is_empty()).unwrap_or(0);
        self.lines[..last].iter().any(|line| line.letters.is_empty())
    }

    /// Blanks among the letters, or a line as long as the first with more or fewer letters.
    pub fn spaced(&self) -> bool {
        let full = self.full();
        let Some(first) = full.first() else { return false };
        let unlike = |line: &&Line| line.bytes == first.bytes && line.letters.len() != first.letters.len();
        full.iter().any(|line| !line.tidy || unlike(line))
    }

    /// A line holds nothing but blanks.
    pub fn loose(&self) -> bool {
        self.lines.iter().any(|line| line.letters.is_empty() && !line.tidy)
    }

    pub fn is_even(&self) -> bool {
        !(self.ragged() || self.blank() || self.spaced())
    }
}
