//! SQLite databases: opened to be read, written beside their name, their errors told as ours.

pub(crate) mod beside;
pub mod forks;
pub(crate) mod values;

use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::ffi::ErrorCode;
use rusqlite::{Connection, OpenFlags};

use super::whole::refuse_folder;
use crate::error::{Error, Place, Result};

/// How long a database that another process writes to is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a connection is told at first. Pages are cached by the system; a cache for each connection would add up. A damaged
/// page is to be noticed, and nothing that a schema holds is to be run.
const MANNERS: &str = "PRAGMA cache_size = -512; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF;";

/// A table as it must be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    pub name: &'static str,
    pub columns: &'static [&'static str],
    /// Whether rows must have row ids, without which values can't be read in parts.
    pub row_ids: bool,
}

/// Opens a database to read it. It must hold text as UTF-8, and these tables.
pub(crate) fn open(path: &Path, tables: &[Table]) -> Result<Connection> {
    // The file itself is not opened here: closing it would give up the locks that this process has on it.
    std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
    refuse_folder(path)?;
    let absolute = std::path::absolute(path).map_err(|e| Error::io(path, e))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let told = |e| told(e, path);
    let connection = Connection::open_with_flags(absolute, flags).map_err(told)?;
    connection.busy_timeout(PATIENCE).map_err(told)?;
    connection.execute_batch(MANNERS).map_err(told)?;
    let encoding: String = connection.query_row("PRAGMA encoding", [], |row| row.get(0)).map_err(told)?;
    if encoding != "UTF-8" {
        let message =
            format!("text must be stored as UTF-8, but this database has {encoding}; write it again as UTF-8");
        return Err(damaged(path, message));
    }
    refuse_cut(&connection, path)?;
    tables.iter().try_for_each(|table| require(&connection, path, table))?;
    Ok(connection)
}

/// An error if the last page is not all there. SQLite itself notices missing pages only when they are whole.
fn refuse_cut(connection: &Connection, path: &Path) -> Result<()> {
    let page: u64 =
        connection.query_row("PRAGMA page_size", [], |row| row.get::<_, u32>(0)).map_err(|e| told(e, path))?.into();
    let bytes = std::fs::metadata(path).map_err(|e| Error::io(path, e))?.len();
    if page == 0 || !bytes.is_multiple_of(page) {
        let message =
            format!("expected pages of {page} bytes, found {bytes} bytes, which are no whole pages: it was cut");
        return Err(damaged(path, message));
    }
    Ok(())
}

/// An error unless the table is there, with its columns.
fn require(connection: &Connection, path: &Path, table: &Table) -> Result<()> {
    let wanted = format!("expected a table {}({})", table.name, table.columns.join(", "));
    let kind = "SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1 COLLATE NOCASE";
    let found = connection.query_row(kind, [table.name], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)));
    let (kind, without_row_ids) = match found {
        Ok(found) => found,
        Err(rusqlite::Error::QueryReturnedNoRows) => {
            let others = names(
                connection,
                "SELECT name FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%' ORDER BY name",
                None,
            );
            let others = others.map_err(|e| told(e, path))?;
            let others = if others.is_empty() { "no tables at all".to_owned() } else { format!("only {others}") };
            return Err(damaged(path, format!("{wanted}, found {others}")));
        }
        Err(error) => return Err(told(error, path)),
    };
    if kind != "table" {
        return Err(damaged(path, format!("{wanted}, found a {kind} of that name")));
    }
    let columns = names(connection, "SELECT name FROM pragma_table_info(?1) ORDER BY cid", Some(table.name));
    let columns = columns.map_err(|e| told(e, path))?;
    let has = |column: &&str| columns.split(", ").any(|name| name.eq_ignore_ascii_case(column));
    if !table.columns.iter().all(has) {
        return Err(damaged(path, format!("{wanted}, found {}({columns})", table.name)));
    }
    if table.row_ids && without_row_ids {
        return Err(damaged(path, format!("{wanted} with row ids, found one that was made WITHOUT ROWID")));
    }
    Ok(())
}

fn names(connection: &Connection, query: &str, of: Option<&str>) -> rusqlite::Result<String> {
    let mut statement = connection.prepare(query)?;
    let names = match of {
        Some(of) => statement.query_map([of], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>(),
        None => statement.query_map([], |row| row.get::<_, String>(0))?.collect(),
    };
    Ok(names?.join(", "))
}

/// A format error of a whole file.
pub(crate) fn damaged(path: &Path, message: String) -> Error {
    Error::Format { path: Some(path.to_owned()), place: Place::default(), message }
}

/// What SQLite said about a file, by who can mend it.
pub(crate) fn told(error: rusqlite::Error, path: &Path) -> Error {
    let rusqlite::Error::SqliteFailure(code, message) = &error else {
        // A value of another type than was asked for, or text that is none.
        return damaged(path, format!("a value is not what it should be: {error}"));
    };
    let message = message.clone().unwrap_or_else(|| code.to_string());
    let io = |kind: io::ErrorKind, message: String| Error::io(path, io::Error::new(kind, message));
    match code.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            let seconds = PATIENCE.as_secs();
            io(
                io::ErrorKind::ResourceBusy,
                format!("the database is locked: another process writes to it, and had not ended after {seconds} s"),
            )
        }
        ErrorCode::OutOfMemory => io(io::ErrorKind::OutOfMemory, message),
        ErrorCode::DiskFull => Error::io(path, io::Error::from_raw_os_error(28)), // ENOSPC
        ErrorCode::PermissionDenied | ErrorCode::ReadOnly | ErrorCode::CannotOpen => unopened(path, &message),
        ErrorCode::SystemIoFailure if code.extended_code != rusqlite::ffi::SQLITE_IOERR_SHORT_READ => {
            io(io::ErrorKind::Other, message)
        }
        ErrorCode::NotADatabase => damaged(path, "expected a SQLite database, found something else".to_owned()),
        ErrorCode::OperationInterrupted => Error::Interrupted,
        _ => damaged(path, format!("the database is damaged: {message}")),
    }
}

/// Why a file can't be opened: what the system says, else what SQLite does.
fn unopened(path: &Path, message: &str) -> Error {
    let system = std::fs::File::open(path).err();
    system.map_or_else(
        || {
            let hint = "a database in WAL mode needs a folder that can be written to; whoever may write to it can end \
                        that mode with PRAGMA journal_mode = DELETE";
            Error::io(path, io::Error::other(format!("{message} ({hint})")))
        },
        |error| Error::io(path, error),
    )
}
