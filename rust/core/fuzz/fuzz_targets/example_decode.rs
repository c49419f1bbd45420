//! Any bytes are an `Example` or are refused with their record; a batch holds what the records hold one by one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::Error;
use seekset_core::example::record::{Decoded, Map, features, sequences};
use seekset_core::example::{Cells, Schema, Shape, decode, infer};

fuzz_target!(|bytes: &[u8]| {
    let steps = sequences(bytes);
    let Ok(found) = infer::features(&[bytes], Map::Features) else { return };
    let ragged = found.into_iter().map(|mut feature| {
        feature.shape = Shape::Ragged(1);
        feature
    });
    let schema = Schema::new(ragged.collect()).expect("each name once");
    let slots = schema.features().iter().map(|_| None).collect();
    let columns = decode::examples(&[bytes], &schema, slots);
    match (features(bytes), columns) {
        (Ok(one_by_one), Ok(columns)) => {
            assert_eq!(one_by_one.len(), columns.len());
            for (name, values) in one_by_one {
                let column = &columns[schema.find(name.as_bytes()).expect("a column for each name")];
                let same = match (&column.values, values) {
                    (Cells::I64(column), Decoded::Int(values)) => *column == values,
                    (Cells::Bytes(column), Decoded::Bytes(values)) => *column == values,
                    (Cells::F32(column), Decoded::Float(values)) => {
                        column.iter().map(|v| v.to_bits()).eq(values.iter().map(|v| v.to_bits()))
                    }
                    _ => false,
                };
                assert!(same, "{name}");
            }
        }
        // A batch also looks into entries that a later one replaces.
        (_, Err(Error::Corrupt { place, .. })) => assert_eq!(place.record, Some(0)),
        (one_by_one, columns) => panic!("{one_by_one:?}, {columns:?}"),
    }
    if let Ok(found) = infer::features(&[bytes], Map::Sequences) {
        let schema = Schema::new(found).expect("each name once");
        let columns = decode::sequences(&[bytes], &schema);
        assert_eq!(columns.is_ok(), steps.is_ok(), "{columns:?}, {steps:?}");
    }
});
