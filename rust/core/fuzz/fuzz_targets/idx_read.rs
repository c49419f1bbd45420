//! Any bytes are a `.idx` or are refused with a line; what is read, written and read again is the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::Error;
use seekset_core::index::idx::{check, cover, push_lines, read};

fuzz_target!(|bytes: &[u8]| {
    match read(bytes) {
        Ok(entries) => {
            let mut text = Vec::new();
            push_lines(&mut text, &entries);
            assert_eq!(read(&text).expect("an index"), entries);
            // The index read as the data it is of: it may fit or not, but is looked at without harm.
            _ = cover(&entries, bytes.len() as u64);
            if let Err(error) = check(&entries, &bytes) {
                assert!(matches!(error, Error::Stale { .. }), "{error}");
            }
        }
        Err(Error::Format { place, .. }) => assert!(place.line.is_some_and(|line| line > 0)),
        Err(other) => panic!("{other}"),
    }
});
