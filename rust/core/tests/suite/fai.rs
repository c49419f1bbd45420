//! `.fai` files hold what a computation of its own gives, and refuse what samtools would lose.

use std::fmt::Write;
use std::path::Path;

use proptest::prelude::*;
use seekset_core::Error;
use seekset_core::fasta::{FaiReport, faidx};
use seekset_core::index::fai::{FaiEntry, read};
use seekset_core::watch::Unwatched;

use crate::generate::{bytes, cases, fasta};
use crate::reference::{self, Record};
use crate::samples::Sample;

/// What indexing must come to.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// A `.fai` and the number of records left out for their name.
    Written(String, u64),
    /// A record at this offset has no place in a `.fai`.
    Refused(u64),
    /// An id names two records, at these rows and offsets.
    Duplicate(String, [(u64, u64); 2]),
}

fn line(record: &Record, name: &str) -> String {
    let full = record.full();
    let (bases, bytes) = full.first().map_or((0, 0), |line| (line.letters.len(), line.bytes));
    format!("{name}\t{}\t{}\t{bases}\t{bytes}\n", record.letters().len(), record.sequence_offset)
}

/// Every record has a line of its own.
fn strict(file: &[u8], records: &[Record]) -> Outcome {
    let before = &file[..records.first().map_or(0, |first| first.header_offset as usize)];
    let mut blank = before.split_inclusive(|&byte| byte == b'\n').filter(|line| ![&b"\n"[..], b"\r\n"].contains(line));
    if let Some(line) = blank.next() {
        return Outcome::Refused(line.as_ptr() as u64 - before.as_ptr() as u64);
    }
    let misfit =
        |record: &&Record| !record.is_even() || record.loose() || record.letters().is_empty() || record.unnamed;
    if let Some(record) = records.iter().find(misfit) {
        return Outcome::Refused(record.header_offset);
    }
    for (row, record) in records.iter().enumerate() {
        if let Some(first) = records[..row].iter().position(|other| other.id == record.id) {
            let places = [first, row].map(|row| (row as u64, records[row].header_offset));
            return Outcome::Duplicate(record.id.clone(), places);
        }
    }
    Outcome::Written(records.iter().map(|record| line(record, &record.id)).collect(), 0)
}

fn outcome(path: &Path, like_samtools: bool) -> Outcome {
    match faidx(path, None, like_samtools, &Unwatched) {
        Ok(FaiReport { path, left_out, .. }) => {
            Outcome::Written(std::fs::read_to_string(path).expect("text"), left_out)
        }
        Err(Error::Format { place, .. }) => Outcome::Refused(place.offset.expect("an offset")),
        Err(Error::Duplicate { id, places, .. }) => {
            Outcome::Duplicate(id, places.map(|place| (place.record.expect("a row"), place.offset.expect("an offset"))))
        }
        Err(other) => panic!("{other}"),
    }
}

fn written(entries: &[FaiEntry]) -> String {
    entries.iter().fold(String::new(), |mut text, e| {
        writeln!(text, "{}\t{}\t{}\t{}\t{}", e.name, e.length, e.offset, e.line_bases, e.line_bytes).expect("a string");
        text
    })
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn lines_are_those_of_an_independent_computation(file in fasta(4, 80)) {
        let records = reference::read(&file).expect("a FASTA file");
        let sample = Sample::new(&file);
        let fai = sample.path().with_extension("fa.fai");
        let found = outcome(&sample.path(), false);
        prop_assert_eq!(&found, &strict(&file, &records));
        match found {
            Outcome::Written(text, _) => {
                prop_assert_eq!(written(&read(text.as_bytes()).expect("a .fai")), &*text);
                // samtools itself is the measure of what is done like samtools. It refuses more, but where it does not,
                // both ways must agree.
                if let Outcome::Written(other, left_out) = outcome(&sample.path(), true) {
                    prop_assert_eq!((other, left_out), (text, 0));
                }
            }
            _ => prop_assert!(!fai.exists(), "what is refused leaves no file"),
        }
    }

    #[test]
    fn any_bytes_are_indexed_like_samtools_or_refused(file in bytes(120)) {
        let sample = Sample::new(&file);
        if let Err(error) = faidx(&sample.path(), None, true, &Unwatched) {
            prop_assert!(matches!(error, Error::Format { .. }), "{}", error);
        }
    }

    #[test]
    fn what_is_written_is_read_back(
        entries in prop::collection::vec(("[^\t\r\n]*", any::<[u64; 2]>(), 1..=u64::MAX / 2, any::<u32>()), 0..6),
    ) {
        let entry = |(name, [length, offset], line_bases, end): (String, [u64; 2], u64, u32)| {
            FaiEntry { name, length, offset, line_bases, line_bytes: line_bases + u64::from(end) }
        };
        let entries: Vec<FaiEntry> = entries.into_iter().map(entry).collect();
        let text = written(&entries);
        prop_assert_eq!(&read(text.as_bytes()).expect("a .fai"), &entries);
        prop_assert_eq!(&read(text.replace('\n', "\r\n").as_bytes()).expect("a .fai"), &entries);
        prop_assert_eq!(&read(text.trim_end_matches('\n').as_bytes()).expect("a .fai"), &entries);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(prop::sample::select(b"a1-0+\t\t\n\r\xff".to_vec()), 0..60)) {
        if let Err(error) = read(&bytes) {
            let line = match error { Error::Format { place, .. } => place.line, _ => None };
            let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
            prop_assert!(line.is_some_and(|line| (1..=lines).contains(&line)));
        }
    }
}
