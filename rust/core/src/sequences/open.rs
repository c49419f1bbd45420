//! Opening an index in either form, and saving it in the other.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::SequenceIndex;
use crate::error::{Error, Result};
use crate::index::columns::{refuse_other, refuse_other_kind};
use crate::index::sequences::json::{self, JsonWriter};
use crate::index::sequences::order::by_length;
use crate::index::sequences::{Builder, Facts, KIND, Sequences};
use crate::io::mapped::Mapped;
use crate::io::open::beside;
use crate::io::whole::{WholeFile, folder, refuse_folder, refuse_to_replace};
use crate::io::{Fingerprint, Origin, Store};
use crate::watch::Watch;

const ARROW: &[u8] = b"ARROW1";

/// Whether a path names the readable form.
pub(super) fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("json"))
}

impl SequenceIndex {
    /// Opens an index. JSON is read once; an Arrow file beside it, with `.sidx` added, then stands for it.
    pub fn open(path: &Path, watch: &dyn Watch) -> Result<Self> {
        let mapped = Mapped::open(path)?;
        refuse_other(mapped.as_bytes(), KIND).map_err(|e| e.in_file(path))?;
        if mapped.as_bytes().starts_with(ARROW) {
            let index = Sequences::open(Store::File(mapped)).map_err(|e| e.in_file(path))?;
            return Ok(Self::new(Some(path), index, Origin::Found, Vec::new()));
        }
        if !is_blank_or(mapped.as_bytes(), b'{') {
            let message = "expected a sequence index, which is an Arrow file or a JSON object, found something else";
            return Err(Error::format(0, message).in_file(path));
        }
        let now = Fingerprint::of(mapped.guarded().file()).map_err(|e| Error::io(path, e))?;
        let twin = beside(path, ".sidx");
        match find_twin(&twin, &now) {
            Ok(index) => Ok(Self::new(Some(path), index, Origin::Found, Vec::new())),
            Err(because) => {
                let (index, origin, remarks) = read_json(path, &mapped, now, &twin, because, watch)?;
                Ok(Self::new(Some(path), index, origin, remarks))
            }
        }
    }

    /// Writes the index to `path`: as JSON if it ends so, else as Arrow. The same index in another form.
    pub fn save(&self, path: &Path, watch: &dyn Watch) -> Result<()> {
        self.check_unchanged()?;
        refuse_files(path, self.files())?;
        let total = self.len();
        if is_json(path) {
            refuse_foreign_json(path)?;
            let mut file = WholeFile::create(path)?;
            let mut writer = JsonWriter::new(&mut file, self.index.facts(), self.len(), self.index.tokens())?;
            self.index.pass(|rows| writer.take(&rows)).map_err(|e| self.named(e))?;
            writer.finish()?;
            file.publish()?;
            return Ok(());
        }
        refuse_foreign(path)?;
        let mut builder = Builder::new(folder(path), watch, total)?;
        self.index.pass(|rows| builder.take(rows)).map_err(|e| self.named(e))?;
        let facts = Facts { json: None, ..self.index.facts().clone() };
        let mut file = WholeFile::create(path)?;
        builder.finish(&facts, &mut file)?;
        file.publish()?;
        Ok(())
    }
}

/// An error if an index would replace a folder, one of the files that it is about, or the index of one.
pub(super) fn refuse_files(path: &Path, files: &[PathBuf]) -> Result<()> {
    refuse_folder(path)?;
    let place = |path: &Path| Some((std::fs::canonicalize(folder(path)).ok()?, path.file_name()?.to_owned()));
    let out = place(path);
    let taken = |file: &&PathBuf| [place(file), place(&beside(file, ".sidx"))].contains(&out);
    match files.iter().find(taken).filter(|_| out.is_some()) {
        Some(file) => {
            let (path, file) = (path.display(), file.display());
            let message = format!("{path}: this is the place of {file} or of its own index; give another path");
            Err(Error::Mismatch(message))
        }
        None => Ok(()),
    }
}

/// An error if there is a file that is no sequence index.
pub(super) fn refuse_foreign(path: &Path) -> Result<()> {
    refuse_other_kind(path, KIND)?;
    let ours = |start: &[u8]| start.is_empty() || start.starts_with(ARROW) || ARROW.starts_with(start);
    refuse_to_replace(path, None, "sequence index", ours)
}

/// An error if there is a file that is no sequence index in its readable form: JSON may be anything.
pub(super) fn refuse_foreign_json(path: &Path) -> Result<()> {
    let has = |start: &[u8], key: &str| memchr::memmem::find(start, key.as_bytes()).is_some();
    let ours = |start: &[u8]| {
        let keys = has(start, "\"fasta_mtimes\"") || has(start, "\"sequences\"") && has(start, "\"sequence_id\"");
        start.trim_ascii_start().is_empty() || start.trim_ascii_start().starts_with(b"{") && keys
    };
    refuse_to_replace(path, None, "sequence index", ours)
}

fn is_blank_or(bytes: &[u8], first: u8) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_none_or(|&byte| byte == first)
}

/// The Arrow file that stands for a JSON file as it is now, or why there is none; nothing if none is there.
pub(super) fn find_twin(twin: &Path, now: &Fingerprint) -> Result<Sequences, Option<String>> {
    let mapped = match Mapped::open(twin) {
        Ok(mapped) => mapped,
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Err(None),
        Err(error) => return Err(Some(error.to_string())),
    };
    let index = Sequences::open(Store::File(mapped)).map_err(|e| Some(e.in_file(twin).to_string()))?;
    match index.facts().json.map(|then| then.difference(now)) {
        Some(None) => Ok(index),
        Some(Some(what)) => Err(Some(format!("the JSON file has changed since it was read: {what}"))),
        None => Err(Some(format!("{} does not stand for a JSON file", twin.display()))),
    }
}

fn read_json(
    path: &Path,
    mapped: &Mapped,
    now: Fingerprint,
    twin: &Path,
    because: Option<String>,
    watch: &dyn Watch,
) -> Result<(Sequences, Origin, Vec<String>)> {
    let whole = refuse_foreign(twin).and_then(|()| WholeFile::create(twin));
    let spill = if whole.is_ok() { folder(twin).to_owned() } else { std::env::temp_dir() };
    let mut builder = Builder::new(&spill, watch, now.size)?;
    let read = json::read(mapped.as_bytes(), &mut |rows| builder.take(rows)).map_err(|e| e.in_file(path))?;
    mapped.guarded().check_unchanged()?;
    let (totals, order) = ((builder.rows(), builder.tokens()), builder.is_descending());
    let mut remarks = Vec::new();
    if !order {
        remarks.push("its sequences are not in the order of their lengths; they are sorted here".to_owned());
    }
    if totals != read.totals {
        let (said, found) = (read.totals, totals);
        remarks.push(format!(
            "total_sequences and total_tokens are {} and {}, but its entries add up to {} and {}, which count",
            said.0, said.1, found.0, found.1
        ));
    }
    let facts = Facts { files: read.files, created: read.created, json: Some(now) };
    if !order {
        builder = sorted(builder, &facts, &spill, watch, |_| Ok(()))?;
    }
    let (index, origin) = publish(builder, &facts, whole, because, false, |_| Ok(()))?;
    Ok((index, origin, remarks))
}

/// The rows of a builder by length. `look` sees them as they come.
pub(super) fn sorted<'a>(
    builder: Builder<'_>,
    facts: &Facts,
    spill: &Path,
    watch: &'a dyn Watch,
    mut look: impl FnMut(&crate::index::sequences::Rows) -> Result<()>,
) -> Result<Builder<'a>> {
    // Without a name, so that nothing stays if the process is killed.
    let staged = match tempfile::tempfile_in(spill) {
        Ok(file) => {
            let mut out = BufWriter::with_capacity(1 << 20, file);
            builder.finish(facts, &mut out)?;
            let file = out.into_inner().map_err(|e| Error::io(spill, e.into_error()))?;
            Store::File(Mapped::unnamed(file, spill)?)
        }
        Err(_) => memory(builder, facts)?,
    };
    let staged = Sequences::open(staged)?;
    let mut builder = Builder::new(spill, watch, 0)?;
    let take = |rows| {
        look(&rows)?;
        builder.take(rows)
    };
    by_length(&[staged.lengths()], spill, |rows| staged.rows_of(rows), take)?;
    Ok(builder)
}

/// The index of a builder, under its name or, unless it must have that, in memory. It has no name before `look` has seen
/// it, and gets none if that is an error.
pub(super) fn publish(
    builder: Builder<'_>,
    facts: &Facts,
    whole: Result<WholeFile>,
    because: Option<String>,
    must: bool,
    look: impl FnOnce(&Sequences) -> Result<()>,
) -> Result<(Sequences, Origin)> {
    match whole {
        Ok(mut file) => {
            builder.finish(facts, &mut file)?;
            look(&Sequences::open(Store::File(file.look()?))?)?;
            let path = file.path().to_owned();
            let (mapped, origin) = match file.publish_or_map()? {
                Some((_, error)) if must => return Err(error),
                Some((mapped, error)) => (mapped, Origin::Memory { because: error.to_string() }),
                None => (Mapped::open(&path)?, Origin::Built { because }),
            };
            Ok((Sequences::open(Store::File(mapped)).map_err(|e| e.in_file(&path))?, origin))
        }
        Err(error) => {
            let index = Sequences::open(memory(builder, facts)?)?;
            look(&index)?;
            Ok((index, Origin::Memory { because: error.to_string() }))
        }
    }
}

fn memory(builder: Builder<'_>, facts: &Facts) -> Result<Store> {
    let mut bytes = Vec::new();
    builder.finish(facts, &mut bytes)?;
    bytes.flush()?;
    Ok(Store::memory(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::sequences::{FastaFile, Rows, Seen, Sequence};
    use crate::watch::Unwatched;

    #[test]
    fn rows_are_sorted_without_a_file_that_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = Rows::default();
        for (id, length) in [("a", 1), ("b", 3), ("c", 2)] {
            rows.push(id, &Sequence { length, file: 0, row: 0, byte_offset: 0 });
        }
        let mut builder = Builder::new(folder.path(), &Unwatched, 0).unwrap();
        builder.take(rows).unwrap();
        let file = FastaFile { path: "/x.fa".to_owned(), seen: Seen::Time(0.0) };
        let facts = Facts { files: vec![file], created: String::new(), json: None };
        let mut lengths = Vec::new();
        let look = |rows: &Rows| {
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
            lengths.extend(rows.iter().map(|(_, sequence)| sequence.length));
            Ok(())
        };
        sorted(builder, &facts, folder.path(), &Unwatched, look).unwrap();
        assert_eq!(lengths, [3, 2, 1]);
    }
}
