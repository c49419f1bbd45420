//! Chunks of a scan end every 2^20 bytes: whatever stands across such a place is read as anywhere else.

use crate::scanned::{Cut, expected, scan};

const CHUNK: usize = 1 << 20;

/// Everything that ends, starts or goes on: line ends of both kinds, headers, empty records, blanks.
const BUSY: &[u8] =
    b"\r\nACGT\r\nAC\r\n>b two words\r\nACGTACGT\r\nACGT\r\n\r\n>\n\n>c\xc3\xa9 d\nAC GT\nACG\n>e\n>f\nACGTACGT";

/// Offences of every kind, each with something before and after it.
const BAD: &[&[u8]] = &[b"\nAC\0GT\n>b\n", b"\n>b\xff\xff\nACGT\n", b"\n>b\xc3\nACGT\n", b"AC\x80\n>\0\n"];

/// With two cuts, every line, header and record comes in one, two or three chunks in every possible way.
#[test]
fn two_cuts_anywhere_change_nothing() {
    let file = [b">a\nACGT", BUSY].concat();
    let expected = expected(&file);
    assert!(expected.is_ok());
    for first in 1..file.len() as u64 {
        for second in 1..file.len() as u64 - first {
            let cut = Cut::new(&file, &[first, second, u64::from(u32::MAX)]);
            assert_eq!(scan(&cut, 1), expected, "chunks of {first} and {second} bytes");
        }
    }
}

#[test]
fn a_cut_anywhere_leaves_an_offence_where_it_is() {
    let starts: [&[u8]; 4] = [b">a\nACGT", b">a", b"\n \n\n", b"  \n\t"];
    for file in starts.iter().flat_map(|start| BAD.iter().map(move |bad| [start, *bad].concat())) {
        let expected = expected(&file);
        assert!(expected.is_err());
        for size in 1..=file.len() as u64 {
            assert_eq!(scan(&Cut::new(&file, &[size]), 1), expected, "{file:?} in chunks of {size} bytes");
        }
    }
}

/// `start` and as much `filler` as it takes for `busy` to stand `shift` bytes before the end of the first chunk.
fn across(start: &[u8], filler: &[u8], busy: &[u8], shift: usize) -> Vec<u8> {
    let mut file = start.to_vec();
    file.extend(filler.iter().cycle().take(CHUNK - shift - start.len()));
    file.extend(busy);
    file.extend(b"ACGT\n>last\nAC");
    file
}

/// The real chunks, on one thread and on several, against a scan without any.
fn check(file: &[u8], threads: usize) {
    let whole = scan(&Cut::new(file, &[u64::from(u32::MAX)]), 1);
    assert_eq!(scan(&file.to_vec(), threads), whole, "{threads} threads");
}

#[test]
fn chunks_of_a_file_may_end_at_any_byte() {
    let line = [&[b'A'; 60][..], b"\n"].concat();
    for shift in 0..=80 {
        check(&across(b">pad\n", &line, BUSY, shift), 1 + shift % 3);
    }
}

#[test]
fn a_line_or_a_header_may_fill_a_chunk() {
    for shift in [0, 1, 2, 3, 64] {
        check(&across(b">pad\n", b"ACGTTGCA", BUSY, shift), 1 + shift % 2);
        check(&across(b">pad ", b"word ", BUSY, shift), 1 + shift % 2);
    }
}

#[test]
fn offences_are_found_across_chunks() {
    let line = [&[b'A'; 60][..], b"\n"].concat();
    let blank = [&[b' '; 4000][..], b"\n"].concat();
    for (shift, bad) in (0..=8).zip(BAD.iter().cycle()) {
        check(&across(b">pad\n", &line, bad, shift), 1 + shift % 2);
        check(&across(b"", &blank, bad, shift), 1 + shift % 2);
    }
}

#[test]
fn many_chunks_give_the_same_whatever_the_threads() {
    let record = [BUSY, &[b'C'; 700], b"\n"].concat();
    let file: Vec<u8> = b">a\nACGT".iter().chain(record.iter().cycle().take(6 * CHUNK)).copied().collect();
    let one = scan(&file, 1);
    assert!(one.as_ref().is_ok_and(|found| found.len() > 30_000));
    for threads in [2, 3, 8] {
        assert!(scan(&file, threads) == one, "{threads} threads");
    }
}
