//! The readable form: JSON, written and read as a stream.
//!
//! The order of keys is free, keys that nobody knows are passed over, and what entries say counts more than the totals
//! beside them, so that people can edit a file by hand.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::Write;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::builder::{Facts, Rows};
use super::{FastaFile, Listed, Seen, Sequence, UNKNOWN_ROW, same_time};
use crate::error::{Error, Place, Result};

/// The version of the form.
pub const VERSION: &str = "1.0";

/// Entries that are handed over at a time.
const TAKEN: usize = 4096;

/// Writes an index as JSON, one entry a line.
pub struct JsonWriter<'a, W> {
    out: &'a mut W,
    /// The files' paths as they stand in JSON.
    paths: Vec<String>,
    first: bool,
}

impl<'a, W: Write> JsonWriter<'a, W> {
    /// Writes all that comes before the entries.
    pub fn new(out: &'a mut W, facts: &Facts, sequences: u64, tokens: u64) -> Result<Self> {
        let paths: Vec<String> = facts.files.iter().map(|file| text(&file.path)).collect::<Result<_>>()?;
        let line = |last: bool| if last { "" } else { "," };
        write!(out, "{{\n  \"version\": {},\n  \"created\": {},\n", text(VERSION)?, text(&facts.created)?)?;
        writeln!(out, "  \"fasta_mtimes\": {{")?;
        for (k, (path, file)) in paths.iter().zip(&facts.files).enumerate() {
            writeln!(out, "    {path}: {}{}", text(&file.seen.time())?, line(k + 1 == paths.len()))?;
        }
        write!(out, "  }},\n  \"total_sequences\": {sequences},\n  \"total_tokens\": {tokens},\n  \"files\": [\n")?;
        for (k, file) in facts.files.iter().enumerate() {
            writeln!(out, "    {}{}", text(&Listed::from(file))?, line(k + 1 == paths.len()))?;
        }
        write!(out, "  ],\n  \"sequences\": [")?;
        Ok(Self { out, paths, first: true })
    }

    /// Writes entries.
    pub fn take(&mut self, rows: &Rows) -> Result<()> {
        let mut line = Vec::new();
        let mut digits = itoa::Buffer::new();
        for (id, sequence) in rows.iter() {
            line.clear();
            line.extend_from_slice(if std::mem::take(&mut self.first) { b"\n" } else { b",\n" });
            line.extend_from_slice(b"    {\"sequence_id\": ");
            let id = std::str::from_utf8(id).map_err(|_| Error::format(0, "an id is no UTF-8"))?;
            serde_json::to_writer(&mut line, id).map_err(unwritten)?;
            line.extend_from_slice(b", \"length\": ");
            line.extend_from_slice(digits.format(sequence.length).as_bytes());
            line.extend_from_slice(b", \"file_path\": ");
            line.extend_from_slice(self.paths.get(sequence.file as usize).map_or(&b"null"[..], |path| path.as_bytes()));
            line.extend_from_slice(b", \"byte_offset\": ");
            line.extend_from_slice(digits.format(sequence.byte_offset).as_bytes());
            line.push(b'}');
            self.out.write_all(&line)?;
        }
        Ok(())
    }

    /// Writes what comes after the entries.
    pub fn finish(self) -> Result<()> {
        self.out.write_all(b"\n  ]\n}\n")?;
        Ok(())
    }
}

fn text(value: &(impl Serialize + ?Sized)) -> Result<String> {
    serde_json::to_string(value).map_err(unwritten)
}

fn unwritten(error: serde_json::Error) -> Error {
    std::io::Error::from(error).into()
}

/// What was read beside the entries.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The files in the order of their numbers.
    pub files: Vec<FastaFile>,
    /// When the index was made.
    pub created: String,
    /// `total_sequences` and `total_tokens`, as they stand there.
    pub totals: (u64, u64),
}

/// Reads JSON and hands over its entries in their order, some at a time. Which file is which number is known at the end.
pub fn read(bytes: &[u8], take: &mut dyn FnMut(&Rows) -> Result<()>) -> Result<Read> {
    let mut reading = Reading { take, paths: Vec::new(), numbers: HashMap::new(), failed: None };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = Document(&mut reading).deserialize(&mut json).and_then(|head| json.end().map(|()| head));
    let head = match (read, reading.failed.take()) {
        (_, Some(error)) => return Err(error),
        (Err(error), None) => return Err(located(&error, bytes)),
        (Ok(head), None) => head,
    };
    let files = files(reading.paths, &head)?;
    Ok(Read { files, created: head.created, totals: (head.total_sequences, head.total_tokens) })
}

/// The parser's error with the place in the file.
fn located(error: &serde_json::Error, bytes: &[u8]) -> Error {
    let (line, column) = (error.line(), error.column());
    let start = match line {
        0 | 1 => 0,
        _ => memchr::memchr_iter(b'\n', bytes).nth(line - 2).map_or(bytes.len(), |at| at + 1),
    };
    let offset = (start + column.saturating_sub(1)).min(bytes.len()) as u64;
    let message = error.to_string();
    let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message);
    let place = Place { line: Some(line.max(1) as u64), ..Place::at(offset) };
    Error::Format { path: None, place, message: format!("not a usable sequence index: {message}") }
}

/// What is known of each file that was named anywhere.
fn files(paths: Vec<String>, head: &Head) -> Result<Vec<FastaFile>> {
    let refuse = |why: String| Error::Format { path: None, place: Place::default(), message: why };
    if paths.is_empty() {
        return Err(refuse("expected at least one file in fasta_mtimes, found none".to_owned()));
    }
    let times: HashMap<&str, f64> = head.fasta_mtimes.iter().map(|(path, time)| (path.as_str(), *time)).collect();
    let listed: HashMap<&str, &Listed> = head.files.iter().flatten().map(|file| (file.path.as_str(), file)).collect();
    let file = |path: String| {
        let Some(&time) = times.get(path.as_str()) else {
            return Err(refuse(format!("expected the file '{path}' of a sequence in fasta_mtimes, too")));
        };
        let more = listed.get(path.as_str()).and_then(|listed| listed.seen());
        // Who edits a time by hand means it; what else is known of the file then belongs to another time.
        let seen = more.filter(|more| same_time(more.time(), time)).unwrap_or(Seen::Time(time));
        Ok(FastaFile { path, seen })
    };
    paths.into_iter().map(file).collect()
}

/// What is kept while a file is read.
struct Reading<'a> {
    take: &'a mut dyn FnMut(&Rows) -> Result<()>,
    paths: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Why rows could not be taken: not the file's fault.
    failed: Option<Error>,
}

impl Reading<'_> {
    /// The number of a file; a new one for a new file.
    fn number(&mut self, path: &str) -> u32 {
        if let Some(&number) = self.numbers.get(path) {
            return number;
        }
        let number = self.paths.len() as u32;
        self.paths.push(path.to_owned());
        self.numbers.insert(path.to_owned(), number);
        number
    }

    fn hand_over<E: de::Error>(&mut self, rows: &mut Rows) -> Result<(), E> {
        let taken = (self.take)(rows);
        rows.clear();
        taken.map_err(|error| {
            self.failed = Some(error);
            E::custom("stopped")
        })
    }
}

/// All keys but the entries.
struct Head {
    created: String,
    fasta_mtimes: Vec<(String, f64)>,
    total_sequences: u64,
    total_tokens: u64,
    files: Option<Vec<Listed>>,
}

/// The whole file: one object.
struct Document<'r, 'a>(&'r mut Reading<'a>);

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = Head;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Head, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = Head;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with version, created, fasta_mtimes, total_sequences, total_tokens and sequences")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head, A::Error> {
        let (mut version, mut created, mut times, mut files) = (None, None, None, None);
        let (mut total_sequences, mut total_tokens, mut sequences) = (None, None, None);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "version" => once(&mut version, "version", || map.next_value::<Version>())?,
                "created" => once(&mut created, "created", || map.next_value())?,
                "fasta_mtimes" => once(&mut times, "fasta_mtimes", || map.next_value_seed(Times(self.0)))?,
                "total_sequences" => once(&mut total_sequences, "total_sequences", || map.next_value())?,
                "total_tokens" => once(&mut total_tokens, "total_tokens", || map.next_value())?,
                "files" => once(&mut files, "files", || map.next_value())?,
                "sequences" => once(&mut sequences, "sequences", || map.next_value_seed(Entries(self.0)))?,
                _ => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        version.ok_or_else(|| de::Error::missing_field("version"))?;
        sequences.ok_or_else(|| de::Error::missing_field("sequences"))?;
        Ok(Head {
            created: created.ok_or_else(|| de::Error::missing_field("created"))?,
            fasta_mtimes: times.ok_or_else(|| de::Error::missing_field("fasta_mtimes"))?,
            total_sequences: total_sequences.ok_or_else(|| de::Error::missing_field("total_sequences"))?,
            total_tokens: total_tokens.ok_or_else(|| de::Error::missing_field("total_tokens"))?,
            files,
        })
    }
}

/// Reads the value of a key that may come once only.
fn once<T, E: de::Error>(
    slot: &mut Option<T>,
    key: &'static str,
    read: impl FnOnce() -> Result<T, E>,
) -> Result<(), E> {
    if slot.is_some() {
        return Err(E::duplicate_field(key));
    }
    *slot = Some(read()?);
    Ok(())
}

/// `"1.0"`, and nothing else.
struct Version;

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = Cow::<'de, str>::deserialize(deserializer)?;
        let other = || de::Error::custom(format!("expected version \"{VERSION}\", found \"{found}\""));
        if found == VERSION { Ok(Self) } else { Err(other()) }
    }
}

/// `fasta_mtimes`: files are numbered in its order.
struct Times<'r, 'a>(&'r mut Reading<'a>);

impl<'de> DeserializeSeed<'de> for Times<'_, '_> {
    type Value = Vec<(String, f64)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Times<'_, '_> {
    type Value = Vec<(String, f64)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of paths and modification times in seconds")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut times = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some((path, time)) = map.next_entry::<String, f64>()? {
            if !seen.insert(path.clone()) {
                return Err(de::Error::custom(format!("the file '{path}' stands twice in fasta_mtimes")));
            }
            self.0.number(&path);
            times.push((path, time));
        }
        Ok(times)
    }
}

/// `sequences`.
struct Entries<'r, 'a>(&'r mut Reading<'a>);

/// One entry. Its keys come in any order, each once.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    sequence_id: Cow<'a, str>,
    length: u64,
    #[serde(borrow)]
    file_path: Cow<'a, str>,
    byte_offset: u64,
}

impl<'de> DeserializeSeed<'de> for Entries<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of sequences")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut rows = Rows::default();
        while let Some(entry) = list.next_element::<Entry<'de>>()? {
            let Entry { sequence_id, length, file_path, byte_offset } = entry;
            // Python counts with a sign.
            if let Some(&large) = [length, byte_offset].iter().find(|&&number| i64::try_from(number).is_err()) {
                return Err(de::Error::custom(format!("expected a number below 2^63, found {large}")));
            }
            let file = self.0.number(&file_path);
            rows.push(&sequence_id, &Sequence { length, file, row: UNKNOWN_ROW, byte_offset });
            if rows.len() == TAKEN {
                self.0.hand_over(&mut rows)?;
            }
        }
        self.0.hand_over(&mut rows)
    }
}
