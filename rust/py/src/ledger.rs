//! The sum of what was delivered.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seekset_core::plan::ledger::digest;

/// A number that tells which pieces were delivered, in whatever order: rows, and where in each a piece starts.
#[pyfunction]
#[pyo3(signature = (rows, starts=None))]
pub fn digest_rows(rows: PyReadonlyArray1<'_, i64>, starts: Option<PyReadonlyArray1<'_, i64>>) -> PyResult<u64> {
    let rows = rows.as_slice()?.iter().map(|&row| row.cast_unsigned());
    let Some(starts) = starts else { return Ok(digest(rows.map(|row| (row, 0)))) };
    let starts = starts.as_slice()?;
    if starts.len() != rows.len() {
        return Err(PyValueError::new_err(format!("{} rows were given, but {} starts", rows.len(), starts.len())));
    }
    Ok(digest(rows.zip(starts.iter().map(|&start| start.cast_unsigned()))))
}
