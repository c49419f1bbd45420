//! `.sidx`, the native index of a FASTA file: an Arrow IPC file with one row per record. docs/formats.md has every byte.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::columns::{Column, Columns, Store, write};
use super::lookup::{Repeats, Sorter, candidates, hash_name};
use crate::error::{Error, Place, Result};
use crate::io::prefetch::prefetch;
use crate::io::spool::Spool;
use crate::io::{Fingerprint, Source};
use crate::scan::fasta::marks::{MARK_STEP, marks};
use crate::scan::fasta::{Record, Rows, Sink};
use crate::watch::{Beat, Watch};

/// The version of the format. An index of another version is built anew.
pub const VERSION: u32 = 1;

/// Bytes of a column that stay in memory while it is built.
const COLUMN_IN_MEMORY: usize = 16 << 20;

// The buffers of a file, in the order in which `Columns` numbers them.
const ID_ENDS: usize = 0;
const ID_BYTES: usize = 1;
const LENGTH: usize = 2;
const HEADER_OFFSET: usize = 3;
const SEQUENCE_OFFSET: usize = 4;
const LINE_BASES: usize = 5;
const LINE_BYTES: usize = 6;
const MARK_ENDS: usize = 7;
const MARKS: usize = 8;
const CHECK: usize = 9;
const ID_CHECK: usize = 10;
const LOOKUP_HASH: usize = 11;
const LOOKUP_ROW: usize = 12;

fn fields() -> [(&'static str, DataType); 11] {
    [
        ("id", DataType::LargeUtf8),
        ("length", DataType::UInt64),
        ("header_offset", DataType::UInt64),
        ("sequence_offset", DataType::UInt64),
        ("line_bases", DataType::UInt32),
        ("line_bytes", DataType::UInt32),
        ("marks", DataType::List(Arc::new(Field::new("item", DataType::UInt64, false)))),
        ("check", DataType::UInt32),
        ("id_check", DataType::UInt32),
        ("lookup_hash", DataType::UInt32),
        ("lookup_row", DataType::UInt64),
    ]
}

/// Where a record lies and how its lines are shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Letters in the record.
    pub length: u64,
    /// Where its `>` stands.
    pub header_offset: u64,
    /// Where the line after its header starts.
    pub sequence_offset: u64,
    /// Letters per line; 0 where lines are uneven (or longer than 4 GiB) and no arithmetic holds.
    pub line_bases: u32,
    /// Bytes per line, its end included; 0 where `line_bases` is.
    pub line_bytes: u32,
}

impl Entry {
    fn of(record: &Record) -> Self {
        let shape = record.lines.first;
        let even = record.lines.uneven.is_even();
        let (line_bases, line_bytes) = match (u32::try_from(shape.bases), u32::try_from(shape.bytes)) {
            (Ok(bases), Ok(bytes)) if even => (bases, bytes),
            _ => (0, 0),
        };
        let Record { header_offset, sequence_offset, .. } = *record;
        Self { length: record.lines.bases, header_offset, sequence_offset, line_bases, line_bytes }
    }

    /// Whether the place of a letter is not a matter of arithmetic.
    #[must_use]
    pub fn is_uneven(&self) -> bool {
        self.length > 0 && self.line_bases == 0
    }

    /// A checksum of the row, so that a damaged index gives an error rather than a wrong address.
    #[inline]
    fn check(&self) -> u32 {
        let lines = u64::from(self.line_bases) << 32 | u64::from(self.line_bytes);
        let words = [self.length, self.header_offset, self.sequence_offset, lines];
        xxh3_64(bytemuck::cast_slice(&words)) as u32
    }
}

fn check_marks(marks: &[u64]) -> u32 {
    if marks.is_empty() { 0 } else { xxh3_64(bytemuck::cast_slice(marks)) as u32 }
}

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
    fn push(&mut self, record: &Record, id: &str) {
        let entry = Entry::of(record);
        if entry.is_uneven() && record.end - record.sequence_offset > MARK_STEP {
            self.uneven.push((self.length.len(), record.sequence_offset..record.end));
        }
        let hash = hash_name(id.as_bytes());
        self.id_lengths.push(id.len() as u64);
        self.id_bytes.extend_from_slice(id.as_bytes());
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
    id_ends: Spool,
    id_bytes: Spool,
    numbers: [Spool; 3],
    lines: [Spool; 2],
    mark_ends: Spool,
    marks: Spool,
    checks: [Spool; 2],
    sorter: Sorter,
    length_hash: Xxh3,
    folder: std::path::PathBuf,
}

impl<'a> Builder<'a> {
    /// A builder for the records of `source` that spills to unnamed files in `folder`.
    pub fn new(source: &'a dyn Source, folder: &Path) -> Result<Self> {
        let spool = || Spool::new(folder, COLUMN_IN_MEMORY);
        let mut builder = Self {
            source,
            id_ends: spool(),
            id_bytes: spool(),
            numbers: [spool(), spool(), spool()],
            lines: [spool(), spool()],
            mark_ends: spool(),
            marks: spool(),
            checks: [spool(), spool()],
            sorter: Sorter::new(folder),
            length_hash: Xxh3::new(),
            folder: folder.to_owned(),
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
            let found = marks(self.source, span)?;
            rows.check[row] ^= check_marks(&found);
            self.marks.append(bytemuck::cast_slice(&found))?;
        }
        ends.resize(rows.length.len(), count(&self.marks)?);
        Ok(ends)
    }

    /// Writes the index to `out`.
    pub fn finish(mut self, fingerprint: &Fingerprint, out: &mut impl Write, watch: &dyn Watch) -> Result<()> {
        let mut beat = Beat::new(watch, self.source.len());
        let rows = self.sorter.rows();
        let (mut hashes, mut slots) =
            (Spool::new(&self.folder, COLUMN_IN_MEMORY), Spool::new(&self.folder, COLUMN_IN_MEMORY));
        let mut repeats = Repeats::default();
        let (ends, bytes) = (&mut self.id_ends, &mut self.id_bytes);
        std::mem::replace(&mut self.sorter, Sorter::new(&self.folder)).finish(|pairs| {
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

fn spooled_id(ends: &mut Spool, bytes: &mut Spool, row: u64) -> io::Result<Vec<u8>> {
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
        rows.hashes.iter().try_for_each(|&hash| self.sorter.push(hash))?;
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
    [
        ("seekset.kind", "fasta".to_owned()),
        ("seekset.version", VERSION.to_string()),
        ("seekset.writer", format!("seekset {}", env!("CARGO_PKG_VERSION"))),
        ("seekset.file_size", fingerprint.size.to_string()),
        ("seekset.file_mtime_ns", fingerprint.mtime_ns.to_string()),
        ("seekset.file_sample", format!("{:016x}", fingerprint.sample)),
        ("seekset.data_size", data.to_string()),
        ("seekset.rows", rows.to_string()),
        ("seekset.length_check", format!("{lengths:016x}")),
        ("seekset.repeated_ids", repeats.count.to_string()),
        ("seekset.first_repeat", format!("{first} {again}")),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// An open index.
#[derive(Debug, Clone)]
pub struct Sidx {
    columns: Columns,
    /// What the file looked like when it was indexed.
    fingerprint: Fingerprint,
    data_size: u64,
    repeats: Repeats,
    length_check: u64,
}

impl Sidx {
    /// Opens an index over a file's or memory's bytes, in constant time.
    pub fn open(store: Store) -> Result<Self> {
        let columns = Columns::open(store, &fields())?;
        let value = |key: &str| {
            let value = columns.metadata.get(&format!("seekset.{key}"));
            value.ok_or_else(|| Error::format(0, format!("not a usable index: its metadata lack seekset.{key}")))
        };
        let number = |key: &str, radix| {
            let text = value(key)?;
            i128::from_str_radix(text, radix)
                .map_err(|_| Error::format(0, format!("not a usable index: seekset.{key} is '{text}', not a number")))
        };
        let kind = value("kind")?;
        if kind != "fasta" {
            return Err(Error::format(0, format!("expected an index of kind 'fasta', found '{kind}'")));
        }
        if number("version", 10)? != i128::from(VERSION) {
            let found = value("version")?;
            return Err(Error::format(0, format!("expected an index of version {VERSION}, found {found}")));
        }
        let fingerprint = Fingerprint {
            size: number("file_size", 10)? as u64,
            mtime_ns: number("file_mtime_ns", 10)?,
            sample: number("file_sample", 16)? as u64,
        };
        let count = number("repeated_ids", 10)? as u64;
        let pair = value("first_repeat")?.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let repeats = Repeats { count, earliest: pair.filter(|_| count > 0) };
        let data_size = number("data_size", 10)? as u64;
        if number("rows", 10)? != i128::from(columns.rows()) {
            let (rows, found) = (value("rows")?, columns.rows());
            return Err(Error::format(
                0,
                format!("not a usable index: it was written with {rows} rows and has {found}"),
            ));
        }
        let length_check = number("length_check", 16)? as u64;
        Ok(Self { columns, fingerprint, data_size, repeats, length_check })
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.columns.rows()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the file looked like when it was indexed.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Uncompressed bytes in the file when it was indexed.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.data_size
    }

    /// The lengths of all records, in file order.
    #[must_use]
    pub fn lengths(&self) -> &[u64] {
        self.columns.numbers(LENGTH)
    }

    /// An error if the file that the index is mapped from was cut or overwritten.
    pub fn check_unchanged(&self) -> Result<()> {
        self.columns.store().check_unchanged()
    }

    /// [`Sidx::lengths`], compared with their checksum, which takes a pass over them.
    pub fn checked_lengths(&self) -> Result<&[u64]> {
        if xxh3_64(self.columns.bytes(LENGTH)) == self.length_check {
            Ok(self.lengths())
        } else {
            Err(Error::format(0, "the lengths in the index are damaged; delete it, and it is built again"))
        }
    }

    /// The bytes behind the index and where among them [`Sidx::lengths`] lies.
    #[must_use]
    pub fn lengths_place(&self) -> (&Store, std::ops::Range<usize>) {
        (self.columns.store(), self.columns.place(LENGTH))
    }

    /// How many records have an id that an earlier one has.
    #[must_use]
    pub fn repeated_ids(&self) -> u64 {
        self.repeats.count
    }

    /// The error for the first id that names two records, if one does.
    #[must_use]
    pub fn duplicate(&self) -> Option<Error> {
        let (first, second) = self.repeats.earliest?;
        let place = |row| Place { record: Some(row), ..Place::at(self.entry(row).map_or(0, |e| e.header_offset)) };
        let id = self.id(second).unwrap_or("?").to_owned();
        Some(Error::Duplicate { path: None, id, places: Box::new([first, second].map(place)) })
    }

    fn number<T: bytemuck::Pod>(&self, buffer: usize, row: u64) -> Result<T> {
        let value = usize::try_from(row).ok().and_then(|row| self.columns.numbers(buffer).get(row).copied());
        value.ok_or_else(|| self.out_of_range(row))
    }

    /// Where record `row` lies. A damaged row is an error.
    #[inline]
    pub fn entry(&self, row: u64) -> Result<Entry> {
        let (entry, check) = self.unchecked_entry(row).ok_or_else(|| self.out_of_range(row))?;
        let marks = if entry.is_uneven() { check_marks(self.marks(row)?) } else { 0 };
        if check ^ marks == entry.check() { Ok(entry) } else { Err(damaged(row)) }
    }

    #[inline]
    fn unchecked_entry(&self, row: u64) -> Option<(Entry, u32)> {
        let (columns, row) = (&self.columns, usize::try_from(row).ok()?);
        let entry = Entry {
            length: *columns.numbers(LENGTH).get(row)?,
            header_offset: *columns.numbers(HEADER_OFFSET).get(row)?,
            sequence_offset: *columns.numbers(SEQUENCE_OFFSET).get(row)?,
            line_bases: *columns.numbers(LINE_BASES).get(row)?,
            line_bytes: *columns.numbers(LINE_BYTES).get(row)?,
        };
        Some((entry, *columns.numbers(CHECK).get(row)?))
    }

    /// Says that the entry of a row will be wanted shortly.
    #[inline]
    pub fn prefetch(&self, row: u64) {
        for (buffer, width) in
            [(LENGTH, 8), (HEADER_OFFSET, 8), (SEQUENCE_OFFSET, 8), (LINE_BASES, 4), (LINE_BYTES, 4), (CHECK, 4)]
        {
            let at = (row as usize).saturating_mul(width);
            prefetch(self.columns.bytes(buffer).get(at..at.saturating_add(1)).unwrap_or(&[]));
        }
    }

    #[cold]
    fn out_of_range(&self, row: u64) -> Error {
        Error::RowOutOfRange { row: row as i64, rows: self.len() }
    }

    /// The marks of record `row`; none unless its lines are uneven and many.
    pub fn marks(&self, row: u64) -> Result<&[u64]> {
        let (from, to) = (self.number::<u32>(MARK_ENDS, row)?, self.number::<u32>(MARK_ENDS, row + 1)?);
        if from == to {
            return Ok(&[]);
        }
        self.columns.numbers(MARKS).get(from as usize..to as usize).ok_or_else(|| damaged(row))
    }

    /// Where record `row` ends: at the next `>` or the end of the data.
    pub fn end(&self, row: u64) -> Result<u64> {
        match row.cmp(&self.len().saturating_sub(1)) {
            std::cmp::Ordering::Less => Ok(self.entry(row + 1)?.header_offset),
            std::cmp::Ordering::Equal if !self.is_empty() => Ok(self.data_size),
            _ => Err(self.out_of_range(row)),
        }
    }

    /// The id of record `row`.
    pub fn id(&self, row: u64) -> Result<&str> {
        let (from, to): (u64, u64) = (self.number(ID_ENDS, row)?, self.number(ID_ENDS, row + 1)?);
        let id = self.columns.bytes(ID_BYTES).get(from as usize..to as usize).ok_or_else(|| damaged(row))?;
        if self.number::<u32>(ID_CHECK, row)? != hash_name(id) as u32 {
            return Err(damaged(row));
        }
        std::str::from_utf8(id).map_err(|_| damaged(row))
    }

    /// The row of the first record with this id.
    ///
    /// ```
    /// # use seekset_core::fasta::{Fasta, OpenOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("two.fa");
    /// # std::fs::write(&path, b">chr1 long\nACGT\n>chr2\nGG\n>chr2 again\nTT\n")?;
    /// # let fasta = Fasta::open(&path, &OpenOptions::default())?;
    /// let index = fasta.index();
    /// assert_eq!(index.find("chr2")?, Some(1));
    /// assert_eq!(index.id(1)?, "chr2");
    /// assert_eq!(index.find("chr3")?, None);
    /// assert_eq!(index.nearest("chr11", 1, 1000), ["chr1"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn find(&self, id: &str) -> Result<Option<u64>> {
        let hash = hash_name(id.as_bytes());
        let slots = candidates(self.columns.numbers(LOOKUP_HASH), hash);
        let mut first = None;
        for slot in slots.clone() {
            let row: u64 = self.number(LOOKUP_ROW, slot as u64)?;
            self.prefetch(row); // whoever asks for a row by name mostly wants to know where it lies
            match (self.is_named(row, id)?, first) {
                (true, None) => {
                    first = Some(row);
                    if self.repeats.count > 0 && slot > 0 {
                        self.check_slot(slot - 1)?; // it may be an earlier one with this id, out of sight by damage
                    }
                }
                (true, Some(known)) if row <= known => return Err(damaged(row)),
                // Rows with one id stand together and rise.
                (_, Some(_)) => break,
                (false, None) => {}
            }
        }
        if first.is_none() {
            // Before a name is called unknown, the slots where it would be must hold what they should.
            (slots.start.saturating_sub(1)..slots.end.saturating_add(2)).try_for_each(|slot| self.check_slot(slot))?;
        }
        Ok(first)
    }

    /// An error if a slot of the lookup holds another hash than that of the row it leads to.
    #[cold]
    fn check_slot(&self, slot: usize) -> Result<()> {
        let (hashes, rows) = (self.columns.numbers::<u32>(LOOKUP_HASH), self.columns.numbers::<u64>(LOOKUP_ROW));
        let (Some(&hash), Some(&row)) = (hashes.get(slot), rows.get(slot)) else { return Ok(()) };
        if row >= self.len() || (hash_name(self.id(row)?.as_bytes()) >> 32) as u32 != hash {
            return Err(damaged(row));
        }
        Ok(())
    }

    /// Whether a row that the lookup led to has this id.
    fn is_named(&self, row: u64, id: &str) -> Result<bool> {
        let ends = self.columns.numbers::<u64>(ID_ENDS).get(row as usize..).and_then(<[u64]>::first_chunk::<2>);
        let &[from, to] = ends.ok_or_else(|| damaged(row))?;
        // Equal bytes are right as they are; others are another id, or damaged.
        let same = self.columns.bytes(ID_BYTES).get(from as usize..to as usize) == Some(id.as_bytes());
        Ok(same || self.id(row)? == id)
    }

    /// Up to `count` ids that look like `id`, the most alike first, among the first `among` records.
    #[must_use]
    pub fn nearest(&self, id: &str, count: usize, among: u64) -> Vec<String> {
        let close = |other: &&str| other.len().abs_diff(id.len()) <= 3 + id.len() / 4;
        let ids = (0..self.len().min(among)).filter_map(|row| self.id(row).ok());
        let mut found: Vec<(f64, &str)> = ids
            .filter(close)
            .map(|other| (strsim::jaro_winkler(id, other), other))
            .filter(|(score, _)| *score > 0.8)
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().take(count).map(|(_, id)| id.to_owned()).collect()
    }

    /// Reads every row and compares all checksums and the lookup: for `seekset index --verify`.
    pub fn verify(&self) -> Result<()> {
        for row in 0..self.len() {
            self.entry(row)?;
            self.id(row)?;
            self.check_slot(row as usize)?;
        }
        self.checked_lengths()?;
        Ok(())
    }
}

#[cold]
fn damaged(row: u64) -> Error {
    let place = Place { record: Some(row), ..Place::default() };
    Error::Format {
        path: None,
        place,
        message: "the index is damaged here; delete it, and it is built again".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::scan::fasta::scan;
    use crate::watch::Unwatched;

    /// The index of a file in memory. Tests of what builds on an index start from it, too.
    pub(crate) fn index_of(file: &[u8]) -> Sidx {
        let source = file.to_vec();
        let mut builder = Builder::new(&source, &std::env::temp_dir()).unwrap();
        scan(&source, 1, &Unwatched, &mut builder).unwrap();
        let mut bytes = Vec::new();
        builder.finish(&Fingerprint { size: 1, mtime_ns: -2, sample: u64::MAX }, &mut bytes, &Unwatched).unwrap();
        Sidx::open(Store::memory(&bytes)).unwrap()
    }

    #[test]
    fn rows_are_those_of_the_file() {
        let index = index_of(b">a x\nACGT\nAC\n>b\nA CG\n>\n");
        let entry = |length, header_offset, sequence_offset, line_bases, line_bytes| Entry {
            length,
            header_offset,
            sequence_offset,
            line_bases,
            line_bytes,
        };
        assert_eq!(index.len(), 3);
        assert_eq!(index.lengths(), [6, 3, 0]);
        assert_eq!(index.entry(0).unwrap(), entry(6, 0, 5, 4, 5));
        assert_eq!(index.entry(1).unwrap(), entry(3, 13, 16, 0, 0));
        assert_eq!(index.entry(2).unwrap(), entry(0, 21, 23, 0, 0));
        assert_eq!([0, 1, 2].map(|row| index.entry(row).unwrap().is_uneven()), [false, true, false]);
        assert_eq!([0, 1, 2].map(|row| index.id(row).unwrap()), ["a", "b", "21"]);
        assert_eq!([0, 1, 2].map(|row| index.end(row).unwrap()), [13, 21, 23]);
        assert_eq!(*index.fingerprint(), Fingerprint { size: 1, mtime_ns: -2, sample: u64::MAX });
        index.verify().unwrap();
    }

    #[test]
    fn the_first_of_equal_ids_is_found_and_the_repeat_is_told() {
        let index = index_of(b">b\n>a\n>b\n>c\n>a\n>a\n");
        assert_eq!(["a", "b", "c", "d", ""].map(|id| index.find(id).unwrap()), [Some(1), Some(0), Some(3), None, None]);
        assert_eq!(index.repeated_ids(), 3);
        let message = index.duplicate().unwrap().to_string();
        assert!(
            message.contains("id 'b' names two records, the first at record 0, byte 0, another at record 2, byte 6")
        );
        assert!(index_of(b">a\n>b\n").duplicate().is_none());
    }

    #[test]
    fn near_ids_come_with_the_nearest_first() {
        let index = index_of(b">chr1\n>chr10\n>chrX\n>scaffold_12\n");
        assert_eq!(index.nearest("chr100", 2, 100), ["chr10", "chr1"]);
        assert_eq!(index.nearest("chr100", 2, 1), ["chr1"]);
        assert_eq!(index.nearest("qqqqqq", 2, 100), Vec::<String>::new());
    }

    #[test]
    fn many_rows_are_all_found() {
        let records: Vec<String> = (0..5000).map(|k| format!(">id{k}\nA\n")).collect();
        let index = index_of(records.concat().as_bytes());
        assert!((0..5000).all(|k| index.find(&format!("id{k}")).unwrap() == Some(k)));
        assert!((5000..9000).all(|k| index.find(&format!("id{k}")).unwrap().is_none()));
    }
}
