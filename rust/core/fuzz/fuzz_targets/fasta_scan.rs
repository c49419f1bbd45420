//! Any bytes, in one chunk, in many, and in stretches on their own, are read or refused as the tests' slow reader does it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scanned::{Cut, expected, lengths, scan, stretched};

#[path = "../../tests/suite/reference.rs"]
mod reference;
#[path = "../../tests/suite/scanned.rs"]
mod scanned;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says how long chunks are; what follows is the file.
    let Some((&size, file)) = bytes.split_first() else { return };
    let expected = expected(file);
    assert_eq!(scan(&file.to_vec(), 1), expected);
    let size = u64::from(size) % 70 + 1;
    assert_eq!(scan(&Cut::new(file, &[size]), 1), expected);
    assert_eq!(stretched(file, &[size], u64::MAX), lengths(file, u64::MAX));
});
