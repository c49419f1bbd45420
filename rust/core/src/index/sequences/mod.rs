//! The length-sorted index over many FASTA files: an Arrow IPC file with one row per sequence, or the same as readable JSON.
//! docs/formats.md has every byte.
//!
//! It refers to records by file and byte and leaves where their lines lie to the `.sidx` of each file. This file has what
//! its parts share: the columns, a row of them, and what is known of the files.

pub mod builder;
pub mod json;
pub mod order;
pub mod reader;
mod turns;

pub use builder::{Builder, Counts, Facts, Rows};
pub use reader::Sequences;
pub(crate) use turns::Turns;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::io::Fingerprint;

/// The version of the format. An index of another version is built anew.
pub const VERSION: u32 = 1;

/// The kind of index that this is, as its schema says.
pub(crate) const KIND: &str = "sequences";

/// Stands where the row of a sequence in its file is not known.
pub const UNKNOWN_ROW: u64 = u64::MAX;

// The buffers of a file, in the order in which `Columns` numbers them.
const ID_ENDS: usize = 0;
const ID_BYTES: usize = 1;
const LENGTH: usize = 2;
const FILE: usize = 3;
const ROW: usize = 4;
const BYTE_OFFSET: usize = 5;
const CHECK: usize = 6;
const ID_CHECK: usize = 7;
const BUFFERS: usize = 8;

fn fields() -> [(&'static str, DataType); 7] {
    [
        ("id", DataType::LargeUtf8),
        ("length", DataType::UInt64),
        ("file", DataType::UInt32),
        ("row", DataType::UInt64),
        ("byte_offset", DataType::UInt64),
        ("check", DataType::UInt32),
        ("id_check", DataType::UInt32),
    ]
}

/// One sequence: how long it is and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// Letters.
    pub length: u64,
    /// The number of its file.
    pub file: u32,
    /// Its row in that file, or [`UNKNOWN_ROW`].
    pub row: u64,
    /// Where its `>` stands.
    pub byte_offset: u64,
}

impl Sequence {
    /// A checksum of the row, so that a damaged index gives an error rather than another sequence.
    fn check(&self) -> u32 {
        let words = [self.length, u64::from(self.file), self.row, self.byte_offset];
        xxh3_64(bytemuck::cast_slice(&words)) as u32
    }
}

/// A FASTA file behind an index.
#[derive(Debug, Clone, PartialEq)]
pub struct FastaFile {
    /// Where it is: absolute, unless somebody wrote the index by hand.
    pub path: String,
    /// What it looked like.
    pub seen: Seen,
}

/// What is known of how a file looked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Seen {
    /// All.
    Fully(Fingerprint),
    /// Its modification time in seconds, as Python's `os.path.getmtime` has it.
    Time(f64),
}

/// Times in seconds are rounded to a quarter of a microsecond: doubles of this century are no finer.
const SAME_TIME: f64 = 1e-6;

impl Seen {
    /// The modification time in seconds.
    #[must_use]
    pub fn time(&self) -> f64 {
        match self {
            Self::Fully(fingerprint) => seconds(fingerprint.mtime_ns),
            Self::Time(time) => *time,
        }
    }

    /// In words, what differs from how the file looks now; nothing if it is as it was.
    #[must_use]
    pub fn difference(&self, now: &Fingerprint) -> Option<String> {
        match self {
            Self::Fully(then) => then.difference(now),
            Self::Time(then) => {
                let time = seconds(now.mtime_ns);
                (!same_time(*then, time)).then(|| format!("its modification time was {then} s and is {time} s now"))
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "that is what a time in seconds as a double is")]
fn seconds(ns: i128) -> f64 {
    // As Python adds them, so that both give the same double.
    ns.div_euclid(1_000_000_000) as f64 + 1e-9 * ns.rem_euclid(1_000_000_000) as f64
}

fn same_time(a: f64, b: f64) -> bool {
    (a - b).abs() < SAME_TIME
}

/// A [`FastaFile`] as it stands in the metadata of the Arrow form and under `files` in JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Listed {
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtime_ns: Option<i128>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sample: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtime: Option<f64>,
}

impl From<&FastaFile> for Listed {
    fn from(file: &FastaFile) -> Self {
        let path = file.path.clone();
        match file.seen {
            Seen::Fully(Fingerprint { size, mtime_ns, sample }) => {
                let sample = Some(format!("{sample:016x}"));
                Self { path, size: Some(size), mtime_ns: Some(mtime_ns), sample, mtime: None }
            }
            Seen::Time(time) => Self { path, size: None, mtime_ns: None, sample: None, mtime: Some(time) },
        }
    }
}

impl Listed {
    /// What it says of the file, if that is enough.
    fn seen(&self) -> Option<Seen> {
        let sample = self.sample.as_deref().and_then(|text| u64::from_str_radix(text, 16).ok());
        match (self.size, self.mtime_ns, sample) {
            (Some(size), Some(mtime_ns), Some(sample)) => Some(Seen::Fully(Fingerprint { size, mtime_ns, sample })),
            _ => self.mtime.map(Seen::Time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_with_what_is_known_of_them() {
        for seen in [
            Seen::Fully(Fingerprint { size: 0, mtime_ns: -5, sample: u64::MAX }),
            Seen::Fully(Fingerprint { size: u64::MAX, mtime_ns: i128::from(i64::MAX), sample: 0 }),
            Seen::Time(1_700_000_000.123_456_7),
        ] {
            let file = FastaFile { path: "/a \"b\".fa".to_owned(), seen };
            let text = serde_json::to_string(&Listed::from(&file)).unwrap();
            let listed: Listed = serde_json::from_str(&text).unwrap();
            assert_eq!((listed.path.as_str(), listed.seen()), (file.path.as_str(), Some(seen)), "{text}");
        }
    }

    #[test]
    fn times_in_seconds_are_compared_in_both_directions() {
        let now = Fingerprint { size: 1, mtime_ns: 1_700_000_000_123_456_789, sample: 2 };
        assert_eq!(Seen::Time(1_700_000_000.123_456_7).difference(&now), None);
        for other in [1_700_000_000.123_4, 1_700_000_000.123_5, 0.0, f64::MAX] {
            assert!(Seen::Time(other).difference(&now).is_some(), "{other}");
        }
        assert!(same_time(Seen::Fully(now).time(), 1_700_000_000.123_456_7));
        assert!(same_time(seconds(-1_500_000_000), -1.5));
    }
}
