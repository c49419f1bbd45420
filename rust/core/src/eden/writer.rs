//! Window databases, written from the lengths of contigs.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, sleep};

use rayon::prelude::*;
use rusqlite::Connection;

use super::rule::WindowRule;
use super::windows::TABLES;
use crate::error::{Error, Result};
use crate::io::sqlite::beside::{Beside, refuse_nul, refuse_to_replace};
use crate::io::sqlite::forks::enter;
use crate::io::threads;
use crate::watch::{BEAT, Beat, Watch};

/// The bytes of a page: what SQLite takes unless told otherwise.
const PAGE: u32 = 4096;

/// Windows between two looks at the watch.
const BETWEEN_BEATS: u64 = 4096;

const SCHEMA: &str = "CREATE TABLE metadata (key TEXT PRIMARY KEY, value INTEGER NOT NULL);
    CREATE TABLE window_mappings (window_idx INTEGER PRIMARY KEY, sequence_id TEXT NOT NULL, \
    window_in_seq_idx INTEGER NOT NULL);";

/// What a finished window database holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Windows.
    pub windows: u64,
    /// Contigs that have windows.
    pub sequences: u64,
    /// Contigs that have none, because they are too short.
    pub left_out: u64,
}

/// Collects contigs, then writes their windows in the order of ids. The ids stay in memory until then.
///
/// ```
/// use seekset_core::eden::{EdenWindows, WindowRule, WindowsWriter};
/// use seekset_core::watch::Unwatched;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("train.sqlite");
/// let mut writer = WindowsWriter::new(&path, WindowRule::new(4, 2, 0)?)?;
/// writer.add("b", 6)?;
/// writer.add("a", 1)?;
/// assert_eq!(writer.finish(&Unwatched)?.windows, 3);
/// let windows = EdenWindows::new(&path);
/// assert_eq!(windows.lookup(&[2, 0])?, [("b".to_owned(), 1), ("a".to_owned(), 0)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WindowsWriter {
    path: PathBuf,
    rule: WindowRule,
    ids: String,
    contigs: Vec<Contig>,
}

/// A contig: where its id ends in all ids (it begins where the one before ends), and its letters.
struct Contig {
    end: u64,
    length: u64,
}

impl WindowsWriter {
    /// Starts a database at `path`. Nothing is written before [`WindowsWriter::finish`].
    pub fn new(path: &Path, rule: WindowRule) -> Result<Self> {
        refuse_to_replace(path, "window database", &TABLES)?;
        Ok(Self { path: path.to_owned(), rule, ids: String::new(), contigs: Vec::new() })
    }

    /// Adds a contig of so many letters.
    pub fn add(&mut self, id: &str, length: i64) -> Result<()> {
        let Ok(length) = u64::try_from(length) else {
            let row = self.contigs.len();
            return Err(Error::Mismatch(format!(
                "row {row}: contig '{id}' has the length {length}, which is negative"
            )));
        };
        refuse_nul(&self.path, "the contig id", id)?;
        self.ids.push_str(id);
        self.contigs.push(Contig { end: self.ids.len() as u64, length });
        Ok(())
    }

    /// How many contigs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contigs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.contigs.is_empty()
    }

    /// Writes the database beside its name and renames it.
    pub fn finish(self, watch: &dyn Watch) -> Result<Written> {
        let order = self.order()?;
        let total: u64 = self.contigs.iter().map(|contig| self.rule.windows(contig.length)).sum();
        refuse_to_replace(&self.path, "window database", &TABLES)?;
        let mut file = Beside::create(&self.path, PAGE)?;
        let mut beat = Beat::new(watch, total);
        let written = self.write(file.connection_mut(), &order, &mut beat).map_err(|failed| match failed {
            Failed::Sqlite(error) => file.told(error),
            Failed::Ours(error) => error,
        })?;
        file.publish()?;
        Ok(written)
    }

    fn id(&self, row: usize) -> &str {
        let start = row.checked_sub(1).map_or(0, |before| self.contigs[before].end as usize);
        &self.ids[start..self.contigs[row].end as usize]
    }

    /// Rows by their ids, bytewise. An error if two have one id.
    fn order(&self) -> Result<Vec<u64>> {
        let mut order: Vec<u64> = (0..self.contigs.len() as u64).collect();
        let id = |row: u64| self.id(row as usize);
        threads::in_pool(|| order.par_sort_unstable_by(|&a, &b| (id(a), a).cmp(&(id(b), b))))?;
        match order.windows(2).find(|pair| id(pair[0]) == id(pair[1])) {
            None => Ok(order),
            Some(pair) => Err(Error::RepeatedContig { id: id(pair[0]).to_owned(), rows: [pair[0], pair[1]] }),
        }
    }

    fn write(&self, connection: &mut Connection, order: &[u64], beat: &mut Beat<'_>) -> Result<Written, Failed> {
        {
            let _inside = enter();
            connection.execute_batch(SCHEMA)?;
            connection.execute_batch("BEGIN")?;
        }
        let written = self.insert(connection, order, beat)?;
        index(connection, beat)?;
        let _inside = enter();
        let mut metadata = connection.prepare("INSERT INTO metadata VALUES (?1, ?2)")?;
        for (key, value) in [
            ("window_size", self.rule.size()),
            ("stride", self.rule.stride()),
            ("window_min_length_threshold", self.rule.shortest()),
            ("total_windows", written.windows),
            ("distinct_sequences", written.sequences),
        ] {
            metadata.execute((key, value as i64))?;
        }
        connection.execute_batch("COMMIT")?;
        Ok(written)
    }

    fn insert(&self, connection: &Connection, order: &[u64], beat: &mut Beat<'_>) -> Result<Written, Failed> {
        let mut inside = enter();
        let mut insert = connection.prepare("INSERT INTO window_mappings VALUES (?1, ?2, ?3)")?;
        let mut written = Written { windows: 0, sequences: 0, left_out: 0 };
        for &row in order {
            let windows = self.rule.windows(self.contigs[row as usize].length);
            if windows == 0 {
                written.left_out += 1;
                continue;
            }
            written.sequences += 1;
            insert.raw_bind_parameter(2, self.id(row as usize))?;
            for k in 0..windows {
                insert.raw_bind_parameter(1, written.windows as i64)?;
                insert.raw_bind_parameter(3, k as i64)?;
                insert.raw_execute()?;
                written.windows += 1;
                if written.windows.is_multiple_of(BETWEEN_BEATS) {
                    // A fork that waits is let through here, and not when all is written.
                    inside.outside(|| beat.tell(written.windows))?;
                }
            }
        }
        Ok(written)
    }
}

/// Makes the index by id, which takes about as long as the windows did, while this thread keeps telling the watch.
fn index(connection: &mut Connection, beat: &mut Beat<'_>) -> Result<(), Failed> {
    let interrupt = connection.get_interrupt_handle();
    thread::scope(|scope| {
        let work = move || {
            let _inside = enter();
            connection.execute_batch("CREATE INDEX idx_sequence_id ON window_mappings (sequence_id)")
        };
        let thread = scope.spawn(work);
        let mut stopped = Ok(());
        while !thread.is_finished() {
            sleep(BEAT / 10);
            stopped = stopped.and_then(|()| beat.go_on());
            if stopped.is_err() {
                interrupt.interrupt();
            }
        }
        let made = thread.join().map_err(|_| io::Error::other("the thread that made the index did not end well"));
        stopped?;
        Ok(made.map_err(Error::from)??)
    })
}

/// SQLite's errors, which get their file's name later, or ours.
enum Failed {
    Sqlite(rusqlite::Error),
    Ours(Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::io::sqlite::forks::{hold, release};
    use crate::watch::Unwatched;

    #[test]
    fn a_database_is_not_written_while_a_fork_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = WindowsWriter::new(&dir.path().join("w.sqlite"), WindowRule::new(4, 2, 0).unwrap()).unwrap();
        writer.add("a", 20_000).unwrap();
        let (told, heard) = channel();
        hold();
        let thread = thread::spawn(move || told.send(writer.finish(&Unwatched).unwrap().windows).unwrap());
        assert!(heard.recv_timeout(Duration::from_millis(50)).is_err());
        release();
        assert_eq!(heard.recv().unwrap(), 9_999);
        thread.join().unwrap();
    }
}
