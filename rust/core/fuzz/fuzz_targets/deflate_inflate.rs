//! Any bytes are gzip or zlib or are refused; those that are inflated as a whole and read through points are the same.

#![no_main]

use std::io::Read;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use seekset_core::Result;
use seekset_core::io::deflate::{Deflate, Inflating, detect};
use seekset_core::io::store::Store;
use seekset_core::io::zidx::{Builder, Starts, Zidx};
use seekset_core::io::{Fingerprint, Scratch, Source, Spills};
use seekset_core::watch::Unwatched;

/// More than this is compared by nobody in time.
const MOST: u64 = 4 << 20;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says how far apart points are.
    let Some((&spacing, file)) = bytes.split_first() else { return };
    let Some(kind) = detect(file) else { return };
    let raw = file.to_vec();
    let spills = Spills::elsewhere();
    let mut builder = Builder::new(&spills, 1 + u64::from(spacing) * 64);
    let mut reader = Inflating::new(&raw, kind, &Unwatched).expect("memory").into_index(&mut builder);
    let mut whole = Vec::new();
    if (&mut reader).take(MOST).read_to_end(&mut whole).is_err() || whole.len() as u64 == MOST {
        return;
    }
    reader.finish().expect("a file that was read to its end");
    let index = || -> Result<Vec<u8>> {
        let mut index = Vec::new();
        let facts = Fingerprint { size: raw.len() as u64, mtime_ns: 0, sample: 0 };
        builder.finish(kind, &facts, Starts::new(&spills), &mut index, &Unwatched)?;
        Ok(index)
    };
    let index = index().expect("memory");
    let index = Zidx::open(Store::memory(&index)).expect("an index just written");
    index.verify().expect("an index just written");
    let source = Deflate::new(Arc::new(raw.clone()), Arc::new(index));
    assert_eq!(source.len(), whole.len() as u64);
    let mut scratch = Scratch::default();
    for at in (0..whole.len() as u64 / 1000 + 1).rev().map(|k| k * 1000) {
        let end = source.len().min(at + 1000);
        let found = source.bytes(at..end, &mut scratch).expect("bytes inflated before");
        assert!(found == &whole[at as usize..end as usize]);
    }
});
