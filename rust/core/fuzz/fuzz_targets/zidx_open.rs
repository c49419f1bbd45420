//! Any index beside any compressed bytes is refused or leads to bytes that were checked.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use seekset_core::io::deflate::Deflate;
use seekset_core::io::store::Store;
use seekset_core::io::zidx::Zidx;
use seekset_core::io::{Scratch, Source};

fuzz_target!(|bytes: &[u8]| {
    // The first two bytes say how long the file is; the index follows it, with its checksums made to fit.
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else { return };
    let (file, index) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*len))));
    for index in [index.to_vec(), mended(index)] {
        let Ok(index) = Zidx::open(Store::memory(&index)) else { continue };
        let _ = index.verify();
        for row in (0..index.records().min(300)).chain([u64::MAX]) {
            if let Ok(range) = index.record(row) {
                assert!(range.start < range.end && range.end <= index.data_size());
            }
        }
        let source = Deflate::new(Arc::new(file.to_vec()), Arc::new(index));
        let mut scratch = Scratch::default();
        for at in (0..source.len()).step_by(997).take(300) {
            let end = source.len().min(at + 997);
            if let Ok(found) = source.bytes(at..end, &mut scratch) {
                assert_eq!(found.len() as u64, end - at);
            }
        }
    }
});

/// The same index with checksums of pages and tail that fit whatever it says.
fn mended(index: &[u8]) -> Vec<u8> {
    let mut index = index.to_vec();
    let word =
        |bytes: &[u8], at: usize| bytes.get(at..at + 8).map(|w| u64::from_le_bytes(w.try_into().unwrap_or_default()));
    let Some(tail) = index.len().checked_sub(104) else { return index };
    let counts = [7, 8, 9, 10].map(|k| word(&index, tail + 8 * k).unwrap_or(0));
    let [points, sums, starts, windows] = counts.map(|count| count.min(1 << 32) as usize);
    let body = 16 + 40 * points + 8 * (sums + starts) + windows.next_multiple_of(8);
    if body > tail {
        return index;
    }
    let pages: Vec<u8> = index[..body].chunks(4096).flat_map(|page| hash(page).to_le_bytes()).collect();
    let Some(room) = index.get_mut(body..body + pages.len()) else { return index };
    room.copy_from_slice(&pages);
    index[tail + 88..tail + 96].copy_from_slice(&hash(&pages).to_le_bytes());
    let check = hash(&index[tail..tail + 96]).to_le_bytes();
    index[tail + 96..].copy_from_slice(&check);
    index
}

fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
