//! Sample databases, written from contigs.

use std::path::{Path, PathBuf};

use super::sequences::SEQUENCES;
use crate::error::{Error, Result};
use crate::io::sqlite::beside::{Beside, refuse_nul, refuse_to_replace};
use crate::io::sqlite::forks::enter;
use crate::io::sqlite::{damaged, told};

/// The bytes of a page: the most that SQLite takes, so that long values are short chains.
const PAGE: u32 = 65536;

/// A sample database under way. Dropped without [`SampleWriter::finish`], it leaves what was there before.
pub struct SampleWriter {
    file: Beside,
    rows: u64,
}

impl SampleWriter {
    /// Starts a database at `path`.
    pub fn create(path: &Path) -> Result<Self> {
        refuse_to_replace(path, "sample database", &[SEQUENCES])?;
        let file = Beside::create(path, PAGE)?;
        let _inside = enter();
        let schema = "CREATE TABLE sequences (contig_id TEXT PRIMARY KEY, nt_sequence TEXT NOT NULL); BEGIN";
        file.connection().execute_batch(schema).map_err(|e| file.told(e))?;
        Ok(Self { file, rows: 0 })
    }

    /// Adds a contig. Its id must not be there yet; its letters are stored as they are.
    pub fn add(&mut self, id: &str, letters: &str) -> Result<()> {
        let _inside = enter();
        let path = self.file.path();
        refuse_nul(path, "the contig id", id)?;
        if let Some(at) = letters.bytes().position(|byte| byte == 0 || !byte.is_ascii()) {
            let byte = letters.as_bytes()[at];
            let message =
                format!("contig '{id}', position {at}: expected a letter (ASCII), found the byte 0x{byte:02x}");
            return Err(damaged(path, message));
        }
        let query = "INSERT INTO sequences VALUES (?1, ?2)";
        let inserted =
            self.file.connection().prepare_cached(query).and_then(|mut insert| insert.execute((id, letters)));
        match inserted {
            Ok(_) => {}
            Err(rusqlite::Error::SqliteFailure(code, _))
                if code.code == rusqlite::ffi::ErrorCode::ConstraintViolation =>
            {
                let row = "SELECT rowid FROM sequences WHERE contig_id = ?1";
                let before: i64 = self.file.connection().query_row(row, [id], |row| row.get(0)).unwrap_or(1);
                return Err(Error::RepeatedContig { id: id.to_owned(), rows: [before as u64 - 1, self.rows] });
            }
            Err(rusqlite::Error::SqliteFailure(code, _)) if code.code == rusqlite::ffi::ErrorCode::TooBig => {
                let length = letters.len();
                let message = format!("contig '{id}' has {length} letters, more than a value of SQLite may have");
                return Err(Error::Mismatch(message));
            }
            Err(error) => return Err(told(error, path)),
        }
        self.rows += 1;
        Ok(())
    }

    /// Gives the database its name.
    pub fn finish(self) -> Result<PathBuf> {
        let _inside = enter();
        self.file.connection().execute_batch("COMMIT").map_err(|e| self.file.told(e))?;
        self.file.publish()
    }
}
