//! The walk over TFRecord files: from memory, by `pread` and from a stream, all three with one answer.

use std::ops::Range;

use proptest::prelude::*;
use seekset_core::io::pread::Pread;
use seekset_core::io::{Scratch, Source};
use seekset_core::scan::tfrecord::{Entry, TfRecordIndexer, Verify, frame, survey, walk};
use seekset_core::watch::Unwatched;
use seekset_core::{Error, Result, index_entries_from_bytes, index_text_from_bytes};

use crate::generate::cases;
use crate::records::{Folder, claims, entries, record, records};

fn streamed(bytes: &[u8], verify: Verify) -> Result<Vec<Entry>> {
    let mut indexer = TfRecordIndexer::with_verify(Trickle(bytes), verify);
    let mut found = Vec::new();
    while let Some(entry) = indexer.next_entry()? {
        found.push(entry);
    }
    Ok(found)
}

/// A reader that gives little at a time.
struct Trickle<'a>(&'a [u8]);

impl std::io::Read for Trickle<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let some = self.0.len().min(out.len()).min(7);
        out[..some].copy_from_slice(&self.0[..some]);
        self.0 = &self.0[some..];
        Ok(some)
    }
}

fn by_pread(bytes: &[u8], verify: Verify) -> Result<Vec<Entry>> {
    let folder = Folder::new(bytes);
    let mut found = Vec::new();
    walk(&Pread::open(&folder.data())?, verify, &Unwatched, &mut |block| {
        found.extend_from_slice(block);
        Ok(())
    })?;
    Ok(found)
}

/// Whether a record is corrupt (or the file none), which one, where it starts, and the message.
type Fault = (bool, Option<u64>, Option<u64>, String);

/// What all three ways give: entries, or the fault.
fn outcome(bytes: &[u8], verify: Verify) -> Result<Vec<Entry>, Fault> {
    let place = |error: Error| match error {
        Error::Corrupt { place, message, .. } => (true, place.record, place.offset, message),
        Error::Format { place, message, .. } => (false, place.record, place.offset, message),
        other => panic!("{other}"),
    };
    let from_memory = index_entries_from_bytes(bytes, verify).map_err(place);
    let alike = |other: Result<Vec<Entry>>, how: &str| match (&from_memory, other.map_err(place)) {
        (Ok(a), Ok(b)) => assert_eq!(a, &b, "{how}"),
        // A stream can't tell a length past its end before it gets there; the place is the same.
        (Err(a), Err(b)) => assert_eq!((a.0, a.1, a.2), (b.0, b.1, b.2), "{how}: {} / {}", a.3, b.3),
        (a, b) => panic!("{how}: {a:?} and {b:?}"),
    };
    alike(streamed(bytes, verify), "stream");
    alike(by_pread(bytes, verify), "pread");
    from_memory
}

#[track_caller]
fn corrupt(bytes: &[u8], verify: Verify, record: u64, offset: u64, words: &str) {
    let (is_corrupt, at_record, at_offset, message) = outcome(bytes, verify).expect_err(words);
    assert!(is_corrupt, "{message}");
    assert_eq!((at_record, at_offset), (Some(record), Some(offset)), "{message}");
    assert!(message.contains(words), "{words} in {message}");
}

const ALL: [Verify; 3] = [Verify::None, Verify::Lengths, Verify::Full];

#[test]
fn records_follow_each_other_from_the_start_to_the_end() {
    for verify in ALL {
        assert_eq!(outcome(b"", verify), Ok(vec![]));
        assert_eq!(outcome(&record(b""), verify), Ok(entries(&[(0, 16)])));
        assert_eq!(outcome(&records(&[b"", b"a", b"bcd"]), verify), Ok(entries(&[(0, 16), (16, 17), (33, 19)])));
    }
}

#[test]
fn the_text_is_one_line_per_record() {
    let text = |bytes: &[u8]| index_text_from_bytes(bytes, Verify::Full).expect("an index");
    assert_eq!(text(b""), "");
    assert_eq!(text(&records(&[b"abc"])), "0 19\n");
    assert_eq!(text(&records(&[b"abc", b"", b"de"])), "0 19\n19 16\n35 18\n");
}

#[test]
fn more_records_than_fit_into_one_block_are_walked() {
    let payloads: Vec<Vec<u8>> = (0..20_000_usize).map(|k| vec![k as u8; k % 37]).collect();
    let bytes: Vec<u8> = payloads.iter().flat_map(|payload| record(payload)).collect();
    let found = outcome(&bytes, Verify::Full).expect("entries");
    assert_eq!(found.len(), payloads.len());
    assert!(found.iter().zip(&payloads).all(|(entry, payload)| entry.size == payload.len() as u64 + 16));
    assert!(found.windows(2).all(|pair| pair[0].offset + pair[0].size == pair[1].offset));
}

#[test]
fn records_larger_than_all_buffers_are_walked() {
    let bytes = records(&[&vec![1; 3 << 20], b"x", &vec![2; 1 << 20], b"y"]);
    let sizes: Vec<u64> = outcome(&bytes, Verify::Full).expect("entries").iter().map(|e| e.size).collect();
    assert_eq!(sizes, [(3 << 20) + 16, 17, (1 << 20) + 16, 17]);
}

#[test]
fn a_file_cut_anywhere_is_refused_at_the_record_that_is_cut() {
    let whole = records(&[b"one", b"", b"three"]);
    let starts = [0, 19, 35, 56];
    for end in 0..=whole.len() {
        for verify in ALL {
            let found = outcome(&whole[..end], verify);
            if let Some(record) = starts.iter().position(|&start| start == end) {
                assert_eq!(found.expect("whole records").len(), record);
            } else {
                let record = starts.iter().rposition(|&start| start < end).expect("a record");
                corrupt(&whole[..end], verify, record as u64, starts[record] as u64, "the file is cut");
            }
        }
    }
}

#[test]
fn junk_behind_the_last_record_is_refused_where_it_starts() {
    for junk in 1..=11 {
        for byte in [0, 0xff, b'\n'] {
            let bytes = [records(&[b"one", b"two"]), vec![byte; junk]].concat();
            for verify in ALL {
                corrupt(&bytes, verify, 2, 38, &format!("found {junk} bytes from here to the end"));
            }
        }
    }
}

#[test]
fn lengths_that_lead_past_the_end_are_refused_before_they_are_believed() {
    for length in [u64::MAX, u64::MAX - 15, u64::MAX - 16, 1 << 63, i64::MAX as u64, 1 << 40, 9, 5] {
        // With 4 bytes behind the header, nothing but an empty payload would fit.
        let bytes = [record(b"one"), claims(length), vec![0; 4]].concat();
        for verify in ALL {
            let (is_corrupt, record, offset, message) = outcome(&bytes, verify).expect_err("a long record");
            assert!(is_corrupt && (record, offset) == (Some(1), Some(19)), "{message}");
            assert!(message.contains(&length.to_string()), "{message}");
        }
    }
}

#[test]
fn a_length_one_past_the_end_is_refused_and_one_that_fits_is_not() {
    for (length, fits) in [(4, true), (5, false), (6, false)] {
        let bytes = [claims(length), vec![0; 8]].concat();
        assert_eq!(outcome(&bytes, Verify::Lengths).is_ok(), fits, "{length}");
    }
}

#[test]
fn zeros_are_refused_by_the_checksum_of_the_length_which_names_the_remedy() {
    for verify in [Verify::Lengths, Verify::Full] {
        corrupt(&[0; 64], verify, 0, 0, "verify=None (tfrecord-index --verify none)");
    }
    // Four records without payload and without checksums, for those who insist.
    assert_eq!(outcome(&[0; 64], Verify::None), Ok(entries(&[(0, 16), (16, 16), (32, 16), (48, 16)])));
}

#[test]
fn every_flipped_bit_is_noticed_by_what_is_verified() {
    let whole = records(&[b"one", b"twotwo", b"3"]);
    let (start, size) = (19, 22);
    for bit in 0..size * 8 {
        let mut bytes = whole.clone();
        bytes[start + bit / 8] ^= 1 << (bit % 8);
        let in_header = bit / 8 < 12;
        let words =
            if in_header { "the length's checksum does not fit" } else { "the payload's checksum does not fit" };
        corrupt(&bytes, Verify::Full, 1, 19, words);
        if in_header {
            corrupt(&bytes, Verify::Lengths, 1, 19, words);
        } else {
            assert_eq!(outcome(&bytes, Verify::Lengths).expect("entries").len(), 3);
        }
    }
}

#[test]
fn of_two_faults_the_first_in_the_file_is_told() {
    let mut bytes = records(&[b"one", b"two", b"three"]);
    bytes[38] ^= 1; // the length of record 2
    bytes[12] ^= 1; // the payload of record 0
    corrupt(&bytes, Verify::Full, 0, 0, "payload");
    corrupt(&bytes, Verify::Lengths, 2, 38, "length");
}

#[test]
fn compressed_files_are_told_by_name() {
    for (start, name) in
        [(&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], "gzip"), (b"\x78\x9c\x01\x02", "zlib"), (b"\x78\xda", "zlib")]
    {
        for length in [start.len(), 12, 100] {
            let bytes = [start, &[9; 100]].concat();
            for verify in ALL {
                let (is_corrupt, _, offset, message) =
                    outcome(&bytes[..length.max(start.len())], verify).expect_err(name);
                assert!(!is_corrupt && offset == Some(0) && message.contains(name), "{message}");
            }
        }
    }
}

#[test]
fn a_record_whose_length_looks_like_a_compressed_file_is_a_record() {
    // 40 056 is 0x9c78, 35 615 is 0x8b1f, 559 903 is 0x088b1f.
    for length in [40_056, 35_615, 559_903] {
        let bytes = records(&[&vec![7; length], b"x"]);
        assert!(seekset_core::io::deflate::detect(&bytes).is_some() || length == 35_615);
        for verify in ALL {
            assert_eq!(outcome(&bytes, verify).expect("entries").len(), 2);
        }
        // Cut, it is a cut TFRecord and no compressed one.
        corrupt(&bytes[..1000], Verify::Lengths, 0, 0, "the file is cut");
    }
}

#[test]
fn a_survey_tells_of_every_fault_and_goes_on_where_it_can() {
    let whole = records(&[b"one", b"two", b"three", b"four", b"five"]);
    let faults = |bytes: &Vec<u8>| {
        let mut places = Vec::new();
        let count = survey(bytes, &Unwatched, &mut |fault| match fault {
            Error::Corrupt { place, .. } => places.push((place.record.unwrap(), place.offset.unwrap())),
            other => panic!("{other}"),
        });
        (count.expect("a survey"), places)
    };
    assert_eq!(faults(&whole), (5, vec![]));
    assert_eq!(faults(&vec![]), (0, vec![]));
    let flipped = |at: &[usize]| {
        let mut bytes = whole.clone();
        for &at in at {
            bytes[at] ^= 1;
        }
        bytes
    };
    // Payloads of 0 and 3; the checksum of the header of 1; payload and header's checksum of 4.
    assert_eq!(faults(&flipped(&[12, 19 + 8, 59 + 13])), (5, vec![(0, 0), (1, 19), (3, 59)]));
    assert_eq!(faults(&flipped(&[79 + 8, 79 + 12])), (5, vec![(4, 79), (4, 79)]));
    // A length that leads nowhere ends it.
    assert_eq!(faults(&flipped(&[12, 38, 59 + 13])), (3, vec![(0, 0), (2, 38)]));
    assert_eq!(faults(&whole[..60].to_vec()), (4, vec![(3, 59)]));
}

/// Would be read in one go, as a file of one deflate block would, and can't be.
struct OneChunk(Vec<u8>);

impl Source for OneChunk {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn bytes<'a>(&'a self, range: Range<u64>, _: &'a mut Scratch) -> Result<&'a [u8]> {
        assert!(range.end - range.start <= 8 << 20, "{range:?} at once");
        Ok(&self.0[range.start as usize..range.end as usize])
    }

    fn chunk_end(&self, _: u64, _: u64) -> u64 {
        self.len()
    }

    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn little_is_read_at_a_time_however_long_chunks_are() {
    let bytes = [record(&[1; 900]).repeat(10_000), record(&vec![2; 9 << 20])].concat();
    let mut faults = 0;
    assert_eq!(survey(&OneChunk(bytes), &Unwatched, &mut |_| faults += 1).expect("a survey"), 10_001);
    assert_eq!(faults, 0);
}

#[test]
fn work_that_is_stopped_is_interrupted() {
    let stopped = walk(&record(b"x"), Verify::Full, &|_, _| false, &mut |_| Ok(()));
    assert!(matches!(stopped, Err(Error::Interrupted)));
}

/// The slow reader: right by inspection.
fn reference(bytes: &[u8]) -> Result<Vec<Entry>, u64> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let whole = bytes.get(at..at + 12).and_then(|header| {
            let length = u64::from_le_bytes(header[..8].try_into().unwrap());
            let size = usize::try_from(length).ok()?.checked_add(16)?;
            (header[8..] == frame::checksum(&header[..8]).to_le_bytes()).then_some(())?;
            let footer = bytes.get(at..)?.get(size - 4..size)?;
            (footer == frame::checksum(&bytes[at + 12..at + size - 4]).to_le_bytes()).then_some(size)
        });
        let Some(size) = whole else { return Err(at as u64) };
        found.push(Entry { offset: at as u64, size: size as u64 });
        at += size;
    }
    Ok(found)
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn a_damaged_file_is_read_as_the_slow_reader_does(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in 0_usize..4,
    ) {
        let mut bytes: Vec<u8> = payloads.iter().flat_map(|payload| record(payload)).collect();
        for (at, with) in damage.iter().filter(|_| !payloads.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] ^= with;
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        match (reference(&bytes), outcome(&bytes, Verify::Full)) {
            (Ok(expected), Ok(found)) => prop_assert_eq!(expected, found),
            (Err(at), Err(found)) => prop_assert_eq!(Some(at), found.2),
            (expected, found) => prop_assert!(false, "{:?} and {:?}", expected, found),
        }
    }
}
