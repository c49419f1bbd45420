//! Writing an index: rows collected from a scan, in bounded memory.

use std::collections::HashMap;
use std::io::Write;

use arrow_schema::{Field, Schema};
use xxhash_rust::xxh3::Xxh3;

use super::{Entry, KIND, VERSION, check_marks, fields};
use crate::error::{Error, Result};
use crate::index::columns::{Column, sealed, write};
use crate::index::lookup::{Repeats, Sorter, hash_name};
use crate::io::spool::Spool;
use crate::io::{Fingerprint, Source, Spills};
use crate::scan::fasta::marks::{MARK_STEP, marks};
use crate::scan::fasta::{Record, Rows, Sink};
use crate::watch::{Beat, Watch};

/// Bytes of a column that stay in memory while it is built.
const COLUMN_IN_MEMORY: usize = 16 << 20;

/// The rows of one chunk, column by column.
#[derive(Debug, Default)]
pub struct SidxRows {
    id_lengths: Vec<u64>,
    id_bytes: Vec<u8>,
    hashes: Vec<u64>,
    length: Vec<u64>,
    header_offset: Vec<u64>,
    sequence_offset: Vec<u64>,
    line_bases: Vec<u32>,
    line_bytes: Vec<u32>,
    check: Vec<u32>,
    id_check: Vec<u32>,
    /// Rows of the chunk that need marks, with the span of their lines.
    uneven: Vec<(usize, std::ops::Range<u64>)>,
}

impl Rows for SidxRows {
    fn push(&mut self, record: &Record, id: &[u8]) {
        let entry = Entry::of(record);
        if entry.is_uneven() && record.end - record.sequence_offset > MARK_STEP {
            self.uneven.push((self.length.len(), record.sequence_offset..record.end));
        }
        let hash = hash_name(id);
        self.id_lengths.push(id.len() as u64);
        self.id_bytes.extend_from_slice(id);
        self.hashes.push(hash);
        self.length.push(entry.length);
        self.header_offset.push(entry.header_offset);
        self.sequence_offset.push(entry.sequence_offset);
        self.line_bases.push(entry.line_bases);
        self.line_bytes.push(entry.line_bytes);
        self.check.push(entry.check());
        self.id_check.push(hash as u32);
    }
}

/// Collects scanned rows in bounded memory and writes them as an index.
pub struct Builder<'a> {
    source: &'a dyn Source,
    beat: Beat<'a>,
    id_ends: Spool,
    id_bytes: Spool,
    numbers: [Spool; 3],
    lines: [Spool; 2],
    mark_ends: Spool,
    marks: Spool,
    checks: [Spool; 2],
    sorter: Sorter,
    length_hash: Xxh3,
    spills: Spills,
}

impl<'a> Builder<'a> {
    /// A builder for the records of `source` that is watched by `watch`.
    pub fn new(source: &'a dyn Source, spills: &Spills, watch: &'a dyn Watch) -> Result<Self> {
        let spool = || spills.spool(COLUMN_IN_MEMORY);
        let mut builder = Self {
            source,
            beat: Beat::new(watch, source.len()),
            id_ends: spool(),
            id_bytes: spool(),
            numbers: [spool(), spool(), spool()],
            lines: [spool(), spool()],
            mark_ends: spool(),
            marks: spool(),
            checks: [spool(), spool()],
            sorter: Sorter::new(spills),
            length_hash: Xxh3::new(),
            spills: spills.clone(),
        };
        builder.id_ends.append(&0_u64.to_le_bytes())?;
        builder.mark_ends.append(&0_u32.to_le_bytes())?;
        Ok(builder)
    }

    /// Takes marks for the chunk's uneven records and gives back where each row's marks end.
    fn take_marks(&mut self, rows: &mut SidxRows) -> Result<Vec<u32>> {
        let mut ends = Vec::with_capacity(rows.length.len());
        let count = |spool: &Spool| {
            u32::try_from(spool.len() / 8).ok().filter(|&n| i32::try_from(n).is_ok()).ok_or_else(|| {
                Error::Mismatch("the file has more than 128 TiB of records with uneven lines; rewrap it".to_owned())
            })
        };
        for (row, span) in std::mem::take(&mut rows.uneven) {
            ends.resize(row, count(&self.marks)?);
            let end = span.end;
            let found = marks(self.source, span, || self.beat.tell(end))?;
            rows.check[row] ^= check_marks(&found);
            self.marks.append(bytemuck::cast_slice(&found))?;
        }
        ends.resize(rows.length.len(), count(&self.marks)?);
        Ok(ends)
    }

    /// Writes the index to `out`.
    pub fn finish(mut self, fingerprint: &Fingerprint, out: &mut impl Write) -> Result<()> {
        let mut beat = self.beat;
        let rows = self.sorter.rows();
        let [mut hashes, mut slots] = [(); 2].map(|()| self.spills.spool(COLUMN_IN_MEMORY));
        let mut repeats = Repeats::default();
        let (ends, bytes) = (&mut self.id_ends, &mut self.id_bytes);
        std::mem::replace(&mut self.sorter, Sorter::new(&self.spills)).finish(|pairs| {
            let (tops, rows): (Vec<u32>, Vec<u64>) = pairs.iter().map(|p| ((p.hash >> 32) as u32, p.row)).unzip();
            hashes.append(bytemuck::cast_slice(&tops))?;
            slots.append(bytemuck::cast_slice(&rows))?;
            let same = |a, b| Ok(spooled_id(ends, bytes, a)? == spooled_id(ends, bytes, b)?);
            repeats.look(pairs, same)?;
            beat.go_on()
        })?;
        let schema = Schema::new_with_metadata(
            fields().map(|(name, kind)| Field::new(name, kind, false)).to_vec(),
            metadata(fingerprint, self.source.len(), rows, self.length_hash.digest(), &repeats),
        );
        let [length, header_offset, sequence_offset] = self.numbers;
        let [line_bases, line_bytes] = self.lines;
        let [check, id_check] = self.checks;
        let mut columns = [
            Column::Text(self.id_ends, self.id_bytes),
            Column::Numbers(length),
            Column::Numbers(header_offset),
            Column::Numbers(sequence_offset),
            Column::Numbers(line_bases),
            Column::Numbers(line_bytes),
            Column::Lists(self.mark_ends, self.marks, 8),
            Column::Numbers(check),
            Column::Numbers(id_check),
            Column::Numbers(hashes),
            Column::Numbers(slots),
        ];
        write(out, &schema, rows, &mut columns, || beat.go_on())
    }
}

fn spooled_id(ends: &mut Spool, bytes: &mut Spool, row: u64) -> Result<Vec<u8>> {
    let mut span = [0_u64; 2];
    ends.read_at(row * 8, bytemuck::cast_slice_mut(&mut span))?;
    let mut id = vec![0; (span[1] - span[0]) as usize];
    bytes.read_at(span[0], &mut id)?;
    Ok(id)
}

impl Sink for Builder<'_> {
    type Rows = SidxRows;

    fn take(&mut self, mut rows: SidxRows) -> Result<()> {
        let mark_ends = self.take_marks(&mut rows)?;
        let mut end = self.id_bytes.len();
        for length in &mut rows.id_lengths {
            end += *length;
            *length = end;
        }
        rows.hashes.iter().try_for_each(|&hash| self.sorter.push_hash(hash))?;
        self.id_ends.append(bytemuck::cast_slice(&rows.id_lengths))?;
        self.id_bytes.append(&rows.id_bytes)?;
        self.mark_ends.append(bytemuck::cast_slice(&mark_ends))?;
        self.length_hash.update(bytemuck::cast_slice(&rows.length));
        let numbers = [&rows.length, &rows.header_offset, &rows.sequence_offset];
        for (spool, column) in self.numbers.iter_mut().zip(numbers) {
            spool.append(bytemuck::cast_slice(column))?;
        }
        let small = self.lines.iter_mut().chain(&mut self.checks);
        for (spool, column) in small.zip([&rows.line_bases, &rows.line_bytes, &rows.check, &rows.id_check]) {
            spool.append(bytemuck::cast_slice(column))?;
        }
        Ok(())
    }
}

fn metadata(
    fingerprint: &Fingerprint,
    data: u64,
    rows: u64,
    lengths: u64,
    repeats: &Repeats,
) -> HashMap<String, String> {
    let (first, again) = repeats.earliest.unwrap_or_default();
    sealed([
        ("kind", KIND.to_owned()),
        ("version", VERSION.to_string()),
        ("writer", format!("seekset {}", env!("CARGO_PKG_VERSION"))),
        ("file_size", fingerprint.size.to_string()),
        ("file_mtime_ns", fingerprint.mtime_ns.to_string()),
        ("file_sample", format!("{:016x}", fingerprint.sample)),
        ("data_size", data.to_string()),
        ("rows", rows.to_string()),
        ("length_check", format!("{lengths:016x}")),
        ("repeated_ids", repeats.count.to_string()),
        ("first_repeat", format!("{first} {again}")),
    ])
}
