//! Every window of every record holds the letters that the reference has there, whatever becomes of them on the way.

use proptest::prelude::*;
use seekset_core::Error;
use seekset_core::fasta::Fasta;
use seekset_core::gather::kernel::Id;
use seekset_core::gather::layout::{Ends, Rectangle, padded, ragged};
use seekset_core::gather::{Kernel, OneHot, Raw, TokenTable, Translate};
use seekset_core::io::{Access, threads};
use seekset_core::plan::Request;

use crate::generate::{cases, fasta};
use crate::reference::{self, Record};
use crate::samples::{Sample, bgzip};

/// A request and the letters that it must give.
#[derive(Debug, Clone)]
struct Window {
    request: Request,
    letters: Vec<u8>,
}

fn complement(letter: u8) -> u8 {
    let upper = match letter.to_ascii_uppercase() {
        b'A' => b'T',
        b'C' => b'G',
        b'G' => b'C',
        b'T' | b'U' => b'A',
        b'R' => b'Y',
        b'Y' => b'R',
        b'K' => b'M',
        b'M' => b'K',
        b'B' => b'V',
        b'V' => b'B',
        b'D' => b'H',
        b'H' => b'D',
        _ => return letter,
    };
    if letter.is_ascii_lowercase() { upper.to_ascii_lowercase() } else { upper }
}

fn window(row: usize, letters: &[u8], start: usize, len: usize, reverse: bool) -> Window {
    let mut letters = letters[start..letters.len().min(start.saturating_add(len))].to_vec();
    if reverse {
        letters = letters.iter().rev().map(|&letter| complement(letter)).collect();
    }
    let request = Request { row: row as u64, start: start as u64, letters: len as u64, reverse };
    Window { request, letters }
}

/// All windows in both directions, also those that reach beyond the end, and in no order that helps.
fn all_windows(records: &[Record]) -> Vec<Window> {
    let mut windows = Vec::new();
    for (row, record) in records.iter().enumerate() {
        let letters = record.letters();
        for start in 0..=letters.len() {
            let lens = (0..=letters.len() - start + 1).chain([usize::MAX]);
            windows
                .extend(lens.flat_map(|len| [false, true].map(|reverse| window(row, &letters, start, len, reverse))));
        }
    }
    windows.reverse();
    let middle = windows.len() / 3;
    windows.rotate_left(middle);
    windows
}

fn requests(windows: &[Window]) -> Vec<Request> {
    windows.iter().map(|window| window.request).collect()
}

/// What `kernel` makes of the windows, one after another.
fn gathered<K: Kernel<Out: Default + Sync>>(fasta: &Fasta, windows: &[Window], kernel: &K) -> Vec<K::Out> {
    let requests = requests(windows);
    let batch = fasta.plan(&requests).expect("a plan");
    let letters: u64 = batch.letters().iter().sum();
    let mut out = vec![K::Out::default(); letters as usize * kernel.width()];
    let slots = ragged(&mut out, batch.letters(), kernel.width(), Ends { prefix: &[], suffix: &[] }).expect("slots");
    fasta.gather(&batch, kernel, slots).expect("letters");
    out
}

fn check_windows(fasta: &Fasta, windows: &[Window]) {
    let (bytes, offsets) = fasta.windows(&requests(windows)).expect("letters");
    assert_eq!(offsets.len(), windows.len() + 1);
    for (window, span) in windows.iter().zip(offsets.windows(2)) {
        // Not `assert_eq!`, which would print megabytes.
        assert!(bytes[span[0] as usize..span[1] as usize] == window.letters, "{:?}", window.request);
    }
}

fn check_raw(fasta: &Fasta, windows: &[Window]) {
    let expected = windows.iter().flat_map(|window| window.letters.iter().copied()).collect::<Vec<_>>();
    assert_eq!(gathered(fasta, windows, &Raw), expected);
}

fn check_tokens<T: Id + PartialEq + std::fmt::Debug + TryFrom<i32>>(fasta: &Fasta, windows: &[Window]) {
    for name in ["nucleotide", "esm", "bytes"] {
        let table = TokenTable::named(name).expect("a table");
        let id = |&letter: &u8| T::from_id(table.id(letter).expect("an id")).expect("one that fits");
        let expected: Vec<T> = windows.iter().flat_map(|window| window.letters.iter().map(id)).collect();
        let kernel = Translate::<T>::new(&table).expect("a kernel");
        assert!(gathered(fasta, windows, &kernel) == expected, "{name} as {}", T::NAME);
    }
}

fn check_one_hot(fasta: &Fasta, windows: &[Window]) {
    let row = |&letter: &u8| {
        let place = b"ACGT".iter().position(|&other| other == letter.to_ascii_uppercase());
        place.map_or([0.25; 4], |place| std::array::from_fn(|k| if k == place { 1.0 } else { 0.0 }))
    };
    let expected: Vec<f32> = windows.iter().flat_map(|window| window.letters.iter().flat_map(row)).collect();
    let kernel = OneHot::new("ACGT", 0.0_f32, 1.0, 0.25).expect("a kernel");
    assert!(gathered(fasta, windows, &kernel) == expected);
}

/// A rectangle with a token before and one after each window, filled to the longest.
fn check_rectangle(fasta: &Fasta, windows: &[Window]) {
    let table = TokenTable::named("bytes").expect("a table");
    let kernel = Translate::<i32>::new(&table).expect("a kernel");
    let requests = requests(windows);
    let batch = fasta.plan(&requests).expect("a plan");
    let columns = windows.iter().map(|window| window.letters.len()).max().unwrap_or(0) + 3;
    let mut out = vec![7; windows.len() * columns];
    let shape = Rectangle { columns, width: 1, pad: -1 };
    let slots = padded(&mut out, batch.letters(), shape, Ends { prefix: &[-2], suffix: &[-3] }).expect("slots");
    fasta.gather(&batch, &kernel, slots).expect("letters");
    for (row, window) in out.chunks(columns).zip(windows) {
        let letters = window.letters.iter().map(|&letter| i32::from(letter));
        let mut expected: Vec<i32> = [-2].into_iter().chain(letters).chain([-3]).collect();
        expected.resize(columns, -1);
        assert_eq!(row, expected, "{:?}", window.request);
    }
}

/// One record at a time: header, id, letters and windows.
fn check_singles(fasta: &Fasta, records: &[Record]) {
    assert_eq!(fasta.len(), records.len() as u64);
    for (row, record) in records.iter().enumerate() {
        let letters = record.letters();
        assert_eq!(fasta.header(row as u64).expect("a header"), record.header);
        assert_eq!(fasta.index().id(row as u64).expect("an id"), record.id);
        assert_eq!(fasta.sequence(row as u64).expect("letters"), letters);
        let first = records.iter().position(|other| other.id == record.id);
        assert_eq!(fasta.index().find(&record.id).expect("a lookup"), first.map(|row| row as u64));
        for (start, end) in [(0, 1), (1, 4), (3, 2), (letters.len() / 2, letters.len() + 5), (usize::MAX, usize::MAX)] {
            let expected = letters.get(start..end.min(letters.len())).unwrap_or(&[]);
            assert_eq!(fasta.window(row as u64, start as u64, end as u64).expect("a window"), expected);
        }
    }
    assert!(matches!(fasta.sequence(records.len() as u64), Err(Error::RowOutOfRange { .. })));
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn every_window_is_the_references_slice(file in fasta(3, 12), compressed: bool, pread: bool) {
        let records = reference::read(&file).expect("a FASTA file");
        let sample = if compressed { Sample::named("sample.fa.gz", &bgzip(&file)) } else { Sample::new(&file) };
        let fasta = sample.open(if pread { Access::Pread } else { Access::Mmap });
        let windows = all_windows(&records);
        check_singles(&fasta, &records);
        check_windows(&fasta, &windows);
        check_raw(&fasta, &windows);
        check_tokens::<u8>(&fasta, &windows);
        check_tokens::<i32>(&fasta, &windows);
        check_tokens::<i64>(&fasta, &windows);
        check_one_hot(&fasta, &windows);
        check_rectangle(&fasta, &windows);
    }

    #[test]
    fn a_letter_without_an_id_is_named_with_its_place(file in fasta(2, 40), reverse: bool) {
        let records = reference::read(&file).expect("a FASTA file");
        let sample = Sample::new(&file);
        let fasta = sample.open(Access::Pread);
        let table = TokenTable::new("four", b"ACGT".iter().copied().zip(0..)).expect("a table").with_case_folded();
        let kernel = Translate::<u8>::new(&table).expect("a kernel");
        for (row, record) in records.iter().enumerate() {
            let letters = record.letters();
            let read = |&letter: &u8| if reverse { complement(letter) } else { letter };
            let known = |letter: &u8| b"ACGT".contains(&read(letter).to_ascii_uppercase());
            let expected = letters.iter().position(|letter| !known(letter));
            let requests = [Request { reverse, ..Request::whole(row as u64) }];
            let batch = fasta.plan(&requests).expect("a plan");
            let mut out = vec![0; letters.len()];
            match (fasta.gather(&batch, &kernel, vec![&mut out]), expected) {
                (Ok(()), None) => {}
                (Err(Error::UnknownLetter { row: found, id, position, letter, .. }), Some(place)) => {
                    prop_assert_eq!((found, position), (row as u64, place as u64));
                    prop_assert_eq!(id.as_deref(), Some(&*record.id));
                    prop_assert_eq!(letter, char::from(read(&letters[place])));
                }
                (found, expected) => prop_assert!(false, "{found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn a_window_that_starts_beyond_its_record_is_refused(file in fasta(2, 20), beyond in 1..9_u64) {
        let sample = Sample::new(&file);
        let fasta = sample.open(Access::Mmap);
        for (row, &length) in (0..).zip(fasta.index().lengths()) {
            let request = Request { row, start: length + beyond, letters: 0, reverse: false };
            prop_assert!(matches!(fasta.plan(&[request]), Err(Error::Mismatch(_))), "{:?}", request);
        }
        let requests = [Request::whole(fasta.len())];
        let beyond = fasta.plan(&requests);
        prop_assert!(matches!(beyond, Err(Error::RowOutOfRange { .. })), "{:?}", beyond);
    }
}

/// `letters` letters, each of which tells its place, in lines of the given widths, over and over.
fn long_record(letters: usize, widths: &[usize], end: &str) -> Vec<u8> {
    let mut file = b">short\nAC\n>long\n".to_vec();
    let mut widths = widths.iter().cycle();
    let mut at = 0;
    while at < letters {
        let next = letters.min(at + widths.next().expect("a cycle"));
        // A period that is prime to every step in the code.
        file.extend((at..next).map(|k| b"ACGTNRYKMBVDHacgtnrykm-"[k % 23] ^ u8::from(k % 9973 == 0)));
        file.extend(end.as_bytes());
        at = next;
    }
    file.extend(b">after\nGT");
    file
}

proptest! {
    #![proptest_config(cases(12))]

    /// Records of several times 64 KiB have marks where their lines are uneven.
    #[test]
    fn windows_of_long_records_are_found_from_their_marks(
        widths in prop::collection::vec(1..200_usize, 1..4),
        end in prop::sample::select(vec!["\n", "\r\n", " \n", "\n\n"]),
        places in prop::collection::vec((0..300_000_usize, 0..3000_usize, any::<bool>()), 1..40),
    ) {
        let file = long_record(300_000, &widths, end);
        let records = reference::read(&file).expect("a FASTA file");
        let letters = records[1].letters();
        let windows: Vec<Window> =
            places.iter().map(|&(start, len, reverse)| window(1, &letters, start, len, reverse)).collect();
        check_windows(&Sample::new(&file).open(Access::Mmap), &windows);
    }
}

/// Windows of more than 2^20 letters are cut into pieces, and many of them are copied by several threads.
#[test]
fn long_windows_are_whole_whatever_the_threads() {
    for widths in [&[60][..], &[60, 59, 61]] {
        let file = long_record(1_200_000, widths, "\n");
        let records = reference::read(&file).expect("a FASTA file");
        assert_eq!(records[1].is_even(), widths.len() == 1);
        let letters = records[1].letters();
        let many = (0..2500).map(|k| window(1, &letters, k * 401, 50, k % 2 == 0));
        let long = [(0, usize::MAX, false), (0, usize::MAX, true), (18, (1 << 20) + 1, true)];
        let long = long.iter().map(|&(start, len, reverse)| window(1, &letters, start, len, reverse));
        let windows: Vec<Window> = many.chain(long).collect();
        let plain = Sample::new(&file);
        let packed = Sample::named("sample.fa.gz", &bgzip(&file));
        for (count, sample, access) in
            [(1, &plain, Access::Mmap), (3, &packed, Access::Pread), (2, &plain, Access::Mmap)]
        {
            threads::set_threads(count);
            check_windows(&sample.open(access), &windows);
        }
        threads::set_threads(0);
        assert!(plain.open(Access::Pread).sequence(1).expect("letters") == letters);
    }
}
