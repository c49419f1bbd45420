//! TFRecord files by path: the handle, and indexes against their data.

use std::sync::Arc;

use seekset_core::index::idx::push_lines;
use seekset_core::io::Access;
use seekset_core::io::mapped::Mapped;
use seekset_core::scan::tfrecord::{survey, walk};
use seekset_core::tfrecord::{Ensured, OpenOptions, Rows, TfRecordFile, ensure_index, write_index_for_stream};
use seekset_core::watch::Unwatched;
use seekset_core::{Error, Result, Verify, read_index_file, write_index_for_tfrecord_file};

use crate::records::{Folder, entries, record, records, text};

const PAYLOADS: [&[u8]; 4] = [b"one", b"", b"three", b"fourfour"];
const LINES: &str = "0 19\n19 16\n35 21\n56 24\n";

fn four() -> Folder {
    Folder::new(&records(&PAYLOADS))
}

fn every_way() -> impl Iterator<Item = OpenOptions> {
    let verifies = [Verify::None, Verify::Lengths, Verify::Full];
    let accesses = [Access::Mmap, Access::Pread];
    verifies.into_iter().flat_map(move |verify| {
        accesses.into_iter().map(move |access| OpenOptions { verify, access, ..OpenOptions::default() })
    })
}

fn open(folder: &Folder) -> Result<TfRecordFile> {
    TfRecordFile::open(&folder.data(), &OpenOptions::default())
}

fn open_with(folder: &Folder, index: &str) -> Result<TfRecordFile> {
    let path = folder.path("given.idx");
    std::fs::write(&path, index).expect("a file");
    TfRecordFile::open(&folder.data(), &OpenOptions { rows: Rows::Index(path), ..OpenOptions::default() })
}

fn all(file: &TfRecordFile) -> Vec<Vec<u8>> {
    (0..file.len()).map(|row| file.payload(row).expect("a payload")).collect()
}

// --- the handle -------------------------------------------------------------------------------------------------

#[test]
fn payloads_are_read_by_row_one_at_a_time_and_together() {
    let folder = four();
    for options in every_way() {
        let file = TfRecordFile::open(&folder.data(), &options).expect("a file");
        assert_eq!(all(&file), PAYLOADS);
        let rows = [3, 0, 1, 3, 2];
        let expected: Vec<&[u8]> = rows.iter().map(|&row| PAYLOADS[row as usize]).collect();
        file.with_payloads(&rows, |payloads| {
            assert_eq!(payloads, expected);
            Ok(())
        })
        .expect("payloads");
        let (store, range) = file.view(2).expect("a view");
        assert_eq!(&store.bytes()[range], b"three");
        assert!(matches!(file.payload(4), Err(Error::RowOutOfRange { row: 4, rows: 4 })));
        assert!(matches!(file.with_payloads(&[0, 9], |_| Ok(())), Err(Error::RowOutOfRange { row: 9, rows: 4 })));
    }
    assert_eq!(folder.names(), ["x.tfrecord"], "nothing is written");
}

#[test]
fn a_batch_large_enough_for_threads_comes_in_the_order_asked() {
    let payloads: Vec<Vec<u8>> = (0..5000_usize).map(|k| vec![k as u8; k % 97]).collect();
    let folder = Folder::new(&payloads.iter().flat_map(|payload| record(payload)).collect::<Vec<u8>>());
    let rows: Vec<u64> = (0..5000).map(|k| k * 2357 % 5000).collect();
    for options in every_way() {
        let file = TfRecordFile::open(&folder.data(), &options).expect("a file");
        file.with_payloads(&rows, |found| {
            assert!(rows.iter().zip(found).all(|(&row, found)| *found == payloads[row as usize]));
            Ok(())
        })
        .expect("payloads");
    }
}

#[test]
fn of_several_damaged_payloads_in_a_batch_one_is_told_with_its_place() {
    let mut bytes: Vec<u8> = (0..5000_u32).flat_map(|k| record(&k.to_le_bytes().repeat(9))).collect();
    for row in [1234, 4000] {
        bytes[row * 52 + 20] ^= 1;
    }
    let folder = Folder::new(&bytes);
    let rows: Vec<u64> = (0..5000).collect();
    for options in every_way() {
        let file = TfRecordFile::open(&folder.data(), &options).expect("a file");
        let read = file.with_payloads(&rows, |_| Ok(()));
        if options.verify == Verify::Full {
            let message = read.expect_err("damage").to_string();
            assert!(message.contains("x.tfrecord: record 1234, byte 64168: the payload's checksum"), "{message}");
            assert!(matches!(file.payload(4000), Err(Error::Corrupt { .. })));
        } else {
            read.expect("payloads");
        }
    }
}

#[test]
fn an_empty_file_has_no_rows() {
    let folder = Folder::new(b"");
    for options in every_way() {
        let file = TfRecordFile::open(&folder.data(), &options).expect("a file");
        assert!(file.is_empty() && file.with_payloads(&[], |none| Ok(none.is_empty())).expect("nothing"));
    }
    assert_eq!(write_index_for_tfrecord_file(&folder.data(), &folder.index(), Verify::Full).expect("an index"), 0);
    assert_eq!(text(&folder.index()), "");
    assert!(open(&folder).expect("a file").is_empty());
}

#[test]
fn a_file_that_changes_while_it_is_open_is_stale() {
    for access in [Access::Mmap, Access::Pread] {
        let folder = four();
        let options = OpenOptions { access, ..OpenOptions::default() };
        let file = TfRecordFile::open(&folder.data(), &options).expect("a file");
        std::fs::write(folder.data(), records(&PAYLOADS[..2])).expect("a file");
        assert!(matches!(file.with_payloads(&[0], |_| Ok(())), Err(Error::Stale { .. })), "{access:?}");
        let file = TfRecordFile::open(&folder.data(), &options).expect("a file");
        std::fs::remove_file(folder.data()).expect("a file");
        assert!(matches!(file.with_payloads(&[0], |_| Ok(())), Err(Error::Stale { .. })), "{access:?}");
    }
}

#[test]
fn a_missing_file_is_the_systems_error() {
    let folder = four();
    let missing = folder.path("missing");
    for error in [
        TfRecordFile::open(&missing, &OpenOptions::default()).err(),
        write_index_for_tfrecord_file(&missing, &folder.index(), Verify::Lengths).err(),
        ensure_index(&missing, &folder.index(), Verify::Lengths, &Unwatched).err(),
        read_index_file(&missing).err(),
        TfRecordFile::open(
            &folder.data(),
            &OpenOptions { rows: Rows::Index(missing.clone()), ..OpenOptions::default() },
        )
        .err(),
    ] {
        let Some(Error::Io { path, source }) = error else { panic!("{error:?}") };
        assert_eq!((path, source.kind()), (Some(missing.clone()), std::io::ErrorKind::NotFound));
    }
}

// --- indexes against their data ---------------------------------------------------------------------------------

#[test]
fn an_index_beside_its_file_is_used() {
    let folder = four();
    assert_eq!(open(&folder).expect("a file").index_path(), None);
    std::fs::write(folder.index(), LINES).expect("a file");
    let file = open(&folder).expect("a file");
    assert_eq!((file.index_path(), all(&file).len()), (Some(&*folder.index()), 4));
    let walk = OpenOptions { rows: Rows::Walk, ..OpenOptions::default() };
    assert_eq!(TfRecordFile::open(&folder.data(), &walk).expect("a file").index_path(), None);
}

#[test]
fn the_rows_of_an_index_are_the_rows_of_the_handle() {
    for (index, rows) in [
        ("", &[][..]),
        (LINES, &[0, 1, 2, 3]),
        ("56 24\n35 21\n19 16\n0 19\n", &[3, 2, 1, 0]),
        ("35 21\n", &[2]),
        ("0 19\n", &[0]),
        ("0 19\n35 21\n", &[0, 2]),
        ("35 21\n0 19\n35 21\n", &[2, 0, 2]),
    ] {
        let folder = four();
        let file = open_with(&folder, index).expect(index);
        let expected: Vec<&[u8]> = rows.iter().map(|&row| PAYLOADS[row as usize]).collect();
        assert_eq!(all(&file), expected, "{index:?}");
    }
}

#[test]
fn an_index_that_does_not_fit_is_stale_beside_its_file_and_given() {
    for (index, words) in [
        ("0 19\n19 16\n35 21\n56 25\n", "row 3 has a record of 25 bytes at byte 56, but the file has 80 bytes"),
        ("80 16\n", "the file has 80 bytes"),
        ("9223372036854775807 9223372036854775807\n", "the file has 80 bytes"),
        ("0 15\n", "row 0 has a record of 15 bytes"),
        ("0 0\n", "row 0 has a record of 0 bytes"),
        ("0 20\n", "row 0 has a record of 20 bytes at byte 0, but the data states a payload of 3 bytes there"),
        ("1 19\n", "row 0 has a record of 19 bytes at byte 1"),
        ("0 19\n19 37\n56 24\n", "row 1 has a record of 37 bytes at byte 19, but the data states a payload of 0 bytes"),
        ("0 40\n40 40\n", "row 0 has a record of 40 bytes"),
    ] {
        let folder = four();
        for opened in [open_with(&folder, index), {
            std::fs::write(folder.index(), index).expect("a file");
            open(&folder)
        }] {
            let error = opened.err().unwrap_or_else(|| panic!("{index:?}"));
            assert!(matches!(error, Error::Stale { .. }), "{error}");
            assert!(error.to_string().contains(words) && error.to_string().contains("x.tfrecord"), "{error}");
        }
    }
}

#[test]
fn an_index_beside_its_file_that_ends_early_is_stale() {
    for index in ["", "0 19\n", "0 19\n19 16\n35 21\n"] {
        let folder = four();
        std::fs::write(folder.index(), index).expect("a file");
        let message = open(&folder).err().expect("an error").to_string();
        assert!(message.contains("but the file has 80 bytes") && message.contains("x.tfrecord.idx"), "{message}");
    }
}

#[test]
fn a_row_between_the_sampled_ones_that_does_not_fit_is_noticed_when_it_is_read() {
    let payloads: Vec<Vec<u8>> = (0..1000_usize).map(|k| vec![7; k % 5]).collect();
    let bytes: Vec<u8> = payloads.iter().flat_map(|payload| record(payload)).collect();
    let mut places = seekset_core::index_entries_from_bytes(&bytes, Verify::Full).expect("entries");
    places[501].offset -= 1;
    let mut index = Vec::new();
    push_lines(&mut index, &places);
    let folder = Folder::new(&bytes);
    let file = open_with(&folder, std::str::from_utf8(&index).expect("text")).expect("a file");
    assert_eq!(file.payload(500).expect("a payload"), payloads[500]);
    assert!(matches!(file.payload(501), Err(Error::Stale { .. })));
    assert!(matches!(file.with_payloads(&[500, 501], |_| Ok(())), Err(Error::Stale { .. })));
}

#[test]
fn an_index_that_is_none_is_refused_with_its_line() {
    let folder = four();
    std::fs::write(folder.index(), "0 19\nnonsense\n").expect("a file");
    let message = open(&folder).err().expect("an error").to_string();
    assert!(message.contains("x.tfrecord.idx: line 2: expected a number, found 'nonsense'"), "{message}");
}

// --- writing ----------------------------------------------------------------------------------------------------

#[test]
fn an_index_is_written_in_file_order_and_replaces_an_old_one() {
    let folder = four();
    for old in [None, Some("0 5\n"), Some("")] {
        if let Some(old) = old {
            std::fs::write(folder.index(), old).expect("a file");
        }
        for verify in [Verify::None, Verify::Lengths, Verify::Full] {
            assert_eq!(write_index_for_tfrecord_file(&folder.data(), &folder.index(), verify).expect("an index"), 4);
            assert_eq!(text(&folder.index()), LINES);
        }
    }
    let bytes = records(&PAYLOADS);
    assert_eq!(
        write_index_for_stream(&bytes[..], "<stdin>", &folder.path("s.idx"), Verify::Full).expect("an index"),
        4
    );
    assert_eq!(text(&folder.path("s.idx")), LINES);
    assert_eq!(folder.names(), ["s.idx", "x.tfrecord", "x.tfrecord.idx"]);
}

#[test]
fn a_failure_leaves_an_old_index_as_it_was_and_nothing_else() {
    let bad: [Vec<u8>; 4] = [
        vec![0; 64],
        [records(&PAYLOADS), vec![1; 5]].concat(),
        records(&PAYLOADS)[..70].to_vec(),
        (0..9000).flat_map(|_| record(b"many")).chain([1]).collect(),
    ];
    for bytes in bad {
        for old in [None, Some("0 19\n")] {
            let folder = Folder::new(&bytes);
            if let Some(old) = old {
                std::fs::write(folder.index(), old).expect("a file");
            }
            let before = folder.names();
            let error = write_index_for_tfrecord_file(&folder.data(), &folder.index(), Verify::Lengths).err();
            assert!(matches!(error, Some(Error::Corrupt { path: Some(_), .. })), "{error:?}");
            assert!(write_index_for_stream(&bytes[..], "<stdin>", &folder.index(), Verify::Lengths).is_err());
            assert_eq!(folder.names(), before);
            assert_eq!(old.map(|_| text(&folder.index())).as_deref(), old);
        }
    }
}

#[test]
fn what_is_no_index_is_not_replaced_by_one() {
    let folder = four();
    std::fs::write(folder.path("notes.txt"), "dear diary\n").expect("a file");
    for out in [folder.path("notes.txt"), folder.data()] {
        let before = std::fs::read(&out).expect("a file");
        let error = write_index_for_tfrecord_file(&folder.data(), &out, Verify::Lengths).expect_err("a refusal");
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        assert_eq!(std::fs::read(&out).expect("a file"), before);
    }
}

#[test]
fn an_index_is_made_only_if_none_fits() {
    let folder = four();
    let ensure = || ensure_index(&folder.data(), &folder.index(), Verify::Lengths, &Unwatched).expect("an index");
    assert_eq!(ensure(), Ensured::Built { because: None });
    assert_eq!(ensure(), Ensured::Found);
    for (index, expected) in [
        (LINES, Ensured::Found),
        ("0\t19\r\n19 16\r\n35 21\r\n56 24", Ensured::Found),
        ("35 21\n", Ensured::Own),
        ("56 24\n35 21\n19 16\n0 19\n", Ensured::Own),
        ("0 19\n0 19\n19 16\n35 21\n56 24\n", Ensured::Own),
    ] {
        std::fs::write(folder.index(), index).expect("a file");
        assert_eq!(ensure(), expected, "{index:?}");
        assert_eq!(text(&folder.index()), index, "left as it is");
    }
    for index in ["", "0 19\n", "0 20\n20 60\n", "0 19\nx\n", "0 19\n19 16\n35 21\n56 24\n80 16\n", "35 22\n"] {
        std::fs::write(folder.index(), index).expect("a file");
        assert!(matches!(ensure(), Ensured::Built { because: Some(_) }), "{index:?}");
        assert_eq!(text(&folder.index()), LINES);
    }
}

#[test]
fn an_index_is_made_again_when_its_file_has_grown_shrunk_or_changed() {
    let folder = four();
    let ensure = || ensure_index(&folder.data(), &folder.index(), Verify::Lengths, &Unwatched).expect("an index");
    ensure();
    for payloads in [&[&b"one"[..], b"", b"three", b"fourfour", b"5"][..], &PAYLOADS[..2], &[b"other", b"r"]] {
        std::fs::write(folder.data(), records(payloads)).expect("a file");
        assert!(matches!(ensure(), Ensured::Built { because: Some(_) }));
        assert_eq!(ensure(), Ensured::Found);
        assert_eq!(all(&open(&folder).expect("a file")), payloads);
    }
    // The same places with other bytes in them: the index still fits.
    std::fs::write(folder.data(), records(&[b"OTHER", b"R"])).expect("a file");
    assert_eq!(ensure(), Ensured::Found);
}

#[test]
fn entries_are_read_back_as_they_were_written() {
    let folder = four();
    write_index_for_tfrecord_file(&folder.data(), &folder.index(), Verify::Lengths).expect("an index");
    assert_eq!(read_index_file(&folder.index()).expect("entries"), entries(&[(0, 19), (19, 16), (35, 21), (56, 24)]));
}

// --- files that are cut while they are walked -------------------------------------------------------------------

/// Payloads of several blocks, the first of them damaged if asked for, in a file that is mapped.
fn long(damaged: bool) -> (Folder, Arc<Mapped>) {
    let mut bytes = record(b"a payload").repeat(20_000);
    bytes[12] ^= u8::from(damaged);
    let folder = Folder::new(&bytes);
    let mapped = Mapped::open(&folder.data()).expect("a file");
    (folder, mapped)
}

fn cut(folder: &Folder) {
    std::fs::File::options().write(true).open(folder.data()).and_then(|file| file.set_len(0)).expect("a shorter file");
}

#[test]
fn a_file_that_is_cut_while_it_is_walked_is_an_error_and_no_bus_error() {
    for verify in [Verify::None, Verify::Lengths, Verify::Full] {
        let (folder, mapped) = long(false);
        let walked = walk(&*mapped, verify, &Unwatched, &mut |_| {
            cut(&folder);
            Ok(())
        });
        assert!(matches!(walked, Err(Error::Stale { .. })), "{walked:?}");
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_surveyed_is_an_error_and_no_bus_error() {
    let (folder, mapped) = long(true);
    let surveyed = survey(&*mapped, &Unwatched, &mut |_| cut(&folder));
    assert!(matches!(surveyed, Err(Error::Stale { .. })), "{surveyed:?}");
}
