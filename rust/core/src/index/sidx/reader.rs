//! Reading an index in place: every access checked, because what lies on a disk may be damaged.

use xxhash_rust::xxh3::xxh3_64;

use super::{
    CHECK, Entry, HEADER_OFFSET, ID_BYTES, ID_CHECK, ID_ENDS, KIND, LENGTH, LINE_BASES, LINE_BYTES, LOOKUP_HASH,
    LOOKUP_ROW, MARK_ENDS, MARKS, SEQUENCE_OFFSET, VERSION, check_marks, fields,
};
use crate::error::{Error, Place, Result};
use crate::index::columns::Columns;
use crate::index::ids::Ids;
use crate::index::lookup::{Repeats, candidates, hash_name};
use crate::io::prefetch::prefetch;
use crate::io::{Fingerprint, Store};

/// Rows that are verified between two looks at the file.
const VERIFIED: u64 = 4096;

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
        columns.check_kind(KIND, VERSION)?;
        if columns.is_sealed() {
            columns.check_seal()?;
        }
        columns.check_rows()?;
        let number = |key: &str, radix| columns.number(key, radix);
        let fingerprint = Fingerprint {
            size: number("file_size", 10)? as u64,
            mtime_ns: number("file_mtime_ns", 10)?,
            sample: number("file_sample", 16)? as u64,
        };
        let count = number("repeated_ids", 10)? as u64;
        let pair =
            columns.text("first_repeat")?.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let repeats = Repeats { count, earliest: pair.filter(|_| count > 0) };
        let data_size = number("data_size", 10)? as u64;
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

    /// The columns that say where records lie, looked up once for many rows.
    #[inline]
    #[must_use]
    pub fn entries(&self) -> Entries<'_> {
        let columns = &self.columns;
        Entries {
            index: self,
            length: columns.numbers(LENGTH),
            header_offset: columns.numbers(HEADER_OFFSET),
            sequence_offset: columns.numbers(SEQUENCE_OFFSET),
            line_bases: columns.numbers(LINE_BASES),
            line_bytes: columns.numbers(LINE_BYTES),
            check: columns.numbers(CHECK),
        }
    }

    /// Where record `row` lies. A damaged row is an error.
    #[inline]
    pub fn entry(&self, row: u64) -> Result<Entry> {
        self.entries().get(row)
    }

    #[cold]
    fn out_of_range(&self, row: u64) -> Error {
        Error::RowOutOfRange { row: row as i64, rows: self.len() }
    }

    /// The row of the record whose `>` stands at this byte. Rows lie in file order, so that a search by halves finds it.
    #[must_use]
    pub fn row_at(&self, header_offset: u64) -> Option<u64> {
        self.columns.numbers::<u64>(HEADER_OFFSET).binary_search(&header_offset).ok().map(|row| row as u64)
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

    /// Bytes of all ids.
    pub fn id_bytes(&self) -> Result<u64> {
        self.ids().bytes().ok_or_else(|| damaged(self.len().saturating_sub(1)))
    }

    /// The ids, looked up once for many rows.
    #[inline]
    #[must_use]
    pub fn ids(&self) -> Ids<'_> {
        Ids::new(&self.columns, ID_ENDS, ID_BYTES, ID_CHECK)
    }

    /// The id of record `row`.
    pub fn id(&self, row: u64) -> Result<&str> {
        let missing = || if row < self.len() { damaged(row) } else { self.out_of_range(row) };
        self.ids().get(row).ok_or_else(missing)
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
            self.entries().prefetch(row); // whoever asks for a row by name mostly wants to know where it lies
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

    /// Compares some rows and their ids with their checksums, after a look at the file.
    pub fn check_rows(&self, mut rows: std::ops::Range<u64>) -> Result<()> {
        self.check_unchanged()?;
        let (entries, ids) = (self.entries(), self.ids());
        rows.try_for_each(|row| {
            entries.get(row)?;
            ids.get(row).map(drop).ok_or_else(|| damaged(row))
        })
    }

    /// Reads every row and compares all checksums and the lookup: for `seekset index --verify`.
    pub fn verify(&self) -> Result<()> {
        for start in (0..self.len()).step_by(VERIFIED as usize) {
            let rows = start..self.len().min(start + VERIFIED);
            self.check_rows(rows.clone())?;
            rows.into_iter().try_for_each(|row| self.check_slot(row as usize))?;
        }
        self.checked_lengths()?;
        Ok(())
    }
}

/// Where the records of an index lie.
#[derive(Clone, Copy)]
pub struct Entries<'a> {
    index: &'a Sidx,
    length: &'a [u64],
    header_offset: &'a [u64],
    sequence_offset: &'a [u64],
    line_bases: &'a [u32],
    line_bytes: &'a [u32],
    check: &'a [u32],
}

impl<'a> Entries<'a> {
    /// The index that they are of.
    #[must_use]
    pub fn index(&self) -> &'a Sidx {
        self.index
    }

    /// Where record `row` lies. A damaged row is an error.
    #[inline]
    pub fn get(&self, row: u64) -> Result<Entry> {
        let (entry, check) = self.unchecked(row).ok_or_else(|| self.index.out_of_range(row))?;
        let marks = if entry.is_uneven() { check_marks(self.index.marks(row)?) } else { 0 };
        if check ^ marks == entry.check() { Ok(entry) } else { Err(damaged(row)) }
    }

    #[inline]
    fn unchecked(&self, row: u64) -> Option<(Entry, u32)> {
        let row = usize::try_from(row).ok()?;
        let entry = Entry {
            length: *self.length.get(row)?,
            header_offset: *self.header_offset.get(row)?,
            sequence_offset: *self.sequence_offset.get(row)?,
            line_bases: *self.line_bases.get(row)?,
            line_bytes: *self.line_bytes.get(row)?,
        };
        Some((entry, *self.check.get(row)?))
    }

    /// The length of record `row` and where its `>` stands, as they lie there, for those who have compared them before.
    #[inline]
    #[must_use]
    pub fn unchecked_start(&self, row: u64) -> Option<(u64, u64)> {
        let row = usize::try_from(row).ok()?;
        Some((*self.length.get(row)?, *self.header_offset.get(row)?))
    }

    /// Says that [`Entries::unchecked_start`] will be called for a row.
    #[inline]
    pub fn prefetch_start(&self, row: u64) {
        let Ok(row) = usize::try_from(row) else { return };
        for column in [self.length, self.header_offset] {
            prefetch(column.get(row..=row).unwrap_or(&[]));
        }
    }

    /// Says that the entry of a row will be wanted shortly.
    #[inline]
    pub fn prefetch(&self, row: u64) {
        let Ok(row) = usize::try_from(row) else { return };
        for column in [self.length, self.header_offset, self.sequence_offset] {
            prefetch(column.get(row..=row).unwrap_or(&[]));
        }
        for column in [self.line_bases, self.line_bytes, self.check] {
            prefetch(column.get(row..=row).unwrap_or(&[]));
        }
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
