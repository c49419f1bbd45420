//! One record: the named features in its payload, decoded or not.

use super::list::{Kind, List, Number, Pieces, Refusal};
use super::wire::{Fault, Reader, Value};
use crate::error::{Error, Place};

/// The maps that a record can hold, by their field number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Map {
    /// The features of an `Example`, or the context of a `SequenceExample`: they have the same number.
    Features = 1,
    /// The feature lists of a `SequenceExample`.
    Sequences = 2,
}

/// Calls `each` with names and values of a map, as they come; of a name that comes twice, the later value counts.
#[inline]
pub fn entries<'a>(
    payload: &'a [u8],
    map: Map,
    mut each: impl FnMut(&'a [u8], Pieces<'a>),
) -> std::result::Result<(), Fault> {
    let mut record = Reader::new(payload);
    while let Some((number, value)) = record.field()? {
        let Value::Bytes(mut features) = value else { continue };
        if number != map as u32 {
            continue;
        }
        while let Some((number, value)) = features.field()? {
            if let (1, Value::Bytes(entry)) = (number, value) {
                let (name, value) = entry_of(entry)?;
                each(name, value);
            }
        }
    }
    Ok(())
}

/// Name and value of an entry.
#[inline]
pub(super) fn entry_of(mut entry: Reader<'_>) -> std::result::Result<(&[u8], Pieces<'_>), Fault> {
    let mut usual = entry;
    if let (Some(name), Some(value), true) = (usual.field_if(1), usual.field_if(2), usual.is_done()) {
        return Ok((name.rest(), Pieces::one(value)));
    }
    let (mut name, mut pieces) = (&[][..], Pieces::default());
    while let Some((number, value)) = entry.field()? {
        match (number, value) {
            (1, Value::Bytes(found)) => name = found.rest(),
            (2, Value::Bytes(piece)) => pieces.push(piece),
            _ => {}
        }
    }
    Ok((name, pieces))
}

/// Calls `each` with the number and the feature of every step of a `FeatureList`.
#[inline]
pub fn steps<'a, E: From<Fault>>(
    list: &Pieces<'a>,
    mut each: impl FnMut(usize, Pieces<'a>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut step = 0;
    for mut piece in list.iter() {
        while let Some((number, value)) = piece.field()? {
            if let (1, Value::Bytes(feature)) = (number, value) {
                each(step, Pieces::one(feature))?;
                step += 1;
            }
        }
    }
    Ok(())
}

/// The values of one feature of one record.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded<'a> {
    /// Of a `float_list`.
    Float(Vec<f32>),
    /// Of an `int64_list`.
    Int(Vec<i64>),
    /// Of a `bytes_list`.
    Bytes(Vec<&'a [u8]>),
}

/// Names and values of one record, in the order of their first appearance.
pub type Named<'a, T> = Vec<(&'a str, T)>;

/// All features of an `Example`, or of the context of a `SequenceExample`. Those without a list are left out.
pub fn features(payload: &[u8]) -> crate::Result<Named<'_, Decoded<'_>>> {
    let mut found = Vec::new();
    for (name, value) in named(payload, Map::Features)? {
        if let Some(list) = List::of_feature(&value).map_err(corrupt)? {
            found.push((name, decoded(&list).map_err(corrupt)?));
        }
    }
    Ok(found)
}

/// All feature lists of a `SequenceExample`, step by step. A step without a list has no values.
pub fn sequences(payload: &[u8]) -> crate::Result<Named<'_, Vec<Option<Decoded<'_>>>>> {
    let mut found = Vec::new();
    for (name, value) in named(payload, Map::Sequences)? {
        let mut all = Vec::new();
        let read = steps(&value, |_, feature| {
            let list = List::of_feature(&feature)?;
            all.push(list.map(|list| decoded(&list)).transpose()?);
            Ok(())
        });
        read.map_err(corrupt)?;
        found.push((name, all));
    }
    Ok(found)
}

/// The entries of a map, each name once.
pub(super) fn named(payload: &[u8], map: Map) -> crate::Result<Named<'_, Pieces<'_>>> {
    let mut all: Vec<(&[u8], Pieces<'_>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    let each = |name, value| {
        let at = *places.entry(name).or_insert(all.len());
        if at == all.len() {
            all.push((name, value));
        } else {
            all[at].1 = value;
        }
    };
    entries(payload, map, each).map_err(corrupt)?;
    let text = |name| std::str::from_utf8(name).map_err(|_| not_text(name));
    all.into_iter().map(|(name, value)| Ok((text(name)?, value))).collect()
}

fn decoded<'a>(list: &List<'a>) -> std::result::Result<Decoded<'a>, Fault> {
    fn numbers<T: Number>(list: &List<'_>) -> std::result::Result<Vec<T>, Fault> {
        let mut values = vec![T::default(); list.count()?];
        match T::fill(list, &mut values) {
            Err(Refusal::Fault(fault)) => Err(fault),
            Ok(_) | Err(Refusal::Range(_)) => Ok(values),
        }
    }
    Ok(match list.kind() {
        Kind::Float => Decoded::Float(numbers(list)?),
        Kind::Int => Decoded::Int(numbers(list)?),
        Kind::Bytes => {
            let mut values = Vec::new();
            list.each_bytes(|bytes| values.push(bytes))?;
            Decoded::Bytes(values)
        }
    })
}

/// The error for a fault; which record it is in, the caller knows.
pub(super) fn corrupt(fault: Fault) -> Error {
    let Fault { offset, kind } = fault;
    let message = format!(
        "this is no tf.train.Example, or a damaged one: byte {offset} of its payload: {kind}; a payload of any kind is \
         read as bytes with tf[row]"
    );
    Error::Corrupt { path: None, place: Place::default(), message }
}

fn not_text(name: &[u8]) -> Error {
    let message = format!("expected feature names in UTF-8, found {}", name.escape_ascii());
    Error::Format { path: None, place: Place::default(), message }
}

/// The error with the record's number in its place.
pub(super) fn in_record(error: Error, record: usize) -> Error {
    error.map_places(|place| Place { record: Some(record as u64), ..place })
}
