//! The scan finds what the reference finds, in whatever chunks.

use proptest::prelude::*;

use crate::generate::{bytes, cases, fasta, spoilt};
use crate::scanned::{Cut, expected, scan};

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn files_are_read_as_the_reference_reads_them(file in fasta(6, 200)) {
        let expected = expected(&file);
        prop_assert!(expected.is_ok());
        prop_assert_eq!(scan(&file, 1), expected);
    }

    #[test]
    fn files_with_a_few_wrong_bytes_are_refused_at_the_first(file in spoilt(4, 100)) {
        prop_assert_eq!(scan(&file, 1), expected(&file));
    }

    #[test]
    fn any_bytes_are_read_or_refused_as_by_the_reference(file in bytes(200)) {
        prop_assert_eq!(scan(&file, 1), expected(&file));
    }

    #[test]
    fn chunks_may_end_anywhere(file in fasta(4, 100), sizes in prop::collection::vec(1..90_u64, 1..6)) {
        prop_assert_eq!(scan(&Cut::new(&file, &sizes), 1), expected(&file));
    }

    #[test]
    fn chunks_of_any_bytes_may_end_anywhere(file in bytes(100), sizes in prop::collection::vec(1..30_u64, 1..6)) {
        prop_assert_eq!(scan(&Cut::new(&file, &sizes), 1), expected(&file));
    }
}

/// Every file of up to six of these bytes, in one chunk and in chunks of one byte: small worlds hide few bugs.
#[test]
fn all_short_files_are_read_as_the_reference_reads_them() {
    let alphabet = b">A\n\r \xff";
    for len in 0..=6_u32 {
        for code in 0..alphabet.len().pow(len) {
            let file: Vec<u8> = (0..len).map(|k| alphabet[code / alphabet.len().pow(k) % alphabet.len()]).collect();
            let expected = expected(&file);
            assert_eq!(scan(&file, 1), expected, "{file:?}");
            assert_eq!(scan(&Cut::new(&file, &[1]), 1), expected, "{file:?} in chunks of one byte");
        }
    }
}

/// Where the lines of a record differ in more than one way, it must not matter for the findings which lines come in
/// one chunk.
#[test]
fn what_is_uneven_does_not_depend_on_chunks() {
    let file = b">a\nACGTACGT\nACG\r\nACGT\n";
    let expected = expected(file);
    for size in 1..file.len() as u64 {
        assert_eq!(scan(&Cut::new(file, &[size]), 1), expected, "in chunks of {size}");
    }
}

#[test]
fn offences_are_found_where_they_are() {
    for (file, offset) in [
        (&b"ACGT\n"[..], 0),
        (b"\n\n@read\n", 2),
        (b" \tACGT\n", 2),
        (b" >a\n", 1),
        (b"\n\xef\xbb\xbf>a\n", 1),
        (b"\nAC\x80\n", 1),
        (b"\n\x80AC\n", 1),
        (b">a\nAC\0GT\n", 5),
        (b">a\nAC\x7f\n", 5),
        (b">a\nAC\xc3\xa9\n", 5),
        (b">a\xff\0\n", 2),
        (b">a\0\xff\n", 2),
        (b">a\n>\xc3\nACGT\0", 4),
        (b">a\rACGT\r>b\rAC\r", 2),
        (b">a b\rACGT", 4),
        (b">a\r\r\nAC\n>b\r\rx\n", 10),
        (b">a\r\0\n", 2),
    ] {
        let found = scan(&file.to_vec(), 1).expect_err("an offence");
        assert_eq!(found.offset, offset, "{:?}", String::from_utf8_lossy(file));
    }
}
