//! Many FASTA files behind one handle: opened when they are needed, some kept open.

use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::process::{Resource, getrlimit};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::fasta::{Fasta, OpenOptions, Origin};
use crate::index::sequences::{FastaFile, Seen};
use crate::io::Fingerprint;
use crate::io::fingerprint::mtime_ns;
use crate::io::open::{Table, beside};
use crate::io::whole::WholeFile;
use crate::watch::{Unwatched, Watch};

/// How many files are kept open: an eighth of the descriptors that the process may have now. Each takes up to three, and
/// there may be other indexes. A batch that reaches into more files opens some of them each time.
pub(crate) fn kept() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (descriptors / 8).clamp(32, 4096) as usize
}

/// The files behind one index.
pub(crate) struct Files {
    paths: Vec<PathBuf>,
    seen: Vec<Seen>,
    /// The index, for messages, and for the folder beside it.
    index: Option<PathBuf>,
    /// The lock is never waited for: a fork could leave it taken.
    open: Mutex<Kept>,
}

impl Files {
    pub fn new(files: &[FastaFile], index: Option<&Path>) -> Self {
        let paths = files.iter().map(|file| found(&file.path, index)).collect();
        let seen = files.iter().map(|file| file.seen).collect();
        Self { paths, seen, index: index.map(Path::to_owned), open: Mutex::new(Kept::default()) }
    }

    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The file of a number, which must be what it was when it was indexed.
    pub fn get(&self, file: u32) -> Result<Arc<Fasta>> {
        if let Some(fasta) = self.open.try_lock().ok().and_then(|mut open| open.used(file)) {
            return Ok(fasta);
        }
        let path = self.paths.get(file as usize).ok_or_else(|| Error::format(0, "a file has no such number"))?;
        self.check(file)?;
        let fasta = Arc::new(open_fasta(path, self.index.as_deref(), false, &Unwatched).map_err(|e| self.named(e))?);
        self.compare(file, fasta.index().fingerprint())?;
        if let Ok(mut open) = self.open.try_lock() {
            open.keep(file, Arc::clone(&fasta), kept());
        }
        Ok(fasta)
    }

    /// An error if a file is missing, or not what it was as far as a look at its size and time tells.
    pub fn check(&self, file: u32) -> Result<()> {
        let path = &self.paths[file as usize];
        let metadata = std::fs::metadata(path).map_err(|e| self.named(Error::io(path, e)))?;
        let sample = if let Seen::Fully(then) = &self.seen[file as usize] { then.sample } else { 0 };
        self.compare(file, &Fingerprint { size: metadata.len(), mtime_ns: mtime_ns(&metadata), sample })
    }

    /// The same, with a look at samples of its content too, where the index knows them.
    pub fn check_content(&self, file: u32) -> Result<()> {
        let path = &self.paths[file as usize];
        let taken = File::open(path).and_then(|file| Fingerprint::of(&file));
        self.compare(file, &taken.map_err(|e| self.named(Error::io(path, e)))?)
    }

    fn compare(&self, file: u32, now: &Fingerprint) -> Result<()> {
        let Some(what) = self.seen[file as usize].difference(now) else { return Ok(()) };
        let error = Error::stale(format!("it has changed since it was indexed: {what}"));
        Err(self.named(error.in_file(&self.paths[file as usize])))
    }

    /// Errors of files with the name of the index that is about them.
    pub fn named(&self, error: Error) -> Error {
        self.told(error, "")
    }

    /// The same, with how the index is to be created again.
    pub fn told(&self, error: Error, how: &str) -> Error {
        let Some(index) = &self.index else { return error };
        match error {
            Error::Io { path: Some(path), source } if source.kind() == ErrorKind::NotFound => {
                Error::Missing { path, index: index.clone() }
            }
            Error::Stale { path, message } => {
                let index = index.display();
                Error::Stale { path, message: format!("{message}; create the sequence index {index} again{how}") }
            }
            other => other,
        }
    }
}

/// Takes slots file by file, those of one file in their order: `each` is told the file, which of the slots are its, and the
/// slots themselves.
pub(crate) fn by_file<'a, T>(
    file_of: &[u32],
    slots: Vec<&'a mut [T]>,
    mut each: impl FnMut(u32, &[usize], Vec<&'a mut [T]>) -> Result<()>,
) -> Result<()> {
    let mut order: Vec<usize> = (0..file_of.len()).collect();
    order.sort_by_key(|&k| file_of[k]);
    let mut slots: Vec<Option<&mut [T]>> = slots.into_iter().map(Some).collect();
    for of_file in order.chunk_by(|&a, &b| file_of[a] == file_of[b]) {
        let taken = of_file.iter().filter_map(|&k| slots.get_mut(k)?.take()).collect();
        each(file_of[of_file[0]], of_file, taken)?;
    }
    Ok(())
}

/// Where a file is: relative paths, which only people write, are tried beside the index, then as they are.
fn found(path: &str, index: Option<&Path>) -> PathBuf {
    let path = PathBuf::from(path);
    let beside = index.and_then(Path::parent).map(|folder| folder.join(&path)).filter(|beside| beside.exists());
    let path = beside.unwrap_or(path);
    std::path::absolute(&path).unwrap_or(path)
}

/// Open files by number, with when each was used last, counted in uses.
#[derive(Default)]
struct Kept {
    files: HashMap<u32, (u64, Arc<Fasta>)>,
    uses: u64,
}

impl Kept {
    fn used(&mut self, file: u32) -> Option<Arc<Fasta>> {
        self.uses += 1;
        let (last, fasta) = self.files.get_mut(&file)?;
        *last = self.uses;
        Some(Arc::clone(fasta))
    }

    /// Keeps a file open and lets go of the one used longest ago, if there are `most`. An index in memory would be built
    /// again: it is let go only where there are twice as many, which descriptors are left for.
    fn keep(&mut self, file: u32, fasta: Arc<Fasta>, most: usize) {
        let in_memory = |fasta: &Fasta| matches!(fasta.origin(), Origin::Memory { .. });
        let oldest = self.files.iter().min_by_key(|(_, (last, fasta))| (in_memory(fasta), *last));
        if let Some((&number, (_, fasta))) = oldest
            && self.files.len() >= if in_memory(fasta) { 2 * most } else { most }
        {
            self.files.remove(&number);
        }
        self.uses += 1;
        self.files.insert(file, (self.uses, fasta));
    }
}

/// Opens a FASTA file with its own index: beside it, or in a folder beside the sequence index, or in memory.
pub(crate) fn open_fasta(path: &Path, index: Option<&Path>, force: bool, watch: &dyn Watch) -> Result<Fasta> {
    let options = OpenOptions { force, ..OpenOptions::default() };
    let part = index.map(|index| part_path(path, index));
    let kept = OpenOptions { build: false, ..options.clone() };
    if !force {
        for place in places(part.as_ref()) {
            let kept = OpenOptions { index: place, ..kept.clone() };
            match Fasta::open_with_table(path, &kept, Table::Sampled, watch) {
                Err(Error::Stale { .. } | Error::Format { .. }) => {}
                opened => return opened,
            }
        }
    }
    let elsewhere = part
        .filter(|_| !can_write(&beside(path, ".sidx")))
        .filter(|part| part.parent().is_some_and(|folder| std::fs::create_dir_all(folder).is_ok()) && can_write(part));
    Fasta::open_watched(path, &OpenOptions { index: elsewhere, ..options }, watch)
}

/// Where an index of a file may lie: beside the file, which needs no name, and at `part` if something is there.
fn places(part: Option<&PathBuf>) -> impl Iterator<Item = Option<PathBuf>> {
    std::iter::once(None).chain(part.filter(|part| part.exists()).cloned().map(Some))
}

fn can_write(path: &Path) -> bool {
    WholeFile::create(path).is_ok()
}

/// Where a file's own index lies if it can't lie beside the file. Files of one name lie in many folders.
fn part_path(path: &Path, index: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(path);
    let hash = xxh3_64(folder.as_os_str().as_encoded_bytes());
    beside(index, ".parts").join(format!("{name}.{hash:016x}.sidx"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_let_go_and_indexes_in_memory_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.fa");
        std::fs::write(&path, b">a\nACGT\n").unwrap();
        let open = |index: Option<&str>| {
            let index = index.map(|index| folder.path().join(index));
            Arc::new(Fasta::open(&path, &OpenOptions { index, ..OpenOptions::default() }).unwrap())
        };
        let (written, memory) = (open(None), open(Some("no/folder/x.sidx")));
        assert!(matches!(memory.origin(), Origin::Memory { .. }));
        let numbers = |open: &Kept| {
            let mut numbers: Vec<u32> = open.files.keys().copied().collect();
            numbers.sort_unstable();
            numbers
        };
        let mut open = Kept::default();
        for (file, fasta, expected) in [
            (0, &memory, &[0][..]),
            (1, &written, &[0, 1]),
            (2, &written, &[0, 1, 2]),
            (3, &written, &[0, 2, 3]),
            (4, &memory, &[0, 3, 4]),
            (5, &memory, &[0, 4, 5]),
            (6, &memory, &[0, 4, 5, 6]),
            (7, &memory, &[0, 4, 5, 6, 7]),
            (8, &memory, &[0, 4, 5, 6, 7, 8]),
            (9, &memory, &[4, 5, 6, 7, 8, 9]),
        ] {
            open.keep(file, Arc::clone(fasta), 3);
            assert_eq!(numbers(&open), expected, "after {file}");
        }
    }

    #[test]
    fn an_index_is_looked_for_once_in_each_place() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("part.sidx");
        assert_eq!(places(None).collect::<Vec<_>>(), [None]);
        assert_eq!(places(Some(&part)).collect::<Vec<_>>(), [None]);
        std::fs::write(&part, b"").unwrap();
        assert_eq!(places(Some(&part)).collect::<Vec<_>>(), [None, Some(part)]);
    }
}
