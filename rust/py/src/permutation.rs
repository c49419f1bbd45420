//! `Permutation` in Python.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use seekset_core::plan;

use crate::errors::OrRaise;

/// An order of the numbers below n that is computed, not stored: the same for the same n, seed and epoch, everywhere.
#[pyclass(frozen, eq, hash, module = "seekset._core")]
#[derive(PartialEq, Eq, Hash)]
pub struct Permutation {
    inner: plan::Permutation,
    seed: u64,
    epoch: u64,
}

#[pymethods]
impl Permutation {
    #[new]
    #[pyo3(signature = (n, seed=0, epoch=0))]
    fn new(py: Python<'_>, n: i128, seed: u64, epoch: u64) -> PyResult<Self> {
        let n = u64::try_from(n).map_err(|_| {
            PyValueError::new_err(format!("a permutation has from 0 to 2^63 rows, but {n} were asked for"))
        })?;
        Ok(Self { inner: plan::Permutation::new(n, seed, epoch).or_raise(py)?, seed, epoch })
    }

    fn __len__(&self) -> usize {
        self.inner.len() as usize
    }

    /// The row at a place of the order, as Python counts.
    fn __getitem__(&self, py: Python<'_>, place: i64) -> PyResult<u64> {
        self.inner.at(from_front(place, self.inner.len(), "rows")?).or_raise(py)
    }

    /// The rows at many places.
    fn take<'py>(&self, py: Python<'py>, places: PyReadonlyArray1<'py, i64>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let places = places.as_slice()?;
        let rows = py.detach(|| self.inner.take(places)).or_raise(py)?;
        Ok(PyArray1::from_vec(py, rows))
    }

    /// The place of a row in the order.
    fn place_of(&self, py: Python<'_>, row: u64) -> PyResult<u64> {
        self.inner.place_of(row).or_raise(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (u64, u64, u64)) {
        (py.get_type::<Self>().into_any(), (self.inner.len(), self.seed, self.epoch))
    }

    fn __repr__(&self) -> String {
        format!("Permutation({}, seed={}, epoch={})", self.inner.len(), self.seed, self.epoch)
    }
}

/// A place of an order, counted from the front; one beyond the end is refused by the order itself.
pub(crate) fn from_front(place: i64, count: u64, of: &str) -> PyResult<u64> {
    let at = if place < 0 { i128::from(place) + i128::from(count) } else { place.into() };
    let outside = || PyIndexError::new_err(format!("place {place} is out of range: there are {count} {of}"));
    u64::try_from(at).map_err(|_| outside())
}
