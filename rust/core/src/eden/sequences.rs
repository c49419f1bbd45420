//! Contigs of many sample databases, read in windows.

use std::path::{Path, PathBuf};

use rusqlite::OptionalExtension;

use super::gathering;
use crate::error::{Error, Result};
use crate::files::kept;
use crate::gather::layout::{Ends, offsets, ragged};
use crate::gather::{Kernel, Raw};
use crate::io::fingerprint::FirstLook;
use crate::io::readers::Readers;
use crate::io::room::reserve;
use crate::io::sqlite::forks::{Inside, enter};
use crate::io::sqlite::values::{Column, Values};
use crate::io::sqlite::{Table, damaged, told};
use crate::io::threads;
use crate::watch::{Beat, Watch};

/// What every sample database holds.
pub(super) const SEQUENCES: Table = Table { name: "sequences", columns: &["contig_id", "nt_sequence"], row_ids: true };

const CONTIGS: Column = Column {
    table: SEQUENCES,
    find: "SELECT rowid, typeof(nt_sequence), CASE WHEN octet_length(nt_sequence) <= ?2 THEN nt_sequence END \
           FROM sequences WHERE contig_id = ?1",
    table_name: c"sequences",
    value: c"nt_sequence",
};

/// Letters of a contig that are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    /// The number of the contig's database.
    pub database: u32,
    /// The contig's id.
    pub contig: &'a str,
    /// Its first letter.
    pub start: u64,
    /// Its letters, unless the contig ends before.
    pub letters: u64,
    /// Whether its reverse complement is asked for.
    pub reverse: bool,
    /// What it is called in messages.
    pub number: i64,
}

/// The contigs of samples, each in a database of its own. Nothing is opened before it is read.
///
/// ```
/// use seekset_core::eden::{EdenSequences, SampleWriter, Window};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("glm_dataset_A.sqlite");
/// let mut sample = SampleWriter::create(&path)?;
/// sample.add("x__y-A__1", "acgtacgt")?;
/// sample.finish()?;
/// let sequences = EdenSequences::new(vec!["A".to_owned()], vec![path])?;
/// let window = Window { database: 0, contig: "x__y-A__1", start: 6, letters: 4, reverse: false, number: 0 };
/// assert_eq!(sequences.fetch(&[window])?.0, b"GT");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EdenSequences {
    samples: Vec<String>,
    paths: Vec<PathBuf>,
    looks: Vec<FirstLook>,
    readers: Readers<Values>,
}

impl EdenSequences {
    /// The contigs of so many samples, one database each.
    pub fn new(samples: Vec<String>, paths: Vec<PathBuf>) -> Result<Self> {
        if samples.len() != paths.len() || u32::try_from(paths.len()).is_err() {
            let (samples, paths) = (samples.len(), paths.len());
            return Err(Error::Mismatch(format!(
                "there must be one database for each sample, not {paths} for {samples}"
            )));
        }
        let looks = paths.iter().map(|path| FirstLook::now(path)).collect();
        Ok(Self { samples, paths, looks, readers: Readers::new() })
    }

    /// The samples, in the order of their numbers.
    #[must_use]
    pub fn samples(&self) -> &[String] {
        &self.samples
    }

    /// The databases, in the order of their numbers.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Writes the letters of windows, upper-cased, into the slots that `cut` makes when it is told how many letters each
    /// window has. They are read in the order of databases, contigs and starts, by several threads.
    pub fn gather<'o, K: Kernel>(
        &self,
        windows: &[Window<'_>],
        kernel: &K,
        cut: impl FnOnce(&[u64]) -> Result<Vec<&'o mut [K::Out]>> + Send,
    ) -> Result<()>
    where
        K::Out: 'o,
    {
        if let Some(window) = windows.iter().find(|window| window.database as usize >= self.paths.len()) {
            let (row, rows) = (window.database.into(), self.paths.len() as u64);
            return Err(Error::RowOutOfRange { row, rows });
        }
        self.check_unchanged(windows)?;
        gathering::gather(self, windows, kernel, cut)
    }

    /// An error if a database that windows are of is not what it was: one look at each for a batch.
    fn check_unchanged(&self, windows: &[Window<'_>]) -> Result<()> {
        let mut databases: Vec<usize> = windows.iter().map(|window| window.database as usize).collect();
        databases.sort_unstable();
        databases.dedup();
        databases.into_iter().try_for_each(|database| self.looks[database].check(&self.paths[database]))
    }

    /// The letters of windows, one after another, upper-cased; and where each starts.
    pub fn fetch(&self, windows: &[Window<'_>]) -> Result<(Vec<u8>, Vec<i64>)> {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        let (room, places) = (&mut bytes, &mut starts);
        self.gather(windows, &Raw, move |letters| {
            *places = offsets(letters, 0);
            let needed = *places.last().unwrap_or(&0) as usize;
            reserve(room, needed)?;
            room.resize(needed, 0);
            ragged(room, letters, 1, Ends { prefix: &[], suffix: &[] })
        })?;
        Ok((bytes, starts))
    }

    /// How many letters a contig has; none if it is not there. Its letters are not read.
    pub fn length(&self, database: u32, contig: &str) -> Result<Option<u64>> {
        let path = self.path(database)?;
        self.with_reader(|reader, _| {
            let connection = reader.connection(database, path)?;
            length_in(connection, contig)
                .map_err(|e| told(e, path))?
                .map(|found| known(found, path, contig))
                .transpose()
        })
    }

    /// Opens a database, if it is not open yet: an error tells what is wrong with all of it.
    pub(super) fn open(&self, database: u32) -> Result<()> {
        let path = self.path(database)?;
        self.with_reader(|reader, _| reader.connection(database, path).map(drop))
    }

    /// Calls `each` with the id and the length of every contig of a database, in the order of ids.
    pub fn each_contig(
        &self,
        database: u32,
        watch: &dyn Watch,
        mut each: impl FnMut(&str, u64) -> Result<()>,
    ) -> Result<()> {
        let path = self.path(database)?;
        let mut beat = Beat::new(watch, 0);
        self.with_reader(|reader, inside| {
            let connection = reader.connection(database, path)?;
            let told = |e| told(e, path);
            let query = "SELECT contig_id, typeof(nt_sequence), octet_length(nt_sequence) FROM sequences ORDER BY 1";
            let mut statement = connection.prepare_cached(query).map_err(told)?;
            let mut rows = statement.query([]).map_err(told)?;
            while let Some(row) = rows.next().map_err(told)? {
                let (id, kind, length): (String, String, Option<i64>) =
                    (row.get(0).map_err(told)?, row.get(1).map_err(told)?, row.get(2).map_err(told)?);
                each(&id, known((kind, length), path, &id)?)?;
                inside.now_and_then(|| beat.go_on())?;
            }
            Ok(())
        })
    }

    /// Closes what is open and not in use. What is read afterwards is opened again.
    pub fn close(&self) {
        self.readers.clear();
    }

    fn path(&self, database: u32) -> Result<&Path> {
        let rows = self.paths.len() as u64;
        let path = self.paths.get(database as usize).ok_or(Error::RowOutOfRange { row: database.into(), rows })?;
        Ok(path)
    }

    fn with_reader<T>(&self, work: impl FnOnce(&mut Values, &mut Inside) -> Result<T>) -> Result<T> {
        let mut inside = enter();
        let mut readers = self.readers.take(1, reader);
        let done = work(&mut readers[0], &mut inside);
        self.readers.give(readers);
        done
    }

    /// Readers for so many threads.
    pub(super) fn readers(&self, count: usize) -> Vec<Values> {
        self.readers.take(count, reader)
    }

    /// Takes them back.
    pub(super) fn give(&self, readers: Vec<Values>) {
        self.readers.give(readers);
    }

    /// A window in the words of messages.
    pub(super) fn named(&self, window: &Window<'_>) -> String {
        let database = window.database as usize;
        let (sample, path) = (&self.samples[database], self.paths[database].display());
        format!("window {} of contig '{}' (sample {sample}, {path})", window.number, window.contig)
    }
}

fn reader() -> Values {
    Values::new(CONTIGS, kept() / threads::threads())
}

/// The type of a contig's value and its bytes.
fn length_in(connection: &rusqlite::Connection, contig: &str) -> rusqlite::Result<Option<(String, Option<i64>)>> {
    let query = "SELECT typeof(nt_sequence), octet_length(nt_sequence) FROM sequences WHERE contig_id = ?1";
    connection.prepare_cached(query)?.query_row([contig], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

fn known((kind, length): (String, Option<i64>), path: &Path, contig: &str) -> Result<u64> {
    match (kind.as_str(), length) {
        ("text" | "blob", Some(length)) => Ok(length as u64),
        _ => Err(damaged(path, format!("'{contig}': expected text, found a value of the type {kind}"))),
    }
}
