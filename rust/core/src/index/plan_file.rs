//! A packing plan on disk: an Arrow IPC file with one row per batch. docs/formats.md has every byte.
//!
//! A plan in memory is the same bytes, so that there is one reader, and saving is copying.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

use super::columns::{Column, Columns, refuse_other, sealed, write};
use crate::error::{Error, Place, Result};
use crate::io::Store;
use crate::plan::packing::{Overflow, Packing, Piece, Rules, efficiency};

/// The version of the format. A plan of another version is refused: it is computed in a second.
pub const VERSION: u32 = 1;

/// The kind of file that this is, as its schema says.
const KIND: &str = "plan";

// The buffers of a file, in the order in which `Columns` numbers them.
const ROW_ENDS: usize = 0;
const ROWS: usize = 1;
const START_ENDS: usize = 2;
const STARTS: usize = 3;
const LENGTH_ENDS: usize = 4;
const LENGTHS: usize = 5;
const TOKENS: usize = 6;
const CHECK: usize = 7;

fn fields() -> [(&'static str, DataType); 5] {
    let list = |kind| DataType::LargeList(Arc::new(Field::new("item", kind, false)));
    [
        ("rows", list(DataType::UInt32)),
        ("starts", list(DataType::UInt64)),
        ("lengths", list(DataType::UInt32)),
        ("tokens", DataType::UInt64),
        ("check", DataType::UInt32),
    ]
}

/// What a plan says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What was asked for.
    pub rules: Rules,
    /// Of which index the plan is.
    pub fingerprint: String,
    /// How many sequences the index has.
    pub sequences: u64,
    /// How many pieces they have become.
    pub pieces: u64,
    /// How many of them were cut.
    pub truncated: u64,
    /// Tokens of all batches.
    pub tokens: u64,
    /// Tokens that the batches would take if they were full, or, padded, with their padding.
    pub capacity: u128,
    /// A checksum of all batches: what tells this plan from others.
    pub digest: u64,
}

/// The pieces of a batch, one number of each per column, longest piece first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedBatch<'a> {
    /// The sequences.
    pub rows: &'a [u32],
    /// The letters of theirs that come first.
    pub starts: &'a [u64],
    /// How many letters there are.
    pub lengths: &'a [u32],
    /// The tokens of all pieces together.
    pub tokens: u64,
}

impl PlannedBatch<'_> {
    /// The pieces.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let columns = self.rows.iter().zip(self.starts).zip(self.lengths);
        columns.map(|((&row, &start), &letters)| Piece { row, start, letters: letters.into() })
    }

    /// An error unless each piece is what the rules make of its sequence in an index with these lengths.
    pub fn compare(&self, lengths: &[u64], rules: &Rules) -> Result<()> {
        for piece in self.pieces() {
            let length = lengths.get(piece.row as usize);
            if !length.is_some_and(|&length| rules.makes(piece, length)) {
                let Piece { row, start, letters } = piece;
                let found = length.map_or("is not there".to_owned(), |length| format!("has {length} letters"));
                return Err(Error::Mismatch(format!(
                    "the plan has {letters} letters of row {row} from {start} on, which {found} in this index: it is a plan of another index"
                )));
            }
        }
        Ok(())
    }

    /// A checksum of the batch and of its place in the plan.
    fn check(&self, number: u64) -> u32 {
        let start = xxh3_64(bytemuck::cast_slice(&[number, self.tokens]));
        let rows = xxh3_64_with_seed(bytemuck::cast_slice(self.rows), start);
        let starts = xxh3_64_with_seed(bytemuck::cast_slice(self.starts), rows);
        xxh3_64_with_seed(bytemuck::cast_slice(self.lengths), starts) as u32
    }
}

/// The name of an index that has no fingerprint of its own.
#[must_use]
pub fn fingerprint_of(lengths: &[u64]) -> String {
    format!("lengths:{}:{:016x}", lengths.len(), xxh3_64(bytemuck::cast_slice(lengths)))
}

/// Writes a plan of the index with this fingerprint.
pub fn write_plan(packing: &Packing, fingerprint: &str, out: &mut impl Write) -> Result<()> {
    let (rows, starts, lengths) = packing.columns();
    let ends = packing.ends();
    let check = |(number, (span, &tokens)): (u64, (&[u64], &u64))| {
        let span = span[0] as usize..span[1] as usize;
        let (rows, starts, lengths) = (&rows[span.clone()], &starts[span.clone()], &lengths[span]);
        PlannedBatch { rows, starts, lengths, tokens }.check(number)
    };
    let checks: Vec<u32> = (0..).zip(ends.windows(2).zip(packing.tokens())).map(check).collect();
    let digest = digest(ends, packing.tokens(), &checks);
    let schema = Schema::new_with_metadata(
        fields().map(|(name, kind)| Field::new(name, kind, false)).to_vec(),
        metadata(packing, fingerprint, digest),
    );
    let held = bytemuck::cast_slice;
    let mut columns = [
        Column::HeldLists(held(ends), bytemuck::cast_slice(rows), 4),
        Column::HeldLists(held(ends), bytemuck::cast_slice(starts), 8),
        Column::HeldLists(held(ends), bytemuck::cast_slice(lengths), 4),
        Column::HeldNumbers(held(packing.tokens())),
        Column::HeldNumbers(bytemuck::cast_slice(&checks)),
    ];
    write(out, &schema, packing.len() as u64, &mut columns, || Ok(()))
}

fn digest(ends: &[u64], tokens: &[u64], checks: &[u32]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(bytemuck::cast_slice(ends));
    hash.update(bytemuck::cast_slice(tokens));
    hash.update(bytemuck::cast_slice(checks));
    hash.digest()
}

fn metadata(packing: &Packing, fingerprint: &str, digest: u64) -> HashMap<String, String> {
    let rules = &packing.rules;
    sealed([
        ("kind", KIND.to_owned()),
        ("version", VERSION.to_string()),
        ("writer", format!("seekset {}", env!("CARGO_PKG_VERSION"))),
        ("index", fingerprint.to_owned()),
        ("sequences", packing.sequences.to_string()),
        ("rows", packing.len().to_string()),
        ("pieces", packing.columns().0.len().to_string()),
        ("truncated", packing.truncated.to_string()),
        ("tokens", packing.total_tokens.to_string()),
        ("capacity", packing.capacity.to_string()),
        ("efficiency", format!("{:.6}", packing.efficiency())),
        ("max_tokens", rules.max_tokens.to_string()),
        ("max_length", rules.max_length.map_or("none".to_owned(), |most| most.to_string())),
        ("specials", rules.specials.to_string()),
        ("overflow", rules.overflow.to_string()),
        ("overlap", rules.overflow.overlap().to_string()),
        ("layout", rules.layout.to_string()),
        ("digest", format!("{digest:016x}")),
    ])
}

/// An open plan.
#[derive(Debug, Clone)]
pub struct PlanFile {
    columns: Columns,
    facts: Facts,
}

impl PlanFile {
    /// A plan in memory.
    pub fn of(packing: &Packing, fingerprint: &str) -> Result<Self> {
        let mut bytes = Vec::new();
        write_plan(packing, fingerprint, &mut bytes)?;
        Self::open(Store::memory(&bytes))
    }

    /// Opens a plan over a file's or memory's bytes, in constant time. What is plainly something else is told as that.
    pub fn open(store: Store) -> Result<Self> {
        refuse_other(store.bytes(), KIND)?;
        let columns = Columns::open(store, &fields())?;
        columns.check_kind(KIND, VERSION)?;
        columns.check_seal()?;
        let facts = facts(&columns)?;
        let widths = [(ROWS, 4), (STARTS, 8), (LENGTHS, 4)];
        let listed = widths.map(|(buffer, width)| (columns.bytes(buffer).len() / width) as u64);
        if number::<u64>(&columns, "rows")? != columns.rows() || listed != [facts.pieces; 3] {
            return Err(Error::format(0, "not a usable plan: it has other batches or pieces than it was written with"));
        }
        Ok(Self { columns, facts })
    }

    /// How many batches there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.columns.rows()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the plan says of itself.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The bytes of the plan, and the file that they are mapped from, if they are.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.columns.store()
    }

    /// A batch, compared with its checksum.
    pub fn batch(&self, number: u64) -> Result<PlannedBatch<'_>> {
        self.check_unchanged()?;
        let row = i64::try_from(number).unwrap_or(i64::MAX);
        let at = usize::try_from(number).ok().filter(|&at| (at as u64) < self.len());
        let at = at.ok_or(Error::RowOutOfRange { row, rows: self.len() })?;
        let read = self.read(at).filter(|(batch, check)| batch.check(number) == *check);
        read.map(|(batch, _)| batch).ok_or_else(|| self.damaged(Some(number)))
    }

    #[cold]
    fn damaged(&self, batch: Option<u64>) -> Error {
        let place = Place { record: batch, ..Place::default() };
        let error = Error::Format { path: None, place, message: "the plan is damaged here; make it anew".to_owned() };
        match self.store().path() {
            Some(path) => error.in_file(path),
            None => error,
        }
    }

    fn read(&self, at: usize) -> Option<(PlannedBatch<'_>, u32)> {
        let columns = &self.columns;
        let span = |buffer| columns.numbers::<u64>(buffer).get(at..)?.first_chunk::<2>().copied();
        let ends = span(ROW_ENDS)?;
        if span(START_ENDS)? != ends || span(LENGTH_ENDS)? != ends {
            return None;
        }
        let span = usize::try_from(ends[0]).ok()?..usize::try_from(ends[1]).ok()?;
        let batch = PlannedBatch {
            rows: columns.numbers(ROWS).get(span.clone())?,
            starts: columns.numbers(STARTS).get(span.clone())?,
            lengths: columns.numbers(LENGTHS).get(span)?,
            tokens: *columns.numbers(TOKENS).get(at)?,
        };
        Some((batch, *columns.numbers(CHECK).get(at)?))
    }

    /// An error if the file that the plan is mapped from was cut or overwritten.
    pub fn check_unchanged(&self) -> Result<()> {
        self.columns.store().check_unchanged()
    }

    /// An error if tokens, ends or checksums of batches are not what was written: a look at a few bytes of each batch.
    pub fn check_batches(&self) -> Result<()> {
        self.check_unchanged()?;
        let columns = &self.columns;
        if digest(columns.numbers(ROW_ENDS), columns.numbers(TOKENS), columns.numbers(CHECK)) == self.facts.digest {
            return Ok(());
        }
        Err(self.damaged(None))
    }

    /// Where the tokens of batches lie, after [`PlanFile::check_batches`].
    pub fn tokens_place(&self) -> Result<(&Store, std::ops::Range<usize>)> {
        self.check_batches()?;
        Ok((self.columns.store(), self.columns.place(TOKENS)))
    }

    /// Where the ends of batches among pieces lie, after [`PlanFile::check_batches`].
    pub fn ends_place(&self) -> Result<(&Store, std::ops::Range<usize>)> {
        self.check_batches()?;
        Ok((self.columns.store(), self.columns.place(ROW_ENDS)))
    }

    /// Which part of the batches' capacity is tokens: from 0 to 1.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        efficiency(self.facts.tokens, self.facts.capacity)
    }
}

fn number<T: TryFrom<i128>>(columns: &Columns, key: &str) -> Result<T> {
    let value = columns.number(key, 10)?;
    value.try_into().map_err(|_| Error::format(0, format!("not a usable plan: seekset.{key} is {value}")))
}

fn facts(columns: &Columns) -> Result<Facts> {
    let max_length = match columns.text("max_length")? {
        "none" => None,
        _ => Some(number(columns, "max_length")?),
    };
    let rules = Rules {
        max_tokens: number(columns, "max_tokens")?,
        max_length,
        specials: number(columns, "specials")?,
        overflow: Overflow::named(columns.text("overflow")?, number(columns, "overlap")?)?,
        layout: columns.text("layout")?.parse()?,
    };
    rules.check()?;
    Ok(Facts {
        rules,
        fingerprint: columns.text("index")?.to_owned(),
        sequences: number(columns, "sequences")?,
        pieces: number(columns, "pieces")?,
        truncated: number(columns, "truncated")?,
        tokens: number(columns, "tokens")?,
        capacity: number(columns, "capacity")?,
        digest: columns.number("digest", 16)? as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::pack;
    use crate::plan::packing::Layout;

    fn rules(overflow: Overflow) -> Rules {
        Rules { max_tokens: 24, max_length: Some(10), specials: 2, overflow, layout: Layout::Packed }
    }

    fn plan(lengths: &[u64], overflow: Overflow) -> (Packing, PlanFile) {
        let packing = pack(lengths, rules(overflow)).unwrap();
        let plan = PlanFile::of(&packing, "some index").unwrap();
        (packing, plan)
    }

    #[test]
    fn a_plan_is_read_as_it_was_packed() {
        for overflow in [Overflow::Truncate, Overflow::Split { overlap: 3 }] {
            for lengths in [&[][..], &[7], &[9, 30, 10, 0, 0, 55, 3, 2]] {
                let (packing, plan) = plan(lengths, overflow);
                assert_eq!(plan.len(), packing.len() as u64);
                for number in 0..plan.len() {
                    let batch = plan.batch(number).unwrap();
                    assert!(batch.pieces().eq(packing.batch(number as usize)));
                    assert_eq!(batch.tokens, packing.tokens()[number as usize]);
                    batch.compare(lengths, &packing.rules).unwrap();
                }
                let facts = plan.facts();
                assert_eq!((facts.rules, &*facts.fingerprint), (packing.rules, "some index"));
                assert_eq!((facts.sequences, facts.pieces), (lengths.len() as u64, packing.columns().0.len() as u64));
                assert_eq!((facts.tokens, facts.truncated), (packing.total_tokens, packing.truncated));
                assert_eq!(plan.efficiency().to_bits(), packing.efficiency().to_bits());
                plan.check_batches().unwrap();
                assert!(matches!(plan.batch(plan.len()), Err(Error::RowOutOfRange { .. })));
            }
        }
    }

    #[test]
    fn a_plan_of_another_index_is_noticed_batch_by_batch() {
        let (packing, plan) = plan(&[9, 30, 10], Overflow::Truncate);
        for other in [&[9, 30][..], &[9, 9, 10], &[10, 30, 10], &[]] {
            let compare = |number| plan.batch(number).unwrap().compare(other, &packing.rules);
            assert!((0..plan.len()).any(|number| compare(number).is_err()), "{other:?}");
        }
    }
}
