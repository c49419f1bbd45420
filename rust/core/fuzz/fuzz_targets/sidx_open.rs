//! Any bytes are an index or are refused; an index that opens answers every question or says that it is damaged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::index::Sidx;
use seekset_core::io::Store;
use seekset_core::plan::{Batch, Request};

fuzz_target!(|bytes: &[u8]| {
    let Ok(index) = Sidx::open(Store::memory(bytes)) else { return };
    for row in (0..index.len()).chain([u64::MAX]) {
        let id = index.id(row).unwrap_or("absent");
        if let Ok(Some(found)) = index.find(id) {
            // Bytes that are the id are right even where their checksum is not.
            assert!(index.id(found).is_ok_and(|other| other == id) || index.id(found).is_err());
        }
        if index.entry(row).is_ok_and(|entry| entry.is_uneven()) {
            index.marks(row).expect("marks that were checked");
        }
        let _ = index.end(row);
        let _ = Batch::plan(&index, &[Request::whole(row), Request { start: 5, ..Request::whole(row) }]);
    }
    assert_eq!(index.lengths().len() as u64, index.len());
    let _ = (index.duplicate(), index.verify(), index.nearest("absent", 3, 100));
});
