//! Files read in stretches of any lengths, without an index.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use seekset_core::fasta::{FastaStream, StreamRecord};
use seekset_core::io::{Access, Scratch, Source};
use seekset_core::scan::fasta::stretch;
use seekset_core::watch::Unwatched;
use seekset_core::{Error, Result};

use crate::generate::{bytes, cases, fasta, spoilt};
use crate::samples::{END_MARK, Sample, blocks};
use crate::scanned::{lengths, stretched, stretches};

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn each_record_comes_once_however_a_file_is_cut(
        file in fasta(6, 200), sizes in prop::collection::vec(1..90_u64, 1..6), letters in 1..100_u64,
    ) {
        prop_assert_eq!(stretched(&file, &sizes, u64::MAX), lengths(&file, u64::MAX));
        prop_assert_eq!(stretched(&file, &sizes, letters), lengths(&file, letters));
    }

    #[test]
    fn what_a_scan_refuses_is_refused_in_some_stretch(
        file in prop_oneof![spoilt(4, 100), bytes(100)], sizes in prop::collection::vec(1..40_u64, 1..6),
    ) {
        prop_assert_eq!(stretched(&file, &sizes, u64::MAX), lengths(&file, u64::MAX));
    }
}

/// Every file of up to six of these bytes, in stretches of one byte and of three.
#[test]
fn all_short_files_are_read_as_the_reference_reads_them() {
    let alphabet = b">A\n\r \xff";
    for len in 0..=6_u32 {
        for code in 0..alphabet.len().pow(len) {
            let file: Vec<u8> = (0..len).map(|k| alphabet[code / alphabet.len().pow(k) % alphabet.len()]).collect();
            for size in [1, 3] {
                assert_eq!(stretched(&file, &[size], u64::MAX), lengths(&file, u64::MAX), "{file:?} by {size}");
            }
        }
    }
}

/// Counts the bytes that were asked for.
struct Counted(Vec<u8>, AtomicU64);

impl Source for Counted {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn bytes<'a>(&'a self, range: Range<u64>, scratch: &'a mut Scratch) -> Result<&'a [u8]> {
        self.1.fetch_add(range.end - range.start, Ordering::Relaxed);
        Source::bytes(&self.0, range, scratch)
    }

    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_long_record_is_read_no_further_than_its_letters_are_wanted() {
    for line in [60, 1 << 30] {
        let letters = vec![b'A'; 8 << 20];
        let lines: Vec<&[u8]> = letters.chunks(line).collect();
        let file = [b">a\n", &lines.join(&b'\n')[..], b"\n>b\nAC\n"].concat();
        let source = Counted(file.clone(), AtomicU64::new(0));
        let read = |range: Range<u64>, letters| {
            let span = stretch::span(&range);
            let bytes = &file[span.start as usize..span.end as usize];
            let found = stretch::records(&source, bytes, range, letters).unwrap();
            let row = |s: &stretch::Started| (s.id.clone(), s.record.lines.bases.min(letters));
            (found.iter().map(row).collect::<Vec<_>>(), source.1.swap(0, Ordering::Relaxed))
        };
        let a = |letters| vec![("a".to_owned(), letters)];
        assert_eq!(read(0..1024, 1000), (a(1000), 3), "its header alone");
        assert_eq!(read(0..1024, 5000), (a(5000), 4096 + 3));
        assert_eq!(read(1 << 20..2 << 20, 1000), (vec![], 0), "from within the record");
        let (rows, bytes) = read(0..1024, u64::MAX);
        assert_eq!(rows, a(8 << 20));
        assert!(bytes < file.len() as u64 + 10, "{bytes}");
    }
}

fn all(file: &FastaStream, size: u64, most: Option<u64>) -> Vec<(String, String)> {
    let text = |r: StreamRecord| (r.id, String::from_utf8(r.letters).unwrap());
    stretches(file.len(), &[size]).into_iter().flat_map(|range| file.records(range, most).unwrap()).map(text).collect()
}

fn open(path: &std::path::Path) -> Result<FastaStream> {
    FastaStream::open(path, Access::Mmap, None, &Unwatched)
}

#[test]
fn letters_come_without_line_ends_from_plain_and_compressed_files() {
    let text = b"\n>a x\r\nAC G\r\n\r\nT\r\n>b\n>c\nACGTACGTACGT\nAC";
    for (name, bytes) in
        [("x.fa", text.to_vec()), ("x.fa.gz", [blocks(text, &[7], 1).concat(), END_MARK.to_vec()].concat())]
    {
        let sample = Sample::named(name, &bytes);
        let file = open(&sample.path()).unwrap();
        for size in 1..=file.len() {
            let rows = |a: &str, b: &str, c: &str| {
                [("a", a), ("b", b), ("c", c)].map(|(id, letters)| (id.to_owned(), letters.to_owned())).to_vec()
            };
            assert_eq!(all(&file, size, None), rows("ACGT", "", "ACGTACGTACGTAC"), "{name} by {size}");
            assert_eq!(all(&file, size, Some(3)), rows("ACG", "", "ACG"), "{name} by {size}");
        }
    }
}

#[test]
fn errors_name_the_file_the_byte_and_the_line() {
    let sample = Sample::new(b">a\nACGT\nAC\n>b\nA\0C\n");
    let path = sample.path();
    let file = open(&path).unwrap();
    let expected =
        format!("{}: line 5, byte 15: expected letters in a sequence line, found a NUL byte", path.display());
    assert_eq!(file.records(8..14, None).unwrap_err().to_string(), expected, "read on after its stretch");
    assert_eq!(file.records(11..18, None).unwrap_err().to_string(), expected, "within its stretch");
    assert_eq!(file.records(12..18, None).unwrap_err().to_string(), expected, "in lines of a record from before");
}

#[test]
fn a_file_that_changes_is_noticed_at_the_next_read_and_at_the_next_open() {
    let sample = Sample::new(b">a\nACGT\n");
    let path = sample.path();
    let file = open(&path).unwrap();
    std::fs::write(&path, b">a\nACGT\nACGT\n").unwrap();
    assert!(matches!(file.records(0..8, None), Err(Error::Stale { .. })));
    let again = FastaStream::open(&path, Access::Mmap, Some(file.fingerprint()), &Unwatched);
    let message = again.err().map(|error| error.to_string()).unwrap_or_default();
    let expected = "the file has changed since its reader was made: its size was 8 bytes and is 13 now";
    assert_eq!(message, format!("{}: {expected}", path.display()));
}
