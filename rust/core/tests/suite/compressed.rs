//! TFRecord files that are compressed as a whole: the same rows as in plain ones, through an index beside them.

use std::fs;

use seekset_core::io::deflate::Kind;
use seekset_core::io::{Access, Origin};
use seekset_core::tfrecord::{OpenOptions, Rows, decompress, ensure_index, survey_file};
use seekset_core::watch::Unwatched;
use seekset_core::{Error, Result, TfRecordFile, Verify, write_index_for_tfrecord_file};

use crate::deflate::packed;
use crate::records::{Folder, records};

const PAYLOADS: [&[u8]; 4] = [b"one", b"", b"three", b"fourfour"];
const KINDS: [Kind; 2] = [Kind::Gzip, Kind::Zlib];

fn four(kind: Kind) -> Folder {
    Folder::new(&packed(kind, &records(&PAYLOADS), 6, 30))
}

fn open(folder: &Folder, options: &OpenOptions) -> Result<TfRecordFile> {
    TfRecordFile::open(&folder.data(), options)
}

fn all(file: &TfRecordFile) -> Vec<Vec<u8>> {
    (0..file.len()).map(|row| file.payload(row).expect("a payload")).collect()
}

fn refused(result: Result<TfRecordFile>) -> Error {
    result.err().expect("an error")
}

#[test]
fn payloads_are_read_by_row_one_at_a_time_and_together() {
    for kind in KINDS {
        for access in [Access::Mmap, Access::Pread] {
            for verify in [Verify::None, Verify::Lengths, Verify::Full] {
                let folder = four(kind);
                let file = open(&folder, &OpenOptions { access, verify, ..OpenOptions::default() }).expect("a file");
                assert_eq!((file.len(), file.compression()), (4, Some(kind)));
                assert_eq!(all(&file), PAYLOADS);
                assert_eq!(file.entry(2).expect("a row").offset, 35);
                let (store, range) = file.view(3).expect("a view");
                assert_eq!(&store.bytes()[range], b"fourfour");
                let joined = file.with_payloads(&[3, 0, 3, 1], |payloads| Ok(payloads.concat())).expect("payloads");
                assert_eq!(joined, b"fourfouronefourfour");
                assert!(matches!(file.payload(4), Err(Error::RowOutOfRange { row: 4, rows: 4 })));
            }
        }
    }
}

#[test]
fn many_records_over_many_points_come_in_the_order_asked() {
    let payload = |row: u64| (0..row % 700).map(|k| (row * 7 + k * k) as u8).collect::<Vec<u8>>();
    let plain: Vec<Vec<u8>> = (0..30_000).map(payload).collect();
    let bytes = records(&plain.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let folder = Folder::new(&packed(Kind::Gzip, &bytes, 1, 500_000));
    let file = open(&folder, &OpenOptions::default()).expect("a file");
    let rows: Vec<u64> = (0..300).map(|k| k * 7919 % 30_000).collect();
    let found = file.with_payloads(&rows, |payloads| Ok(payloads.iter().map(|p| p.to_vec()).collect::<Vec<_>>()));
    let expected: Vec<Vec<u8>> = rows.iter().map(|&row| payload(row)).collect();
    assert!(found.expect("payloads") == expected);
}

#[test]
fn the_index_is_made_once_and_again_when_the_file_has_changed() {
    for kind in KINDS {
        let folder = four(kind);
        let origin = || open(&folder, &OpenOptions::default()).expect("a file").origin().cloned();
        assert_eq!(origin(), Some(Origin::Built { because: None }));
        assert_eq!(origin(), Some(Origin::Found));
        assert_eq!(folder.names(), ["x.tfrecord", "x.tfrecord.zidx"]);
        fs::write(folder.data(), packed(kind, &records(&[b"other"]), 6, 30)).expect("a file");
        let file = open(&folder, &OpenOptions::default()).expect("a file");
        let Some(Origin::Built { because: Some(because) }) = file.origin() else { panic!("{:?}", file.origin()) };
        assert!(because.contains("the file has changed since it was indexed: its size was"), "{because}");
        assert_eq!(all(&file), [b"other"]);
        assert_eq!(file.index_path(), Some(&*folder.path("x.tfrecord.zidx")));
    }
}

#[test]
fn an_index_that_is_damaged_or_of_another_file_is_made_again() {
    let folder = four(Kind::Gzip);
    open(&folder, &OpenOptions::default()).expect("a file");
    let index = folder.path("x.tfrecord.zidx");
    let whole = fs::read(&index).expect("an index");
    let other = four(Kind::Zlib);
    open(&other, &OpenOptions::default()).expect("a file");
    let other = fs::read(other.path("x.tfrecord.zidx")).expect("an index");
    let mut flipped = whole.clone();
    *flipped.last_mut().expect("a byte") ^= 1;
    for damaged in [&whole[..whole.len() - 1], &whole[..7], b"", b"SEEKZIDX", &flipped, &other] {
        fs::write(&index, damaged).expect("a file");
        let kept = refused(open(&folder, &OpenOptions { keep: true, ..OpenOptions::default() }));
        assert!(matches!(kept, Error::Stale { .. }), "{kept}");
        assert_eq!(fs::read(&index).expect("a file"), damaged);
        let file = open(&folder, &OpenOptions::default()).expect("a file");
        assert!(matches!(file.origin(), Some(Origin::Built { because: Some(_) })));
        assert_eq!(all(&file), PAYLOADS);
        assert_eq!(fs::read(&index).expect("an index"), whole);
    }
    // In the middle it is noticed where it matters.
    for at in 16..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&index, damaged).expect("a file");
        let file = open(&folder, &OpenOptions::default()).expect("a file");
        for (row, expected) in PAYLOADS.iter().enumerate() {
            match file.payload(row as u64) {
                Ok(found) => assert_eq!(&found, expected),
                Err(error) => assert!(error.to_string().contains(".zidx is damaged"), "{error}"),
            }
        }
    }
}

#[test]
fn without_leave_to_build_a_missing_index_is_an_error() {
    let folder = four(Kind::Gzip);
    let error = refused(open(&folder, &OpenOptions { keep: true, ..OpenOptions::default() }));
    assert!(
        matches!(error, Error::Stale { .. }) && error.to_string().ends_with("can't be used: there is none"),
        "{error}"
    );
    assert_eq!(folder.names(), ["x.tfrecord"]);
}

#[test]
fn an_index_that_cannot_be_written_is_kept_in_memory() {
    let folder = four(Kind::Gzip);
    // A name that leaves no room for more letters.
    let path = folder.path(&"x".repeat(252));
    fs::rename(folder.data(), &path).expect("a file");
    let file = TfRecordFile::open(&path, &OpenOptions::default()).expect("a file");
    assert!(matches!(file.origin(), Some(Origin::Memory { .. })));
    assert_eq!((all(&file), file.index_path()), (PAYLOADS.map(<[u8]>::to_vec).to_vec(), None));
    assert_eq!(folder.names().len(), 1);
}

#[test]
fn a_walk_looks_at_no_index_and_writes_none() {
    let folder = four(Kind::Zlib);
    fs::write(folder.path("x.tfrecord.zidx"), b"mine").expect("a file");
    let file = open(&folder, &OpenOptions { rows: Rows::Walk, ..OpenOptions::default() }).expect("a file");
    assert_eq!((all(&file).len(), file.origin(), file.index_path()), (4, None, None));
    assert_eq!(fs::read(folder.path("x.tfrecord.zidx")).expect("a file"), b"mine");
}

#[test]
fn rows_may_come_from_an_index_of_the_uncompressed_data() {
    let folder = four(Kind::Zlib);
    fs::write(folder.index(), "35 21\n0 19\n").expect("a file");
    let rows = Rows::Index(folder.index());
    let file = open(&folder, &OpenOptions { rows, ..OpenOptions::default() }).expect("a file");
    assert_eq!(all(&file), [&b"three"[..], b"one"]);
}

#[test]
fn a_file_that_is_cut_or_damaged_is_refused_and_leaves_nothing() {
    for kind in KINDS {
        let whole = packed(kind, &records(&PAYLOADS), 6, 30);
        for cut in 3..whole.len() {
            let folder = Folder::new(&whole[..cut]);
            let error = refused(open(&folder, &OpenOptions::default()));
            assert!(
                matches!(error, Error::Corrupt { .. }) && error.to_string().contains("cut short"),
                "{cut}: {error}"
            );
            assert_eq!(folder.names(), ["x.tfrecord"]);
        }
        for at in 3..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x40;
            let folder = Folder::new(&damaged);
            match open(&folder, &OpenOptions::default()) {
                Ok(file) => assert_eq!(all(&file), PAYLOADS),
                Err(_) => assert_eq!(folder.names(), ["x.tfrecord"]),
            }
        }
    }
}

#[test]
fn what_is_wrong_with_records_is_told_with_record_and_place() {
    let mut plain = records(&PAYLOADS);
    plain[19] ^= 1; // the length of record 1
    let folder = Folder::new(&packed(Kind::Gzip, &plain, 6, 30));
    let error = refused(open(&folder, &OpenOptions::default())).to_string();
    assert!(error.contains("x.tfrecord: record 1, byte 19: the length's checksum does not fit"), "{error}");
    let mut plain = records(&PAYLOADS);
    plain[12] ^= 1; // the payload of record 0
    plain[47] ^= 1; // the payload of record 2
    let folder = Folder::new(&packed(Kind::Zlib, &plain, 6, 30));
    let mut faults = Vec::new();
    let records =
        survey_file(&folder.data(), &Unwatched, &mut |fault| faults.push(fault.to_string())).expect("records");
    assert_eq!((records, faults.len()), (4, 2));
    assert!(
        faults[0].contains("record 0, byte 0: the payload's") && faults[1].contains("record 2, byte 35"),
        "{faults:?}"
    );
}

#[test]
fn no_index_for_dali_is_made_of_a_compressed_file() {
    for kind in KINDS {
        for verify in [Verify::None, Verify::Lengths, Verify::Full] {
            let folder = four(kind);
            let written = write_index_for_tfrecord_file(&folder.data(), &folder.index(), verify).map(drop);
            let ensured = ensure_index(&folder.data(), &folder.index(), verify, &Unwatched).map(drop);
            for error in [written, ensured].map(|result| result.expect_err("a compressed file").to_string()) {
                assert!(error.contains("DALI") && error.contains("seekset tfrecord decompress"), "{error}");
                assert!(error.contains(kind.name()) && error.contains("x.tfrecord"), "{error}");
            }
            assert_eq!(folder.names(), ["x.tfrecord"]);
        }
    }
}

#[test]
fn decompressing_writes_what_was_compressed_and_its_index() {
    for kind in KINDS {
        let folder = four(kind);
        let (out, index) = (folder.path("plain"), folder.path("plain.idx"));
        let run = |replace| decompress(&folder.data(), &out, Some(&index), Verify::Full, replace, &Unwatched);
        assert_eq!(run(false).expect("records"), 4);
        assert_eq!(fs::read(&out).expect("a file"), records(&PAYLOADS));
        assert_eq!(fs::read_to_string(&index).expect("a file"), "0 19\n19 16\n35 21\n56 24\n");
        assert!(
            matches!(run(false), Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists)
        );
        assert_eq!(run(true).expect("records"), 4);
        let itself = decompress(&folder.data(), &folder.data(), None, Verify::Full, true, &Unwatched);
        assert!(matches!(itself, Err(Error::Io { .. })));
    }
}

#[test]
fn what_cannot_be_decompressed_leaves_nothing() {
    let whole = packed(Kind::Gzip, &records(&PAYLOADS), 6, 30);
    let mut wrong = records(&PAYLOADS);
    wrong[12] ^= 1;
    for (bytes, word) in [
        (whole[..whole.len() - 5].to_vec(), "cut short"),
        ([&whole[..], b"x"].concat(), "belong to nothing"),
        (packed(Kind::Gzip, &wrong, 6, 30), "record 0, byte 0: the payload's checksum"),
        (records(&PAYLOADS), "found one that is not"),
        (Vec::new(), "found one that is not"),
    ] {
        let folder = Folder::new(&bytes);
        let (out, index) = (folder.path("plain"), folder.path("plain.idx"));
        let result = decompress(&folder.data(), &out, Some(&index), Verify::Full, false, &Unwatched);
        let error = result.expect_err("a damaged file").to_string();
        assert!(error.contains(word), "{error}");
        assert_eq!(folder.names(), ["x.tfrecord"]);
    }
}

/// 40 056 is 0x9c78, 559 903 is 0x088b1f.
#[test]
fn a_plain_record_that_starts_like_a_compressed_file_is_a_record() {
    for length in [40_056, 559_903] {
        let plain = records(&[&vec![7; length]]);
        let mut unchecked = plain.clone();
        unchecked[8..12].fill(0);
        for (bytes, verify) in [(&plain, Verify::Lengths), (&plain, Verify::None), (&unchecked, Verify::None)] {
            let folder = Folder::new(bytes);
            let file = open(&folder, &OpenOptions { verify, ..OpenOptions::default() }).expect("a file");
            assert_eq!((file.len(), file.compression()), (1, None));
            assert_eq!(folder.names(), ["x.tfrecord"]);
        }
    }
}

#[test]
fn no_records_compressed_are_no_records() {
    for kind in KINDS {
        let folder = Folder::new(&packed(kind, b"", 6, 30));
        let file = open(&folder, &OpenOptions::default()).expect("a file");
        assert!(file.is_empty() && file.payload(0).is_err());
        assert_eq!(
            decompress(&folder.data(), &folder.path("plain"), None, Verify::Full, false, &Unwatched).expect("none"),
            0
        );
        assert_eq!(fs::read(folder.path("plain")).expect("a file"), b"");
    }
}

#[test]
fn a_file_that_changes_while_it_is_open_is_stale() {
    let folder = four(Kind::Gzip);
    let file = open(&folder, &OpenOptions::default()).expect("a file");
    fs::write(folder.data(), b"shorter").expect("a file");
    let error = file.with_payloads(&[0], |payloads| Ok(payloads.len())).expect_err("a change");
    assert!(matches!(error, Error::Stale { .. }), "{error}");
}
