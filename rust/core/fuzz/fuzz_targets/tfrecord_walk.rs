//! Any bytes are a TFRecord file or are refused with record and offset, alike from memory and from a stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::scan::tfrecord::survey;
use seekset_core::watch::Unwatched;
use seekset_core::{Entry, Error, Result, TfRecordIndexer, Verify, index_entries_from_bytes, index_text_from_bytes};

fn streamed(bytes: &[u8], verify: Verify) -> Result<Vec<Entry>> {
    let mut indexer = TfRecordIndexer::with_verify(bytes, verify);
    std::iter::from_fn(|| indexer.next_entry().transpose()).collect()
}

fn place(error: &Error) -> (u64, u64) {
    match error {
        Error::Corrupt { place, .. } | Error::Format { place, .. } => {
            (place.record.expect("a record"), place.offset.expect("an offset"))
        }
        other => panic!("{other}"),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let verify = [Verify::None, Verify::Lengths, Verify::Full][usize::from(first % 3)];
    match (index_entries_from_bytes(bytes, verify), streamed(bytes, verify)) {
        (Ok(entries), Ok(again)) => {
            assert_eq!(entries, again);
            let end = entries.iter().fold(0, |at, entry| {
                assert_eq!(entry.offset, at);
                entry.end().expect("an end")
            });
            assert_eq!(end, bytes.len() as u64);
            let text = index_text_from_bytes(bytes, verify).expect("an index");
            assert_eq!(text.lines().count(), entries.len());
        }
        (Err(one), Err(other)) => {
            assert_eq!(place(&one), place(&other));
            assert!(place(&one).1 < bytes.len() as u64);
        }
        (one, other) => panic!("{one:?} and {other:?}"),
    }
    let mut faults = 0;
    survey(&bytes, &Unwatched, &mut |_| faults += 1).expect("a survey");
    assert_eq!(faults == 0, index_entries_from_bytes(bytes, Verify::Full).is_ok());
});
