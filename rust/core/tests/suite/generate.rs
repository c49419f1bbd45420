//! Files for the properties: whatever FASTA allows, and what it does not.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed};

/// So many cases, unless `PROPTEST_CASES` says otherwise. What fails becomes a case of its own in the code, not in a
/// file beside it.
pub fn cases(cases: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    // The same cases on every run; whoever asks for more looks for new ones.
    let rng_seed = if asked.is_some() { RngSeed::Random } else { RngSeed::Fixed(20) };
    Config { cases: asked.unwrap_or(cases), failure_persistence: None, rng_seed, ..Config::default() }
}

fn end() -> impl Strategy<Value = &'static str> + Clone {
    prop_oneof![3 => Just("\n"), 1 => Just("\r\n")]
}

/// Few ids, so that some come twice; and some that are none.
pub fn header() -> impl Strategy<Value = String> {
    let id = select(vec!["a", "b", "chr1", "sp|P1|X", "\u{e9}t\u{e9}", "\u{3b1}\u{1f9ec}", ">", "a>b", "17"]);
    let text = select(vec!["", " words follow", "\tone", " \u{b5} x", "\u{a0}", " a\x0cb", "\x0b", "\x07"]);
    prop_oneof![
        6 => (id, text).prop_map(|(id, text)| format!(">{id}{text}")),
        1 => select(vec![">", "> ", ">\t", ">\r", "> late", ">\x0cpage"]).prop_map(str::to_owned),
    ]
}

fn letters(most: usize) -> impl Strategy<Value = String> {
    let letter = prop_oneof![8 => select(b"ACGTNacgtn".to_vec()), 1 => select(b"MKVXU*-.>@;".to_vec())];
    vec(letter, 1..=most).prop_map(|letters| letters.into_iter().map(char::from).collect())
}

fn wrapped(letters: &str, width: usize, end: &str) -> String {
    letters.as_bytes().chunks(width).fold(String::new(), |text, line| text + &String::from_utf8_lossy(line) + end)
}

/// Consecutive sequence lines: alike, or of any kind.
pub fn lines(most: usize) -> impl Strategy<Value = String> {
    let alike =
        (letters(most), 1..=most.min(70), end()).prop_map(|(letters, width, end)| wrapped(&letters, width, end));
    let blank = select(vec!["", " ", "\t ", "\x0b", "\r"]).prop_map(str::to_owned);
    let spaced = (letters(most.min(20)), select(vec![" ", "\t", "\r", "\x0c"]), letters(9), select(vec!["", " "]))
        // A line that starts with '>' is a header, where a carriage return is no blank.
        .prop_map(|(left, blank, right, after)| left.trim_start_matches('>').to_owned() + blank + &right + after);
    let any = prop_oneof![3 => letters(most), 1 => blank, 1 => spaced];
    prop_oneof![3 => alike, 2 => (any, end()).prop_map(|(line, end)| line + end)]
}

/// A record whose lines hold up to about `most` letters each time `lines` gives some.
fn record(most: usize) -> impl Strategy<Value = String> {
    (header(), end(), vec(lines(most), 0..4)).prop_map(|(header, end, lines)| header + end + &lines.concat())
}

/// A file that FASTA allows, sometimes without its last newline.
pub fn fasta(records: usize, most: usize) -> impl Strategy<Value = Vec<u8>> {
    let before = select(vec!["", "", "", "\n", " \r\n\n"]);
    (before, vec(record(most), 0..=records), any::<bool>()).prop_map(|(before, records, whole)| {
        let mut file = (before.to_owned() + &records.concat()).into_bytes();
        if !whole && file.last() == Some(&b'\n') {
            file.pop();
        }
        file
    })
}

/// Bytes among which those that mean something are frequent.
pub fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let telling = select(b">>>\n\n\n\n\r \tACGTac\0\x07\x0b\x0c\x1f\x7f\x80\xc3\xa9\xef\xbb\xbf\xff".to_vec());
    vec(prop_oneof![9 => telling, 1 => any::<u8>()], 0..=most)
}

/// A file that FASTA allows but for a few bytes put in somewhere.
pub fn spoilt(records: usize, most: usize) -> impl Strategy<Value = Vec<u8>> {
    (fasta(records, most), any::<prop::sample::Index>(), bytes(3)).prop_map(|(mut file, at, bytes)| {
        let at = at.index(file.len() + 1);
        file.splice(at..at, bytes);
        file
    })
}
