//! `FastaStream` in Python.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seekset_core::fasta::FastaStream as Core;
use seekset_core::io::{Access, Fingerprint};

use crate::errors::OrRaise;
use crate::fasta::text;
use crate::watch::watched;

/// Size, modification time in ns, and a hash of some blocks.
type Seen = (u64, i128, u64);

/// An open FASTA file without an index.
#[pyclass(frozen, module = "seekset._core")]
pub struct FastaStream {
    inner: Core,
}

#[pymethods]
impl FastaStream {
    #[new]
    #[pyo3(signature = (path, *, seen=None, io="mmap"))]
    fn new(py: Python<'_>, path: PathBuf, seen: Option<Seen>, io: &str) -> PyResult<Self> {
        let access = io.parse::<Access>().or_raise(py)?;
        let seen = seen.map(|(size, mtime_ns, sample)| Fingerprint { size, mtime_ns, sample });
        let inner = watched(py, None, |watch| Core::open(&path, access, seen.as_ref(), watch))?;
        Ok(Self { inner })
    }

    /// Bytes of text in the file.
    fn __len__(&self) -> usize {
        self.inner.len() as usize
    }

    /// What the file looked like when it was opened, to open it again with.
    #[getter]
    fn seen(&self) -> Seen {
        let Fingerprint { size, mtime_ns, sample } = *self.inner.fingerprint();
        (size, mtime_ns, sample)
    }

    /// What is odd about the file and no reason not to read it, or None.
    #[getter]
    fn remark(&self) -> Option<&str> {
        self.inner.remark()
    }

    /// Ids and letters of the records that start at bytes `start` to `end`.
    #[pyo3(signature = (start, end, max_length=None))]
    fn records<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        end: u64,
        max_length: Option<u64>,
    ) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        if start > end {
            return Err(PyValueError::new_err(format!("a stretch from byte {start} to {end} has no bytes")));
        }
        let found = py.detach(|| self.inner.records(start..end, max_length)).or_raise(py)?;
        found.into_iter().map(|record| Ok((record.id, text(py, &record.letters)?.into_any()))).collect()
    }
}
