//! A window database: which window of which contig a number stands for.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use rusqlite::{Connection, OptionalExtension};

use super::ids::beginning;
use super::rule::WindowRule;
use crate::error::{Error, Result};
use crate::io::fingerprint::FirstLook;
use crate::io::readers::Readers;
use crate::io::sqlite::forks::{Inside, enter};
use crate::io::sqlite::{Table, damaged, open, told};
use crate::watch::{Beat, Watch};

/// What every window database holds.
pub(super) const TABLES: [Table; 2] = [
    Table { name: "metadata", columns: &["key", "value"], row_ids: false },
    Table { name: "window_mappings", columns: &["window_idx", "sequence_id", "window_in_seq_idx"], row_ids: false },
];

/// Windows between two looks at the clock.
const BETWEEN_LOOKS: u64 = 64;

/// A window database, which is opened when it is first read.
pub struct EdenWindows {
    path: PathBuf,
    readers: Readers<Connection>,
    /// Read once: they are small, and asked for again and again. No lock is waited for.
    metadata: ArcSwapOption<BTreeMap<String, i64>>,
    counted: [OnceLock<u64>; 2],
    look: FirstLook,
}

impl EdenWindows {
    /// The database at a path.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let counted = [OnceLock::new(), OnceLock::new()];
        let (readers, metadata, look) = (Readers::new(), ArcSwapOption::const_empty(), FirstLook::now(path));
        Self { path: path.to_owned(), readers, metadata, counted, look }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says about itself: `window_size`, `stride` and the like.
    pub fn metadata(&self) -> Result<Arc<BTreeMap<String, i64>>> {
        if let Some(known) = self.metadata.load_full() {
            return Ok(known);
        }
        let read = self.with(|connection, _| {
            let mut metadata = BTreeMap::new();
            let mut statement =
                connection.prepare("SELECT key, value, typeof(value) FROM metadata").map_err(|e| self.told(e))?;
            let mut rows = statement.query([]).map_err(|e| self.told(e))?;
            while let Some(row) = rows.next().map_err(|e| self.told(e))? {
                let key: String = row.get(0).map_err(|e| self.told(e))?;
                let Ok(value) = row.get::<_, i64>(1) else {
                    let kind: String = row.get(2).map_err(|e| self.told(e))?;
                    return Err(self.damaged(format!("metadata '{key}': expected an integer, found {kind}")));
                };
                metadata.insert(key, value);
            }
            Ok(metadata)
        })?;
        let read = Arc::new(read);
        self.metadata.store(Some(Arc::clone(&read)));
        Ok(read)
    }

    /// How the database's windows were cut.
    pub fn rule(&self) -> Result<WindowRule> {
        let metadata = self.metadata()?;
        let number = |key: &str, missing: Option<i64>| {
            let value = metadata.get(key).copied().or(missing);
            let value = value.ok_or_else(|| self.damaged(format!("expected metadata '{key}', found none")))?;
            u64::try_from(value)
                .map_err(|_| self.damaged(format!("metadata '{key}': expected no negative number, found {value}")))
        };
        let shortest = number("window_min_length_threshold", Some(0))?;
        let rule = WindowRule::new(number("window_size", None)?, number("stride", None)?, shortest);
        rule.map_err(|error| self.damaged(error.to_string()))
    }

    /// How many windows there are: what the metadata say, else they are counted.
    pub fn len(&self) -> Result<u64> {
        self.count(0, "total_windows", "SELECT count(*) FROM window_mappings")
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// How many contigs have windows: what the metadata say, else they are counted.
    pub fn distinct_sequences(&self) -> Result<u64> {
        self.count(1, "distinct_sequences", "SELECT count(DISTINCT sequence_id) FROM window_mappings")
    }

    fn count(&self, which: usize, key: &str, query: &str) -> Result<u64> {
        if let Some(&known) = self.counted[which].get() {
            return Ok(known);
        }
        let count = match self.metadata()?.get(key) {
            Some(&count) => count,
            None => {
                self.with(|connection, _| connection.query_row(query, [], |row| row.get(0)).map_err(|e| self.told(e)))?
            }
        };
        let count = u64::try_from(count)
            .map_err(|_| self.damaged(format!("metadata '{key}': expected no negative number, found {count}")))?;
        let _ = self.counted[which].set(count);
        Ok(count)
    }

    /// The contigs of windows, and which of its contig's windows each is, in the order asked.
    pub fn lookup(&self, windows: &[i64]) -> Result<Vec<(String, i64)>> {
        self.look.check(&self.path)?;
        let mut order: Vec<u32> = (0..windows.len() as u32).collect();
        order.sort_unstable_by_key(|&place| windows[place as usize]);
        let mut found = vec![(String::new(), 0); windows.len()];
        self.with(|connection, _| {
            // One for all: without, SQLite would lock and unlock the file for each window.
            let _transaction = connection.unchecked_transaction().map_err(|e| self.told(e))?;
            let query = "SELECT sequence_id, window_in_seq_idx FROM window_mappings WHERE window_idx = ?1";
            let mut statement = connection.prepare_cached(query).map_err(|e| self.told(e))?;
            for place in order {
                let window = windows[place as usize];
                let row = statement.query_row([window], |row| Ok((row.get(0)?, row.get(1)?))).optional();
                let Some((id, k)) = row.map_err(|e| self.told(e))? else { return Err(self.missing(window)) };
                if k < 0 {
                    return Err(self.damaged(format!("window {window}: window_in_seq_idx is {k}, which is negative")));
                }
                found[place as usize] = (id, k);
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn missing(&self, row: i64) -> Error {
        match self.len() {
            Err(error) => error,
            Ok(rows) if row < 0 || row as u64 >= rows => Error::RowOutOfRange { row, rows },
            Ok(rows) => self
                .damaged(format!("expected the windows 0 to {}, as the metadata say, found no window {row}", rows - 1)),
        }
    }

    /// One contig for each beginning (its two first parts, which name its sample) that ids have; ids without such a
    /// beginning all come.
    pub fn first_of_each_sample(&self, watch: &dyn Watch) -> Result<Vec<String>> {
        self.with(|connection, inside| match self.skipping(connection, inside, watch)? {
            Some(firsts) => Ok(firsts),
            None => self.scanning(connection, inside, watch),
        })
    }

    /// From the first id of a beginning to the first of the next, in an index. None if there is no such index.
    fn skipping(&self, connection: &Connection, inside: &mut Inside, watch: &dyn Watch) -> Result<Option<Vec<String>>> {
        let indexed = "SELECT 1 FROM pragma_index_list('window_mappings') AS i, pragma_index_xinfo(i.name) AS c \
                       WHERE i.partial = 0 AND c.seqno = 0 AND c.name = 'sequence_id' AND c.coll = 'BINARY' AND c.desc = 0";
        if connection.query_row(indexed, [], |_| Ok(())).optional().map_err(|e| self.told(e))?.is_none() {
            return Ok(None);
        }
        let next = "SELECT min(sequence_id) FROM window_mappings WHERE sequence_id > ?1";
        let mut next = connection.prepare_cached(next).map_err(|e| self.told(e))?;
        let mut firsts = Firsts::default();
        let mut beat = Beat::new(watch, 0);
        let mut after = String::new();
        // The empty id is the only one that is not beyond the empty text.
        let empty = "SELECT 1 FROM window_mappings WHERE sequence_id = '' LIMIT 1";
        if connection.query_row(empty, [], |_| Ok(())).optional().map_err(|e| self.told(e))?.is_some() {
            firsts.meet("");
        }
        while let Some(id) =
            next.query_row([&after], |row| row.get::<_, Option<String>>(0)).map_err(|e| self.told(e))?
        {
            if id.as_bytes().cmp(after.as_bytes()) != Ordering::Greater {
                return Ok(None);
            }
            firsts.meet(&id);
            after = beginning(&id).map_or(id.clone(), beyond);
            inside.now_and_then(|| beat.go_on())?;
        }
        Ok(Some(firsts.ids))
    }

    fn scanning(&self, connection: &Connection, inside: &mut Inside, watch: &dyn Watch) -> Result<Vec<String>> {
        let mut statement = connection.prepare("SELECT sequence_id FROM window_mappings").map_err(|e| self.told(e))?;
        let mut rows = statement.query([]).map_err(|e| self.told(e))?;
        let mut firsts = Firsts::default();
        let mut beat = Beat::new(watch, 0);
        while let Some(row) = rows.next().map_err(|e| self.told(e))? {
            let id = row.get_ref(0).and_then(|value| Ok(value.as_str()?)).map_err(|e| self.told(e))?;
            firsts.meet(id);
            inside.now_and_then(|| beat.go_on())?;
        }
        firsts.ids.sort_unstable();
        Ok(firsts.ids)
    }

    /// Calls `each` with the number of every window, its contig and which of its windows it is, in the order of numbers;
    /// and `told`, outside of SQLite, now and then with how many those were.
    pub(super) fn each_window(
        &self,
        mut each: impl FnMut(i64, &str, i64) -> Result<()>,
        mut told: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut met = 0_u64;
        self.with(|connection, inside| {
            let query = "SELECT window_idx, sequence_id, window_in_seq_idx FROM window_mappings ORDER BY window_idx";
            let mut statement = connection.prepare(query).map_err(|e| self.told(e))?;
            let mut rows = statement.query([]).map_err(|e| self.told(e))?;
            while let Some(row) = rows.next().map_err(|e| self.told(e))? {
                let (window, k) = (row.get(0).map_err(|e| self.told(e))?, row.get(2).map_err(|e| self.told(e))?);
                let id = row.get_ref(1).and_then(|value| Ok(value.as_str()?)).map_err(|e| self.told(e))?;
                each(window, id, k)?;
                met += 1;
                if met.is_multiple_of(BETWEEN_LOOKS) {
                    inside.now_and_then(|| told(met))?;
                }
            }
            Ok(())
        })
    }

    /// Calls `each` with every contig, the numbers of its first and its last window, and how many it has; and tells
    /// `beat`, outside of SQLite.
    pub(super) fn each_contig(
        &self,
        beat: &mut Beat<'_>,
        mut each: impl FnMut(&str, i64, i64, i64) -> Result<()>,
    ) -> Result<()> {
        self.with(|connection, inside| {
            let query =
                "SELECT sequence_id, min(window_idx), max(window_idx), count(*) FROM window_mappings GROUP BY 1";
            let mut statement = connection.prepare(query).map_err(|e| self.told(e))?;
            let mut rows = statement.query([]).map_err(|e| self.told(e))?;
            while let Some(row) = rows.next().map_err(|e| self.told(e))? {
                let number = |column: usize| row.get::<_, i64>(column).map_err(|e| self.told(e));
                let id = row.get_ref(0).and_then(|value| Ok(value.as_str()?)).map_err(|e| self.told(e))?;
                each(id, number(1)?, number(2)?, number(3)?)?;
                inside.now_and_then(|| beat.go_on())?;
            }
            Ok(())
        })
    }

    /// Closes the database. What is read afterwards opens it again.
    pub fn close(&self) {
        self.readers.clear();
    }

    /// Does something with a connection that nobody else uses meanwhile. What takes long goes outside now and then, and
    /// whenever it calls foreign code.
    fn with<T>(&self, work: impl FnOnce(&Connection, &mut Inside) -> Result<T>) -> Result<T> {
        let mut inside = enter();
        let connection = match self.readers.take_one() {
            Some(connection) => connection,
            None => open(&self.path, &TABLES)?,
        };
        let done = work(&connection, &mut inside);
        self.readers.give(vec![connection]);
        done
    }

    fn told(&self, error: rusqlite::Error) -> Error {
        told(error, &self.path)
    }

    fn damaged(&self, message: String) -> Error {
        damaged(&self.path, message)
    }
}

/// The first id met of each beginning.
#[derive(Default)]
struct Firsts {
    met: HashSet<String>,
    ids: Vec<String>,
}

impl Firsts {
    fn meet(&mut self, id: &str) {
        let pair = pair(id);
        if !self.met.contains(pair) {
            self.met.insert(pair.to_owned());
            self.ids.push(id.to_owned());
        }
    }
}

/// The two first parts of an id; all of it where it has fewer.
fn pair(id: &str) -> &str {
    beginning(id).map_or(id, |beginning| &beginning[..beginning.len() - 2])
}

/// A text beyond all that begin like this one and before all others beyond it, for a beginning that ends with an underscore.
fn beyond(beginning: &str) -> String {
    let mut bound = beginning[..beginning.len() - 1].to_owned();
    bound.push(char::from(b'_' + 1));
    bound
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::channel;
    use std::thread::{sleep, spawn};
    use std::time::Duration;

    use super::*;
    use crate::eden::{EdenSequences, SampleWriter, WindowsWriter};
    use crate::io::sqlite::forks::{hold, release};
    use crate::watch::Unwatched;

    /// Whether a fork is made while this is called.
    fn forks() -> bool {
        let (told, heard) = channel();
        let fork = spawn(move || {
            hold();
            release();
            told.send(()).is_ok()
        });
        heard.recv_timeout(Duration::from_secs(5)).is_ok() && fork.join().unwrap()
    }

    #[test]
    fn a_fork_is_made_while_windows_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.sqlite");
        let mut writer = WindowsWriter::new(&path, WindowRule::new(4, 2, 0).unwrap()).unwrap();
        writer.add("a", 1_000).unwrap();
        writer.finish(&Unwatched).unwrap();
        let (windows, last, times) = (EdenWindows::new(&path), Cell::new(0), Cell::new(0));
        let each = |window: i64, _: &str, _: i64| {
            sleep(Duration::from_micros(200));
            assert_eq!(window, last.get(), "it goes on where it was");
            last.set(window + 1);
            Ok(())
        };
        let told = |met: u64| {
            assert_eq!(met, last.get() as u64);
            times.set(times.get() + 1);
            assert!(forks());
            Ok(())
        };
        windows.each_window(each, told).unwrap();
        assert_eq!(last.get(), 499);
        assert!(times.get() > 1);
    }

    #[test]
    fn a_fork_is_made_while_contigs_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("glm_dataset_A.sqlite");
        let mut sample = SampleWriter::create(&path).unwrap();
        (0..20).try_for_each(|k| sample.add(&format!("x__y-A__{k:02}"), "ACGT")).unwrap();
        sample.finish().unwrap();
        let sequences = EdenSequences::new(vec!["A".to_owned()], vec![path]).unwrap();
        let (met, forked) = (Cell::new(0), Cell::new(false));
        let watch = |_: u64, _: u64| {
            forked.set(forks());
            forked.get()
        };
        let each = |_: &str, _: u64| {
            sleep(Duration::from_millis(5));
            met.set(met.get() + 1);
            Ok(())
        };
        sequences.each_contig(0, &watch, each).unwrap();
        assert_eq!((met.get(), forked.get()), (20, true));
    }
}
