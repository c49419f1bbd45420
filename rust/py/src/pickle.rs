//! Pickled shards in Python: columns, or the bytes that are for Python to unpickle.

use std::path::PathBuf;

use numpy::PyArray1;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seekset_core::io::inflated;
use seekset_core::pickle::{self, Column, Columns, Examples, Found};

use crate::bytes::bytes;
use crate::errors::OrRaise;

/// A column: its name, its dtype, the shape of a row and the bytes of all.
type Named<'py> = (Bound<'py, PyBytes>, String, Vec<usize>, Bound<'py, PyArray1<u8>>);

/// A row that is bad: its number, the column in which it is, and what was found there.
type Wrong<'py> = (usize, Option<usize>, Bound<'py, PyAny>);

/// How many rows, their columns, bad rows, fields that were dropped, and fields that are always `None`.
type Stacked<'py> = (usize, Vec<Named<'py>>, Vec<Wrong<'py>>, Vec<Bound<'py, PyBytes>>, Vec<Bound<'py, PyBytes>>);

fn named(py: Python<'_>, column: Column) -> PyResult<Named<'_>> {
    let Column { name, dtype, shape, values } = column;
    Ok((bytes(py, &name)?, dtype, shape, PyArray1::from_vec(py, values)))
}

fn told(py: Python<'_>, found: Found) -> PyResult<Bound<'_, PyAny>> {
    match found {
        Found::Nothing => Ok(py.None().into_bound(py)),
        Found::Numbers(dtype, shape) => (dtype, shape).into_bound_py_any(py),
        Found::Type(name) => name.into_bound_py_any(py),
        Found::Integer(bits) => bits.into_bound_py_any(py),
        Found::Float(number) => number.into_bound_py_any(py),
    }
}

fn stacked(py: Python<'_>, found: Columns) -> PyResult<Stacked<'_>> {
    let columns = found.columns.into_iter().map(|column| named(py, column)).collect::<PyResult<_>>()?;
    let bad = found.bad.into_iter().map(|bad| Ok((bad.row, bad.column, told(py, bad.found)?)));
    let names = |names: Vec<Vec<u8>>| names.iter().map(|name| bytes(py, name)).collect::<PyResult<_>>();
    Ok((found.rows, columns, bad.collect::<PyResult<_>>()?, names(found.dropped)?, names(found.absent)?))
}

/// Read a pickled shard, gzip'd or not, of which neither bytes, values nor columns may take more than `max_bytes`.
///
/// Gives its columns, or nothing and its bytes inflated where its examples are no dicts of numbers: these are for Python
/// to unpickle, which has nothing to fear of them then. And what it takes inflated, and its values.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "a tuple, in Python")]
pub fn read_pickle(
    py: Python<'_>,
    path: PathBuf,
    max_bytes: usize,
) -> PyResult<(Option<Stacked<'_>>, Bound<'_, PyBytes>, usize, usize)> {
    let read = || {
        let content = inflated::read(&path, max_bytes)?;
        let found = pickle::read(&content, max_bytes).map_err(|error| error.in_file(&path))?;
        Ok((content, found))
    };
    let (content, found) = py.detach(read).or_raise(py)?;
    let (inflated, values) = (content.len(), found.bytes);
    match found.examples {
        Examples::Columns(columns) => {
            py.detach(|| drop(content));
            Ok((Some(stacked(py, columns)?), bytes(py, b"")?, inflated, values))
        }
        Examples::Objects => Ok((None, bytes(py, &content)?, inflated, values)),
    }
}
