//! Features found by name in one record after another.

use super::list::{Kind, List, Pieces};
use super::record::{Map, entries, entry_of};
use super::schema::Schema;
use super::wire::{Fault, Reader, Value};

/// Finds what a schema asks for. Records are mostly written alike, so what comes is compared with what came at the same
/// place in the record before.
pub(super) struct Search<'a> {
    schema: &'a Schema,
    before: Vec<Entry<'a>>,
    lists: Vec<Option<List<'a>>>,
    sequences: Vec<Option<Pieces<'a>>>,
}

/// An entry of the record before.
struct Entry<'a> {
    name: &'a [u8],
    feature: Option<usize>,
    /// All bytes before its list: tags, lengths and the name. Where they come again, everything about the entry is known.
    head: Option<&'a [u8]>,
    kind: Kind,
    /// How long its list was; the head states it.
    length: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(schema: &'a Schema) -> Self {
        let (lists, sequences) = schema.features().iter().map(|_| (None, None)).unzip();
        Self { schema, before: Vec::new(), lists, sequences }
    }

    /// The features of a record that the schema asks for, in its order. Those taken are not there for the next record.
    #[inline]
    pub(super) fn features(&mut self, payload: &'a [u8]) -> Result<&mut [Option<List<'a>>], Fault> {
        let mut nth = 0;
        let mut record = Reader::new(payload);
        while let Some((number, value)) = record.field()? {
            let (1, Value::Bytes(mut map)) = (number, value) else { continue };
            while !map.is_done() {
                if let Some(known) = self.before.get(nth)
                    && let Some(list) = known.head.and_then(|head| map.behind(head, known.length))
                {
                    if let Some(feature) = known.feature {
                        self.lists[feature] = Some(List::new(known.kind, list));
                    }
                    nth += 1;
                    continue;
                }
                let start = map;
                if let Some((1, Value::Bytes(entry))) = map.field()? {
                    self.entry(nth, &start, entry, &map)?;
                    nth += 1;
                }
            }
        }
        Ok(&mut self.lists)
    }

    /// Reads an entry, and keeps what is known of it for the next record.
    fn entry(&mut self, nth: usize, start: &Reader<'a>, entry: Reader<'a>, after: &Reader<'a>) -> Result<(), Fault> {
        let (name, value) = entry_of(entry)?;
        let feature = match self.before.get(nth) {
            Some(known) if known.name == name => known.feature,
            _ => self.schema.find(name),
        };
        let mut now = Entry { name, feature, head: None, kind: Kind::Bytes, length: 0 };
        let piece = if let Some(at) = feature {
            let list = List::of_feature(&value)?;
            now.kind = list.as_ref().map_or(Kind::Bytes, List::kind);
            let piece = list.as_ref().and_then(List::only);
            self.lists[at] = list;
            piece
        } else {
            value.only()
        };
        if let Some(piece) = piece {
            now.head = start.up_to(&piece, after);
            now.length = piece.rest().len();
        }
        match self.before.get_mut(nth) {
            Some(place) => *place = now,
            None => self.before.push(now),
        }
        Ok(())
    }

    /// The feature lists of a record that the schema asks for, in its order.
    pub(super) fn sequences(&mut self, payload: &'a [u8]) -> Result<&mut [Option<Pieces<'a>>], Fault> {
        let Self { schema, sequences, .. } = self;
        entries(payload, Map::Sequences, |name, value| {
            if let Some(at) = schema.find(name) {
                sequences[at] = Some(value);
            }
        })?;
        Ok(sequences)
    }
}
