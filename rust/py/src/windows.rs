//! Windows over contigs in Python: where they lie, and their tokens as rows that each have ends of their own.

use std::path::PathBuf;

use numpy::{Element, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use seekset_core::Result;
use seekset_core::contigs::{Contigs as Core, Selection, Stretch};
use seekset_core::gather::kernel::{Id, fit};
use seekset_core::gather::layout::{Ends, Rectangle, rows, slots};
use seekset_core::gather::targets::{Uncounted, write_letters};
use seekset_core::gather::{Kernel, TokenTable as Table, Translate};
use seekset_core::io::room::{Number, written};
use seekset_core::plan::Request;
use seekset_core::plan::split::Splits;
use seekset_core::plan::windows::{self, Windows};

use crate::errors::OrRaise;
use crate::fasta::texts;
use crate::gather::{Letters, Wanted, given_rows};
use crate::table::TokenTable;
use crate::watch::watched;

/// What stands before and after the letters of each row: one of a few.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RowEnds<'py> {
    prefixes: Vec<Vec<i32>>,
    prefix_of: PyReadonlyArray1<'py, i64>,
    suffixes: Vec<Vec<i32>>,
    suffix_of: PyReadonlyArray1<'py, i64>,
}

/// The same, as ids of one kind, with every number checked.
struct Around<'a, T> {
    prefixes: Vec<Vec<T>>,
    prefix_of: &'a [i64],
    suffixes: Vec<Vec<T>>,
    suffix_of: &'a [i64],
}

impl<'a, T: Id> Around<'a, T> {
    fn new(ends: &'a RowEnds<'_>, table: &Table, count: usize) -> PyResult<Result<Self>> {
        let (prefix_of, suffix_of) = (ends.prefix_of.as_slice()?, ends.suffix_of.as_slice()?);
        let inside = |numbers: &[i64], of: usize| {
            numbers.len() == count && numbers.iter().all(|&k| usize::try_from(k).is_ok_and(|k| k < of))
        };
        if !inside(prefix_of, ends.prefixes.len()) || !inside(suffix_of, ends.suffixes.len()) {
            return Err(PyValueError::new_err("every row needs the number of a prefix and of a suffix"));
        }
        let ids = |lists: &[Vec<i32>]| {
            let ids = |ids: &Vec<i32>| ids.iter().map(|&id| fit(id, table)).collect::<Result<Vec<T>>>();
            lists.iter().map(ids).collect::<Result<Vec<_>>>()
        };
        let both = ids(&ends.prefixes).and_then(|prefixes| Ok((prefixes, ids(&ends.suffixes)?)));
        Ok(both.map(|(prefixes, suffixes)| Self { prefixes, prefix_of, suffixes, suffix_of }))
    }

    fn of(&self, row: usize) -> Ends<'_, T> {
        let (prefix, suffix) = (self.prefix_of[row] as usize, self.suffix_of[row] as usize);
        Ends { prefix: &self.prefixes[prefix], suffix: &self.suffixes[suffix] }
    }

    fn len(&self, row: usize) -> usize {
        self.of(row).prefix.len() + self.of(row).suffix.len()
    }
}

/// Token ids of letters: a row of so many columns for each request, filled up, or without columns one after another.
pub fn tokens<'py, T: Id + Number + Element>(
    py: Python<'py>,
    letters: &impl Letters,
    table: &Table,
    ends: &RowEnds<'_>,
    shape: (Option<usize>, i32),
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (columns, pad) = (shape.0, fit::<T>(shape.1, table).or_raise(py)?);
    let kernel = Translate::<T>::new(table).or_raise(py)?;
    let count = letters.letters().len();
    let around = Around::<T>::new(ends, table, count)?.or_raise(py)?;
    let Some(columns) = columns else {
        let needed = letters.letters().iter().enumerate().map(|(row, &n)| n as usize + around.len(row)).sum();
        let fill = |room: &mut [T]| letters.gather(&kernel, slots(room, letters.letters(), 1, |row| around.of(row))?);
        // SAFETY: slots are all of the room but their ends, which are written; and gathering writes each of them.
        let values = py.detach(|| unsafe { written(needed, 1, fill) }).or_raise(py)?;
        return Ok(PyArray1::from_vec(py, values).into_any());
    };
    let shape = Rectangle { columns, width: 1, pad };
    let fill = |room: &mut [T]| letters.gather(&kernel, rows(room, letters.letters(), shape, |row| around.of(row))?);
    if let Some(out) = out {
        let mut given = given_rows::<T>(out, [count, columns])?;
        let room = given.as_slice_mut()?;
        py.detach(|| fill(room)).or_raise(py)?;
        return Ok(out.clone());
    }
    // SAFETY: rows are their letters, which gathering writes, and ends and padding, which are written.
    let values = py.detach(|| unsafe { written(count, columns, fill) }).or_raise(py)?;
    Ok(PyArray1::from_vec(py, values).reshape([count, columns])?.into_any())
}

/// How contigs are cut into windows: window, content, stride, tail, the least letters of a contig, and how many special
/// tokens stand only where it begins and where it ends.
type Rule = (u64, u64, u64, String, u64, Option<(u64, u64)>);

fn rule((window, content, stride, tail, least, edges): &Rule) -> Result<Windows> {
    let windows = Windows::new(*window, *content, *stride, tail.parse()?, *least)?;
    Ok(edges.map_or(windows, |(first, last)| windows.with_edges(first, last)))
}

/// Regions as columns: contigs, starts, ends.
type Regions<'py> = (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>);

/// Contigs, their lengths, the stretches that windows are of, starts, letters.
type Located<'py> = [Bound<'py, PyArray1<i64>>; 5];

/// The contigs of many FASTA files.
#[pyclass(frozen, module = "seekset._core")]
pub struct Contigs {
    inner: Core,
}

struct OfContigs<'a> {
    contigs: &'a Core,
    requests: &'a [Request],
    letters: Vec<u64>,
}

impl Letters for OfContigs<'_> {
    fn letters(&self) -> &[u64] {
        &self.letters
    }

    fn gather<K: Kernel>(&self, kernel: &K, slots: Vec<&mut [K::Out]>) -> Result<()> {
        self.contigs.gather(self.requests, kernel, slots)
    }
}

#[pymethods]
impl Contigs {
    #[new]
    #[pyo3(signature = (paths, *, progress=None))]
    fn new(py: Python<'_>, paths: Vec<PathBuf>, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        Ok(Self { inner: watched(py, progress.as_ref(), |watch| Core::open(&paths, watch))? })
    }

    fn __len__(&self) -> usize {
        self.inner.len() as usize
    }

    /// What is odd about the files and no reason not to read them.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.inner.remarks().to_vec()
    }

    /// The size, a sample of the content and the number of contigs of each file.
    fn marks(&self) -> Vec<(u64, u64, u64)> {
        self.inner
            .marks()
            .iter()
            .zip(self.inner.counts())
            .map(|(&(size, sample), count)| (size, sample, count))
            .collect()
    }

    /// The number of the file that a contig is in.
    fn file_of(&self, py: Python<'_>, contig: u64) -> PyResult<u32> {
        self.inner.place(contig).map(|(file, _)| file).or_raise(py)
    }

    /// The id of a contig.
    fn id(&self, py: Python<'_>, contig: u64) -> PyResult<String> {
        self.inner.id(contig).or_raise(py)
    }

    /// How many letters a contig has.
    fn length(&self, py: Python<'_>, contig: u64) -> PyResult<u64> {
        self.inner.length(contig).or_raise(py)
    }

    /// The ids of all contigs of one file.
    fn ids<'py>(&self, py: Python<'py>, file: u32) -> PyResult<Bound<'py, PyList>> {
        let mut ids = Vec::new();
        let take = |_, id: &str, _| {
            ids.push(id.to_owned());
            Ok(())
        };
        py.detach(|| self.inner.each_of(file, take)).or_raise(py)?;
        PyList::new(py, ids)
    }

    /// The contigs of an id, in the order of files.
    fn find(&self, py: Python<'_>, id: &str) -> PyResult<Vec<u64>> {
        py.detach(|| self.inner.find(id)).or_raise(py)
    }

    /// Counts windows: where those of each contig end, and how many contigs, letters and unseen letters there are.
    #[pyo3(signature = (windows, *, wanted=None, splits=None, split=0, progress=None))]
    #[allow(clippy::type_complexity, reason = "a tuple for Python, named in the stub")]
    fn windows<'py>(
        &self,
        py: Python<'py>,
        windows: Rule,
        wanted: Option<PyReadonlyArray1<'py, bool>>,
        splits: Option<Vec<f64>>,
        split: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, u64, u64, u64)> {
        let rule = rule(&windows).or_raise(py)?;
        let wanted = wanted.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let splits = splits.map(|shares| Splits::new(&shares)).transpose().or_raise(py)?;
        let selection = Selection { wanted, split: splits.as_ref().map(|splits| (splits, split)) };
        let planned = watched(py, progress.as_ref(), |watch| self.inner.windows(&rule, selection, watch))?;
        Ok((PyArray1::from_vec(py, planned.ends), planned.contigs, planned.letters, planned.unseen))
    }

    /// The windows that are not full, and how many letters each has.
    #[pyo3(signature = (windows, ends, regions=None))]
    #[allow(clippy::type_complexity, reason = "a tuple for Python, named in the stub")]
    fn short<'py>(
        &self,
        py: Python<'py>,
        windows: Rule,
        ends: PyReadonlyArray1<'py, i64>,
        regions: Option<Regions<'py>>,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>)> {
        let (rule, ends) = (rule(&windows).or_raise(py)?, ends.as_slice()?);
        let (numbers, letters) = match &regions {
            None => py.detach(|| self.inner.short(&rule, ends)).or_raise(py)?,
            Some((_, starts, stops)) => {
                let lengths =
                    starts.as_slice()?.iter().zip(stops.as_slice()?).map(|(start, stop)| (stop - start) as u64);
                windows::short(&rule, ends, lengths)
            }
        };
        Ok((PyArray1::from_vec(py, numbers), PyArray1::from_vec(py, letters)))
    }

    /// Where windows lie: their contigs, the lengths of those, the stretches they are of, their starts and letters.
    #[pyo3(signature = (windows, ends, numbers, regions=None))]
    fn locate<'py>(
        &self,
        py: Python<'py>,
        windows: Rule,
        ends: PyReadonlyArray1<'py, i64>,
        numbers: PyReadonlyArray1<'py, i64>,
        regions: Option<Regions<'py>>,
    ) -> PyResult<Located<'py>> {
        let rule = rule(&windows).or_raise(py)?;
        let (ends, numbers) = (ends.as_slice()?, numbers.as_slice()?);
        let columns = regions.as_ref().map(|(contigs, starts, stops)| {
            Ok::<_, PyErr>((contigs.as_slice()?, starts.as_slice()?, stops.as_slice()?))
        });
        let columns = columns.transpose()?;
        let stretch = |k: usize| {
            let (contigs, starts, stops) = columns?;
            let (contig, start, end) = (*contigs.get(k)?, *starts.get(k)?, *stops.get(k)?);
            Some(Stretch { contig: contig as u64, start: start as u64, end: end as u64 })
        };
        let stretches: Option<&(dyn Fn(usize) -> Option<Stretch> + Sync)> = columns.is_some().then_some(&stretch);
        let found = py.detach(|| self.inner.locate(&rule, ends, stretches.map(|of| of as _), numbers)).or_raise(py)?;
        let column = |value: fn(&seekset_core::contigs::Found) -> u64| {
            PyArray1::from_vec(py, found.iter().map(|window| value(window) as i64).collect())
        };
        Ok([
            column(|window| window.contig),
            column(|window| window.length),
            column(|window| window.stretch as u64),
            column(|window| window.start),
            column(|window| window.letters),
        ])
    }

    /// Token ids of windows: rows of so many columns, each with ends of its own, or without columns one after another.
    #[pyo3(signature = (contigs, starts, letters, *, reverse=None, table, dtype, columns, pad, ends, out=None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments, spelled out once for the Python layer")]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        contigs: PyReadonlyArray1<'py, i64>,
        starts: PyReadonlyArray1<'py, i64>,
        letters: PyReadonlyArray1<'py, i64>,
        reverse: Option<PyReadonlyArray1<'py, bool>>,
        table: &TokenTable,
        dtype: &str,
        columns: Option<usize>,
        pad: i32,
        ends: RowEnds<'py>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wanted = Wanted { rows: contigs, starts: Some(starts), lengths: Some(letters), reverse, max_length: None };
        let requests = wanted.requests(py, self.inner.len())?;
        let letters = py.detach(|| self.inner.resolve(&requests)).or_raise(py)?;
        let letters = OfContigs { contigs: &self.inner, requests: &requests, letters };
        match dtype {
            "uint8" => tokens::<u8>(py, &letters, &table.inner, &ends, (columns, pad), out),
            "int32" => tokens::<i32>(py, &letters, &table.inner, &ends, (columns, pad), out),
            "int64" => tokens::<i64>(py, &letters, &table.inner, &ends, (columns, pad), out),
            _ => Err(PyValueError::new_err(format!("dtype must be uint8, int32 or int64, not {dtype}"))),
        }
    }

    /// The letters of windows as a list of str.
    #[pyo3(signature = (contigs, starts, letters, *, reverse=None))]
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        contigs: PyReadonlyArray1<'py, i64>,
        starts: PyReadonlyArray1<'py, i64>,
        letters: PyReadonlyArray1<'py, i64>,
        reverse: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let wanted = Wanted { rows: contigs, starts: Some(starts), lengths: Some(letters), reverse, max_length: None };
        let requests = wanted.requests(py, self.inner.len())?;
        let (letters, offsets) = py.detach(|| self.inner.letters(&requests)).or_raise(py)?;
        texts(py, &letters, &offsets)
    }
}

/// Where the windows of each stretch end, from the lengths of the stretches.
#[pyfunction]
pub fn window_ends<'py>(
    py: Python<'py>,
    windows: Rule,
    lengths: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Bound<'py, PyArray1<i64>>, u64)> {
    let (rule, lengths) = (rule(&windows).or_raise(py)?, lengths.as_slice()?);
    let mut ends = Vec::new();
    windows::ends(&rule, lengths.iter().map(|&length| u64::try_from(length).ok()), &mut ends).or_raise(py)?;
    let unseen =
        lengths.iter().filter_map(|&length| u64::try_from(length).ok()).map(|length| rule.unseen(length)).sum();
    Ok((PyArray1::from_vec(py, ends), unseen))
}

/// Whether each window is reversed in an epoch: a coin for each.
#[pyfunction]
pub fn flip_coins<'py>(
    py: Python<'py>,
    seed: u64,
    epoch: u64,
    windows: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let windows = windows.as_slice()?;
    Ok(PyArray1::from_vec(py, py.detach(|| windows::coins(seed, epoch, windows))))
}

/// The number of the split that each id belongs to, -1 for none.
#[pyfunction]
pub fn split_of(py: Python<'_>, ids: Vec<String>, splits: Vec<f64>) -> PyResult<Bound<'_, PyArray1<i64>>> {
    let splits = Splits::new(&splits).or_raise(py)?;
    let numbers = ids.iter().map(|id| splits.of(id.as_bytes()).map_or(-1, |number| number as i64)).collect();
    Ok(PyArray1::from_vec(py, numbers))
}

/// Which labels count where those of letters do, and no others: letters start at a token of each row, and are so many.
#[pyfunction]
pub fn letters_mask<'py>(
    py: Python<'py>,
    starts: PyReadonlyArray1<'py, i64>,
    letters: PyReadonlyArray1<'py, i64>,
    labels: usize,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let (starts, letters) = (starts.as_slice()?, letters.as_slice()?);
    if starts.len() != letters.len() || starts.iter().chain(letters).any(|&n| n < 0) {
        return Err(PyValueError::new_err("every row needs a start and a number of letters, neither below 0"));
    }
    let spans = starts.iter().zip(letters).map(|(&start, &letters)| (start as usize, letters as usize));
    let fill = |room: &mut [f32]| {
        write_letters(spans, labels, room);
        Ok(())
    };
    // SAFETY: there is room for as many rows as there are spans, and each is written as a whole.
    let mask = py.detach(|| unsafe { written(starts.len(), labels, fill) }).or_raise(py)?;
    PyArray1::from_vec(py, mask).reshape([starts.len(), labels])
}

/// Which labels count: rows of tokens that are one longer than their labels, as float32 of the labels' shape.
#[pyfunction]
pub fn loss_mask<'py>(
    py: Python<'py>,
    tokens: &Bound<'py, PyAny>,
    uncounted: Vec<i64>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    if let Ok(tokens) = tokens.extract::<PyReadonlyArray2<'py, i64>>() {
        return masked(py, &tokens, &uncounted);
    }
    let small: Vec<u8> = uncounted.iter().filter_map(|&id| id.try_into().ok()).collect();
    if let Ok(tokens) = tokens.extract::<PyReadonlyArray2<'py, u8>>() {
        return masked(py, &tokens, &small);
    }
    let middle: Vec<i32> = uncounted.iter().filter_map(|&id| id.try_into().ok()).collect();
    let tokens = tokens.extract::<PyReadonlyArray2<'py, i32>>();
    masked(
        py,
        &tokens.map_err(|_| PyTypeError::new_err("tokens must be uint8, int32 or int64 in two dimensions"))?,
        &middle,
    )
}

fn masked<'py, T: Id + Ord + Element>(
    py: Python<'py>,
    tokens: &PyReadonlyArray2<'py, T>,
    uncounted: &[T],
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let (count, columns) = (tokens.as_array().nrows(), tokens.as_array().ncols());
    let tokens = tokens.as_slice()?;
    let labels = columns.saturating_sub(1);
    let uncounted = Uncounted::new(uncounted);
    let fill = |room: &mut [f32]| uncounted.write_rows(tokens, columns, room);
    // SAFETY: there are as many labels in all rows as there is room for, and each has its number written.
    let mask = py.detach(|| unsafe { written(count, labels, fill) }).or_raise(py)?;
    PyArray1::from_vec(py, mask).reshape([count, labels])
}
