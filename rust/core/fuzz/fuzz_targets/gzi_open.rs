//! Any table beside any compressed bytes is refused or leads to bytes that were checked.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::io::Store;
use seekset_core::io::bgzf::Bgzf;
use seekset_core::io::gzi::Gzi;
use seekset_core::io::{Scratch, Source};

fuzz_target!(|bytes: &[u8]| {
    // The first byte says how many words the table has; the file follows it.
    let Some((&words, rest)) = bytes.split_first() else { return };
    let (table, file) = rest.split_at(rest.len().min(usize::from(words) * 8));
    let Ok(gzi) = Gzi::open(Store::memory(table)) else { return };
    let Ok(source) = Bgzf::new(Box::new(file.to_vec()), gzi) else { return };
    let mut scratch = Scratch::default();
    for step in [1 << 16, 97] {
        for at in (0..source.len()).step_by(step).take(300) {
            let end = source.len().min(at + step as u64);
            if let Ok(found) = source.bytes(at..end, &mut scratch) {
                assert_eq!(found.len() as u64, end - at);
            }
            assert!(source.chunk_end(at, step as u64) > at);
        }
    }
});
