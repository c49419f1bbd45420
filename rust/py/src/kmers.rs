//! Frequencies of k-mers in Python.

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use seekset_core::kmers::Kmers;

use crate::errors::OrRaise;
use crate::gather::zeros;

/// The share of each word of `k` letters among those of each sequence: a row for each.
#[pyfunction]
pub fn kmer_frequencies<'py>(
    py: Python<'py>,
    ids: PyReadonlyArray1<'py, i64>,
    ends: PyReadonlyArray1<'py, i32>,
    letters: u32,
    k: u32,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let kmers = Kmers::new(letters, k).or_raise(py)?;
    let (ids, ends) = (ids.as_slice()?, ends.as_slice()?);
    let rows = ends.len().saturating_sub(1);
    // A batch of wide vectors may be more than there is, which is an error then.
    let mut shares = zeros::<f32>(py, rows.saturating_mul(kmers.width()))?;
    py.detach(|| kmers.frequencies(ids, ends, &mut shares)).or_raise(py)?;
    PyArray1::from_vec(py, shares).reshape([rows, kmers.width()])
}

/// How many words of `k` letters there are; an error where they are too many to be counted.
#[pyfunction]
pub fn kmer_count(py: Python<'_>, letters: u32, k: u32) -> PyResult<usize> {
    Ok(Kmers::new(letters, k).or_raise(py)?.width())
}
