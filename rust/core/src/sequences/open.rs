//! Opening an index in either form, and saving it in the other.

use std::path::{Path, PathBuf};

use super::SequenceIndex;
use super::written::{Written, sorted};
use crate::error::{Error, Result};
use crate::index::columns::refuse_other;
use crate::index::sequences::json::{self, JsonWriter};
use crate::index::sequences::{Builder, Facts, KIND, Sequences};
use crate::io::mapped::Mapped;
use crate::io::open::beside;
use crate::io::whole::{WholeFile, folder, refuse_folder, refuse_to_replace};
use crate::io::{Fingerprint, Origin, Spills, Store};
use crate::replacing::{refuse_foreign_table, refuse_other_index};
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
        let now = mapped.guarded().with_file(Fingerprint::of)?;
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
        if is_json(path) {
            refuse_foreign_json(path)?;
            let mut file = WholeFile::create(path)?;
            let mut writer = JsonWriter::new(&mut file, self.index.facts(), self.len(), self.index.tokens())?;
            self.index.pass(|rows| writer.take(rows)).map_err(|e| self.named(e))?;
            writer.finish()?;
            file.publish()?;
            return Ok(());
        }
        refuse_foreign(path)?;
        let facts = Facts { json: None, ..self.index.facts().clone() };
        let file = WholeFile::create(path)?;
        let counts = self.index.counts().map_err(|e| self.named(e))?;
        let mut builder = Builder::in_place(file.handle()?, &facts, counts, watch)?;
        self.index.pass(|rows| builder.take(rows)).map_err(|e| self.named(e))?;
        builder.finish(&facts)?;
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
    refuse_other_index(path, KIND)?;
    refuse_foreign_table(path, None, "sequence index")
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
    let spills = if whole.is_ok() { Spills::beside(twin) } else { Spills::elsewhere() };
    let mut builder = Builder::new(&spills, watch, now.size)?;
    let read = json::read(mapped.as_bytes(), &mut |rows| builder.take(rows)).map_err(|e| e.in_file(path))?;
    mapped.guarded().check_unchanged()?;
    let (counts, order) = (builder.counts(), builder.is_descending());
    let mut remarks = Vec::new();
    if !order {
        remarks.push("its sequences are not in the order of their lengths; they are sorted here".to_owned());
    }
    if (counts.rows, counts.tokens) != read.totals {
        let (said, found) = (read.totals, (counts.rows, counts.tokens));
        remarks.push(format!(
            "total_sequences and total_tokens are {} and {}, but its entries add up to {} and {}, which count",
            said.0, said.1, found.0, found.1
        ));
    }
    let facts = Facts { files: read.files, created: read.created, json: Some(now) };
    let written = if order {
        Written::collected(builder, &facts, whole)?
    } else {
        Written::counted(counts, &facts, whole, watch, |take| sorted(builder, &facts, &spills, take))?
    };
    let (index, origin) = written.named(because, false, |_| Ok(()))?;
    Ok((index, origin, remarks))
}
