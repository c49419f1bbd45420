//! The one error enum of the crate, ordered by who is at fault: the machine, the file, the index, the caller.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What every fallible function of the crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Where in a file something was met. Parsers fill in what they know; the edge adds the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// Line, counted from 1.
    pub line: Option<u64>,
    /// Byte offset, counted from 0.
    pub offset: Option<u64>,
    /// Record, counted from 0.
    pub record: Option<u64>,
}

impl Place {
    /// A place known by its byte offset alone.
    #[must_use]
    pub fn at(offset: u64) -> Self {
        Self { offset: Some(offset), ..Self::default() }
    }

    /// A place known by its line alone.
    #[must_use]
    pub fn line(line: u64) -> Self {
        Self { line: Some(line), ..Self::default() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("record", self.record), ("line", self.line), ("byte", self.offset)];
        let mut known = parts.iter().filter_map(|(name, value)| value.map(|v| (name, v)));
        match known.next() {
            None => return f.write_str("whole file"),
            Some((name, value)) => write!(f, "{name} {value}")?,
        }
        known.try_for_each(|(name, value)| write!(f, ", {name} {value}"))
    }
}

/// Everything that can go wrong, one variant per kind of remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system said no.
    #[error("{}: {source}", name(path.as_deref()))]
    Io {
        /// The file it was about, where one is known.
        path: Option<PathBuf>,
        /// What the system said.
        source: io::Error,
    },
    /// A file is missing that an index is about.
    #[error("{}: No such file or directory; the index {} is about it", path.display(), index.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The index.
        index: PathBuf,
    },
    /// The bytes are not what they claim to be.
    #[error("{}: {place}: {message}", name(path.as_deref()))]
    Format {
        /// The file.
        path: Option<PathBuf>,
        /// Where.
        place: Place,
        /// What was expected and what was found.
        message: String,
    },
    /// A checksum or a length contradicts the bytes it speaks of.
    #[error("{}: {place}: {message}", name(path.as_deref()))]
    Corrupt {
        /// The file.
        path: Option<PathBuf>,
        /// Where.
        place: Place,
        /// What was expected and what was found.
        message: String,
    },
    /// Index and data disagree.
    #[error("{}: {message}", name(path.as_deref()))]
    Stale {
        /// The data file.
        path: Option<PathBuf>,
        /// What differs and what to do.
        message: String,
    },
    /// A file is not what it claims to be, and no place in it says so better than the message.
    #[error("{}: {message}", name(path.as_deref()))]
    Unreadable {
        /// The file.
        path: Option<PathBuf>,
        /// What was expected and what was found.
        message: String,
    },
    /// Reading it would take more memory than is allowed.
    #[error("{}: {message}", name(path.as_deref()))]
    TooLarge {
        /// The file.
        path: Option<PathBuf>,
        /// What is too large, and what is allowed.
        message: String,
    },
    /// One id names two records.
    #[error(
        "{}: id '{id}' names two records, the first at {}, another at {}; rename one, or open with duplicates=\"first\" (get --duplicates first); for a .fai, like_samtools=True (faidx --like-samtools)",
        name(path.as_deref()), places[0], places[1]
    )]
    Duplicate {
        /// The file.
        path: Option<PathBuf>,
        /// The id.
        id: String,
        /// Where it was met first, and where again.
        places: Box<[Place; 2]>,
    },
    /// One id names two records of several files.
    #[error(
        "id '{id}' names two records, one in {}: {}, and one in {}: {}; rename one, or give duplicates=\"keep\" (index without --unique)",
        places[0].0.display(), places[0].1, places[1].0.display(), places[1].1
    )]
    Repeated {
        /// The id.
        id: String,
        /// Where both are.
        places: Box<[(PathBuf, Place); 2]>,
    },
    /// One id names two contigs of a table.
    #[error("contig '{id}' is there twice, in rows {} and {} (from 0); each contig must have an id of its own", rows[0], rows[1])]
    RepeatedContig {
        /// The id.
        id: String,
        /// The rows of both.
        rows: [u64; 2],
    },
    /// Options and data don't fit each other.
    #[error("{0}")]
    Mismatch(String),
    /// A feature of a record is not what was asked for.
    #[error("{}: {place}: feature '{feature}': {message}", name(path.as_deref()))]
    Feature {
        /// The file.
        path: Option<PathBuf>,
        /// The record.
        place: Place,
        /// The feature's name.
        feature: String,
        /// What was expected and what was found.
        message: String,
    },
    /// A row beyond the last.
    #[error("row {row} is out of range: {}", there_are(*rows))]
    RowOutOfRange {
        /// The row asked for, as the caller gave it.
        row: i64,
        /// How many rows there are.
        rows: u64,
    },
    /// A letter that a token table has no id for.
    #[error(
        "{}record {} (row {row}), position {position}: the letter '{letter}' is not in token table '{table}', which has no id for unknown letters",
        path.as_deref().map_or(String::new(), |path| format!("{}: ", path.display())),
        id.as_deref().map_or("?".to_owned(), |id| format!("'{id}'"))
    )]
    UnknownLetter {
        /// The file.
        path: Option<PathBuf>,
        /// The table's name.
        table: String,
        /// The record's row.
        row: u64,
        /// The record's id, where it is known.
        id: Option<String>,
        /// The letter's place in the record, counted from 0.
        position: u64,
        /// The letter.
        letter: char,
    },
    /// The watcher asked to stop.
    #[error("interrupted")]
    Interrupted,
}

fn name(path: Option<&Path>) -> std::borrow::Cow<'_, str> {
    path.map_or("<bytes>".into(), Path::to_string_lossy)
}

impl Error {
    /// A [`Error::Format`] at a byte offset; the file's name is added by [`Error::in_file`].
    pub fn format(offset: u64, message: impl Into<String>) -> Self {
        Self::Format { path: None, place: Place::at(offset), message: message.into() }
    }

    /// A [`Error::Corrupt`] at a byte offset; the file's name is added by [`Error::in_file`].
    pub fn corrupt(offset: u64, message: impl Into<String>) -> Self {
        Self::Corrupt { path: None, place: Place::at(offset), message: message.into() }
    }

    /// A [`Error::Stale`]; the file's name is added by [`Error::in_file`].
    pub fn stale(message: impl Into<String>) -> Self {
        Self::Stale { path: None, message: message.into() }
    }

    /// A [`Error::Unreadable`]; the file's name is added by [`Error::in_file`].
    pub fn unreadable(message: impl Into<String>) -> Self {
        Self::Unreadable { path: None, message: message.into() }
    }

    /// A [`Error::TooLarge`]; the file's name is added by [`Error::in_file`].
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::TooLarge { path: None, message: message.into() }
    }

    /// The error for what memory has no room for.
    #[must_use]
    pub fn no_memory() -> Self {
        Self::from(io::Error::from(io::ErrorKind::OutOfMemory))
    }

    /// The system's error, with the file it was about.
    #[must_use]
    pub fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: Some(path.to_owned()), source }
    }

    /// The same error with the file's name, unless it has one already.
    #[must_use]
    pub fn in_file(mut self, file: &Path) -> Self {
        match &mut self {
            Self::Io { path, .. }
            | Self::Format { path, .. }
            | Self::Corrupt { path, .. }
            | Self::Stale { path, .. }
            | Self::Unreadable { path, .. }
            | Self::TooLarge { path, .. }
            | Self::Feature { path, .. }
            | Self::UnknownLetter { path, .. }
            | Self::Duplicate { path, .. } => {
                path.get_or_insert_with(|| file.to_owned());
            }
            Self::Missing { .. }
            | Self::Repeated { .. }
            | Self::RepeatedContig { .. }
            | Self::Mismatch(_)
            | Self::RowOutOfRange { .. }
            | Self::Interrupted => {}
        }
        self
    }

    /// The same error with every place in it passed through `refine` (for example to add a line number).
    #[must_use]
    pub fn map_places(mut self, mut refine: impl FnMut(Place) -> Place) -> Self {
        match &mut self {
            Self::Format { place, .. } | Self::Corrupt { place, .. } | Self::Feature { place, .. } => {
                *place = refine(*place);
            }
            Self::Duplicate { places, .. } => **places = places.map(refine),
            _ => {}
        }
        self
    }
}

/// How many rows there are, in words.
fn there_are(rows: u64) -> String {
    match rows {
        0 => "there are no rows".to_owned(),
        1 => "there is one row, row 0".to_owned(),
        _ => format!("there are {rows} rows, 0 to {}", rows - 1),
    }
}

impl From<io::Error> for Error {
    /// An error of ours that passed through [`std::io::Read`] comes out as it was.
    fn from(source: io::Error) -> Self {
        source.downcast().unwrap_or_else(|source| Self::Io { path: None, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_file_place_and_finding() {
        let error = Error::format(12, "expected '>', found 'A'").in_file(Path::new("x.fa"));
        assert_eq!(error.to_string(), "x.fa: byte 12: expected '>', found 'A'");
        let error = error.map_places(|place| Place { line: Some(3), ..place });
        assert_eq!(error.to_string(), "x.fa: line 3, byte 12: expected '>', found 'A'");
    }

    #[test]
    fn rows_are_counted_in_words() {
        let message = |rows| Error::RowOutOfRange { row: 7, rows }.to_string();
        assert_eq!(message(0), "row 7 is out of range: there are no rows");
        assert_eq!(message(1), "row 7 is out of range: there is one row, row 0");
        assert_eq!(message(2), "row 7 is out of range: there are 2 rows, 0 to 1");
    }

    #[test]
    fn the_first_file_named_stays() {
        let error = Error::stale("changed").in_file(Path::new("a")).in_file(Path::new("b"));
        assert_eq!(error.to_string(), "a: changed");
    }
}
