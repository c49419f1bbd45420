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
}

#[pymethods]
impl TFRecordWriter {
    #[new]
    #[pyo3(signature = (path, *, compression=None, index=true))]
    fn new(py: Python<'_>, path: PathBuf, compression: Option<&str>, index: bool) -> PyResult<Self> {
        let compression = compression.map_or(Ok(Compression::None), str::parse).or_raise(py)?;
        let inner = py.detach(|| Writer::create(&path, compression, index)).or_raise(py)?;
        Ok(Self { inner: Some(inner) })
    }

    /// How many records were written.
    #[getter]
    fn records(&self) -> u64 {
        self.inner.as_ref().map_or(0, Writer::records)
    }

    /// Adds a record.
    fn write(&mut self, py: Python<'_>, payload: &Bound<'_, PyAny>) -> PyResult<()> {
        let payload = fixed(payload)?;
        let inner = self.inner.as_mut().ok_or_else(closed)?;
        let written =
            if payload.len() > MANY_BYTES { py.detach(|| inner.write(&payload)) } else { inner.write(&payload) };
        written.or_raise(py)
    }

    /// Gives the file, and its index, their names; returns how many records there are.
    fn publish(&mut self, py: Python<'_>) -> PyResult<u64> {
        let inner = self.inner.take().ok_or_else(closed)?;
        py.detach(|| inner.publish()).or_raise(py)
    }

    /// Leaves what was there before.
    fn discard(&mut self) {
        self.inner = None;
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the writer is closed")
}
