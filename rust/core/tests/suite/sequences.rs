//! Indexes over many files: damaged ones give errors or what they gave before; JSON is read as it was written.

use std::sync::OnceLock;

use proptest::collection::vec;
use proptest::prelude::*;
use seekset_core::index::Sequences;
use seekset_core::index::sequences::json::{self, JsonWriter};
use seekset_core::index::sequences::order::by_length;
use seekset_core::index::sequences::{Builder, Facts, FastaFile, Rows, Seen, Sequence, UNKNOWN_ROW};
use seekset_core::io::{Fingerprint, Store};
use seekset_core::watch::Unwatched;
use seekset_core::{Error, Result};

use crate::damage::damage;
use crate::generate::cases;

type Row = (String, Sequence);

fn facts() -> Facts {
    let fingerprint = Fingerprint { size: 12, mtime_ns: 1_700_000_000_123_456_789, sample: u64::MAX };
    let file = |path: &str, seen| FastaFile { path: path.to_owned(), seen };
    let files = vec![file("/a.fa", Seen::Fully(fingerprint)), file("b \"c\"é.fa", Seen::Time(1.5e9))];
    Facts { files, created: "2026-01-31T00:00:00Z".to_owned(), json: None }
}

fn sample() -> Vec<Row> {
    let row = |id: &str, length, file, row, byte_offset| (id.to_owned(), Sequence { length, file, row, byte_offset });
    vec![
        row("long", 1 << 40, 0, 0, 0),
        row("é", 70_000, 1, 1, 900),
        row("", 5, 0, 2, 77),
        row("long", 5, 1, 0, 3),
        row("e\"scaped\\\n", 0, 1, UNKNOWN_ROW, i64::MAX as u64),
    ]
}

fn builder_of(rows: &[Row]) -> Builder<'static> {
    let mut builder = Builder::new(&seekset_core::io::Spills::elsewhere(), &Unwatched, 0).expect("a builder");
    for some in rows.chunks(2) {
        let mut columns = Rows::default();
        for (id, sequence) in some {
            columns.push(id, sequence);
        }
        builder.take(&columns).expect("rows");
    }
    builder
}

fn index_of(rows: &[Row]) -> Vec<u8> {
    let mut bytes = Vec::new();
    builder_of(rows).finish(&facts(), &mut bytes).expect("an index");
    bytes
}

fn open(bytes: &[u8]) -> Result<Sequences> {
    Sequences::open(Store::memory(bytes))
}

fn rows_of(index: &Sequences) -> Vec<Row> {
    let row = |k| (index.id(k).expect("an id").to_owned(), index.sequence(k).expect("a sequence"));
    (0..index.len()).map(row).collect()
}

fn json_of(rows: &[Row]) -> Vec<u8> {
    let index = open(&index_of(rows)).expect("an index");
    let mut bytes = Vec::new();
    let mut writer = JsonWriter::new(&mut bytes, &facts(), index.len(), index.tokens()).expect("a writer");
    index.pass(|rows| writer.take(rows)).expect("rows");
    writer.finish().expect("an end");
    bytes
}

/// What is read of JSON, as an index.
fn read(bytes: &[u8]) -> Result<(json::Read, Sequences)> {
    let mut builder = Builder::new(&seekset_core::io::Spills::elsewhere(), &Unwatched, 0)?;
    let read = json::read(bytes, &mut |rows| builder.take(rows))?;
    let mut bytes = Vec::new();
    builder.finish(&Facts { files: read.files.clone(), created: read.created.clone(), json: None }, &mut bytes)?;
    Ok((read, open(&bytes)?))
}

fn sound() -> &'static [u8] {
    static SOUND: OnceLock<Vec<u8>> = OnceLock::new();
    SOUND.get_or_init(|| index_of(&sample()))
}

/// Touches all that `damaged` holds and compares what it has to say.
fn check(damaged: &[u8], what: &dyn std::fmt::Debug) {
    let Ok(index) = open(damaged) else { return };
    assert_eq!((index.facts(), index.len()), (&facts(), 5), "{what:?}");
    for (k, (id, sequence)) in (0..).zip(&sample()) {
        assert!(index.id(k).is_err() || index.id(k).is_ok_and(|found| found == id), "{what:?}: id {k}");
        let found = index.sequence(k);
        assert!(found.is_err() || found.is_ok_and(|found| found == *sequence), "{what:?}: sequence {k}");
    }
    let lengths: Vec<u64> = sample().iter().map(|(_, sequence)| sequence.length).collect();
    assert!(
        index.checked_lengths().is_err() || index.checked_lengths().is_ok_and(|found| found == lengths),
        "{what:?}"
    );
    let _ =
        (index.verify(), index.repeat(&seekset_core::io::Spills::elsewhere()), index.sequence(5), index.id(u64::MAX));
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let length = prop_oneof![0..20_u64, 65_530..65_540_u64, any::<u64>().prop_map(|n| n >> 8)];
    let row = (any::<String>(), length, 0..2_u32, any::<u64>(), any::<u64>().prop_map(|n| n >> 1));
    vec(row.prop_map(|(id, length, file, row, byte_offset)| (id, Sequence { length, file, row, byte_offset })), 0..40)
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn a_damaged_index_never_gives_another_answer(damage in vec(damage(), 1..4)) {
        let mut bytes = sound().to_vec();
        for damage in &damage {
            damage.apply(&mut bytes);
        }
        check(&bytes, &damage);
    }

    #[test]
    fn damaged_json_is_read_or_refused_with_a_place(damage in vec(damage(), 1..4)) {
        let mut bytes = json_of(&sample());
        for damage in &damage {
            damage.apply(&mut bytes);
        }
        match read(&bytes) {
            Ok((_, index)) => index.pass(|_| Ok(())).expect("rows that were just written"),
            Err(Error::Format { place, .. }) => prop_assert!(place.offset.is_none_or(|at| at <= bytes.len() as u64)),
            Err(other) => panic!("{other}"),
        }
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn rows_are_sorted_as_a_stable_sort_does(rows in rows()) {
        let index = open(&index_of(&rows)).expect("an index");
        let mut sorted = rows.clone();
        sorted.sort_by_key(|(_, sequence)| std::cmp::Reverse(sequence.length));
        let mut found = Vec::new();
        by_length(&[index.lengths()], &seekset_core::io::Spills::elsewhere(), |wanted, rows| index.read(wanted, rows), |rows| {
            let text = |id: &[u8]| String::from_utf8(id.to_vec()).expect("text");
            found.extend(rows.iter().map(|(id, sequence)| (text(id), sequence)));
            Ok(())
        }).expect("an order");
        prop_assert_eq!(found, sorted.clone());
        prop_assert_eq!(builder_of(&sorted).is_descending(), true);
        prop_assert_eq!(builder_of(&rows).is_descending(), rows == sorted);
    }

    #[test]
    fn json_is_read_as_it_was_written(rows in rows()) {
        let (found, index) = read(&json_of(&rows)).expect("an index");
        prop_assert_eq!((&found.files, &found.created), (&facts().files, &facts().created));
        let tokens = rows.iter().map(|(_, sequence)| sequence.length).sum::<u64>();
        prop_assert_eq!(found.totals, (rows.len() as u64, tokens));
        let unknown = |(id, sequence): &Row| (id.clone(), Sequence { row: UNKNOWN_ROW, ..*sequence });
        prop_assert_eq!(rows_of(&index), rows.iter().map(unknown).collect::<Vec<_>>());
        prop_assert_eq!(index.fingerprint(), open(&index_of(&rows)).expect("an index").fingerprint());
    }
}

#[test]
fn an_index_says_what_it_was_given() {
    let index = open(sound()).expect("an index");
    assert_eq!(rows_of(&index), sample());
    assert_eq!(index.tokens(), (1 << 40) + 70_010);
    assert_eq!(index.repeat(&seekset_core::io::Spills::elsewhere()).expect("a look"), Some((0, 3)));
    index.verify().expect("a sound index");
}

/// Every byte, changed in a few ways.
#[test]
fn no_single_byte_of_an_index_can_be_changed_unnoticed() {
    for at in 0..sound().len() {
        for mask in [1, 0x10, 0xff] {
            let mut bytes = sound().to_vec();
            bytes[at] ^= mask;
            check(&bytes, &(at, mask));
        }
    }
}

#[test]
fn an_index_cut_anywhere_is_refused() {
    for len in 0..sound().len() {
        assert!(open(&sound()[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn an_index_whose_rows_are_out_of_order_does_not_verify() {
    let mut rows = sample();
    rows.swap(0, 1);
    let error = open(&index_of(&rows)).expect("an index").verify().expect_err("another order");
    assert!(error.to_string().contains("not in the order of their lengths"), "{error}");
}

/// Where the fuzzers start from.
const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds");

/// A fuzzer that starts from indexes of another version would find nothing but that.
#[test]
fn the_seeds_of_the_fuzzers_are_indexes_of_this_version() {
    for seed in std::fs::read_dir(format!("{SEEDS}/sequences_open")).expect("a folder") {
        let bytes = std::fs::read(seed.expect("an entry").path()).expect("a file");
        open(&bytes).expect("an index; write the seeds again").verify().expect("a sound index");
    }
    let bytes = std::fs::read(format!("{SEEDS}/sequences_json/some")).expect("a file");
    assert_eq!(read(&bytes).expect("an index").1.len(), 5);
}

/// `cargo test -p seekset-core --test suite -- --ignored write_the_seeds`, after a change of the format.
#[test]
#[ignore = "it writes files that are committed"]
fn write_the_seeds_of_the_fuzzers() {
    let write = |name: &str, bytes: Vec<u8>| {
        let path = std::path::PathBuf::from(format!("{SEEDS}/{name}"));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("a seed");
    };
    write("sequences_open/none", index_of(&[]));
    write("sequences_open/some", sound().to_vec());
    write("sequences_json/none", json_of(&[]));
    write("sequences_json/some", json_of(&sample()));
    let other = r#"{"sequences":[{"byte_offset":1,"extra":[{}],"file_path":"a","length":2,"sequence_id":"\u00e9"}],
        "total_tokens":9,"total_sequences":9,"fasta_mtimes":{"a":-1.5e3},"created":"now","version":"1.0"}"#;
    write("sequences_json/by-hand", other.as_bytes().to_vec());
    write("sequences_json/cut", json_of(&sample())[..400].to_vec());
}
