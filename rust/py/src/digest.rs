//! Whether two files are the same.

use std::path::PathBuf;

use pyo3::prelude::*;
use seekset_core::io::fingerprint;

use crate::watch::watched;

/// A checksum over all bytes of a file, xxh3 of 128 bits, as 32 hexadecimal digits.
#[pyfunction]
#[pyo3(signature = (path, *, progress=None))]
pub fn file_digest(py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let digest = watched(py, progress.as_ref(), |watch| fingerprint::digest(&path, watch))?;
    Ok(format!("{digest:032x}"))
}
