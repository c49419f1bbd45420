//! Batches of records into columns, in parallel.

use rayon::prelude::*;

use super::column::{Builder, Column, Slot, Trouble, join};
use super::list::{List, Pieces};
use super::record::{Map, corrupt, in_record, steps};
use super::schema::{Dtype, Feature, Schema, Shape};
use super::search::Search;
use super::wire::Fault;
use crate::error::{Error, Place, Result};
use crate::io::threads;

/// Records that one thread takes at a time.
const TAKEN: usize = 512;

/// Batches of fewer bytes are decoded on the calling thread: handing over would cost more.
const FEW_BYTES: usize = 1 << 16;

/// The features of `schema` in every payload, an `Example` or the context of a `SequenceExample`, one column each.
/// Numbers of fixed shape are written to their slot, if there is one.
///
/// Errors number records as they come in `payloads`.
pub fn examples<'a>(
    payloads: &[&'a [u8]],
    schema: &'a Schema,
    slots: Vec<Option<Slot<'_>>>,
) -> Result<Vec<Column<'a>>> {
    decode(payloads, schema, Map::Features, slots)
}

/// The feature lists of `schema` in every payload, a `SequenceExample`, one column each with where its steps start.
pub fn sequences<'a>(payloads: &[&'a [u8]], schema: &'a Schema) -> Result<Vec<Column<'a>>> {
    let slots = schema.features().iter().map(|_| None).collect();
    decode(payloads, schema, Map::Sequences, slots)
}

fn decode<'a>(
    payloads: &[&'a [u8]],
    schema: &'a Schema,
    map: Map,
    slots: Vec<Option<Slot<'_>>>,
) -> Result<Vec<Column<'a>>> {
    let placed: Vec<bool> = slots.iter().map(Option::is_some).collect();
    let few = payloads.iter().map(|payload| payload.len()).sum::<usize>() < FEW_BYTES;
    let taken = if few { payloads.len().max(1) } else { TAKEN };
    let jobs = jobs(payloads, schema, map, slots, taken)?;
    // All results are waited for, so that the error told is the first in the order of the records.
    let done: Vec<Result<Vec<Builder<'_, '_>>>> = if few {
        jobs.into_iter().map(Job::run).collect()
    } else {
        threads::in_pool(|| jobs.into_par_iter().map(Job::run).collect())?
    };
    let mut columns: Vec<Vec<Builder<'_, '_>>> = schema.features().iter().map(|_| Vec::new()).collect();
    for part in done {
        for (column, builder) in columns.iter_mut().zip(part?) {
            column.push(builder);
        }
    }
    let parts = schema.features().iter().zip(placed).zip(columns);
    Ok(parts.map(|((feature, placed), parts)| join(feature, map == Map::Sequences, placed, parts)).collect())
}

/// Some records, and the columns they go to.
struct Job<'a, 'o> {
    first: usize,
    payloads: &'o [&'a [u8]],
    schema: &'a Schema,
    map: Map,
    builders: Vec<Builder<'a, 'o>>,
}

/// Cuts the batch into jobs, and each slot into parts of their size.
fn jobs<'a, 'o>(
    payloads: &'o [&'a [u8]],
    schema: &'a Schema,
    map: Map,
    mut slots: Vec<Option<Slot<'o>>>,
    taken: usize,
) -> Result<Vec<Job<'a, 'o>>> {
    if slots.len() != schema.features().len() {
        return Err(Error::Mismatch("there must be one slot, or none, for each feature".to_owned()));
    }
    for (feature, slot) in schema.features().iter().zip(&slots) {
        fits(feature, slot.as_ref(), payloads.len())?;
    }
    let chunks = payloads.chunks(taken).enumerate();
    Ok(chunks
        .map(|(number, payloads)| {
            let parts = schema.features().iter().zip(&mut slots);
            let builders = parts
                .map(|(feature, slot)| {
                    let part = slot.as_mut().map(|slot| cut(slot, feature, payloads.len()));
                    Builder::new(feature, part, map == Map::Sequences)
                })
                .collect();
            Job { first: number * taken, payloads, schema, map, builders }
        })
        .collect())
}

fn fits(feature: &Feature, slot: Option<&Slot<'_>>, records: usize) -> Result<()> {
    let Some(slot) = slot else { return Ok(()) };
    let (dtype, len) = match slot {
        Slot::F32(slot) => (Dtype::F32, slot.len()),
        Slot::I64(slot) => (Dtype::I64, slot.len()),
        Slot::I32(slot) => (Dtype::I32, slot.len()),
    };
    match feature.shape {
        Shape::Fixed(count) if dtype == feature.dtype && count.checked_mul(records) == Some(len) => Ok(()),
        _ => Err(Error::Mismatch(format!("the slot for feature '{}' does not have its type and size", feature.name))),
    }
}

/// Takes the part of a slot that so many records fill.
fn cut<'o>(slot: &mut Slot<'o>, feature: &Feature, records: usize) -> Slot<'o> {
    let count = match feature.shape {
        Shape::Fixed(count) => count * records,
        Shape::Ragged(_) => 0,
    };
    match slot {
        Slot::F32(slot) => Slot::F32(slot.split_off_mut(..count).unwrap_or_default()),
        Slot::I64(slot) => Slot::I64(slot.split_off_mut(..count).unwrap_or_default()),
        Slot::I32(slot) => Slot::I32(slot.split_off_mut(..count).unwrap_or_default()),
    }
}

impl<'a, 'o> Job<'a, 'o> {
    fn run(self) -> Result<Vec<Builder<'a, 'o>>> {
        let Self { first, payloads, schema, map, mut builders } = self;
        let mut search = Search::new(schema);
        for (record, payload) in payloads.iter().enumerate() {
            let record = first + record;
            let damaged = |fault| in_record(corrupt(fault), record);
            match map {
                Map::Features => {
                    for (builder, list) in builders.iter_mut().zip(search.features(payload).map_err(damaged)?) {
                        let added = builder.add(list.take().as_ref());
                        added.map_err(|trouble| error(builder.feature(), record, None, trouble))?;
                    }
                }
                Map::Sequences => {
                    for (builder, steps) in builders.iter_mut().zip(search.sequences(payload).map_err(damaged)?) {
                        let added = add_steps(builder, steps.take().as_ref());
                        added.map_err(|(step, trouble)| error(builder.feature(), record, step, trouble))?;
                    }
                }
            }
        }
        Ok(builders)
    }
}

/// Adds a feature list; what went wrong comes with its step. A list that may be missing counts as one of no steps.
fn add_steps<'a>(builder: &mut Builder<'a, '_>, value: Option<&Pieces<'a>>) -> Result<(), (Option<usize>, Trouble)> {
    struct At(Option<usize>, Trouble);
    impl From<Fault> for At {
        fn from(fault: Fault) -> Self {
            Self(None, fault.into())
        }
    }
    let mut count = 0;
    match value {
        Some(value) => {
            let each = |step, feature: Pieces<'a>| {
                count = step + 1;
                let added = List::of_feature(&feature).map_err(Trouble::from);
                let added = added.and_then(|list| builder.add(list.as_ref()));
                added.map_err(|trouble| At(Some(step), trouble))
            };
            steps(value, each).map_err(|At(step, trouble)| (step, trouble))?;
        }
        None if builder.feature().default.is_some() => {}
        None => return Err((None, Trouble::Missing)),
    }
    builder.end_steps(count);
    Ok(())
}

fn error(feature: &Feature, record: usize, step: Option<usize>, trouble: Trouble) -> Error {
    let wanted = feature.dtype.kind();
    let message = match trouble {
        Trouble::Fault(fault) => return in_record(corrupt(fault), record),
        Trouble::Missing => "expected it, or a default to take instead; found neither".to_owned(),
        Trouble::Kind(found) => format!("expected {wanted} values, found {found} values"),
        Trouble::Count(found) => match feature.shape {
            Shape::Fixed(count) => format!("expected {count} values, found {found}"),
            Shape::Ragged(width) => format!("expected a multiple of {width} values, found {found}"),
        },
        Trouble::Range(value) => format!("expected values that fit into int32, found {value}"),
    };
    let message = step.map_or(message.clone(), |step| format!("step {step}: {message}"));
    let place = Place { record: Some(record as u64), ..Place::default() };
    Error::Feature { path: None, place, feature: feature.name.clone(), message }
}
