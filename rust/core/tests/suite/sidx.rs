//! A damaged index gives errors or what it gave before it was damaged, and never anything else.

use std::sync::OnceLock;

use proptest::collection::vec;
use proptest::prelude::*;
use seekset_core::Result;
use seekset_core::index::{Entry, Sidx};
use seekset_core::io::{Fingerprint, Store};

use crate::damage::damage;
use crate::generate::{cases, fasta};
use crate::reference;
use crate::samples::index_of;

/// A few records of every kind, a repeated id, and lines that are uneven for so long that they have marks.
fn sample() -> Vec<u8> {
    let uneven = b"ACGTACGT\nAC\n".repeat(12_000);
    [b">a\nACGT\nAC\n>long\n", &*uneven, b">a again\nAC\n>\n>\xc3\xa9\nACGT"].concat()
}

/// An index and all that it says.
struct Sound {
    bytes: Vec<u8>,
    rows: Vec<Row>,
}

struct Row {
    entry: Entry,
    id: String,
    marks: Vec<u64>,
    end: u64,
    /// The first row with this id.
    first: u64,
}

fn open(bytes: &[u8]) -> Result<Sidx> {
    Sidx::open(Store::memory(bytes))
}

fn row(index: &Sidx, row: u64) -> Row {
    let id = index.id(row).expect("an id");
    Row {
        entry: index.entry(row).expect("an entry"),
        id: id.to_owned(),
        marks: index.marks(row).expect("marks").to_vec(),
        end: index.end(row).expect("an end"),
        first: index.find(id).expect("a lookup").expect("a row"),
    }
}

impl Sound {
    fn of(file: &[u8]) -> Self {
        let bytes = index_of(file);
        let index = open(&bytes).expect("an index");
        index.verify().expect("a sound index");
        Self { rows: (0..index.len()).map(|k| row(&index, k)).collect(), bytes }
    }

    fn sample() -> &'static Self {
        static SAMPLE: OnceLock<Sound> = OnceLock::new();
        SAMPLE.get_or_init(|| {
            let sound = Self::of(&sample());
            assert_eq!(sound.rows.iter().map(|row| row.marks.len()).sum::<usize>(), 2);
            sound
        })
    }

    /// Touches all that `damaged` holds and compares what it has to say about the rows that there were.
    fn check(&self, damaged: &[u8], what: &dyn std::fmt::Debug) {
        let Ok(index) = open(damaged) else { return };
        touch(&index);
        for (k, row) in (0..).zip(&self.rows) {
            assert!(index.entry(k).is_ok_and(|e| e == row.entry) || index.entry(k).is_err(), "{what:?}: entry {k}");
            assert!(index.id(k).is_ok_and(|id| id == row.id) || index.id(k).is_err(), "{what:?}: id {k}");
            let found = index.find(&row.id);
            let right = found.is_err() || found.as_ref().is_ok_and(|&f| f == Some(row.first));
            assert!(right, "{what:?}: {k} is {found:?}");
            // The checksum of an uneven entry covers its marks; others have none.
            if index.entry(k).is_ok() && row.entry.is_uneven() {
                assert!(index.marks(k).is_ok_and(|marks| marks == row.marks), "{what:?}: marks {k}");
            }
        }
    }
}

/// Calls everything that reads bytes of the index.
fn touch(index: &Sidx) {
    for k in (0..index.len().min(50)).chain([index.len()]) {
        let _ = (index.entry(k), index.id(k), index.marks(k), index.end(k));
    }
    let _ = (index.lengths().len(), index.lengths_place(), index.duplicate(), index.verify());
    let _ = (index.find("absent"), index.nearest("lang", 3, 100), index.repeated_ids(), index.data_size());
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn a_damaged_index_never_gives_another_answer(damage in vec(damage(), 1..4)) {
        let sound = Sound::sample();
        let mut bytes = sound.bytes.clone();
        for damage in &damage {
            damage.apply(&mut bytes);
        }
        sound.check(&bytes, &damage);
    }

    #[test]
    fn any_bytes_are_opened_or_refused(bytes in vec(any::<u8>(), 0..300)) {
        for bytes in [bytes.clone(), [b"ARROW1\0\0", &*bytes, b"ARROW1"].concat()] {
            if let Ok(index) = open(&bytes) {
                touch(&index);
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn an_index_says_what_the_reference_says(file in fasta(6, 80)) {
        let records = reference::read(&file).expect("a FASTA file");
        let sound = Sound::of(&file);
        prop_assert_eq!(sound.rows.len(), records.len());
        for (row, record) in sound.rows.iter().zip(&records) {
            let full = record.full();
            let shape = full.first().filter(|_| record.is_even());
            let (line_bases, line_bytes) = shape.map_or((0, 0), |line| (line.letters.len() as u32, line.bytes as u32));
            let (length, header_offset) = (record.letters().len() as u64, record.header_offset);
            let sequence_offset = record.sequence_offset;
            prop_assert_eq!(row.entry, Entry { length, header_offset, sequence_offset, line_bases, line_bytes });
            prop_assert_eq!(&row.id, &record.id);
            prop_assert_eq!(row.end, record.end);
            prop_assert_eq!(Some(row.first), (0..).zip(&records).find(|(_, r)| r.id == record.id).map(|(k, _)| k));
        }
        let index = open(&sound.bytes).expect("an index");
        prop_assert_eq!(index.data_size(), file.len() as u64);
        let repeated = (0..records.len()).filter(|&k| records[..k].iter().any(|r| r.id == records[k].id)).count();
        prop_assert_eq!(index.repeated_ids(), repeated as u64);
        prop_assert_eq!(index.duplicate().is_some(), repeated > 0);
        prop_assert_eq!(index.find("not there").expect("a lookup"), None);
    }
}

/// Every byte, changed in a few ways.
#[test]
fn no_single_byte_of_an_index_can_be_changed_unnoticed() {
    let sound = Sound::sample();
    let told = in_metadata(&open(&sound.bytes).expect("an index"));
    for at in 0..sound.bytes.len() {
        for mask in [1, 0x10, 0xff] {
            let mut bytes = sound.bytes.clone();
            bytes[at] ^= mask;
            sound.check(&bytes, &(at, mask));
            let found = open(&bytes).map(|index| in_metadata(&index));
            assert!(found.as_ref().map_or(true, |found| *found == told), "{at}, {mask}: {found:?}");
        }
    }
}

/// What stands in the metadata alone.
fn in_metadata(index: &Sidx) -> (u64, u64, Fingerprint) {
    (index.repeated_ids(), index.data_size(), *index.fingerprint())
}

/// As all were once: the key is another one, which nobody looks for.
#[test]
fn an_index_without_a_checksum_of_its_metadata_is_opened() {
    let mut bytes = Sound::sample().bytes.clone();
    let places: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(b"seekset.check")).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at + 8] = b'C';
    }
    assert_eq!(open(&bytes).expect("an index").len(), 5);
}

/// Where the fuzzer of indexes starts from.
const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/sidx_open");

/// A fuzzer that starts from indexes of another version would find nothing but that.
#[test]
fn the_seeds_of_the_fuzzer_are_indexes_of_this_version() {
    for seed in std::fs::read_dir(SEEDS).expect("a folder") {
        let path = seed.expect("an entry").path();
        let index = open(&std::fs::read(&path).expect("a file")).expect("an index; write the seeds again");
        index.verify().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// `cargo test -p seekset-core --test suite -- --ignored write_the_seeds`, after a change of the format.
#[test]
#[ignore = "it writes files that are committed"]
fn write_the_seeds_of_the_fuzzer() {
    for (name, file) in [("none", Vec::new()), ("two", b">a\nACGT\nAC\n>b\nG G\n".to_vec()), ("marks", sample())] {
        std::fs::write(std::path::Path::new(SEEDS).join(name), index_of(&file)).expect("a seed");
    }
}

#[test]
fn an_index_cut_anywhere_is_refused() {
    let bytes = &Sound::sample().bytes;
    for len in 0..bytes.len() {
        assert!(open(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn rows_that_are_not_there_are_out_of_range() {
    let index = open(&Sound::sample().bytes).expect("an index");
    for row in [index.len(), u64::MAX - 1, u64::MAX] {
        assert!(index.entry(row).is_err() && index.id(row).is_err() && index.marks(row).is_err(), "row {row}");
        assert!(index.end(row).is_err(), "the end of row {row}");
    }
}
