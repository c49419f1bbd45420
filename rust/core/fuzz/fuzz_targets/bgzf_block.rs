//! Any bytes are BGZF or are refused; those that are read as a whole and in parts are the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::Result;
use seekset_core::io::Store;
use seekset_core::io::bgzf::{Bgzf, parse_block};
use seekset_core::io::gzi::Gzi;
use seekset_core::io::{Scratch, Source};
use seekset_core::watch::Unwatched;

fn open(file: &[u8]) -> Result<Bgzf> {
    let raw = file.to_vec();
    let table = Gzi::build(&raw, &Unwatched)?;
    Bgzf::new(Box::new(raw), Gzi::open(Store::memory(&table))?)
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(info)) = parse_block(bytes, 0) {
        assert!(info.header <= bytes.len() && info.header + 8 <= info.size && info.size <= 1 << 16);
    }
    let Ok(source) = open(bytes) else { return };
    let mut scratch = Scratch::default();
    let Ok(whole) = source.bytes(0..source.len(), &mut scratch).map(<[u8]>::to_vec) else { return };
    let mut parts = Vec::new();
    for at in (0..source.len()).step_by(1000) {
        parts
            .extend_from_slice(source.bytes(at..source.len().min(at + 1000), &mut scratch).expect("bytes read before"));
    }
    assert!(parts == whole);
});
