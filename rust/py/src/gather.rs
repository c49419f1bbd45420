//! Gathers into numpy arrays: one generic path for every dtype, ragged and rectangular.

use numpy::{Element, PyArray1, PyReadonlyArray1, PyReadwriteArray2, PyReadwriteArrayDyn};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use seekset_core::fasta::Fasta;
use seekset_core::gather::kernel::{Id, fit};
use seekset_core::gather::layout::{Ends, Rectangle, offsets, padded, ragged};
use seekset_core::gather::{Kernel, OneHot, Raw, TokenTable, Translate};
use seekset_core::plan::{Batch, Request};
use seekset_core::{Error, Result};

use crate::errors::OrRaise;

/// What the output is to hold.
pub struct Encoding<'a> {
    pub table: Option<&'a TokenTable>,
    pub one_hot: Option<&'a str>,
    /// One-hot rows of unknown letters hold this in every place.
    pub unknown: f32,
    pub dtype: &'a str,
    pub specials: bool,
    /// What rows of a rectangle are filled with; the table's own unless given.
    pub pad: Option<i32>,
}

/// How the output is laid out.
#[derive(Clone, Copy)]
pub enum Shape {
    /// One record after another.
    Ragged,
    /// One row per window, of so many columns.
    Rows(usize),
}

/// A row number as Python counts: negative from the end.
pub fn row(row: i64, rows: u64) -> Result<u64> {
    let at = if row < 0 { row.checked_add_unsigned(rows) } else { Some(row) };
    at.and_then(|at| u64::try_from(at).ok()).filter(|&at| at < rows).ok_or(Error::RowOutOfRange { row, rows })
}

/// Row numbers and what to do with them, as numpy arrays of equal length.
pub struct Wanted<'py> {
    pub rows: PyReadonlyArray1<'py, i64>,
    pub starts: Option<PyReadonlyArray1<'py, i64>>,
    pub lengths: Option<PyReadonlyArray1<'py, i64>>,
    pub reverse: Option<PyReadonlyArray1<'py, bool>>,
    pub max_length: Option<u64>,
}

/// Letters that are known by place and number and can be written into slots: of one file, or of many.
pub trait Letters: Sync {
    /// Letters of each request, in the order asked.
    fn letters(&self) -> &[u64];

    /// Fills a slot for each request.
    fn gather<K: Kernel>(&self, kernel: &K, slots: Vec<&mut [K::Out]>) -> Result<()>;
}

/// Those of one file.
struct OfFile<'a> {
    fasta: &'a Fasta,
    batch: Batch<'a>,
}

impl Letters for OfFile<'_> {
    fn letters(&self) -> &[u64] {
        self.batch.letters()
    }

    fn gather<K: Kernel>(&self, kernel: &K, slots: Vec<&mut [K::Out]>) -> Result<()> {
        self.fasta.gather(&self.batch, kernel, slots)
    }
}

impl Wanted<'_> {
    /// What is wanted of something that has so many rows.
    pub fn requests(&self, py: Python<'_>, count: u64) -> PyResult<Vec<Request>> {
        let rows = self.rows.as_slice()?;
        let starts = self.starts.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let lengths = self.lengths.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let reverse = self.reverse.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let most = self.max_length.unwrap_or(u64::MAX);
        let number = |k: usize, values: Option<&[i64]>, name: &str, missing: u64| match values {
            None => Ok(missing),
            Some(values) => u64::try_from(values[k])
                .map_err(|_| PyValueError::new_err(format!("{name}[{k}] is {}; it must not be negative", values[k]))),
        };
        let lens = [starts.map(<[_]>::len), lengths.map(<[_]>::len), reverse.map(<[_]>::len)];
        if lens.into_iter().flatten().any(|len| len != rows.len()) {
            return Err(PyValueError::new_err("rows, starts, lengths and reverse_complement must be of one length"));
        }
        (0..rows.len())
            .map(|k| {
                Ok(Request {
                    row: row(rows[k], count).or_raise(py)?,
                    start: number(k, starts, "starts", 0)?,
                    letters: number(k, lengths, "lengths", u64::MAX)?.min(most),
                    reverse: reverse.is_some_and(|reverse| reverse[k]),
                })
            })
            .collect()
    }
}

pub type Output<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>);

/// Gathers `requests` into `out`, or into a new array of the shape they need; also returns where each starts.
pub fn gather<'py>(
    py: Python<'py>,
    fasta: &Fasta,
    requests: &[Request],
    shape: Shape,
    encoding: &Encoding<'_>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Output<'py>> {
    let batch = py.detach(|| fasta.plan(requests)).or_raise(py)?;
    encode(py, &OfFile { fasta, batch }, shape, encoding, out)
}

/// Gathers letters into `out`, or into a new array of the shape they need; also returns where each request starts.
pub fn encode<'py>(
    py: Python<'py>,
    letters: &impl Letters,
    shape: Shape,
    encoding: &Encoding<'_>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Output<'py>> {
    match (encoding.table, encoding.one_hot, encoding.dtype) {
        (Some(_), Some(_), _) => Err(PyValueError::new_err("give tokens or one_hot, not both")),
        (None, Some(alphabet), "uint8") => {
            if encoding.unknown != 0.0 {
                return Err(PyValueError::new_err("unknown=\"quarter\" needs dtype float32"));
            }
            let kernel = OneHot::new(alphabet, 0_u8, 1, 0).or_raise(py)?;
            run(py, letters, &kernel, shape, &Around::none(0), out)
        }
        (None, Some(alphabet), "float32") => {
            let kernel = OneHot::new(alphabet, 0.0_f32, 1.0, encoding.unknown).or_raise(py)?;
            run(py, letters, &kernel, shape, &Around::none(0.0), out)
        }
        (None, Some(_), dtype) => Err(PyValueError::new_err(format!("one_hot gives uint8 or float32, not {dtype}"))),
        (None, None, "uint8") => {
            let pad = u8::try_from(encoding.pad.unwrap_or(0))
                .map_err(|_| PyValueError::new_err("pad must fit into uint8"))?;
            run(py, letters, &Raw, shape, &Around::none(pad), out)
        }
        (None, None, dtype) => {
            Err(PyValueError::new_err(format!("letters as they are come as uint8, not {dtype}; give tokens")))
        }
        (Some(table), None, "uint8") => tokens::<u8>(py, letters, table, shape, encoding, out),
        (Some(table), None, "int32") => tokens::<i32>(py, letters, table, shape, encoding, out),
        (Some(table), None, "int64") => tokens::<i64>(py, letters, table, shape, encoding, out),
        (Some(_), None, dtype) => {
            Err(PyValueError::new_err(format!("dtype must be uint8, int32 or int64, not {dtype}")))
        }
    }
}

/// What stands around the letters.
struct Around<T> {
    prefix: Vec<T>,
    suffix: Vec<T>,
    pad: T,
}

impl<T> Around<T> {
    fn none(pad: T) -> Self {
        Self { prefix: Vec::new(), suffix: Vec::new(), pad }
    }
}

fn tokens<'py, T: Id + Element>(
    py: Python<'py>,
    letters: &impl Letters,
    table: &TokenTable,
    shape: Shape,
    encoding: &Encoding<'_>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Output<'py>> {
    let kernel = Translate::<T>::new(table).or_raise(py)?;
    let ids = |ids: &[i32]| ids.iter().map(|&id| fit(id, table)).collect::<Result<Vec<T>>>();
    let ends = if encoding.specials { (table.prefix(), table.suffix()) } else { (&[][..], &[][..]) };
    let pad = match (encoding.pad.or(table.pad()), shape) {
        (Some(pad), _) => fit(pad, table).or_raise(py)?,
        (None, Shape::Ragged) => T::default(),
        (None, Shape::Rows(_)) => {
            let message = format!("token table '{}' has no pad id, and windows may need one; give pad=", table.name());
            return Err::<(), _>(Error::Mismatch(message)).or_raise(py).map(|()| unreachable!());
        }
    };
    let around = Around { prefix: ids(ends.0).or_raise(py)?, suffix: ids(ends.1).or_raise(py)?, pad };
    run(py, letters, &kernel, shape, &around, out)
}

fn run<'py, K: Kernel>(
    py: Python<'py>,
    letters: &impl Letters,
    kernel: &K,
    shape: Shape,
    around: &Around<K::Out>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Output<'py>>
where
    K::Out: Element + Copy + Sync,
{
    let width = kernel.width();
    let ends = Ends { prefix: &around.prefix, suffix: &around.suffix };
    let starts = offsets(letters.letters(), ends.prefix.len() + ends.suffix.len());
    let dims = match shape {
        Shape::Ragged => vec![*starts.last().unwrap_or(&0) as usize, width],
        Shape::Rows(columns) => vec![starts.len() - 1, columns, width],
    };
    let values = dims[0] * width;
    let dims = if kernel.columns().is_none() { &dims[..dims.len() - 1] } else { &dims[..] };
    let array = match out {
        Some(out) => out.clone(),
        None => empty::<K::Out>(py, dims)?,
    };
    let mut borrowed: PyReadwriteArrayDyn<'_, K::Out> = array.extract().map_err(|_| {
        PyTypeError::new_err(format!("out must be a writable numpy array of {}", dtype_name::<K::Out>(py)))
    })?;
    if !borrowed.as_array().is_standard_layout() {
        return Err(PyValueError::new_err("out must be C-contiguous"));
    }
    let given = borrowed.as_array().shape().to_vec();
    let room = borrowed.as_slice_mut()?;
    let room = match shape {
        // A ragged output may be larger than needed: what is over stays as it is.
        Shape::Ragged if given.len() == dims.len() && given[1..] == dims[1..] && room.len() >= values => {
            &mut room[..values]
        }
        Shape::Rows(_) if given == dims => room,
        _ => return Err(PyValueError::new_err(format!("out has shape {given:?}, but {dims:?} is needed"))),
    };
    py.detach(|| {
        let slots = match shape {
            Shape::Ragged => ragged(room, letters.letters(), width, ends),
            Shape::Rows(columns) => {
                padded(room, letters.letters(), Rectangle { columns, width, pad: around.pad }, ends)
            }
        }?;
        letters.gather(kernel, slots)
    })
    .or_raise(py)?;
    drop(borrowed);
    let array = match (shape, out) {
        (Shape::Ragged, Some(out)) => {
            let slice = pyo3::types::PySlice::new(py, 0, dims[0] as isize, 1);
            out.get_item(PyTuple::new(py, [slice])?)?
        }
        _ => array,
    };
    Ok((array, PyArray1::from_vec(py, starts)))
}

/// An array that a caller gave to be filled: of this type and shape, writable, one row after another.
pub fn given_rows<'py, T: Element>(out: &Bound<'py, PyAny>, shape: [usize; 2]) -> PyResult<PyReadwriteArray2<'py, T>> {
    let mut room: PyReadwriteArray2<'py, T> = out.extract().map_err(|_| {
        let name = dtype_name::<T>(out.py());
        PyTypeError::new_err(format!("out must be a writable numpy array of {name} with two dimensions"))
    })?;
    let given = room.as_array().shape().to_vec();
    if given != shape {
        return Err(PyValueError::new_err(format!("out has shape {given:?}, but {shape:?} is needed")));
    }
    if room.as_slice_mut().is_err() {
        return Err(PyValueError::new_err("out must be C-contiguous"));
    }
    Ok(room)
}

/// An array whose values are about to be written. numpy's own `empty` asks for huge pages where it helps.
pub fn empty<'py, T: Element>(py: Python<'py>, dims: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    py.import("numpy")?.getattr("empty")?.call1((PyTuple::new(py, dims)?, numpy::dtype::<T>(py)))
}

/// Space from this extension's own allocator, which keeps a batch's pages for the next: numpy's are faulted in each time.
pub fn zeros<T: Clone + Default>(py: Python<'_>, needed: usize) -> PyResult<Vec<T>> {
    let mut values = Vec::new();
    let reserved = values.try_reserve_exact(needed).map_err(|_| Error::no_memory());
    reserved.or_raise(py)?;
    values.resize(needed, T::default());
    Ok(values)
}

fn dtype_name<T: Element>(py: Python<'_>) -> String {
    numpy::dtype::<T>(py).str().map_or_else(|_| "another dtype".to_owned(), |name| name.to_string())
}
