//! Compressed files read as what was compressed, and damage to them is never read as something else.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use seekset_core::fasta::{Fasta, OpenOptions};
use seekset_core::io::Store;
use seekset_core::io::bgzf::{Bgzf, parse_block};
use seekset_core::io::gzi::Gzi;
use seekset_core::io::{Access, Scratch, Source, open_source};
use seekset_core::watch::Unwatched;
use seekset_core::{Error, Result};

use crate::generate::cases;
use crate::samples::{END_MARK, Sample, block, blocks};

/// The uncompressed bytes of a compressed file in memory.
fn open(file: &[u8]) -> Result<Bgzf> {
    let raw = file.to_vec();
    let table = Gzi::build(&raw, &Unwatched)?;
    Bgzf::new(Box::new(raw), Gzi::open(Store::memory(&table))?)
}

fn all(source: &dyn Source) -> Result<Vec<u8>> {
    source.bytes(0..source.len(), &mut Scratch::default()).map(<[u8]>::to_vec)
}

/// Sizes of blocks, some of them 0.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![1 => Just(0), 4 => 1..300_usize, 1 => Just(0xff00)], 0..5).prop_map(|mut sizes| {
        sizes.push(97);
        sizes
    })
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(prop::sample::select(b"ACGT\n>".to_vec()), 0..2000),
        vec(any::<u8>(), 0..2000),
        (vec(any::<u8>(), 1..40), 0..5000_usize).prop_map(|(piece, times)| piece.repeat(times)),
    ]
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn any_range_holds_the_bytes_that_were_compressed(
        data in data(),
        sizes in sizes(),
        level in 0..=9_i32,
        marked: bool,
        ranges in vec((any::<Index>(), any::<Index>()), 1..20),
    ) {
        let mut file = blocks(&data, &sizes, level).concat();
        file.extend(if marked { END_MARK } else { b"" });
        let source = open(&file).expect("a BGZF file");
        prop_assert_eq!(source.len(), data.len() as u64);
        prop_assert!(all(&source).expect("bytes") == data);
        let mut scratch = Scratch::default();
        for (a, b) in ranges {
            let (a, b) = (a.index(data.len() + 1), b.index(data.len() + 1));
            let (from, to) = (a.min(b), a.max(b));
            let found = source.bytes(from as u64..to as u64, &mut scratch).expect("bytes");
            prop_assert!(found == &data[from..to], "{from}..{to}");
        }
        prop_assert!(source.bytes(0..data.len() as u64 + 1, &mut scratch).is_err());
    }

    #[test]
    fn the_table_lists_the_blocks_that_hold_bytes(data in data(), sizes in sizes()) {
        let blocks = blocks(&data, &sizes, 6);
        let mut expected = Vec::new();
        let (mut at, mut inflated) = (0_u64, 0_u64);
        for block in &blocks {
            let size = u64::from(u32::from_le_bytes(*block.last_chunk().expect("four bytes")));
            if inflated > 0 && size > 0 {
                expected.extend([at, inflated]);
            }
            at += block.len() as u64;
            inflated += size;
        }
        expected.insert(0, expected.len() as u64 / 2);
        let expected: Vec<u8> = expected.iter().flat_map(|word| word.to_le_bytes()).collect();
        prop_assert_eq!(Gzi::build(&[blocks.concat().as_slice(), END_MARK].concat(), &Unwatched).expect("a table"), expected);
    }

    #[test]
    fn a_damaged_byte_is_noticed_or_does_not_matter(
        data in vec(prop::sample::select(b"ACGT\n>".to_vec()), 1..700),
        sizes in sizes(),
        damage in vec((any::<Index>(), 1..=255_u8), 1..3),
    ) {
        let mut file = [blocks(&data, &sizes, 6).concat().as_slice(), END_MARK].concat();
        for (at, flip) in damage {
            *at.get_mut(&mut file) ^= flip;
        }
        if let Ok(found) = open(&file).and_then(|source| all(&source)) {
            prop_assert!(found == data);
        }
    }

    #[test]
    fn a_file_cut_short_is_noticed_or_ends_with_a_block(data in data(), sizes in sizes(), cut in any::<Index>()) {
        let blocks = blocks(&data, &sizes, 6);
        let file = blocks.concat();
        let cut = cut.index(file.len() + 1);
        let ends = blocks.iter().scan(0, |end, block| { *end += block.len(); Some(*end) });
        let whole = cut == 0 || ends.into_iter().any(|end| end == cut);
        match open(&file[..cut]).and_then(|source| all(&source)) {
            Ok(found) => prop_assert!(whole && data.starts_with(&found)),
            Err(error) => prop_assert!(!whole, "{}", error),
        }
    }

    #[test]
    fn any_table_beside_a_file_gives_its_bytes_or_an_error(
        data in data(),
        sizes in sizes(),
        words in vec(0..300_u64, 0..9),
        damage in vec((any::<Index>(), any::<u8>()), 0..3),
    ) {
        let file = blocks(&data, &sizes, 6).concat();
        let mut table = Gzi::build(&file, &Unwatched).expect("a table");
        for (at, byte) in damage {
            *at.get_mut(&mut table) = byte;
        }
        let made_up: Vec<u8> = [words.len() as u64 / 2].iter().chain(&words).flat_map(|w| w.to_le_bytes()).collect();
        for table in [table, made_up] {
            let Ok(gzi) = Gzi::open(Store::memory(&table)) else { continue };
            if let Ok(found) = Bgzf::new(Box::new(file.clone()), gzi).and_then(|source| all(&source)) {
                prop_assert!(found == data);
            }
        }
    }

    #[test]
    fn no_block_header_is_read_beyond_its_end(bytes in vec(any::<u8>(), 0..40), start in 0..=20_usize) {
        let bytes = [&END_MARK[..start], &bytes].concat();
        if let Ok(Some(info)) = parse_block(&bytes, 0) {
            prop_assert!(info.header <= bytes.len() && info.header + 8 <= info.size && info.size <= 1 << 16);
        }
    }
}

/// A scratch keeps the block that was inflated last; it must not be taken for another file's.
#[test]
fn one_scratch_serves_several_files() {
    let files: Vec<Bgzf> = [b'A', b'C'].map(|letter| open(&block(&[letter; 50], 6)).expect("a BGZF file")).into();
    let mut scratch = Scratch::default();
    for (file, letter) in files.iter().zip(*b"AC").chain(files.iter().zip(*b"AC")) {
        assert_eq!(file.bytes(10..13, &mut scratch).expect("bytes"), [letter; 3]);
    }
}

/// Every byte of a small file, set to every value.
#[test]
fn no_single_byte_can_be_changed_unnoticed() {
    let data = b">a\nACGTACGTAAAAAAAAAAAAAAAAAAAA\n";
    let file = [&*block(&data[..20], 6), END_MARK, &*block(&data[20..], 6), END_MARK].concat();
    for at in 0..file.len() {
        for byte in 0..=255 {
            let mut damaged = file.clone();
            damaged[at] = byte;
            if let Ok(found) = open(&damaged).and_then(|source| all(&source)) {
                assert!(found == data, "byte {at} set to {byte} gives {:?}", String::from_utf8_lossy(&found));
            }
        }
    }
}

/// 65280 bytes, as bgzip puts into a block, are 00 ff 00 00: one byte makes it 0, as if the block were empty.
#[test]
fn a_block_that_claims_to_be_empty_and_is_not_is_refused() {
    let data = vec![b'A'; 3 * 0xff00];
    for number in 0..3 {
        let mut blocks = blocks(&data, &[0xff00], 1);
        let place = blocks[number].len() - 3;
        assert_eq!(std::mem::replace(&mut blocks[number][place], 0), 0xff);
        let found = open(&blocks.concat()).and_then(|source| all(&source));
        assert!(found.is_err(), "block {number}: {:?} bytes", found.map(|found| found.len()));
    }
}

/// A block that claims to reach to the end of the empty one after it would seem to be empty itself.
#[test]
fn a_block_that_swallows_an_empty_one_is_refused() {
    let mut file = block(b">a\nACGT\n", 6);
    file[16] += END_MARK.len() as u8;
    file.extend(END_MARK);
    assert!(open(&file).and_then(|source| all(&source)).is_err());
}

/// The same for the table beside the file.
#[test]
fn no_single_byte_of_a_table_can_be_changed_unnoticed() {
    let data = b">a\nACGTACGTAAAAAAAAAAAAAAAAAAAA\n";
    for size in [10, 20, data.len()] {
        let file = [&*blocks(data, &[size], 6).concat(), END_MARK].concat();
        let table = Gzi::build(&file, &Unwatched).expect("a table");
        for (at, byte) in (0..table.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
            let mut damaged = table.clone();
            damaged[at] = byte;
            let source = Gzi::open(Store::memory(&damaged)).and_then(|gzi| Bgzf::new(Box::new(file.clone()), gzi));
            if let Ok(found) = source.and_then(|source| all(&source)) {
                assert!(found == data, "byte {at} set to {byte} gives {:?}", String::from_utf8_lossy(&found));
            }
        }
    }
}

/// Nothing lies at the last entry of such a table, so nothing would seem to follow it.
#[test]
fn a_table_that_leads_beyond_its_file_is_refused() {
    let file = block(b">a\nACGT\n", 6);
    for at in [file.len() as u64, 10_000] {
        let table: Vec<u8> = [1, at, 8].iter().flat_map(|word| word.to_le_bytes()).collect();
        let gzi = Gzi::open(Store::memory(&table)).expect("a table");
        assert!(Bgzf::new(Box::new(file.clone()), gzi).is_err());
    }
}

#[test]
fn a_file_is_opened_with_its_table_or_without() {
    let data = b">a\nACGT\n>b\nGG\n".repeat(50);
    let sample =
        Sample::named("sample.fa.gz", &[blocks(&data, &[100, 0, 7], 6).concat().as_slice(), END_MARK].concat());
    let table = sample.path().with_extension("gz.gzi");
    let expected = Gzi::build(&std::fs::read(sample.path()).expect("a file"), &Unwatched).expect("a table");
    let words = |words: &[u64]| Some(words.iter().flat_map(|word| word.to_le_bytes()).collect());
    // None, nonsense, one that leads beyond the end, that of a file of one block, one that has lost its last entry.
    let cut = [&(expected.len() as u64 / 16 - 1).to_le_bytes(), &expected[8..expected.len() - 16]].concat();
    for start in [None, Some(b"nonsense".to_vec()), words(&[1, 1 << 20, 0]), words(&[0]), Some(cut)] {
        if let Some(bytes) = start {
            std::fs::write(&table, bytes).expect("a file");
        }
        for access in [Access::Mmap, Access::Pread] {
            let opened = open_source(&sample.path(), access).expect("a BGZF file");
            assert_eq!((std::fs::read(&table).expect("a table"), opened.remark), (expected.clone(), None));
            assert_eq!(all(&*opened.source).expect("bytes"), data);
        }
    }
}

#[test]
fn plain_gzip_and_other_packers_are_refused_with_advice() {
    for (start, advice) in [
        (&b"\x1f\x8b\x08\0\0\0\0\0\0\x03abcdefgh"[..], "bgzip"),
        (b"\x28\xb5\x2f\xfdabc", "zstd"),
        (b"\xfd7zXZ\0abc", "xz"),
        (b"BZh91AY&SYabc", "bzip2"),
    ] {
        let sample = Sample::new(start);
        let error = Fasta::open(&sample.path(), &OpenOptions::default()).err().expect("an error");
        assert!(matches!(error, Error::Format { .. }) && error.to_string().contains(advice), "{error}");
    }
}
