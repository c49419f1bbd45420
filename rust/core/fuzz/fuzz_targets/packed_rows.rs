//! Any bytes are a packed row or are refused; what is unpacked, packed and unpacked again is the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::pool::packed::{Field, pack, unpack};

/// A few fields, and the bytes after them.
fn fields(bytes: &[u8]) -> Option<(Vec<Field>, &[u8])> {
    let (&count, mut rest) = bytes.split_first()?;
    let mut fields = Vec::new();
    for _ in 0..count % 4 + 1 {
        let (&[width, values, float], after) = rest.split_first_chunk()?;
        fields.push(Field::new(1 << (width % 4), usize::from(values), float % 2 == 1).ok()?);
        rest = after;
    }
    Some((fields, rest))
}

fn unpacked(fields: &[Field], row: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut out: Vec<Vec<u8>> = fields.iter().map(|field| vec![0xee; field.bytes()]).collect();
    unpack(fields, row, out.iter_mut().map(Vec::as_mut_slice)).ok()?;
    Some(out)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((fields, row)) = fields(bytes) else { return };
    let Some(values) = unpacked(&fields, row) else { return };
    let mut again = Vec::new();
    fields.iter().zip(&values).for_each(|(field, values)| pack(*field, values, &mut again));
    assert!(again.len() <= fields.iter().map(|field| 1 + field.bytes()).sum::<usize>());
    assert_eq!(unpacked(&fields, &again), Some(values));
});
