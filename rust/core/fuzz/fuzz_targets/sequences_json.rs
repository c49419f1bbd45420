//! Any bytes are a sequence index in JSON or are refused; what is read, written and read again is the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::Error;
use seekset_core::index::sequences::json::{JsonWriter, read};
use seekset_core::index::sequences::{Facts, Rows, Sequence};

/// All that JSON says: the head, and the entries.
fn all(bytes: &[u8]) -> seekset_core::Result<(Facts, Vec<(Vec<u8>, Sequence)>, Rows)> {
    let (mut entries, mut kept) = (Vec::new(), Rows::default());
    let head = read(bytes, &mut |rows: &Rows| {
        for (id, sequence) in rows.iter() {
            kept.push(std::str::from_utf8(id).expect("text"), &sequence);
            entries.push((id.to_vec(), sequence));
        }
        Ok(())
    })?;
    Ok((Facts { files: head.files, created: head.created, json: None }, entries, kept))
}

fuzz_target!(|bytes: &[u8]| match all(bytes) {
    Ok((facts, entries, rows)) => {
        let mut text = Vec::new();
        let mut writer = JsonWriter::new(&mut text, &facts, 0, 0).expect("a writer");
        writer.take(&rows).expect("entries");
        writer.finish().expect("an end");
        let (again, same, _) = all(&text).expect("an index");
        assert_eq!((again, same), (facts, entries));
    }
    Err(Error::Format { place, .. }) => assert!(place.offset.is_none_or(|at| at <= bytes.len() as u64)),
    Err(other) => panic!("{other}"),
});
