//! gzip and zlib files read at random as what was compressed, and damage to them or to their index is never read as
//! something else.

use std::io::{Read, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use seekset_core::io::deflate::{Deflate, Inflating, Kind, detect};
use seekset_core::io::mapped::Mapped;
use seekset_core::io::store::Store;
use seekset_core::io::zidx::{Builder, CHUNK, SPACING, Starts, Zidx};
use seekset_core::io::{Fingerprint, Scratch, Source, Spills};
use seekset_core::watch::Unwatched;
use seekset_core::{Error, Result};

use crate::generate::cases;

const FINGERPRINT: Fingerprint = Fingerprint { size: 1 << 20, mtime_ns: -2, sample: 3 };

/// `data` as one gzip member or zlib stream, with a new block at least every `block` bytes.
pub fn packed(kind: Kind, data: &[u8], level: u32, block: usize) -> Vec<u8> {
    fn write(mut out: impl Write, data: &[u8], block: usize) {
        for piece in data.chunks(block.max(1)) {
            out.write_all(piece).expect("memory");
            out.flush().expect("memory");
        }
    }
    let level = Compression::new(level);
    match kind {
        Kind::Gzip => {
            let mut out = GzEncoder::new(Vec::new(), level);
            write(&mut out, data, block);
            out.finish().expect("memory")
        }
        Kind::Zlib => {
            let mut out = ZlibEncoder::new(Vec::new(), level);
            write(&mut out, data, block);
            out.finish().expect("memory")
        }
    }
}

/// The bytes of the index of a file, whose records start at `starts`.
fn index_of(file: &[u8], kind: Kind, spacing: u64, starts: &[u64]) -> Result<Vec<u8>> {
    let raw = file.to_vec();
    let spills = Spills::elsewhere();
    let mut builder = Builder::new(&spills, spacing);
    Inflating::new(&raw, kind, &Unwatched)?.into_index(&mut builder).finish()?;
    let mut rows = Starts::new(&spills);
    starts.iter().try_for_each(|&start| rows.push(start))?;
    let mut bytes = Vec::new();
    builder.finish(kind, &FINGERPRINT, rows, &mut bytes, &Unwatched)?;
    Ok(bytes)
}

fn with_index(file: &[u8], index: &[u8]) -> Result<Deflate> {
    Ok(Deflate::new(Arc::new(file.to_vec()), Arc::new(Zidx::open(Store::memory(index))?)))
}

fn open(file: &[u8], kind: Kind, spacing: u64) -> Result<Deflate> {
    with_index(file, &index_of(file, kind, spacing, &[])?)
}

fn all(source: &dyn Source) -> Result<Vec<u8>> {
    source.bytes(0..source.len(), &mut Scratch::default()).map(<[u8]>::to_vec)
}

/// All of it, read front to back by the one pass.
fn inflated(file: &[u8], kind: Kind) -> Result<Vec<u8>> {
    let raw = file.to_vec();
    let mut out = Vec::new();
    Inflating::new(&raw, kind, &Unwatched)?.read_to_end(&mut out)?;
    Ok(out)
}

/// Bytes that compress to about a half and hardly repeat, so that every chunk differs from every other.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let step = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        b"ACGTacgtNnRYKMSW"[(*state >> 60) as usize]
    };
    (0..len).map(|_| step(&mut state)).collect()
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Gzip), Just(Kind::Zlib)]
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(prop::sample::select(b"ACGT\n>".to_vec()), 0..2000),
        vec(any::<u8>(), 0..2000),
        (vec(any::<u8>(), 1..40), 0..4000_usize).prop_map(|(piece, times)| piece.repeat(times)),
        (0..150_000_usize).prop_map(noise),
    ]
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn any_range_holds_the_bytes_that_were_compressed(
        data in data(),
        kind in kinds(),
        level in 0..=9_u32,
        block in prop_oneof![Just(usize::MAX), 100..50_000_usize],
        spacing in prop_oneof![Just(1_u64), 500..200_000_u64, Just(SPACING)],
        ranges in vec((any::<Index>(), any::<Index>(), any::<bool>()), 1..20),
    ) {
        let file = packed(kind, &data, level, block);
        prop_assert_eq!(detect(&file), Some(kind));
        prop_assert!(inflated(&file, kind).expect("bytes") == data);
        let source = open(&file, kind, spacing).expect("a compressed file");
        prop_assert_eq!(source.len(), data.len() as u64);
        prop_assert!(all(&source).expect("bytes") == data);
        let mut scratch = Scratch::default();
        for (a, b, fresh) in ranges {
            let (a, b) = (a.index(data.len() + 1), b.index(data.len() + 1));
            let (from, to) = (a.min(b), a.max(b));
            let mut other = Scratch::default();
            let scratch = if fresh { &mut other } else { &mut scratch };
            let found = source.bytes(from as u64..to as u64, scratch).expect("bytes");
            prop_assert!(found == &data[from..to], "{from}..{to}");
        }
        prop_assert!(source.bytes(0..data.len() as u64 + 1, &mut scratch).is_err());
    }

    #[test]
    fn members_that_follow_each_other_are_one_file(
        parts in vec(data(), 1..5),
        level in 0..=9_u32,
        spacing in prop_oneof![Just(1_u64), 500..200_000_u64],
        ranges in vec((any::<Index>(), any::<Index>()), 1..20),
    ) {
        let file: Vec<u8> = parts.iter().flat_map(|part| packed(Kind::Gzip, part, level, 20_000)).collect();
        let data = parts.concat();
        let source = open(&file, Kind::Gzip, spacing).expect("a gzip file");
        prop_assert!(all(&source).expect("bytes") == data);
        let mut scratch = Scratch::default();
        for (a, b) in ranges {
            let (a, b) = (a.index(data.len() + 1), b.index(data.len() + 1));
            let (from, to) = (a.min(b), a.max(b));
            prop_assert!(source.bytes(from as u64..to as u64, &mut scratch).expect("bytes") == &data[from..to]);
        }
    }

    #[test]
    fn a_damaged_byte_is_noticed_or_does_not_matter(
        data in vec(prop::sample::select(b"ACGT\n>".to_vec()), 1..700),
        kind in kinds(),
        damage in vec((any::<Index>(), 1..=255_u8), 1..3),
    ) {
        let whole = packed(kind, &data, 6, 200);
        let mut file = whole.clone();
        for (at, flip) in damage {
            *at.get_mut(&mut file) ^= flip;
        }
        if let Ok(found) = open(&file, kind, 100).and_then(|source| all(&source)) {
            prop_assert!(found == data);
        }
        // Damaged after it was indexed, and whatever the fingerprint says: read from every point.
        let index = index_of(&whole, kind, 100, &[]).expect("an index");
        let source = with_index(&file, &index).expect("an index that fits");
        for at in (0..data.len()).step_by(50) {
            if let Ok(found) = source.bytes(at as u64..at as u64 + 1, &mut Scratch::default()) {
                prop_assert_eq!(found, &data[at..=at]);
            }
        }
    }

    #[test]
    fn a_damaged_index_is_noticed_or_does_not_matter(
        data in vec(prop::sample::select(b"ACGT\n>".to_vec()), 1..3000),
        kind in kinds(),
        damage in vec((any::<Index>(), 1..=255_u8), 1..3),
    ) {
        let file = packed(kind, &data, 6, 500);
        let mut index = index_of(&file, kind, 400, &[0]).expect("an index");
        let whole = index.clone();
        for (at, flip) in damage {
            *at.get_mut(&mut index) ^= flip;
        }
        let Ok(source) = with_index(&file, &index) else { return Ok(()) };
        prop_assert_eq!(source.len(), data.len() as u64);
        for at in (0..data.len()).step_by(100) {
            if let Ok(found) = source.bytes(at as u64..at as u64 + 1, &mut Scratch::default()) {
                prop_assert_eq!(found, &data[at..=at]);
            }
        }
        let verified = Zidx::open(Store::memory(&index)).and_then(|index| index.verify());
        prop_assert_eq!(verified.is_ok(), index == whole);
    }

    #[test]
    fn any_index_beside_a_file_gives_its_bytes_or_an_error(
        data in vec(any::<u8>(), 1..3000),
        other in vec(any::<u8>(), 1..3000),
        kind in kinds(),
    ) {
        let index = index_of(&packed(kind, &other, 6, 500), kind, 400, &[]).expect("an index");
        let source = with_index(&packed(kind, &data, 6, 500), &index).expect("an index");
        for at in 0..source.len() {
            if let Ok(found) = source.bytes(at..at + 1, &mut Scratch::default()) {
                prop_assert_eq!(found[0], other[at as usize]);
            }
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    for kind in [Kind::Gzip, Kind::Zlib] {
        let file = packed(kind, &noise(300), 6, 100);
        for cut in 0..file.len() {
            let error = inflated(&file[..cut], kind).expect_err("a file that was cut");
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            assert!(error.to_string().contains("it was cut short"), "{kind:?} cut at {cut}: {error}");
            assert!(open(&file[..cut], kind, 100).is_err());
        }
        assert_eq!(inflated(&file, kind).expect("bytes"), noise(300));
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let (gzip, zlib) = (packed(Kind::Gzip, b"ACGT", 6, 9), packed(Kind::Zlib, b"ACGT", 6, 9));
    let (gzip_len, zlib_len) = (gzip.len(), zlib.len());
    let flipped = |file: &[u8], at: usize| {
        let mut file = file.to_vec();
        file[at] ^= 1;
        file
    };
    let sure = |file: &[u8], rest: &[u8]| [file, rest].concat();
    for (kind, file, message) in [
        (
            Kind::Gzip,
            sure(&gzip, b"rest"),
            format!("byte {gzip_len}: the gzip data ends here and 4 bytes follow that belong to nothing"),
        ),
        (
            Kind::Gzip,
            sure(&gzip, &[0]),
            format!("byte {gzip_len}: the gzip data ends here and 1 bytes follow that belong to nothing"),
        ),
        (
            Kind::Zlib,
            sure(&zlib, &zlib),
            format!("byte {zlib_len}: the zlib data ends here and {zlib_len} bytes follow that belong to nothing"),
        ),
        (
            Kind::Gzip,
            sure(&gzip, &gzip[..1]),
            format!("byte {gzip_len}: gzip member 1: the file ends inside its header: it was cut short"),
        ),
        (
            Kind::Gzip,
            flipped(&gzip, gzip_len - 8),
            format!("byte {}: gzip member 0: its checksum (CRC-32) does not fit what it inflates to", gzip_len - 8),
        ),
        (
            Kind::Gzip,
            flipped(&gzip, gzip_len - 4),
            format!("byte {}: gzip member 0: the length at its end does not fit what it inflates to", gzip_len - 8),
        ),
        (
            Kind::Zlib,
            flipped(&zlib, zlib_len - 1),
            format!("byte {}: zlib data: its checksum (Adler-32) does not fit what it inflates to", zlib_len - 4),
        ),
        (
            Kind::Zlib,
            b"\x78\x9c\x07".to_vec(),
            "byte 2: zlib data: it can't be inflated (invalid block type)".to_owned(),
        ),
    ] {
        let error = inflated(&file, kind).expect_err("a damaged file");
        assert_eq!(error.to_string(), format!("<bytes>: {message}"));
    }
}

#[test]
fn nothing_compressed_is_nothing() {
    for kind in [Kind::Gzip, Kind::Zlib] {
        let source = open(&packed(kind, b"", 6, 9), kind, 1).expect("a file");
        assert!(source.is_empty() && all(&source).expect("bytes").is_empty());
    }
}

/// The longest references there are, over every border.
#[test]
fn points_know_as_much_as_references_reach_back() {
    let once = noise(1 << 15);
    let data = once.repeat(5);
    for block in [1000, 32_768, 40_000] {
        let file = packed(Kind::Zlib, &data, 9, block);
        let source = open(&file, Kind::Zlib, 1).expect("a file");
        for at in (0..data.len()).step_by(7919) {
            let end = data.len().min(at + 100);
            let found = source.bytes(at as u64..end as u64, &mut Scratch::default()).expect("bytes").to_vec();
            assert!(found == data[at..end], "{block}: {at}..{end}");
        }
    }
}

/// One block from start to end: there is only one point, and memory stays bounded all the same.
#[test]
fn a_block_longer_than_the_spacing_has_its_point_before_it() {
    let data = vec![7; 1 << 20];
    let mut body = DeflateEncoder::new(Vec::new(), Compression::new(9));
    body.write_all(&data).expect("memory");
    let body = body.finish().expect("memory");
    let file = [b"\x78\x9c", body.as_slice(), &libdeflater::adler32(&data).to_be_bytes()].concat();
    let index = Zidx::open(Store::memory(&index_of(&file, Kind::Zlib, 1000, &[]).expect("an index"))).expect("one");
    assert_eq!(index.points(), 1);
    let source = Deflate::new(Arc::new(file), Arc::new(index));
    assert_eq!(source.bytes(1_000_000..1_000_009, &mut Scratch::default()).expect("bytes"), [7; 9]);
}

/// A compressed file that remembers where it was read.
struct Noted {
    file: Vec<u8>,
    starts: Mutex<Vec<u64>>,
}

impl Noted {
    /// The file as a source, and what it inflates to.
    fn open(file: &[u8], kind: Kind, spacing: u64) -> (Arc<Self>, Deflate) {
        let index = Zidx::open(Store::memory(&index_of(file, kind, spacing, &[]).expect("an index"))).expect("one");
        let raw = Arc::new(Self { file: file.to_vec(), starts: Mutex::default() });
        (Arc::clone(&raw), Deflate::new(raw, Arc::new(index)))
    }

    /// Where it was read since it was asked before.
    fn starts(&self) -> Vec<u64> {
        std::mem::take(&mut self.starts.lock().expect("a lock"))
    }
}

impl Source for Noted {
    fn len(&self) -> u64 {
        self.file.len() as u64
    }

    fn bytes<'a>(&'a self, range: Range<u64>, scratch: &'a mut Scratch) -> Result<&'a [u8]> {
        self.starts.lock().expect("a lock").push(range.start);
        Source::bytes(&self.file, range, scratch)
    }

    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_read_inflates_from_the_nearest_point_and_no_more() {
    let data = noise(1 << 20);
    let file = packed(Kind::Gzip, &data, 6, 10_000);
    let spacing = 128 << 10;
    let (raw, source) = Noted::open(&file, Kind::Gzip, spacing);
    // As many compressed bytes as that many inflated ones come from, and a tenth more.
    let most = (spacing + CHUNK + 10_000) * file.len() as u64 / data.len() as u64 * 11 / 10;
    for at in [1_000_000, 5, 543_210] {
        assert_eq!(source.bytes(at..at + 9, &mut Scratch::default()).expect("bytes"), &data[at as usize..][..9]);
        let starts = raw.starts();
        let passed = starts.iter().max().expect("a read") - starts.iter().min().expect("a read");
        assert!(passed <= most, "{passed} bytes were passed for 9 at {at}, more than {most}");
    }
}

#[test]
fn reads_in_order_inflate_everything_once() {
    let data = noise(1 << 19);
    let file = packed(Kind::Zlib, &data, 6, 10_000);
    let (raw, source) = Noted::open(&file, Kind::Zlib, 100_000);
    for at in (0..data.len() as u64).step_by(1000) {
        // Each with a scratch of its own: the file remembers where it was.
        let end = (at + 1000).min(data.len() as u64);
        let mut scratch = Scratch::default();
        assert!(source.bytes(at..end, &mut scratch).expect("bytes") == &data[at as usize..end as usize]);
    }
    assert!(raw.starts().is_sorted(), "it never goes back");
}

#[test]
fn one_scratch_serves_several_files() {
    let (one, two) = (noise(200_000), noise(200_000).into_iter().rev().collect::<Vec<u8>>());
    let sources =
        [&one, &two].map(|data| open(&packed(Kind::Gzip, data, 6, 10_000), Kind::Gzip, 50_000).expect("a file"));
    let mut scratch = Scratch::default();
    for at in (0..200_000).step_by(30_000) {
        for (source, data) in sources.iter().zip([&one, &two]) {
            assert!(source.bytes(at..at + 9, &mut scratch).expect("bytes") == &data[at as usize..][..9]);
        }
    }
}

#[test]
fn the_index_knows_where_records_start() {
    let data = noise(20_000);
    let starts: Vec<u64> = (0..2000).map(|row| row * 10).collect();
    let bytes = index_of(&packed(Kind::Gzip, &data, 6, 999), Kind::Gzip, 5000, &starts).expect("an index");
    let index = Zidx::open(Store::memory(&bytes)).expect("an index");
    index.verify().expect("a whole index");
    assert_eq!((index.records(), index.data_size(), index.kind()), (2000, 20_000, Kind::Gzip));
    assert_eq!(index.fingerprint(), FINGERPRINT);
    assert_eq!(index.record(0).expect("a record"), 0..10);
    assert_eq!(index.record(1999).expect("a record"), 19_990..20_000);
    assert_eq!(index.starts(0..2000).expect("rows"), starts);
    assert!(matches!(index.record(2000), Err(Error::RowOutOfRange { row: 2000, rows: 2000 })));
    assert!(index.record(u64::MAX).is_err() && index.starts(0..2001).is_err());
}

#[test]
fn an_index_that_is_cut_grown_or_foreign_is_refused() {
    let whole = index_of(&packed(Kind::Gzip, &noise(9000), 6, 999), Kind::Gzip, 1000, &[0]).expect("an index");
    for cut in 0..whole.len() {
        assert!(Zidx::open(Store::memory(&whole[..cut])).is_err(), "{cut}");
    }
    let message = |bytes: &[u8]| Zidx::open(Store::memory(bytes)).expect_err("no index").to_string();
    assert!(message(b"ARROW1\0\0").contains("it does not start as one"));
    assert!(message(&[&whole[..], &[0; 8]].concat()).contains("the checksum of its tail does not fit"));
    let mut newer = whole.clone();
    newer[8] = 2;
    assert!(message(&newer).contains("its version is 2, and this program's is 1"));
}

#[test]
fn whoever_watches_can_stop_it() {
    let file = packed(Kind::Gzip, &noise(100_000), 6, usize::MAX);
    let stop = |_: u64, _: u64| false;
    let mut out = Vec::new();
    let error = Inflating::new(&file, Kind::Gzip, &stop).expect("a reader").read_to_end(&mut out).expect_err("a stop");
    assert!(matches!(Error::from(error), Error::Interrupted));
}

/// Inputs for the fuzzer of the index, as it takes them: the length of a file, the file, its index.
fn seeds() -> [(&'static str, Vec<u8>); 3] {
    let seed = |kind, data: &[u8], spacing, starts: &[u64]| {
        let file = packed(kind, data, 6, 200);
        let index = index_of(&file, kind, spacing, starts).expect("an index");
        [&u16::try_from(file.len()).expect("a small file").to_le_bytes()[..], &file, &index].concat()
    };
    let zlib = seed(Kind::Zlib, &noise(900), 300, &[0, 10, 500]);
    [
        ("empty", seed(Kind::Gzip, b"", 1, &[])),
        ("gzip", seed(Kind::Gzip, &noise(2000), 500, &[0, 1000])),
        ("zlib", zlib),
    ]
}

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/zidx_open");

#[test]
fn the_seeds_of_the_fuzzer_are_of_this_version() {
    for (name, _) in seeds() {
        let seed = std::fs::read(std::path::Path::new(SEEDS).join(name)).expect("a seed");
        let len = usize::from(u16::from_le_bytes([seed[0], seed[1]]));
        let source = with_index(&seed[2..2 + len], &seed[2 + len..]).expect("an index of this version");
        all(&source).expect("bytes");
    }
}

/// `cargo test -p seekset-core --test suite -- --ignored write_the_seeds`, after a change of the format.
#[test]
#[ignore = "it writes files that are committed"]
fn write_the_seeds_of_the_fuzzer() {
    std::fs::create_dir_all(SEEDS).expect("a folder");
    for (name, seed) in seeds() {
        std::fs::write(std::path::Path::new(SEEDS).join(name), seed).expect("a seed");
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_inflated_is_an_error_and_no_bus_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.gz");
    // Stored, not deflated: there is something left to read after the first piece.
    std::fs::write(&path, packed(Kind::Gzip, &vec![7; 1 << 20], 0, 1 << 20)).expect("a file");
    let mapped = Mapped::open(&path).expect("a file");
    let mut reader = Inflating::new(&*mapped, Kind::Gzip, &Unwatched).expect("a reader");
    reader.read_exact(&mut [0; 10]).expect("bytes");
    std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(0)).expect("a shorter file");
    let read = reader.read_to_end(&mut Vec::new()).map_err(Error::from);
    assert!(matches!(read, Err(Error::Stale { .. })), "{read:?}");
}
