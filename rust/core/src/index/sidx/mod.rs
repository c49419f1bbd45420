//! `.sidx`, the native index of a FASTA file: an Arrow IPC file with one row per record. docs/formats.md has every byte.
//!
//! This file has what its two sides share: the columns, and a row of them. [`builder`] writes, [`reader`] reads.

pub mod builder;
pub mod reader;

pub use builder::Builder;
pub use reader::{Entries, Sidx};

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use xxhash_rust::xxh3::xxh3_64;

use crate::scan::fasta::Record;

/// The version of the format. An index of another version is built anew.
pub const VERSION: u32 = 1;

/// The kind of index that this is, as its schema says.
pub(crate) const KIND: &str = "fasta";

// The buffers of a file, in the order in which `Columns` numbers them.
const ID_ENDS: usize = 0;
const ID_BYTES: usize = 1;
const LENGTH: usize = 2;
const HEADER_OFFSET: usize = 3;
const SEQUENCE_OFFSET: usize = 4;
const LINE_BASES: usize = 5;
const LINE_BYTES: usize = 6;
const MARK_ENDS: usize = 7;
const MARKS: usize = 8;
const CHECK: usize = 9;
const ID_CHECK: usize = 10;
const LOOKUP_HASH: usize = 11;
const LOOKUP_ROW: usize = 12;

fn fields() -> [(&'static str, DataType); 11] {
    [
        ("id", DataType::LargeUtf8),
        ("length", DataType::UInt64),
        ("header_offset", DataType::UInt64),
        ("sequence_offset", DataType::UInt64),
        ("line_bases", DataType::UInt32),
        ("line_bytes", DataType::UInt32),
        ("marks", DataType::List(Arc::new(Field::new("item", DataType::UInt64, false)))),
        ("check", DataType::UInt32),
        ("id_check", DataType::UInt32),
        ("lookup_hash", DataType::UInt32),
        ("lookup_row", DataType::UInt64),
    ]
}

/// Where a record lies and how its lines are shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Letters in the record.
    pub length: u64,
    /// Where its `>` stands.
    pub header_offset: u64,
    /// Where the line after its header starts.
    pub sequence_offset: u64,
    /// Letters per line; 0 where lines are uneven (or longer than 4 GiB) and no arithmetic holds.
    pub line_bases: u32,
    /// Bytes per line, its end included; 0 where `line_bases` is.
    pub line_bytes: u32,
}

impl Entry {
    fn of(record: &Record) -> Self {
        let shape = record.lines.first;
        let even = record.lines.uneven.is_even();
        let (line_bases, line_bytes) = match (u32::try_from(shape.bases), u32::try_from(shape.bytes)) {
            (Ok(bases), Ok(bytes)) if even => (bases, bytes),
            _ => (0, 0),
        };
        let Record { header_offset, sequence_offset, .. } = *record;
        Self { length: record.lines.bases, header_offset, sequence_offset, line_bases, line_bytes }
    }

    /// Whether the place of a letter is not a matter of arithmetic.
    #[must_use]
    pub fn is_uneven(&self) -> bool {
        self.length > 0 && self.line_bases == 0
    }

    /// A checksum of the row, so that a damaged index gives an error rather than a wrong address.
    #[inline]
    fn check(&self) -> u32 {
        let lines = u64::from(self.line_bases) << 32 | u64::from(self.line_bytes);
        let words = [self.length, self.header_offset, self.sequence_offset, lines];
        xxh3_64(bytemuck::cast_slice(&words)) as u32
    }
}

fn check_marks(marks: &[u64]) -> u32 {
    if marks.is_empty() { 0 } else { xxh3_64(bytemuck::cast_slice(marks)) as u32 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::io::{Fingerprint, Store};
    use crate::scan::fasta::scan;
    use crate::watch::Unwatched;

    /// The index of a file in memory. Tests of what builds on an index start from it, too.
    pub(crate) fn index_of(file: &[u8]) -> Sidx {
        let source = file.to_vec();
        let mut builder = Builder::new(&source, &crate::io::Spills::elsewhere(), &Unwatched).unwrap();
        scan(&source, 1, &Unwatched, &mut builder).unwrap();
        let mut bytes = Vec::new();
        builder.finish(&Fingerprint { size: 1, mtime_ns: -2, sample: u64::MAX }, &mut bytes).unwrap();
        Sidx::open(Store::memory(&bytes)).unwrap()
    }

    #[test]
    fn rows_are_those_of_the_file() {
        let index = index_of(b">a x\nACGT\nAC\n>b\nA CG\n>\n");
        let entry = |length, header_offset, sequence_offset, line_bases, line_bytes| Entry {
            length,
            header_offset,
            sequence_offset,
            line_bases,
            line_bytes,
        };
        assert_eq!(index.len(), 3);
        assert_eq!(index.lengths(), [6, 3, 0]);
        assert_eq!(index.entry(0).unwrap(), entry(6, 0, 5, 4, 5));
        assert_eq!(index.entry(1).unwrap(), entry(3, 13, 16, 0, 0));
        assert_eq!(index.entry(2).unwrap(), entry(0, 21, 23, 0, 0));
        assert_eq!([0, 1, 2].map(|row| index.entry(row).unwrap().is_uneven()), [false, true, false]);
        assert_eq!([0, 1, 2].map(|row| index.id(row).unwrap()), ["a", "b", "21"]);
        assert_eq!([0, 1, 2].map(|row| index.end(row).unwrap()), [13, 21, 23]);
        assert_eq!(*index.fingerprint(), Fingerprint { size: 1, mtime_ns: -2, sample: u64::MAX });
        index.verify().unwrap();
    }

    #[test]
    fn the_first_of_equal_ids_is_found_and_the_repeat_is_told() {
        let index = index_of(b">b\n>a\n>b\n>c\n>a\n>a\n");
        assert_eq!(["a", "b", "c", "d", ""].map(|id| index.find(id).unwrap()), [Some(1), Some(0), Some(3), None, None]);
        assert_eq!(index.repeated_ids(), 3);
        let message = index.duplicate().unwrap().to_string();
        assert!(
            message.contains("id 'b' names two records, the first at record 0, byte 0, another at record 2, byte 6")
        );
        assert!(index_of(b">a\n>b\n").duplicate().is_none());
    }

    #[test]
    fn near_ids_come_with_the_nearest_first() {
        let index = index_of(b">chr1\n>chr10\n>chrX\n>scaffold_12\n");
        assert_eq!(index.nearest("chr100", 2, 100), ["chr10", "chr1"]);
        assert_eq!(index.nearest("chr100", 2, 1), ["chr1"]);
        assert_eq!(index.nearest("qqqqqq", 2, 100), Vec::<String>::new());
    }

    #[test]
    fn many_rows_are_all_found() {
        let records: Vec<String> = (0..5000).map(|k| format!(">id{k}\nA\n")).collect();
        let index = index_of(records.concat().as_bytes());
        assert!((0..5000).all(|k| index.find(&format!("id{k}")).unwrap() == Some(k)));
        assert!((5000..9000).all(|k| index.find(&format!("id{k}")).unwrap().is_none()));
    }
}
