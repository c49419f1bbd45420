//! An index that was written and has no name yet.

use std::io::BufWriter;

use crate::error::{Error, Result};
use crate::index::sequences::order::by_length;
use crate::index::sequences::{Builder, Counts, Facts, Rows, Sequences};
use crate::io::mapped::Mapped;
use crate::io::whole::WholeFile;
use crate::io::{Origin, Spills, Store};
use crate::watch::Watch;

/// Takes rows, some at a time.
pub(super) type Take<'a> = dyn FnMut(&Rows) -> Result<()> + 'a;

/// Where an index was written to.
pub(super) enum Written {
    File(WholeFile),
    /// Memory, and why there is no file.
    Memory(Store, Error),
}

impl Written {
    /// The rows that a builder has collected.
    pub fn collected(builder: Builder<'_>, facts: &Facts, whole: Result<WholeFile>) -> Result<Self> {
        match whole {
            Ok(mut file) => {
                builder.finish(facts, &mut file)?;
                Ok(Self::File(file))
            }
            Err(error) => Ok(Self::Memory(memory(builder, facts)?, error)),
        }
    }

    /// The rows that `pass` hands over, which were counted: in a file, each is written once, at its place.
    pub fn counted(
        counts: Counts,
        facts: &Facts,
        whole: Result<WholeFile>,
        watch: &dyn Watch,
        pass: impl FnOnce(&mut Take<'_>) -> Result<()>,
    ) -> Result<Self> {
        match whole {
            Ok(file) => {
                let mut builder = Builder::in_place(file.handle()?, facts, counts, watch)?;
                pass(&mut |rows| builder.take(rows))?;
                builder.finish(facts)?;
                Ok(Self::File(file))
            }
            Err(error) => {
                let mut builder = Builder::new(&Spills::elsewhere(), watch, 0)?;
                pass(&mut |rows| builder.take(rows))?;
                Ok(Self::Memory(memory(builder, facts)?, error))
            }
        }
    }

    /// The index under its name or, unless it must have that, in memory. It has no name before `look` has seen it, and gets
    /// none if that is an error.
    pub fn named(
        self,
        because: Option<String>,
        must: bool,
        look: impl FnOnce(&Sequences) -> Result<()>,
    ) -> Result<(Sequences, Origin)> {
        let mut file = match self {
            Self::File(file) => file,
            Self::Memory(store, error) => {
                let index = Sequences::open(store)?;
                look(&index)?;
                return Ok((index, Origin::Memory { because: error.to_string() }));
            }
        };
        look(&Sequences::open(Store::File(file.look()?))?)?;
        let path = file.path().to_owned();
        let (mapped, origin) = match file.publish_or_map()? {
            Some((_, error)) if must => return Err(error),
            Some((mapped, error)) => (mapped, Origin::Memory { because: error.to_string() }),
            None => (Mapped::open(&path)?, Origin::Built { because }),
        };
        Ok((Sequences::open(Store::File(mapped)).map_err(|e| e.in_file(&path))?, origin))
    }
}

fn memory(builder: Builder<'_>, facts: &Facts) -> Result<Store> {
    let mut bytes = Vec::new();
    builder.finish(facts, &mut bytes)?;
    Ok(Store::memory(&bytes))
}

/// Hands over the rows that a builder has collected, by length.
pub(super) fn sorted(builder: Builder<'_>, facts: &Facts, spills: &Spills, take: &mut Take<'_>) -> Result<()> {
    // Without a name, so that nothing stays if the process is killed.
    let staged = match spills.file() {
        Ok((file, folder)) => {
            let mut out = BufWriter::with_capacity(1 << 20, file);
            builder.finish(facts, &mut out)?;
            let file = out.into_inner().map_err(|e| Error::io(&folder, e.into_error()))?;
            Store::File(Mapped::unnamed(file, &folder)?)
        }
        Err(_) => memory(builder, facts)?,
    };
    let staged = Sequences::open(staged)?;
    by_length(&[staged.lengths()], spills, |wanted, rows| staged.read(wanted, rows), take)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::sequences::{FastaFile, Seen, Sequence};
    use crate::watch::Unwatched;

    #[test]
    fn rows_are_sorted_without_a_file_that_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = Rows::default();
        for (id, length) in [("a", 1), ("b", 3), ("c", 2)] {
            rows.push(id, &Sequence { length, file: 0, row: 0, byte_offset: 0 });
        }
        let mut builder = Builder::new(&Spills::into(folder.path()), &Unwatched, 0).unwrap();
        builder.take(&rows).unwrap();
        let file = FastaFile { path: "/x.fa".to_owned(), seen: Seen::Time(0.0) };
        let facts = Facts { files: vec![file], created: String::new(), json: None };
        let mut lengths = Vec::new();
        let mut take = |rows: &Rows| {
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
            lengths.extend(rows.iter().map(|(_, sequence)| sequence.length));
            Ok(())
        };
        sorted(builder, &facts, &Spills::into(folder.path()), &mut take).unwrap();
        assert_eq!(lengths, [3, 2, 1]);
    }
}
