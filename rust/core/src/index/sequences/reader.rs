//! Reading an index in place: every access checked, because what lies on a disk may be damaged.

use std::ops::Range;

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::builder::{Facts, Rows, fingerprint};
use super::{
    BYTE_OFFSET, CHECK, Counts, FILE, FastaFile, ID_BYTES, ID_CHECK, ID_ENDS, KIND, LENGTH, Listed, ROW, Sequence,
    Turns, VERSION, fields,
};
use crate::error::{Error, Place, Result};
use crate::index::columns::Columns;
use crate::index::ids::Ids;
use crate::index::lookup::{Sorter, hash_name};
use crate::io::prefetch::prefetch;
use crate::io::{Fingerprint, Spills, Store, threads};

/// Rows that one thread reads at a time.
pub(crate) const TAKEN: u64 = 4096;

/// Rows are asked for so many rows before they are read.
const AHEAD: usize = 32;

/// Rows that are in memory at a time where all are passed through.
pub(crate) const AT_ONCE: u64 = 64 * TAKEN;

/// File and byte of a record, and its row.
type Placed = ((u32, u64), u64);

/// An open index.
#[derive(Debug, Clone)]
pub struct Sequences {
    columns: Columns,
    facts: Facts,
    tokens: u64,
    fingerprint: u64,
    length_check: u64,
}

impl Sequences {
    /// Opens an index over a file's or memory's bytes, in constant time.
    pub fn open(store: Store) -> Result<Self> {
        let columns = Columns::open(store, &fields())?;
        columns.check_kind(KIND, VERSION)?;
        columns.check_seal()?;
        columns.check_rows()?;
        let number = |key: &str, radix| columns.number(key, radix);
        let json = if columns.metadata.contains_key("seekset.json_size") {
            let (size, mtime_ns) = (number("json_size", 10)? as u64, number("json_mtime_ns", 10)?);
            Some(Fingerprint { size, mtime_ns, sample: number("json_sample", 16)? as u64 })
        } else {
            None
        };
        let files = files(columns.text("files")?)?;
        let facts = Facts { files, created: columns.text("created")?.to_owned(), json };
        let (tokens, fingerprint) = (number("tokens", 10)? as u64, number("fingerprint", 16)? as u64);
        let length_check = number("length_check", 16)? as u64;
        Ok(Self { columns, facts, tokens, fingerprint, length_check })
    }

    /// How many sequences there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.columns.rows()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The files, when the index was made, and which JSON file it stands for.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The sum of all lengths.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// How many rows there are, and how large they are in all.
    pub fn counts(&self) -> Result<Counts> {
        let id_bytes = self.looked_up().ids.bytes().ok_or_else(|| damaged(self.len().saturating_sub(1)))?;
        Ok(Counts { rows: self.len(), tokens: self.tokens, id_bytes })
    }

    /// The same for the same sequences in the same order, whatever their files are called and however it is stored.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The lengths of all sequences.
    #[must_use]
    pub fn lengths(&self) -> &[u64] {
        self.columns.numbers(LENGTH)
    }

    /// [`Sequences::lengths`], compared with their checksum, which takes a pass over them.
    pub fn checked_lengths(&self) -> Result<&[u64]> {
        if xxh3_64(self.columns.bytes(LENGTH)) == self.length_check {
            Ok(self.lengths())
        } else {
            Err(Error::format(0, format!("the lengths in the index are damaged; {AGAIN}")))
        }
    }

    /// Compares every row, its id left out, with its checksum, which takes a pass over them.
    pub fn check_sequences(&self) -> Result<()> {
        let columns = self.looked_up();
        let starts: Vec<u64> = (0..self.len()).step_by(TAKEN as usize).collect();
        let look = |row| columns.sequence(row).map(drop);
        let sound = |&start: &u64| (start..self.len().min(start + TAKEN)).try_for_each(look);
        threads::in_pool(|| starts.par_iter().try_for_each(sound))?
    }

    /// The bytes behind the index.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.columns.store()
    }

    /// Where in the store the lengths lie, as uint64.
    #[must_use]
    pub fn lengths_place(&self) -> Range<usize> {
        self.columns.place(LENGTH)
    }

    /// Where in the store the rows of the sequences in their files lie, as uint64.
    #[must_use]
    pub fn rows_place(&self) -> Range<usize> {
        self.columns.place(ROW)
    }

    /// Where in the store the numbers of the sequences' files lie, as uint32.
    #[must_use]
    pub fn files_place(&self) -> Range<usize> {
        self.columns.place(FILE)
    }

    /// Where in the store the places of the sequences' `>` lie, as uint64.
    #[must_use]
    pub fn offsets_place(&self) -> Range<usize> {
        self.columns.place(BYTE_OFFSET)
    }

    /// An error if the file that the index is mapped from was cut or overwritten.
    pub fn check_unchanged(&self) -> Result<()> {
        self.columns.store().check_unchanged()
    }

    /// The columns, looked up once for many rows.
    #[inline]
    pub(super) fn looked_up(&self) -> LookedUp<'_> {
        let columns = &self.columns;
        LookedUp {
            ids: Ids::new(columns, ID_ENDS, ID_BYTES, ID_CHECK),
            length: columns.numbers(LENGTH),
            file: columns.numbers(FILE),
            row: columns.numbers(ROW),
            byte_offset: columns.numbers(BYTE_OFFSET),
            check: columns.numbers(CHECK),
            files: self.facts.files.len(),
        }
    }

    /// The sequence in a row. A damaged row is an error.
    pub fn sequence(&self, row: u64) -> Result<Sequence> {
        self.looked_up().sequence(row)
    }

    /// The id of the sequence in a row.
    pub fn id(&self, row: u64) -> Result<&str> {
        self.looked_up().id(row)
    }

    /// Adds some rows to `found`, in the order asked.
    pub fn read(&self, wanted: &[u64], found: &mut Rows) -> Result<()> {
        let columns = self.looked_up();
        found.reserve(wanted.len());
        for (k, &row) in wanted.iter().enumerate() {
            if let Some(&later) = wanted.get(k + AHEAD) {
                columns.prefetch(later);
            }
            if let Some(&soon) = wanted.get(k + AHEAD / 2) {
                columns.ids.prefetch(soon);
            }
            let (id, check) = columns.checked_id(row)?;
            found.push_checked(id.as_bytes(), check, &columns.sequence(row)?);
        }
        Ok(())
    }

    /// Hands over all rows in order, some at a time; they are read by several threads.
    pub fn pass(&self, mut take: impl FnMut(&Rows) -> Result<()>) -> Result<()> {
        let mut turns = Turns::default();
        for from in (0..self.len()).step_by(AT_ONCE as usize) {
            self.check_unchanged()?;
            let starts: Vec<u64> = (from..self.len().min(from + AT_ONCE)).step_by(TAKEN as usize).collect();
            let some = |start: u64| (start..self.len().min(start + TAKEN)).collect::<Vec<u64>>();
            turns.next(&starts, |&start, rows| self.read(&some(start), rows), &mut take)?;
        }
        turns.end(take)
    }

    /// Reads every row and compares all checksums, sums and the order.
    pub fn verify(&self) -> Result<()> {
        let lengths = self.checked_lengths()?;
        if !lengths.is_sorted_by(|a, b| a >= b) {
            return Err(Error::format(0, format!("its sequences are not in the order of their lengths; {AGAIN}")));
        }
        let tokens: u128 = lengths.iter().map(|&length| u128::from(length)).sum();
        let digests = [LENGTH, FILE, BYTE_OFFSET, ID_BYTES, ID_ENDS].map(|buffer| xxh3_64(self.columns.bytes(buffer)));
        if tokens != u128::from(self.tokens) || fingerprint(self.len(), &digests) != self.fingerprint {
            return Err(Error::format(0, format!("the index is not what its fingerprint says; {AGAIN}")));
        }
        self.pass(|_| Ok(()))
    }

    /// The row of the first record, in the order of files, whose id one before it has, after the row of that one. Takes a
    /// pass over all ids.
    pub fn repeat(&self, spills: &Spills) -> Result<Option<(u64, u64)>> {
        let mut sorter = Sorter::new(spills);
        for row in 0..self.len() {
            sorter.push_hash(hash_name(self.id(row)?.as_bytes()))?;
        }
        let mut earliest = None;
        sorter.finish(|pairs| {
            for group in pairs.chunk_by(|a, b| a.hash == b.hash).filter(|group| group.len() > 1) {
                let found = self.repeat_among(group.iter().map(|pair| pair.row))?;
                earliest = [earliest, found].into_iter().flatten().min_by_key(|&[_, (place, _)]| place);
            }
            Ok(())
        })?;
        Ok(earliest.map(|[(_, first), (_, second)]| (first, second)))
    }

    /// The first repeat among rows whose ids have one hash: file and byte of both records, and their rows.
    fn repeat_among(&self, rows: impl Iterator<Item = u64>) -> Result<Option<[Placed; 2]>> {
        let placed = rows.map(|row| self.sequence(row).map(|found| ((found.file, found.byte_offset), row)));
        let mut placed = placed.collect::<Result<Vec<Placed>>>()?;
        placed.sort_unstable();
        for (k, &later) in placed.iter().enumerate() {
            for &earlier in &placed[..k] {
                if self.id(earlier.1)? == self.id(later.1)? {
                    return Ok(Some([earlier, later]));
                }
            }
        }
        Ok(None)
    }
}

/// The columns of an index.
#[derive(Clone, Copy)]
pub(super) struct LookedUp<'a> {
    ids: Ids<'a>,
    length: &'a [u64],
    file: &'a [u32],
    row: &'a [u64],
    byte_offset: &'a [u64],
    check: &'a [u32],
    files: usize,
}

impl<'a> LookedUp<'a> {
    #[inline]
    fn sequence(&self, row: u64) -> Result<Sequence> {
        let (sequence, check) = self.unchecked(row).ok_or_else(|| self.out_of_range(row))?;
        let sound = sequence.check() == check && (sequence.file as usize) < self.files;
        if sound { Ok(sequence) } else { Err(damaged(row)) }
    }

    #[inline]
    fn unchecked(&self, row: u64) -> Option<(Sequence, u32)> {
        let row = usize::try_from(row).ok()?;
        let sequence = Sequence {
            length: *self.length.get(row)?,
            file: *self.file.get(row)?,
            row: *self.row.get(row)?,
            byte_offset: *self.byte_offset.get(row)?,
        };
        Some((sequence, *self.check.get(row)?))
    }

    #[inline]
    fn id(&self, row: u64) -> Result<&'a str> {
        self.checked_id(row).map(|(id, _)| id)
    }

    /// The id of a row and its checksum.
    #[inline]
    fn checked_id(&self, row: u64) -> Result<(&'a str, u32)> {
        let missing = || if row < self.length.len() as u64 { damaged(row) } else { self.out_of_range(row) };
        self.ids.checked(row).ok_or_else(missing)
    }

    /// Says that a row will be wanted shortly. Rows by length lie far apart: waiting for each takes longer than reading it.
    #[inline]
    fn prefetch(&self, row: u64) {
        self.ids.prefetch_place(row);
        let Ok(row) = usize::try_from(row) else { return };
        for column in [self.length, self.row, self.byte_offset] {
            prefetch(column.get(row..=row).unwrap_or(&[]));
        }
        for column in [self.file, self.check] {
            prefetch(column.get(row..=row).unwrap_or(&[]));
        }
    }

    #[cold]
    fn out_of_range(&self, row: u64) -> Error {
        Error::RowOutOfRange { row: row as i64, rows: self.length.len() as u64 }
    }
}

const AGAIN: &str = "create it again";

fn files(text: &str) -> Result<Vec<FastaFile>> {
    let listed: Vec<Listed> = serde_json::from_str(text)
        .map_err(|e| Error::format(0, format!("not a usable index: seekset.files is no list of files: {e}")))?;
    let file = |listed: Listed| {
        let unknown = || Error::format(0, format!("not a usable index: nothing is known of its file {}", listed.path));
        let seen = listed.seen().ok_or_else(unknown)?;
        Ok(FastaFile { path: listed.path, seen })
    };
    listed.into_iter().map(file).collect()
}

#[cold]
fn damaged(row: u64) -> Error {
    let place = Place { record: Some(row), ..Place::default() };
    Error::Format { path: None, place, message: format!("the index is damaged here; {AGAIN}") }
}
