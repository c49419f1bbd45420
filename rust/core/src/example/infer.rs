//! What the features of records look like, from some of them.

use std::collections::BTreeMap;

use super::list::{Kind, List};
use super::record::{Map, corrupt, in_record, named, steps};
use super::schema::{Dtype, Feature, Shape, Values};
use super::wire::Fault;
use crate::error::{Error, Place, Result};

/// What has been seen of one feature.
#[derive(Default)]
struct Seen {
    /// And in which record first.
    kind: Option<(Kind, usize)>,
    /// In how many records it was there, in every step.
    records: usize,
    /// How many values it had, and whether it was always as many.
    count: Option<(usize, bool)>,
}

/// The features of these payloads by name, with the shapes that fit them all. A feature that always has as many values,
/// but at least one, is of that fixed shape. Another is ragged; where it was missing somewhere, it may be.
pub fn features(payloads: &[&[u8]], map: Map) -> Result<Vec<Feature>> {
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    for (record, payload) in payloads.iter().enumerate() {
        for (name, value) in named(payload, map).map_err(|error| in_record(error, record))? {
            let mut lists = Vec::new();
            let read = match map {
                Map::Features => List::of_feature(&value).map(|list| lists.push(list)),
                Map::Sequences => steps(&value, |_, step| -> Result<(), Fault> {
                    lists.push(List::of_feature(&step)?);
                    Ok(())
                }),
            };
            read.map_err(|fault| in_record(corrupt(fault), record))?;
            note(&mut seen, name, record, &lists)?;
        }
    }
    let features = seen.into_iter().filter_map(|(name, seen)| seen.feature(name, payloads.len()));
    Ok(features.collect())
}

/// Adds what one record has under a name: one list, or one for each step.
fn note(seen: &mut BTreeMap<String, Seen>, name: &str, record: usize, lists: &[Option<List<'_>>]) -> Result<()> {
    let seen = seen.entry(name.to_owned()).or_default();
    for list in lists.iter().flatten() {
        let (kind, count) = (list.kind(), list.count().map_err(|fault| in_record(corrupt(fault), record))?);
        let (before, first) = *seen.kind.get_or_insert((kind, record));
        if before != kind {
            let message = format!("expected {before} values as in record {first}, found {kind} values");
            let place = Place { record: Some(record as u64), ..Place::default() };
            return Err(Error::Feature { path: None, place, feature: name.to_owned(), message });
        }
        let (first, always) = seen.count.unwrap_or((count, true));
        seen.count = Some((first, always && count == first));
    }
    seen.records += usize::from(lists.iter().all(Option::is_some));
    Ok(())
}

impl Seen {
    /// The feature that fits what was seen, if a list of it was.
    fn feature(self, name: String, records: usize) -> Option<Feature> {
        let everywhere = self.records == records;
        let (dtype, none) = match self.kind?.0 {
            Kind::Bytes => (Dtype::Bytes, Values::Bytes(Vec::new())),
            Kind::Float => (Dtype::F32, Values::F32(Vec::new())),
            Kind::Int => (Dtype::I64, Values::I64(Vec::new())),
        };
        let (shape, default) = match self.count? {
            (count, true) if everywhere && count > 0 => (Shape::Fixed(count), None),
            _ => (Shape::Ragged(1), (!everywhere).then_some(none)),
        };
        Some(Feature { name, dtype, shape, default })
    }
}
