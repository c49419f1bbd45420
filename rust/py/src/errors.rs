//! The one table from core errors to Python exceptions; `tests/unit/test_errors.py` has a case for every row of it.

use std::path::PathBuf;

use pyo3::exceptions::{PyIndexError, PyKeyboardInterrupt, PyMemoryError, PyOSError};
use pyo3::prelude::*;
use seekset_core::Error;

const ENOENT: i32 = 2;

/// The Python exception for a core error.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Io { path, source } => match source.raw_os_error() {
            // OSError picks FileNotFoundError, PermissionError and the like by errno.
            Some(code) => {
                let text = source.to_string();
                let text = text.split(" (os error").next().unwrap_or_default().to_owned();
                PyOSError::new_err((code, text, path.clone().map(PathBuf::into_os_string)))
            }
            None if source.kind() == std::io::ErrorKind::OutOfMemory => PyMemoryError::new_err(message),
            None => PyOSError::new_err(message),
        },
        Error::Missing { path, index } => {
            let text = format!("No such file or directory; the index {} is about it", index.display());
            PyOSError::new_err((ENOENT, text, path.clone().into_os_string()))
        }
        Error::Format { .. } | Error::Unreadable { .. } => ours(py, "FormatError", message),
        Error::Corrupt { .. } => ours(py, "CorruptRecordError", message),
        Error::Stale { .. } => ours(py, "StaleIndexError", message),
        Error::TooLarge { .. } => ours(py, "MemoryLimitError", message),
        Error::Duplicate { .. } | Error::Repeated { .. } | Error::RepeatedContig { .. } => {
            ours(py, "DuplicateIdError", message)
        }
        Error::Feature { .. } | Error::Mismatch(_) | Error::UnknownLetter { .. } => ours(py, "MismatchError", message),
        Error::RowOutOfRange { .. } => PyIndexError::new_err(message),
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
    }
}

/// An exception of `seekset.errors`, which Python defines so that they can be read and pickled as ordinary classes.
fn ours(py: Python<'_>, name: &str, message: String) -> PyErr {
    let class = py.import("seekset.errors").and_then(|module| module.getattr(name));
    class.and_then(|class| class.call1((message,))).map_or_else(|error| error, PyErr::from_value)
}

/// Turns core results into Python results.
pub trait OrRaise<T> {
    /// The value, or the exception raised.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for seekset_core::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, &error))
    }
}
