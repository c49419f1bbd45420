//! Features to the bytes of an `Example`; seekset/encoding.py says what values may be.

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use seekset_core::example::{Items, encode};

use crate::bytes::bytes;
use crate::payloads::fixed;

/// Values of a feature, held while they are encoded.
pub enum Held<'py> {
    Bytes(Vec<PyBackedBytes>),
    Float(PyReadonlyArray1<'py, f32>),
    Int(PyReadonlyArray1<'py, i64>),
}

impl<'py> FromPyObject<'_, 'py> for Held<'py> {
    type Error = PyErr;

    /// Arrays of float32 are floats, of int64 integers; anything else is a list of bytes.
    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = given.cast::<PyArray1<f32>>() {
            return Ok(Self::Float(array.try_readonly()?));
        }
        if let Ok(array) = given.cast::<PyArray1<i64>>() {
            return Ok(Self::Int(array.try_readonly()?));
        }
        given.try_iter()?.map(|bytes| fixed(&bytes?)).collect::<PyResult<_>>().map(Self::Bytes)
    }
}

impl Held<'_> {
    fn strings(&self) -> Vec<&[u8]> {
        match self {
            Self::Bytes(strings) => strings.iter().map(|bytes| &**bytes).collect(),
            Self::Float(_) | Self::Int(_) => Vec::new(),
        }
    }

    fn items<'a>(&'a self, strings: &'a [&'a [u8]]) -> PyResult<Items<'a>> {
        Ok(match self {
            Self::Bytes(_) => Items::Bytes(strings),
            Self::Float(array) => Items::Float(array.as_slice()?),
            Self::Int(array) => Items::Int(array.as_slice()?),
        })
    }
}

/// Several lists of values as the core takes them, passed to `work`.
fn with_items<T>(held: &[&Held<'_>], work: impl FnOnce(&[Items<'_>]) -> T) -> PyResult<T> {
    let strings: Vec<Vec<&[u8]>> = held.iter().map(|held| held.strings()).collect();
    let items = held.iter().zip(&strings).map(|(held, strings)| held.items(strings)).collect::<PyResult<Vec<_>>>()?;
    Ok(work(&items))
}

/// The bytes of an `Example`.
#[pyfunction]
pub fn encode_example<'py>(py: Python<'py>, features: Vec<(String, Held<'py>)>) -> PyResult<Bound<'py, PyBytes>> {
    let held: Vec<&Held<'_>> = features.iter().map(|(_, held)| held).collect();
    let names = features.iter().map(|(name, _)| name.as_str());
    let payload = with_items(&held, |items| encode::example(&names.zip(items.iter().copied()).collect::<Vec<_>>()))?;
    bytes(py, &payload)
}

/// The bytes of a `SequenceExample`.
#[pyfunction]
pub fn encode_sequence_example<'py>(
    py: Python<'py>,
    context: Vec<(String, Held<'py>)>,
    sequences: Vec<(String, Vec<Held<'py>>)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let steps = sequences.iter().flat_map(|(_, steps)| steps);
    let held: Vec<&Held<'_>> = context.iter().map(|(_, held)| held).chain(steps).collect();
    let payload = with_items(&held, |items| {
        let (first, mut rest) = items.split_at(context.len());
        let context: Vec<_> = context.iter().map(|(name, _)| name.as_str()).zip(first.iter().copied()).collect();
        let sequences: Vec<_> = sequences
            .iter()
            .map(|(name, steps)| {
                let (mine, others) = rest.split_at(steps.len());
                rest = others;
                (name.as_str(), mine)
            })
            .collect();
        encode::sequence_example(&context, &sequences)
    })?;
    bytes(py, &payload)
}
