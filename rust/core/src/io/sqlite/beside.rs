//! Databases written beside their name, then renamed.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempPath;

use super::forks::{close, enter};
use super::{damaged, open, told};
use crate::error::{Error, Result};
use crate::io::open::beside;
use crate::io::whole::{begin, refuse_folder};

/// A database under way to `path`. Dropped without [`Beside::publish`], it leaves what was there before.
pub(crate) struct Beside {
    path: PathBuf,
    under_way: UnderWay,
}

/// A connection and its file, of the process that made them: a forked child neither closes nor removes them.
struct UnderWay {
    pid: u32,
    parts: Option<Parts>,
}

struct Parts {
    // Closed before its file is removed: fields are dropped in this order.
    connection: Connection,
    temp: TempPath,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        if self.pid == std::process::id() { close(parts) } else { std::mem::forget(parts) }
    }
}

impl UnderWay {
    const OPEN: &str = "it is open until it is published";
}

impl Beside {
    /// Starts a database with pages of so many bytes. Nobody knows its name, so that neither a journal nor waiting for
    /// the disk is of use to anyone.
    pub fn create(path: &Path, page: u32) -> Result<Self> {
        let _inside = enter();
        let (file, temp) = begin(path)?;
        drop(file);
        let told = |e| told(e, path);
        let absolute = std::path::absolute(&temp).map_err(|e| Error::io(path, e))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(absolute, flags).map_err(told)?;
        let manners = format!(
            "PRAGMA page_size = {page}; PRAGMA encoding = 'UTF-8'; PRAGMA locking_mode = EXCLUSIVE; \
             PRAGMA synchronous = OFF; PRAGMA cache_size = -65536; PRAGMA temp_store = FILE;"
        );
        connection.execute_batch(&manners).map_err(told)?;
        // It answers with the mode it has now.
        connection.query_row("PRAGMA journal_mode = OFF", [], |_| Ok(())).map_err(told)?;
        let under_way = UnderWay { pid: std::process::id(), parts: Some(Parts { connection, temp }) };
        Ok(Self { path: path.to_owned(), under_way })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn connection(&self) -> &Connection {
        &self.under_way.parts.as_ref().expect(UnderWay::OPEN).connection
    }

    pub fn connection_mut(&mut self) -> &mut Connection {
        &mut self.under_way.parts.as_mut().expect(UnderWay::OPEN).connection
    }

    /// An error of SQLite, with the name that the file will have.
    pub fn told(&self, error: rusqlite::Error) -> Error {
        told(error, &self.path)
    }

    /// Gives the database its name, replacing what was there.
    pub fn publish(self) -> Result<PathBuf> {
        let Self { path, mut under_way } = self;
        let Parts { connection, temp } = under_way.parts.take().expect(UnderWay::OPEN);
        {
            let _inside = enter();
            connection.close().map_err(|(_, error)| told(error, &path))?;
        }
        // The old one is good until the new one is: nothing was synced while it was written.
        std::fs::File::open(&temp).and_then(|file| file.sync_all()).map_err(|e| Error::io(&path, e))?;
        temp.persist(&path).map_err(|e| Error::io(&path, e.error))?;
        Ok(path)
    }
}

/// An error if there is something at `path` that is not to be replaced: a folder, a file that is no database with these
/// tables, or one that is in use.
pub(crate) fn refuse_to_replace(path: &Path, kind: &str, tables: &[super::Table]) -> Result<()> {
    let _inside = enter();
    refuse_folder(path)?;
    let Ok(there) = std::fs::metadata(path) else { return Ok(()) };
    for ending in ["-wal", "-journal"] {
        // What is in it would be taken for a part of the new database.
        let other = beside(path, ending);
        if std::fs::metadata(&other).is_ok_and(|other| other.len() > 0) {
            let message = format!(
                "{}: the database that is there is in use, or was left in the middle of a change: there is {}; end \
                 whoever writes to it, or delete both",
                path.display(),
                other.display()
            );
            return Err(Error::Mismatch(message));
        }
    }
    if there.len() == 0 {
        return Ok(());
    }
    match open(path, tables) {
        Err(Error::Format { .. }) => {
            let path = path.display();
            let message =
                format!("{path}: there is a file already, and it is no {kind}; delete it or give another path");
            Err(Error::Mismatch(message))
        }
        opened => opened.map(drop),
    }
}

/// Refuses text that readers of it would refuse.
pub(crate) fn refuse_nul(path: &Path, what: &str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(damaged(path, format!("{what} {text:?} holds a NUL, which SQLite takes for the end of a text")));
    }
    Ok(())
}
