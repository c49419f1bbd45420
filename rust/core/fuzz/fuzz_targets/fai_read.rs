//! Any bytes are a `.fai` or are refused with a line; what is read, written and read again is the same.

#![no_main]

use std::fmt::Write;

use libfuzzer_sys::fuzz_target;
use seekset_core::Error;
use seekset_core::index::fai::read;

fuzz_target!(|bytes: &[u8]| {
    match read(bytes) {
        Ok(entries) => {
            let mut text = String::new();
            for e in &entries {
                assert!(e.length == 0 || (e.line_bases > 0 && e.line_bases <= e.line_bytes));
                writeln!(text, "{}\t{}\t{}\t{}\t{}", e.name, e.length, e.offset, e.line_bases, e.line_bytes)
                    .expect("a string");
            }
            assert_eq!(read(text.as_bytes()).expect("a .fai"), entries);
        }
        Err(Error::Format { place, .. }) => assert!(place.line.is_some_and(|line| line > 0)),
        Err(other) => panic!("{other}"),
    }
});
