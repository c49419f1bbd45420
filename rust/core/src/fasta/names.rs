//! A second look at a file whose records seem to share names: which ones.

use crate::error::{Error, Place, Result};
use crate::index::lookup::{Repeats, Sorter, hash_name};
use crate::io::spool::Spool;
use crate::io::{Scratch, Source, Spills, threads};
use crate::scan::fasta::{Header, Record, Rows, Sink, scan};
use crate::watch::Watch;

/// Bytes of offsets that stay in memory.
const OFFSETS_IN_MEMORY: usize = 32 << 20;

/// Scans a file for names: an error if two records share one.
pub(super) fn refuse_repeated(source: &dyn Source, spills: &Spills, watch: &dyn Watch) -> Result<()> {
    Names::look(source, spills, watch)
}

/// The hashes of all names, and where the records stand that have them.
struct Names {
    hashes: Sorter,
    offsets: Spool,
}

/// Hash and header offset of each record of a chunk.
#[derive(Debug, Default)]
struct NameRows(Vec<(u64, u64)>);

impl Rows for NameRows {
    fn push(&mut self, record: &Record, id: &[u8]) {
        self.0.push((hash_name(id), record.header_offset));
    }
}

impl Sink for Names {
    type Rows = NameRows;

    fn take(&mut self, rows: NameRows) -> Result<()> {
        for (hash, offset) in rows.0 {
            self.hashes.push_hash(hash)?;
            self.offsets.append(&offset.to_le_bytes())?;
        }
        Ok(())
    }
}

impl Names {
    fn look(source: &dyn Source, spills: &Spills, watch: &dyn Watch) -> Result<()> {
        let mut names = Self { hashes: Sorter::new(spills), offsets: spills.spool(OFFSETS_IN_MEMORY) };
        scan(source, threads::threads(), watch, &mut names)?;
        let Self { hashes, mut offsets } = names;
        let mut repeats = Repeats::default();
        hashes.finish(|pairs| {
            let mut same = |a, b| Ok(name_at(source, &mut offsets, a)? == name_at(source, &mut offsets, b)?);
            repeats.look(pairs, &mut same)
        })?;
        let Some((first, second)) = repeats.earliest else { return Ok(()) };
        let id = name_at(source, &mut offsets, second)?;
        let mut place =
            |row| -> Result<Place> { Ok(Place { record: Some(row), ..Place::at(offset_of(&mut offsets, row)?) }) };
        Err(Error::Duplicate { path: None, id, places: Box::new([place(first)?, place(second)?]) })
    }
}

fn offset_of(offsets: &mut Spool, row: u64) -> Result<u64> {
    let mut offset = [0; 8];
    offsets.read_at(row * 8, &mut offset)?;
    Ok(u64::from_le_bytes(offset))
}

fn name_at(source: &dyn Source, offsets: &mut Spool, row: u64) -> Result<String> {
    let offset = offset_of(offsets, row)?;
    let mut scratch = Scratch::default();
    let mut want = 256;
    loop {
        let end = source.len().min(offset + want);
        let bytes = source.bytes(offset..end, &mut scratch)?;
        if let Some(newline) = memchr::memchr(b'\n', bytes).or((end == source.len()).then_some(bytes.len())) {
            let header = Header::parse(&bytes[..newline], offset)?;
            return Ok(header.id.into_owned());
        }
        want *= 8;
    }
}
