//! Any line is a header or is refused at a byte of its own; what is found in it stands in it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::Error;
use seekset_core::scan::fasta::Header;

const OFFSET: u64 = 1000;

fuzz_target!(|line: &[u8]| {
    match Header::parse(line, OFFSET) {
        Ok(header) => {
            assert!(line[1..].starts_with(header.text.as_bytes()));
            let id = if header.is_empty { OFFSET.to_string() } else { header.id.clone().into_owned() };
            assert_eq!(header.id, id);
            assert_eq!(header.is_empty, !header.text.contains(&*header.id));
            assert!(!header.id.is_empty() && !header.id.bytes().any(|byte| b" \t\n\x0b\x0c\r".contains(&byte)));
        }
        Err(Error::Format { place, .. }) => {
            let at = (place.offset.expect("an offset") - OFFSET) as usize;
            assert!(at == 0 || at < line.len());
        }
        Err(other) => panic!("{other}"),
    }
});
