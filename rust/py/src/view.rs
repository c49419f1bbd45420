//! Bytes of a mapped file as a Python buffer, without a copy.

use std::ffi::c_int;
use std::ops::Range;

use pyo3::ffi;
use pyo3::prelude::*;
use seekset_core::io::Store;

/// A read-only buffer over part of an index. It keeps the mapping alive.
#[pyclass(frozen, module = "seekset._core")]
pub struct View {
    store: Store,
    range: Range<usize>,
}

impl View {
    pub fn new(store: Store, range: Range<usize>) -> Self {
        Self { store, range }
    }

    fn bytes(&self) -> &[u8] {
        self.store.bytes().get(self.range.clone()).unwrap_or(&[])
    }
}

#[pymethods]
impl View {
    fn __len__(&self) -> usize {
        self.bytes().len()
    }

    // SAFETY: the view holds a reference to `slf`, which owns the store: while the view lives, its bytes stay where they
    // are, and nobody of this process writes to them; the buffer is marked read-only. Those of a mapped file are what the
    // file holds, though: others may write to it, which shows here, or cut it, and reading is a bus error then. No look at
    // the file comes before the reads of whoever holds the view (docs/design.md, "Changing files").
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = slf.get().bytes();
        let (start, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len().cast_signed());
        let failed = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 1, flags) } < 0;
        if failed { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }
}
