//! Writing an index: rows collected in the order they come in, in bounded memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;

use arrow_schema::{Field, Schema};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{
    BUFFERS, BYTE_OFFSET, CHECK, FILE, FastaFile, ID_BYTES, ID_CHECK, ID_ENDS, KIND, LENGTH, Listed, ROW, Sequence,
    VERSION, fields,
};
use crate::error::{Error, Result};
use crate::index::columns::{Column, Placed, sealed, write};
use crate::index::lookup::hash_name;
use crate::io::spool::Spool;
use crate::io::{Fingerprint, Spills};
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
    /// Makes room for so many more rows.
    pub fn reserve(&mut self, rows: usize) {
        for column in [&mut self.id_lengths, &mut self.length, &mut self.row, &mut self.byte_offset] {
            column.reserve(rows);
        }
        for column in [&mut self.file, &mut self.check, &mut self.id_check] {
            column.reserve(rows);
        }
        self.id_bytes.reserve(16 * rows);
    }

    /// Adds a row.
    pub fn push(&mut self, id: &str, sequence: &Sequence) {
        self.push_checked(id.as_bytes(), hash_name(id.as_bytes()) as u32, sequence);
    }

    /// Adds a row whose id has this checksum, which another index has.
    pub(crate) fn push_checked(&mut self, id: &[u8], id_check: u32, sequence: &Sequence) {
        self.id_lengths.push(id.len() as u64);
        self.id_bytes.extend_from_slice(id);
        self.length.push(sequence.length);
        self.file.push(sequence.file);
        self.row.push(sequence.row);
        self.byte_offset.push(sequence.byte_offset);
        self.check.push(sequence.check());
        self.id_check.push(id_check);
    }

    /// Takes all rows out. Their memory stays, for others.
    pub fn clear(&mut self) {
        for column in [&mut self.id_lengths, &mut self.length, &mut self.row, &mut self.byte_offset] {
            column.clear();
        }
        for column in [&mut self.file, &mut self.check, &mut self.id_check] {
            column.clear();
        }
        self.id_bytes.clear();
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

/// How many rows there are, and how large they are in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows.
    pub rows: u64,
    /// The sum of their lengths.
    pub tokens: u64,
    /// Bytes of their ids.
    pub id_bytes: u64,
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

/// Where a builder puts the bytes of its columns.
pub trait Buffers {
    /// Adds bytes to a buffer, after those it has.
    fn append(&mut self, buffer: usize, bytes: &[u8]) -> Result<()>;
}

/// Buffers of any size: in memory, and in unnamed files when they are large.
pub struct Spools([Spool; BUFFERS]);

impl Buffers for Spools {
    fn append(&mut self, buffer: usize, bytes: &[u8]) -> Result<()> {
        self.0[buffer].append(bytes)
    }
}

impl Buffers for Placed {
    fn append(&mut self, buffer: usize, bytes: &[u8]) -> Result<()> {
        Self::append(self, buffer, bytes)
    }
}

/// Collects rows in bounded memory and writes them as an index.
pub struct Builder<'a, B = Spools> {
    beat: Beat<'a>,
    buffers: B,
    /// Where the ids of the rows that are being taken end.
    ends: Vec<u64>,
    hashes: [Xxh3; 5],
    rows: u64,
    tokens: u64,
    id_bytes: u64,
    last: u64,
    descending: bool,
}

impl<'a> Builder<'a> {
    /// A builder that collects rows; `total` is what its watcher is told to be done.
    pub fn new(spills: &Spills, watch: &'a dyn Watch, total: u64) -> Result<Self> {
        let spools = Spools(std::array::from_fn(|_| spills.spool(COLUMN_IN_MEMORY)));
        Self::with(spools, Beat::new(watch, total))
    }

    /// Writes the index to `out`.
    pub fn finish(self, facts: &Facts, out: &mut impl Write) -> Result<()> {
        let schema = schema(facts, self.counts(), &self.digests())?;
        let Self { mut beat, rows, buffers: Spools(spools), .. } = self;
        let [id_ends, id_bytes, length, file, row, byte_offset, check, id_check] = spools;
        let mut columns = [
            Column::Text(id_ends, id_bytes),
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

impl<'a> Builder<'a, Placed> {
    /// A builder of rows that were counted before: they are written once, to their places in an empty file.
    pub fn in_place(file: File, facts: &Facts, counts: Counts, watch: &'a dyn Watch) -> Result<Self> {
        let schema = schema(facts, counts, &[0; 5])?;
        Self::with(Placed::new(file, &schema, counts.rows, counts.id_bytes), Beat::new(watch, 0))
    }

    /// Completes the index in its file. `facts` are those that the builder was made with.
    pub fn finish(self, facts: &Facts) -> Result<()> {
        let schema = schema(facts, self.counts(), &self.digests())?;
        self.buffers.finish(&schema)
    }
}

impl<'a, B: Buffers> Builder<'a, B> {
    fn with(mut buffers: B, beat: Beat<'a>) -> Result<Self> {
        let mut hashes: [Xxh3; 5] = std::array::from_fn(|_| Xxh3::new());
        let first = 0_u64.to_le_bytes();
        buffers.append(ID_ENDS, &first)?;
        hashes[4].update(&first);
        let (rows, tokens, id_bytes) = (0, 0, 0);
        Ok(Self { beat, buffers, ends: Vec::new(), hashes, rows, tokens, id_bytes, last: u64::MAX, descending: true })
    }

    /// Adds rows after those it has.
    pub fn take(&mut self, rows: &Rows) -> Result<()> {
        self.ends.clear();
        for &length in &rows.id_lengths {
            self.id_bytes += length;
            self.ends.push(self.id_bytes);
        }
        for &length in &rows.length {
            self.descending &= length <= self.last;
            self.last = length;
            self.tokens = self.tokens.checked_add(length).ok_or_else(too_long)?;
        }
        self.rows += rows.len() as u64;
        let [ends, length, row, byte_offset]: [&[u8]; 4] =
            [&self.ends, &rows.length, &rows.row, &rows.byte_offset].map(|column| bytemuck::cast_slice(column));
        let [file, check, id_check]: [&[u8]; 3] =
            [&rows.file, &rows.check, &rows.id_check].map(|column| bytemuck::cast_slice(column));
        for (buffer, bytes) in [
            (ID_ENDS, ends),
            (ID_BYTES, &rows.id_bytes[..]),
            (LENGTH, length),
            (FILE, file),
            (ROW, row),
            (BYTE_OFFSET, byte_offset),
            (CHECK, check),
            (ID_CHECK, id_check),
        ] {
            self.buffers.append(buffer, bytes)?;
        }
        let hashed = [length, file, byte_offset, &rows.id_bytes, ends];
        self.hashes.iter_mut().zip(hashed).for_each(|(hash, bytes)| hash.update(bytes));
        self.beat.go_on()
    }

    /// How many rows it has, and how large they are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { rows: self.rows, tokens: self.tokens, id_bytes: self.id_bytes }
    }

    /// Whether no row is longer than the one before it.
    #[must_use]
    pub fn is_descending(&self) -> bool {
        self.descending
    }

    fn digests(&self) -> [u64; 5] {
        self.hashes.each_ref().map(Xxh3::digest)
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

fn schema(facts: &Facts, counts: Counts, digests: &[u64; 5]) -> Result<Schema> {
    let fields = fields().map(|(name, kind)| Field::new(name, kind, false)).to_vec();
    Ok(Schema::new_with_metadata(fields, metadata(facts, counts, digests)?))
}

fn metadata(facts: &Facts, counts: Counts, digests: &[u64; 5]) -> Result<HashMap<String, String>> {
    let Counts { rows, tokens, .. } = counts;
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
