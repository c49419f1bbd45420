//! Payloads of records, from wherever they are.

use std::sync::Arc;

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView};
use seekset_core::{Place, Result, TfRecordFile};

use crate::tfrecord::{TFRecordFile, row_numbers};

/// Payloads that were given, or rows of a file.
pub enum Payloads {
    /// They can't change while they are read: what is no `bytes` was copied.
    Given(Vec<PyBackedBytes>),
    /// Rows of a file, which are not copied if it is mapped.
    Rows(Arc<TfRecordFile>, Vec<u64>),
}

impl Payloads {
    /// The payloads in a list of bytes-like objects, or these rows of a file.
    pub fn new(payloads: &Bound<'_, PyAny>, rows: Option<PyReadonlyArray1<'_, i64>>) -> PyResult<Self> {
        if let Ok(file) = payloads.cast::<TFRecordFile>() {
            let rows = rows.ok_or_else(|| PyTypeError::new_err("of a file, rows must be given"))?;
            return Ok(Self::Rows(Arc::clone(&file.get().inner), row_numbers(payloads.py(), &rows)?));
        }
        let given = payloads.try_iter()?.map(|payload| fixed(&payload?)).collect::<PyResult<_>>()?;
        Ok(Self::Given(given))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Given(payloads) => payloads.len(),
            Self::Rows(_, rows) => rows.len(),
        }
    }

    /// What `work` makes of them. Errors that number records as they come get their place in the file.
    pub fn with<T>(&self, work: impl FnOnce(&[&[u8]]) -> Result<T>) -> Result<T> {
        match self {
            Self::Given(payloads) => work(&payloads.iter().map(|payload| &**payload).collect::<Vec<_>>()),
            Self::Rows(file, rows) => file.with_payloads(rows, |payloads| {
                let row = |place: Place| place.record.and_then(|nth| rows.get(nth as usize));
                let in_file = |place| row(place).map_or(place, |&row| file.place(row));
                work(payloads).map_err(|error| error.map_places(in_file).in_file(file.path()))
            }),
        }
    }
}

/// Bytes that nobody can change.
pub fn fixed(payload: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if let Ok(bytes) = payload.cast::<PyBytes>() {
        return Ok(bytes.clone().into());
    }
    let kind = || payload.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string());
    let view =
        PyMemoryView::from(payload).map_err(|_| PyTypeError::new_err(format!("a payload is bytes, not {}", kind())))?;
    Ok(view.call_method0("tobytes")?.cast_into::<PyBytes>()?.into())
}
