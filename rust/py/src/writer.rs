//! `TFRecordWriter` in Python.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seekset_core::tfrecord::{Compression, TfRecordWriter as Writer};

use crate::errors::OrRaise;
use crate::payloads::fixed;

/// Payloads of more bytes let other threads run while they are written.
const MANY_BYTES: usize = 1 << 16;

/// A TFRecord file that is being written.
#[pyclass(module = "seekset._core")]
pub struct TFRecordWriter {
    inner: Option<Writer>,
    /// The process that it belongs to.
    process: u32,
}

#[pymethods]
impl TFRecordWriter {
    #[new]
    #[pyo3(signature = (path, *, compression=None, index=true))]
    fn new(py: Python<'_>, path: PathBuf, compression: Option<&str>, index: bool) -> PyResult<Self> {
        let compression = compression.map_or(Ok(Compression::None), str::parse).or_raise(py)?;
        let inner = py.detach(|| Writer::create(&path, compression, index)).or_raise(py)?;
        Ok(Self { inner: Some(inner), process: std::process::id() })
    }

    /// How many records were written.
    #[getter]
    fn records(&self) -> u64 {
        self.inner.as_ref().map_or(0, Writer::records)
    }

    /// Adds a record.
    fn write(&mut self, py: Python<'_>, payload: &Bound<'_, PyAny>) -> PyResult<()> {
        let payload = fixed(payload)?;
        self.refuse_elsewhere()?;
        let inner = self.inner.as_mut().ok_or_else(closed)?;
        let written =
            if payload.len() > MANY_BYTES { py.detach(|| inner.write(&payload)) } else { inner.write(&payload) };
        written.or_raise(py)
    }

    /// Gives the file, and its index, their names; returns how many records there are.
    fn publish(&mut self, py: Python<'_>) -> PyResult<u64> {
        self.refuse_elsewhere()?;
        let inner = self.inner.take().ok_or_else(closed)?;
        py.detach(|| inner.publish()).or_raise(py)
    }

    /// Leaves what was there before.
    fn discard(&mut self) {
        let inner = self.inner.take();
        if self.is_elsewhere() {
            std::mem::forget(inner);
        }
    }
}

impl TFRecordWriter {
    /// Whether this is a forked child, which shares the file with the parent that writes it.
    fn is_elsewhere(&self) -> bool {
        self.process != std::process::id()
    }

    fn refuse_elsewhere(&self) -> PyResult<()> {
        if self.is_elsewhere() {
            let process = self.process;
            return Err(PyValueError::new_err(format!(
                "the writer belongs to process {process}, which forked this one"
            )));
        }
        Ok(())
    }
}

/// A forked child leaves the file alone: letting go of it would write what is not written yet, which the parent does too,
/// and remove the file under the parent's hands.
impl Drop for TFRecordWriter {
    fn drop(&mut self) {
        self.discard();
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the writer is closed")
}
