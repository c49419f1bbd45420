//! Small files read as a whole, inflated if they are gzip'd.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::bgzf::GZIP_MAGIC;
use super::deflate::{gunzip, inflates_beyond};
use super::room::reserve;
use crate::error::{Error, Result};

/// The bytes of a file, inflated if it is gzip'd; never more than `max_bytes`.
pub fn read(path: &Path, max_bytes: usize) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let size = file.metadata().map_err(|e| Error::io(path, e))?.len();
    reserve(&mut content, (size.min(max_bytes as u64) as usize).saturating_add(1)).map_err(|e| e.in_file(path))?;
    file.take((max_bytes as u64).saturating_add(1)).read_to_end(&mut content).map_err(|e| Error::io(path, e))?;
    if content.len() > max_bytes {
        return Err(inflates_beyond(max_bytes).in_file(path));
    }
    if content.starts_with(&GZIP_MAGIC) {
        content = gunzip(&content, max_bytes).map_err(|e| e.in_file(path))?;
    }
    Ok(content)
}
