//! `tf.train.Example` in Python: payloads to columns and back; seekset/examples.py gives them their shapes.

use numpy::{Element, PyArray1, PyArrayMethods, PyReadwriteArrayDyn};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use seekset_core::example::record::{self, Decoded, Map};
use seekset_core::example::{Cells, Column, Dtype, Feature, Kind, Schema, Shape, Slot, Values, decode, infer};
use seekset_core::{Error, Place};

use crate::bytes::bytes;
use crate::errors::OrRaise;
use crate::gather::empty;
use crate::payloads::Payloads;

/// Features asked for, with the shapes of their values.
#[pyclass(frozen, module = "seekset._core")]
pub struct ExampleSchema {
    inner: Schema,
    /// The fixed dimensions of each feature.
    dims: Vec<Vec<usize>>,
}

/// Name, dtype, fixed dimensions, whether there may be any number of those, values where it is missing.
type FeatureTuple<'py> = (String, String, Vec<usize>, bool, Option<Bound<'py, PyAny>>);

#[pymethods]
impl ExampleSchema {
    #[new]
    fn new(py: Python<'_>, features: Vec<FeatureTuple<'_>>) -> PyResult<Self> {
        let mut dims = Vec::new();
        let mut all = Vec::new();
        for (name, dtype, inner, ragged, default) in features {
            let many = || PyValueError::new_err(format!("feature '{name}': its shape has more values than memory"));
            let count = inner.iter().try_fold(1, |n: usize, &d| n.checked_mul(d)).ok_or_else(many)?;
            let dtype = dtype_named(&dtype)?;
            let default = default.map(|default| values(dtype, &default)).transpose()?;
            let shape = if ragged { Shape::Ragged(count) } else { Shape::Fixed(count) };
            all.push(Feature { name, dtype, shape, default });
            dims.push(inner);
        }
        Ok(Self { inner: Schema::new(all).or_raise(py)?, dims })
    }

    fn __len__(&self) -> usize {
        self.dims.len()
    }
}

fn dtype_named(name: &str) -> PyResult<Dtype> {
    match name {
        "float32" => Ok(Dtype::F32),
        "int64" => Ok(Dtype::I64),
        "int32" => Ok(Dtype::I32),
        "bytes" => Ok(Dtype::Bytes),
        _ => Err(PyValueError::new_err(format!("dtype must be float32, int64, int32 or bytes, not {name}"))),
    }
}

fn values(dtype: Dtype, given: &Bound<'_, PyAny>) -> PyResult<Values> {
    Ok(match dtype {
        Dtype::F32 => Values::F32(given.extract()?),
        Dtype::I64 => Values::I64(given.extract()?),
        Dtype::I32 => Values::I32(given.extract()?),
        Dtype::Bytes => Values::Bytes(given.extract()?),
    })
}

/// Values, where the rows of each record (or step) start, where the steps of each record start.
type Parts = (Py<PyAny>, Option<Py<PyArray1<i64>>>, Option<Py<PyArray1<i64>>>);

/// The columns of many records, in the order of the schema. Numbers have their shape, byte strings come as a flat list.
#[pyfunction]
#[pyo3(signature = (payloads, schema, *, rows=None, sequences=false))]
pub fn decode_examples<'py>(
    py: Python<'py>,
    payloads: &Bound<'py, PyAny>,
    schema: &ExampleSchema,
    rows: Option<numpy::PyReadonlyArray1<'py, i64>>,
    sequences: bool,
) -> PyResult<Vec<Parts>> {
    let payloads = Payloads::new(payloads, rows)?;
    let features = schema.inner.features().iter().zip(&schema.dims);
    let mut arrays = features
        .map(|(feature, dims)| if sequences { Ok(None) } else { Room::new(py, feature, dims, payloads.len()) })
        .collect::<PyResult<Vec<_>>>()?;
    let slots =
        arrays.iter_mut().map(|room| room.as_mut().map(Room::slot).transpose()).collect::<PyResult<Vec<_>>>()?;
    let columns = py.detach(|| {
        payloads.with(|payloads| {
            let columns = if sequences {
                decode::sequences(payloads, &schema.inner)
            } else {
                decode::examples(payloads, &schema.inner, slots)
            }?;
            // Byte strings lie in the payloads, which are there only now.
            Ok(Python::attach(|py| {
                let columns = columns.into_iter().zip(&schema.dims);
                columns.map(|(column, dims)| parts(py, column, dims)).collect::<PyResult<Vec<_>>>()
            }))
        })
    });
    let columns = columns.or_raise(py)??;
    let placed = columns.into_iter().zip(arrays);
    Ok(placed
        .map(|((values, offsets, steps), room)| {
            (values.or_else(|| room.map(Room::array)).unwrap_or_else(|| py.None()), offsets, steps)
        })
        .collect())
}

/// An array that a column of fixed shape is written to.
enum Room<'py> {
    F32(PyReadwriteArrayDyn<'py, f32>),
    I64(PyReadwriteArrayDyn<'py, i64>),
    I32(PyReadwriteArrayDyn<'py, i32>),
}

impl<'py> Room<'py> {
    /// An array for so many records, unless the feature's values must grow.
    fn new(py: Python<'py>, feature: &Feature, dims: &[usize], records: usize) -> PyResult<Option<Self>> {
        fn array<'py, T: Element>(
            py: Python<'py>,
            dims: &[usize],
            records: usize,
        ) -> PyResult<PyReadwriteArrayDyn<'py, T>> {
            empty::<T>(py, &[&[records], dims].concat())?.extract()
        }
        Ok(match (feature.shape, feature.dtype) {
            (Shape::Ragged(_), _) | (_, Dtype::Bytes) => None,
            (_, Dtype::F32) => Some(Self::F32(array(py, dims, records)?)),
            (_, Dtype::I64) => Some(Self::I64(array(py, dims, records)?)),
            (_, Dtype::I32) => Some(Self::I32(array(py, dims, records)?)),
        })
    }

    fn slot(&mut self) -> PyResult<Slot<'_>> {
        Ok(match self {
            Self::F32(array) => Slot::F32(array.as_slice_mut()?),
            Self::I64(array) => Slot::I64(array.as_slice_mut()?),
            Self::I32(array) => Slot::I32(array.as_slice_mut()?),
        })
    }

    fn array(self) -> Py<PyAny> {
        match self {
            Self::F32(array) => array.as_any().clone().unbind(),
            Self::I64(array) => array.as_any().clone().unbind(),
            Self::I32(array) => array.as_any().clone().unbind(),
        }
    }
}

/// A column's values (unless they are in their array already), offsets and steps.
#[allow(clippy::type_complexity, reason = "what Parts is, before its values are sure to be there")]
fn parts(
    py: Python<'_>,
    column: Column<'_>,
    dims: &[usize],
) -> PyResult<(Option<Py<PyAny>>, Option<Py<PyArray1<i64>>>, Option<Py<PyArray1<i64>>>)> {
    let values = match column.values {
        Cells::Placed => None,
        Cells::F32(values) => Some(shaped(py, values, dims)?),
        Cells::I64(values) => Some(shaped(py, values, dims)?),
        Cells::I32(values) => Some(shaped(py, values, dims)?),
        Cells::Bytes(strings) => Some(bytes_list(py, &strings)?.into_any().unbind()),
    };
    let offsets = |offsets: Option<Vec<i64>>| offsets.map(|offsets| PyArray1::from_vec(py, offsets).unbind());
    Ok((values, offsets(column.offsets), offsets(column.steps)))
}

fn shaped<T: Element>(py: Python<'_>, values: Vec<T>, dims: &[usize]) -> PyResult<Py<PyAny>> {
    let rows = values.len().checked_div(dims.iter().product()).unwrap_or(0);
    let array = PyArray1::from_vec(py, values);
    Ok(array.reshape([&[rows], dims].concat())?.into_any().unbind())
}

fn bytes_list<'py>(py: Python<'py>, strings: &[&[u8]]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, strings.iter().map(|string| bytes(py, string)).collect::<PyResult<Vec<_>>>()?)
}

/// Names and values of one record: of its features, or of the steps of its feature lists.
#[pyfunction]
#[pyo3(signature = (payload, *, row=None, sequences=false))]
pub fn decode_example(
    py: Python<'_>,
    payload: &Bound<'_, PyAny>,
    row: Option<i64>,
    sequences: bool,
) -> PyResult<Vec<(String, Py<PyAny>)>> {
    let given = if row.is_some() { payload.clone() } else { PyList::new(py, [payload])?.into_any() };
    let rows = row.map(|row| PyArray1::from_vec(py, vec![row]).readonly());
    let payloads = Payloads::new(&given, rows)?;
    let read = payloads.with(|payloads| {
        let payload = payloads.first().copied().unwrap_or_default();
        let numbered = |error: Error| error.map_places(|place| Place { record: Some(0), ..place });
        if sequences {
            let found = record::sequences(payload).map_err(numbered)?;
            return Ok(named(found, |steps| Ok(all_steps(py, steps)?.into_any().unbind())));
        }
        Ok(named(record::features(payload).map_err(numbered)?, |values| plain(py, values)))
    });
    read.or_raise(py)?
}

fn named<T>(
    found: Vec<(&str, T)>,
    mut convert: impl FnMut(T) -> PyResult<Py<PyAny>>,
) -> PyResult<Vec<(String, Py<PyAny>)>> {
    found.into_iter().map(|(name, value)| Ok((name.to_owned(), convert(value)?))).collect()
}

fn plain(py: Python<'_>, values: Decoded<'_>) -> PyResult<Py<PyAny>> {
    Ok(match values {
        Decoded::Float(values) => PyArray1::from_vec(py, values).into_any().unbind(),
        Decoded::Int(values) => PyArray1::from_vec(py, values).into_any().unbind(),
        Decoded::Bytes(strings) => bytes_list(py, &strings)?.into_any().unbind(),
    })
}

fn all_steps<'py>(py: Python<'py>, steps: Vec<Option<Decoded<'_>>>) -> PyResult<Bound<'py, PyList>> {
    let plain = |step: Option<Decoded<'_>>| step.map_or_else(|| Ok(py.None()), |values| plain(py, values));
    PyList::new(py, steps.into_iter().map(plain).collect::<PyResult<Vec<_>>>()?)
}

/// Name, dtype, values in each record or None if they vary, whether some record has none.
type InferredTuple = (String, &'static str, Option<usize>, bool);

/// The features of some records, by name.
#[pyfunction]
#[pyo3(signature = (payloads, *, rows=None, sequences=false))]
pub fn infer_features<'py>(
    py: Python<'py>,
    payloads: &Bound<'py, PyAny>,
    rows: Option<numpy::PyReadonlyArray1<'py, i64>>,
    sequences: bool,
) -> PyResult<Vec<InferredTuple>> {
    let payloads = Payloads::new(payloads, rows)?;
    let map = if sequences { Map::Sequences } else { Map::Features };
    let found = py.detach(|| payloads.with(|payloads| infer::features(payloads, map))).or_raise(py)?;
    let tuple = |feature: Feature| {
        let dtype = match feature.dtype.kind() {
            Kind::Bytes => "bytes",
            Kind::Float => "float32",
            Kind::Int => "int64",
        };
        let count = match feature.shape {
            Shape::Fixed(count) => Some(count),
            Shape::Ragged(_) => None,
        };
        (feature.name, dtype, count, feature.default.is_some())
    };
    Ok(found.into_iter().map(tuple).collect())
}
