//! Writing an index: rows collected in the order they come in, in bounded memory.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use arrow_schema::{Field, Schema};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{FastaFile, KIND, Listed, Sequence, VERSION, fields};
use crate::error::{Error, Result};
use crate::index::columns::{Column, sealed, write};
use crate::index::lookup::hash_name;
use crate::io::Fingerprint;
use crate::io::spool::Spool;
use crate::watch::{Beat, Watch};

/// Bytes of a column that stay in memory while it is built.
const COLUMN_IN_MEMORY: usize = 16 << 20;

/// Some rows, column by column.
#[derive(Debug, Default, Clone)]
pub struct Rows {
    id_lengths: Vec<u64>,
    id_bytes: Vec<u8>,
    length: Vec<u64>,
    file: Vec<u32>,
    row: Vec<u64>,
    byte_offset: Vec<u64>,
    check: Vec<u32>,
    id_check: Vec<u32>,
}

impl Rows {
    /// Room for so many rows.
    #[must_use]
    pub fn with_capacity(rows: usize) -> Self {
        Self {
            id_lengths: Vec::with_capacity(rows),
            id_bytes: Vec::with_capacity(16 * rows),
            length: Vec::with_capacity(rows),
            file: Vec::with_capacity(rows),
            row: Vec::with_capacity(rows),
            byte_offset: Vec::with_capacity(rows),
            check: Vec::with_capacity(rows),
            id_check: Vec::with_capacity(rows),
        }
    }

    /// Adds a row.
    pub fn push(&mut self, id: &str, sequence: &Sequence) {
        self.id_lengths.push(id.len() as u64);
        self.id_bytes.extend_from_slice(id.as_bytes());
        self.length.push(sequence.length);
        self.file.push(sequence.file);
        self.row.push(sequence.row);
        self.byte_offset.push(sequence.byte_offset);
        self.check.push(sequence.check());
        self.id_check.push(hash_name(id.as_bytes()) as u32);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length.is_empty()
    }

    /// The bytes of each id, and its sequence.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Sequence)> {
        let mut ids = &self.id_bytes[..];
        self.id_lengths.iter().enumerate().map(move |(k, &length)| {
            let (id, rest) = ids.split_at(length as usize);
            ids = rest;
            let (length, file, row, byte_offset) = (self.length[k], self.file[k], self.row[k], self.byte_offset[k]);
            (id, Sequence { length, file, row, byte_offset })
        })
    }
}

/// What an index says beside its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The files, in the order of their numbers.
    pub files: Vec<FastaFile>,
    /// When the index was made, as text.
    pub created: String,
    /// The JSON file that the index stands for, if it does.
    pub json: Option<Fingerprint>,
}

/// Collects rows in bounded memory and writes them as an index.
pub struct Builder<'a> {
    beat: Beat<'a>,
    id_ends: Spool,
    id_bytes: Spool,
    numbers: [Spool; 3],
    small: [Spool; 3],
    hashes: [Xxh3; 5],
    rows: u64,
    tokens: u64,
    last: u64,
    descending: bool,
}

impl<'a> Builder<'a> {
    /// A builder that spills to unnamed files in `folder`; `total` is what its watcher is told to be done.
    pub fn new(folder: &Path, watch: &'a dyn Watch, total: u64) -> Result<Self> {
        let spool = || Spool::new(folder, COLUMN_IN_MEMORY);
        let mut builder = Self {
            beat: Beat::new(watch, total),
            id_ends: spool(),
            id_bytes: spool(),
            numbers: [spool(), spool(), spool()],
            small: [spool(), spool(), spool()],
            hashes: std::array::from_fn(|_| Xxh3::new()),
            rows: 0,
            tokens: 0,
            last: u64::MAX,
            descending: true,
        };
        builder.id_ends.append(&0_u64.to_le_bytes())?;
        builder.hashes[4].update(&0_u64.to_le_bytes());
        Ok(builder)
    }

    /// Adds rows after those it has.
    pub fn take(&mut self, mut rows: Rows) -> Result<()> {
        let mut end = self.id_bytes.len();
        for length in &mut rows.id_lengths {
            end += *length;
            *length = end;
        }
        for &length in &rows.length {
            self.descending &= length <= self.last;
            self.last = length;
            self.tokens = self.tokens.checked_add(length).ok_or_else(too_long)?;
        }
        self.rows += rows.len() as u64;
        let numbers: [&[u8]; 3] =
            [&rows.length, &rows.byte_offset, &rows.row].map(|column| bytemuck::cast_slice(column));
        for (spool, column) in self.numbers.iter_mut().zip(numbers) {
            spool.append(column)?;
        }
        for (spool, column) in self.small.iter_mut().zip([&rows.file, &rows.check, &rows.id_check]) {
            spool.append(bytemuck::cast_slice(column))?;
        }
        let ends: &[u8] = bytemuck::cast_slice(&rows.id_lengths);
        self.id_ends.append(ends)?;
        self.id_bytes.append(&rows.id_bytes)?;
        let hashed = [numbers[0], bytemuck::cast_slice(&rows.file), numbers[1], &rows.id_bytes, ends];
        self.hashes.iter_mut().zip(hashed).for_each(|(hash, bytes)| hash.update(bytes));
        self.beat.go_on()
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The sum of their lengths.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Whether no row is longer than the one before it.
    #[must_use]
    pub fn is_descending(&self) -> bool {
        self.descending
    }

    /// Writes the index to `out`.
    pub fn finish(self, facts: &Facts, out: &mut impl Write) -> Result<()> {
        let digests = self.hashes.each_ref().map(Xxh3::digest);
        let metadata = metadata(facts, self.rows, self.tokens, &digests)?;
        let fields = fields().map(|(name, kind)| Field::new(name, kind, false)).to_vec();
        let schema = Schema::new_with_metadata(fields, metadata);
        let Self { mut beat, numbers: [length, byte_offset, row], small: [file, check, id_check], rows, .. } = self;
        let mut columns = [
            Column::Text(self.id_ends, self.id_bytes),
            Column::Numbers(length),
            Column::Numbers(file),
            Column::Numbers(row),
            Column::Numbers(byte_offset),
            Column::Numbers(check),
            Column::Numbers(id_check),
        ];
        write(out, &schema, rows, &mut columns, || beat.go_on())
    }
}

pub(crate) fn too_long() -> Error {
    Error::format(0, "the lengths of all sequences add up to more than 64 bits can hold")
}

/// The fingerprint of an index: what its rows are, whatever its files are called and however it is stored.
pub(super) fn fingerprint(rows: u64, digests: &[u64; 5]) -> u64 {
    let [length, file, byte_offset, ids, ends] = *digests;
    xxh3_64(bytemuck::cast_slice(&[rows, length, file, byte_offset, ids, ends]))
}

fn metadata(facts: &Facts, rows: u64, tokens: u64, digests: &[u64; 5]) -> Result<HashMap<String, String>> {
    let listed: Vec<Listed> = facts.files.iter().map(Listed::from).collect();
    let files = serde_json::to_string(&listed).map_err(|e| Error::Mismatch(format!("files can't be listed: {e}")))?;
    let mut pairs = vec![
        ("kind", KIND.to_owned()),
        ("version", VERSION.to_string()),
        ("writer", format!("seekset {}", env!("CARGO_PKG_VERSION"))),
        ("created", facts.created.clone()),
        ("files", files),
        ("rows", rows.to_string()),
        ("tokens", tokens.to_string()),
        ("length_check", format!("{:016x}", digests[0])),
        ("fingerprint", format!("{:016x}", fingerprint(rows, digests))),
    ];
    if let Some(Fingerprint { size, mtime_ns, sample }) = facts.json {
        pairs.push(("json_size", size.to_string()));
        pairs.push(("json_mtime_ns", mtime_ns.to_string()));
        pairs.push(("json_sample", format!("{sample:016x}")));
    }
    Ok(sealed(pairs))
}
