//! Long values of many databases, read in parts.
//!
//! SQLite stores a long value as a chain of pages, and walks it from its start for every read: a hundred megabytes take
//! 30 ms. A blob handle that is kept open remembers the pages, so that a read takes microseconds. Opening one takes longer than
//! reading a short value whole, so that those are read and held instead.

use std::ffi::{CStr, c_int};
use std::path::Path;
use std::rc::Rc;

use hashlink::LruCache;
use rusqlite::{Connection, OptionalExtension, ffi};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Table, damaged, open, told};
use crate::error::Result;

/// Where the values are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub table: Table,
    /// Finds the row id, the type and the bytes of a value by its key, and the value itself if it has at most `?2` bytes.
    pub find: &'static str,
    pub table_name: &'static CStr,
    pub value: &'static CStr,
}

/// Values that are kept, and bytes that they may take together.
const MOST_VALUES: usize = 4096;
const MOST_BYTES: u64 = 64 << 20;
/// Values of at most so many bytes are held; longer ones are kept open.
const SHORT: u64 = 1 << 14;
/// What an open one takes at least: a statement and a cursor.
const HANDLE: u64 = 1 << 12;

/// A value that can be read in parts.
pub(crate) enum Value {
    Held(Box<[u8]>),
    Open(Handle),
}

impl Value {
    /// Its bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Held(bytes) => bytes.len() as u64,
            Self::Open(handle) => handle.length,
        }
    }

    /// Bytes from `from` on, as many as `out` has room for.
    pub fn read(&mut self, from: u64, out: &mut [u8]) -> rusqlite::Result<()> {
        match self {
            Self::Held(bytes) => {
                let from = from as usize;
                let wanted = from.checked_add(out.len()).and_then(|end| bytes.get(from..end));
                let beyond = || rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ERROR), None);
                out.copy_from_slice(wanted.ok_or_else(beyond)?);
                Ok(())
            }
            Self::Open(handle) => handle.read(from, out),
        }
    }

    /// What keeping it takes: itself, or a page number for every page, at least of those of the usual size.
    fn cost(&self) -> u64 {
        match self {
            Self::Held(bytes) => bytes.len() as u64,
            Self::Open(handle) => HANDLE + handle.length / 4096 * 4,
        }
    }
}

/// A blob handle.
pub(crate) struct Handle {
    blob: *mut ffi::sqlite3_blob,
    length: u64,
    /// What the handle belongs to, and must not outlive.
    connection: Rc<Connection>,
}

impl Handle {
    fn open(connection: &Rc<Connection>, column: &Column, row: i64) -> rusqlite::Result<Self> {
        let mut blob = std::ptr::null_mut();
        // SAFETY: the connection is open for as long as its Rc lives; names are C strings; `blob` is where the handle goes.
        let (code, length) = unsafe {
            let (table, value) = (column.table_name.as_ptr(), column.value.as_ptr());
            let code =
                ffi::sqlite3_blob_open(connection.handle(), c"main".as_ptr(), table, value, row, 0, &raw mut blob);
            (code, if code == ffi::SQLITE_OK { ffi::sqlite3_blob_bytes(blob) } else { 0 })
        };
        let length = u64::try_from(length).unwrap_or(0);
        let handle = Self { blob, length, connection: Rc::clone(connection) };
        handle.checked(code).map(|()| handle)
    }

    fn read(&mut self, from: u64, out: &mut [u8]) -> rusqlite::Result<()> {
        let place = c_int::try_from(from).ok().zip(c_int::try_from(out.len()).ok());
        let Some((from, len)) = place else { return self.checked(ffi::SQLITE_TOOBIG) };
        // SAFETY: `blob` is open, because opening it went well; `out` has room for `len` bytes; SQLite itself refuses what
        // reaches beyond the value.
        let code = unsafe { ffi::sqlite3_blob_read(self.blob, out.as_mut_ptr().cast(), len, from) };
        self.checked(code)
    }

    fn checked(&self, code: c_int) -> rusqlite::Result<()> {
        if code == ffi::SQLITE_OK {
            return Ok(());
        }
        // SAFETY: the connection is open, and the message is copied before anything else is done with it.
        let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.connection.handle())) };
        let message = message.to_string_lossy().into_owned();
        Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message)))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the connection is still open; a handle that never came to be is null, which SQLite ignores.
        unsafe { ffi::sqlite3_blob_close(self.blob) };
    }
}

struct Kept {
    database: u32,
    key: Box<str>,
    value: Value,
}

/// Databases and values that are open, some of each. They are for one thread at a time.
pub(crate) struct Values {
    column: Column,
    most_databases: usize,
    databases: LruCache<u32, Rc<Connection>>,
    open: LruCache<u64, Kept>,
    cost: u64,
}

// SAFETY: connections, and the handles that share them, are owned by these values alone: no Rc is ever given out, so that
// all of them move to another thread together. SQLite allows that to connections without a mutex, as long as no two
// threads use one at the same time, which `&mut self` of everything that reaches them rules out.
unsafe impl Send for Values {}

impl Values {
    pub fn new(column: Column, most_databases: usize) -> Self {
        let (databases, open) = (LruCache::new_unbounded(), LruCache::new_unbounded());
        Self { column, most_databases: most_databases.max(1), databases, open, cost: 0 }
    }

    /// The value of a key in a database, which has a number and a path; none if no row has the key.
    pub fn get(&mut self, database: u32, path: &Path, key: &str) -> Result<Option<&mut Value>> {
        let hash = xxh3_64_with_seed(key.as_bytes(), database.into());
        if !self.open.get(&hash).is_some_and(|kept| kept.database == database && *kept.key == *key) {
            let Some(value) = self.find(database, path, key)? else { return Ok(None) };
            self.keep(hash, Kept { database, key: key.into(), value });
        }
        Ok(self.open.peek_mut(&hash).map(|kept| &mut kept.value))
    }

    /// The connection to a database.
    pub fn connection(&mut self, database: u32, path: &Path) -> Result<&Connection> {
        self.shared(database, path).map(|shared| &**shared)
    }

    fn shared(&mut self, database: u32, path: &Path) -> Result<&Rc<Connection>> {
        if self.databases.get(&database).is_none() {
            while self.databases.len() >= self.most_databases {
                self.let_go_of_a_database();
            }
            let connection = open(path, &[self.column.table])?;
            // What is read stays what it was for as long as it is open, and the file is locked once and not for each read.
            connection.execute_batch("BEGIN").map_err(|e| told(e, path))?;
            self.databases.insert(database, Rc::new(connection));
        }
        Ok(self.databases.peek(&database).expect("it was there or was put there"))
    }

    fn find(&mut self, database: u32, path: &Path, key: &str) -> Result<Option<Value>> {
        let column = self.column;
        let connection = self.shared(database, path)?;
        let told = |e| told(e, path);
        let mut find = connection.prepare_cached(column.find).map_err(told)?;
        let found = find.query_row((key, SHORT as i64), |row| {
            let short = row.get_ref(2)?.as_bytes_or_null().ok().flatten().map(Into::into);
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, short))
        });
        match found.optional().map_err(told)? {
            None => Ok(None),
            Some((_, kind, _)) if kind != "text" && kind != "blob" => {
                Err(damaged(path, format!("'{key}': expected text, found a value of the type {kind}")))
            }
            Some((_, _, Some(short))) => Ok(Some(Value::Held(short))),
            Some((row, _, None)) => {
                Handle::open(connection, &column, row).map(|open| Some(Value::Open(open))).map_err(told)
            }
        }
    }

    fn keep(&mut self, hash: u64, kept: Kept) {
        self.cost += kept.value.cost();
        if let Some(other) = self.open.insert(hash, kept) {
            self.cost -= other.value.cost();
        }
        while self.open.len() > MOST_VALUES || (self.cost > MOST_BYTES && self.open.len() > 1) {
            let Some((_, oldest)) = self.open.remove_lru() else { break };
            self.cost -= oldest.value.cost();
        }
    }

    fn let_go_of_a_database(&mut self) {
        let Some((database, _)) = self.databases.remove_lru() else { return };
        let cost = &mut self.cost;
        self.open.retain(|_, kept| {
            let stays = kept.database != database;
            if !stays {
                *cost -= kept.value.cost();
            }
            stays
        });
    }
}
