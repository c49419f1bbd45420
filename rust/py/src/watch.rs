//! Long work watched from Python: Ctrl-C, and a progress callback.

use std::cell::RefCell;

use pyo3::prelude::*;
use seekset_core::Result;
use seekset_core::watch::Watch;

use crate::errors::to_python;

/// Checks for signals and calls `callback(done, total)` on the thread that called.
struct PyWatch<'a> {
    callback: Option<&'a Py<PyAny>>,
    raised: RefCell<Option<PyErr>>,
}

impl Watch for PyWatch<'_> {
    fn progress(&self, done: u64, total: u64) -> bool {
        let result = Python::attach(|py| {
            py.check_signals()?;
            self.callback.map_or(Ok(()), |callback| callback.call1(py, (done, total)).map(drop))
        });
        result.map_err(|error| *self.raised.borrow_mut() = Some(error)).is_ok()
    }
}

/// Runs `work` without the GIL, watched; an exception from a signal or the callback is what comes out.
pub fn watched<T: Send>(
    py: Python<'_>,
    callback: Option<&Py<PyAny>>,
    work: impl FnOnce(&dyn Watch) -> Result<T> + Send,
) -> PyResult<T> {
    let (result, raised) = py.detach(|| {
        let watch = PyWatch { callback, raised: RefCell::new(None) };
        let result = work(&watch);
        (result, watch.raised.into_inner())
    });
    // Whatever became of the work: who raised it is to see it.
    raised.map_or_else(|| result.map_err(|error| to_python(py, &error)), Err)
}
