//! `bytes` that there may be no memory for.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A copy of bytes for Python, or a `MemoryError`: `PyBytes::new` takes it for granted that there is room, and panics;
/// `PyBytes::new_with` writes all of it twice.
pub fn bytes<'py>(py: Python<'py>, content: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let (start, len) = (content.as_ptr().cast(), content.len().cast_signed());
    // SAFETY: start and length are those of a slice, which is copied. What comes is a new reference to bytes, or null with
    // the exception set.
    let copy = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(start, len)) }?;
    Ok(copy.cast_into()?)
}
