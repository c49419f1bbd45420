//! Any bytes are a sequence index or are refused; an index that opens answers every question or says that it is damaged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::index::Sequences;
use seekset_core::io::Store;

fuzz_target!(|bytes: &[u8]| {
    let Ok(index) = Sequences::open(Store::memory(bytes)) else { return };
    for row in (0..index.len()).chain([u64::MAX]) {
        let _ = index.id(row);
        if let Ok(sequence) = index.sequence(row) {
            assert!((sequence.file as usize) < index.facts().files.len(), "a file that was checked");
        }
    }
    assert_eq!(index.lengths().len() as u64, index.len());
    assert_eq!(index.lengths_place().len() as u64, 8 * index.len());
    let _ = (index.verify(), index.repeat(&seekset_core::io::Spills::elsewhere()));
});
