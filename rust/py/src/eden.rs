//! The stores of Sharded Eden in Python, as thin as it goes: seekset/eden.py gives them their manners.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyList;
use seekset_core::eden::{
    EdenSequences as Sequences, EdenWindows as Windows, SampleWriter as Sample, Window, WindowRule, WindowsWriter,
};
use seekset_core::gather::Translate;
use seekset_core::gather::layout::{Ends, Rectangle, rows};

use crate::errors::OrRaise;
use crate::fasta::texts;
use crate::gather::{empty, given_rows};
use crate::table::TokenTable;
use crate::watch::watched;

/// What has databases open: closed without the GIL. Closing waits while a fork is made, and the fork waits for the GIL.
struct Closing<T: Send>(Option<T>);

impl<T: Send> Closing<T> {
    fn new(inner: T) -> Self {
        Self(Some(inner))
    }
}

impl<T: Send> std::ops::Deref for Closing<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Send> Drop for Closing<T> {
    fn drop(&mut self) {
        let inner = self.0.take();
        Python::attach(|py| py.detach(|| drop(inner)));
    }
}

/// The contigs of many samples, each in a database of its own.
#[pyclass(frozen, module = "seekset._core")]
pub struct EdenSequences {
    inner: Closing<Sequences>,
}

/// Windows as Python names them: arrays of equal length.
struct Wanted<'py> {
    databases: PyReadonlyArray1<'py, i64>,
    contigs: Vec<PyBackedStr>,
    starts: PyReadonlyArray1<'py, i64>,
    letters: PyReadonlyArray1<'py, i64>,
    windows: Option<PyReadonlyArray1<'py, i64>>,
    reverse: Option<PyReadonlyArray1<'py, bool>>,
}

impl Wanted<'_> {
    fn windows(&self) -> PyResult<Vec<Window<'_>>> {
        let (databases, starts, letters) =
            (self.databases.as_slice()?, self.starts.as_slice()?, self.letters.as_slice()?);
        let numbers = self.windows.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let reverse = self.reverse.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let count = self.contigs.len();
        let lens = [
            Some(databases.len()),
            Some(starts.len()),
            Some(letters.len()),
            numbers.map(<[_]>::len),
            reverse.map(<[_]>::len),
        ];
        if lens.into_iter().flatten().any(|len| len != count) {
            return Err(PyValueError::new_err(
                "databases, contigs, starts, letters, windows and reverse must be of one length",
            ));
        }
        let number = |k: usize, values: &[i64], name: &str| {
            u64::try_from(values[k])
                .map_err(|_| PyValueError::new_err(format!("{name}[{k}] is {}; it must not be negative", values[k])))
        };
        (0..count)
            .map(|k| {
                Ok(Window {
                    database: u32::try_from(number(k, databases, "databases")?).unwrap_or(u32::MAX),
                    contig: &self.contigs[k],
                    start: number(k, starts, "starts")?,
                    letters: number(k, letters, "letters")?,
                    reverse: reverse.is_some_and(|reverse| reverse[k]),
                    number: numbers.map_or(k as i64, |numbers| numbers[k]),
                })
            })
            .collect()
    }
}

#[pymethods]
impl EdenSequences {
    #[new]
    fn new(py: Python<'_>, samples: Vec<String>, paths: Vec<PathBuf>) -> PyResult<Self> {
        Ok(Self { inner: Closing::new(Sequences::new(samples, paths).or_raise(py)?) })
    }

    /// Token ids of windows, one row each: a prefix, the letters, the suffix, padding.
    #[pyo3(signature = (databases, contigs, starts, letters, *, windows=None, reverse=None, table, columns, pad,
                        prefixes, prefix_of, suffix, out=None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments, spelled out once for the Python layer")]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        databases: PyReadonlyArray1<'py, i64>,
        contigs: Vec<PyBackedStr>,
        starts: PyReadonlyArray1<'py, i64>,
        letters: PyReadonlyArray1<'py, i64>,
        windows: Option<PyReadonlyArray1<'py, i64>>,
        reverse: Option<PyReadonlyArray1<'py, bool>>,
        table: &TokenTable,
        columns: usize,
        pad: i64,
        prefixes: Vec<Vec<i64>>,
        prefix_of: PyReadonlyArray1<'py, i64>,
        suffix: Vec<i64>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wanted = Wanted { databases, contigs, starts, letters, windows, reverse };
        let windows = wanted.windows()?;
        let prefix_of = chosen(prefix_of.as_slice()?, windows.len(), &prefixes)?;
        let kernel = Translate::<i64>::new(&table.inner).or_raise(py)?;
        let array = match out {
            Some(out) => out,
            None => empty::<i64>(py, &[windows.len(), columns])?,
        };
        let mut borrowed = given_rows::<i64>(&array, [windows.len(), columns])?;
        let room = borrowed.as_slice_mut()?;
        py.detach(|| {
            self.inner.gather(&windows, &kernel, |letters| {
                let shape = Rectangle { columns, width: 1, pad };
                rows(room, letters, shape, |row| Ends { prefix: prefix_of[row], suffix: &suffix })
            })
        })
        .or_raise(py)?;
        drop(borrowed);
        Ok(array)
    }

    /// The letters of windows as a list of str, upper-cased.
    #[pyo3(signature = (databases, contigs, starts, letters, *, windows=None, reverse=None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments, spelled out once for the Python layer")]
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        databases: PyReadonlyArray1<'py, i64>,
        contigs: Vec<PyBackedStr>,
        starts: PyReadonlyArray1<'py, i64>,
        letters: PyReadonlyArray1<'py, i64>,
        windows: Option<PyReadonlyArray1<'py, i64>>,
        reverse: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let wanted = Wanted { databases, contigs, starts, letters, windows, reverse };
        let windows = wanted.windows()?;
        let (letters, starts) = py.detach(|| self.inner.fetch(&windows)).or_raise(py)?;
        texts(py, &letters, &starts)
    }

    /// How many letters a contig has; None if it is not there.
    fn length(&self, py: Python<'_>, database: u32, contig: PyBackedStr) -> PyResult<Option<u64>> {
        py.detach(|| self.inner.length(database, &contig)).or_raise(py)
    }

    /// The ids and lengths of all contigs of a database, by id.
    fn contigs<'py>(&self, py: Python<'py>, database: u32) -> PyResult<(Vec<String>, Bound<'py, PyArray1<i64>>)> {
        let (ids, lengths) = watched(py, None, |watch| {
            let (mut ids, mut lengths) = (Vec::new(), Vec::new());
            self.inner.each_contig(database, watch, |id, length| {
                ids.push(id.to_owned());
                lengths.push(length as i64);
                Ok(())
            })?;
            Ok((ids, lengths))
        })?;
        Ok((ids, PyArray1::from_vec(py, lengths)))
    }

    /// Lets go of all databases. What is read afterwards is opened again.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.close());
    }
}

/// The prefix of each row.
fn chosen<'a>(prefix_of: &[i64], count: usize, prefixes: &'a [Vec<i64>]) -> PyResult<Vec<&'a [i64]>> {
    if prefix_of.len() != count {
        let len = prefix_of.len();
        return Err(PyValueError::new_err(format!("prefix_of has {len} values, but there are {count} windows")));
    }
    let one = |&of: &i64| {
        let prefix = usize::try_from(of).ok().and_then(|of| prefixes.get(of));
        let missing = || PyValueError::new_err(format!("there is no prefix {of}: there are {}", prefixes.len()));
        prefix.map(Vec::as_slice).ok_or_else(missing)
    };
    prefix_of.iter().map(one).collect()
}

/// A window database.
#[pyclass(frozen, module = "seekset._core")]
pub struct EdenWindows {
    inner: Closing<Windows>,
}

#[pymethods]
impl EdenWindows {
    #[new]
    fn new(path: PathBuf) -> Self {
        Self { inner: Closing::new(Windows::new(&path)) }
    }

    /// What it says about itself.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<BTreeMap<String, i64>> {
        Ok((*py.detach(|| self.inner.metadata()).or_raise(py)?).clone())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.inner.len()).map(|len| len as usize).or_raise(py)
    }

    /// How many contigs have windows.
    fn distinct_sequences(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.inner.distinct_sequences()).or_raise(py)
    }

    /// The contigs of windows, and which of its contig's windows each is.
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        windows: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyArray1<i64>>)> {
        let windows = windows.as_slice()?;
        let found = py.detach(|| self.inner.lookup(windows)).or_raise(py)?;
        let places = PyArray1::from_iter(py, found.iter().map(|(_, k)| *k));
        Ok((PyList::new(py, found.iter().map(|(id, _)| id))?, places))
    }

    /// One contig id for each sample that ids name.
    fn first_of_each_sample(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        watched(py, None, |watch| self.inner.first_of_each_sample(watch))
    }

    /// Lets go of the database. What is read afterwards opens it again.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.close());
    }
}

/// Writes a window database from the lengths of contigs.
#[pyclass(frozen, module = "seekset._core")]
pub struct EdenWindowsWriter {
    /// None when it has been finished.
    inner: Mutex<Option<WindowsWriter>>,
}

#[pymethods]
impl EdenWindowsWriter {
    #[new]
    #[pyo3(signature = (path, *, window_size, stride, shortest=0))]
    fn new(py: Python<'_>, path: PathBuf, window_size: u64, stride: u64, shortest: u64) -> PyResult<Self> {
        let rule = WindowRule::new(window_size, stride, shortest).or_raise(py)?;
        let writer = py.detach(|| WindowsWriter::new(&path, rule)).or_raise(py)?;
        Ok(Self { inner: Mutex::new(Some(writer)) })
    }

    /// Adds contigs by their ids and lengths.
    fn add(&self, py: Python<'_>, ids: Vec<PyBackedStr>, lengths: PyReadonlyArray1<'_, i64>) -> PyResult<()> {
        let lengths = lengths.as_slice()?;
        if ids.len() != lengths.len() {
            return Err(PyValueError::new_err("ids and lengths must be of one length"));
        }
        // Without the GIL, which whoever has the lock may wait for.
        let added = py.detach(|| {
            let mut inner = self.inner.lock().ok()?;
            let writer = inner.as_mut()?;
            Some(ids.iter().zip(lengths).try_for_each(|(id, &length)| writer.add(id, length)))
        });
        added.ok_or_else(finished)?.or_raise(py)
    }

    /// Writes the database: how many windows and contigs it has, and how many contigs are too short.
    #[pyo3(signature = (*, progress=None))]
    fn finish(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<(u64, u64, u64)> {
        let writer = py.detach(|| self.inner.lock().ok()?.take()).ok_or_else(finished)?;
        let written = watched(py, progress.as_ref(), |watch| writer.finish(watch))?;
        Ok((written.windows, written.sequences, written.left_out))
    }
}

/// Writes a sample database from contigs.
#[pyclass(frozen, module = "seekset._core")]
pub struct SampleWriter {
    /// None when it has been finished.
    inner: Closing<Mutex<Option<Sample>>>,
}

#[pymethods]
impl SampleWriter {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let sample = py.detach(|| Sample::create(&path)).or_raise(py)?;
        Ok(Self { inner: Closing::new(Mutex::new(Some(sample))) })
    }

    /// Adds a contig.
    fn add(&self, py: Python<'_>, id: PyBackedStr, letters: PyBackedStr) -> PyResult<()> {
        let added = py.detach(|| self.inner.lock().ok()?.as_mut().map(|sample| sample.add(&id, &letters)));
        added.ok_or_else(finished)?.or_raise(py)
    }

    /// Gives the database its name.
    fn finish(&self, py: Python<'_>) -> PyResult<PathBuf> {
        let sample = py.detach(|| self.inner.lock().ok()?.take()).ok_or_else(finished)?;
        py.detach(|| sample.finish()).or_raise(py)
    }

    /// Gives it up: what was there before stays.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| drop(self.inner.lock().ok().and_then(|mut inner| inner.take())));
    }
}

/// Keeps threads out of SQLite while a fork is made; without the GIL, which those inside may wait for.
#[pyfunction]
pub fn hold_sqlite(py: Python<'_>) {
    py.detach(seekset_core::io::sqlite::forks::hold);
}

/// Lets them in again.
#[pyfunction]
pub fn release_sqlite() {
    seekset_core::io::sqlite::forks::release();
}

fn finished() -> PyErr {
    PyValueError::new_err("the database has been finished")
}

/// The sample that a contig's id names; None for an id of another form.
#[pyfunction]
pub fn sample_of(id: &str) -> Option<String> {
    seekset_core::eden::sample_of(id)
}

/// How many windows a contig of so many letters has.
#[pyfunction]
#[pyo3(signature = (length, *, window_size, stride, shortest=0))]
pub fn count_windows(py: Python<'_>, length: u64, window_size: u64, stride: u64, shortest: u64) -> PyResult<u64> {
    Ok(WindowRule::new(window_size, stride, shortest).or_raise(py)?.windows(length))
}

/// Windows, contigs and samples seen; faults by kind, with how many there are and the first few of them.
type Validated = (u64, u64, u64, Vec<(&'static str, u64, Vec<String>)>);

/// Looks at every window of a database, and whether its contig is there and long enough.
#[pyfunction]
#[pyo3(signature = (windows, sequences, *, progress=None))]
pub fn validate_windows(
    py: Python<'_>,
    windows: &EdenWindows,
    sequences: &EdenSequences,
    progress: Option<Py<PyAny>>,
) -> PyResult<Validated> {
    let validate =
        |watch: &dyn seekset_core::watch::Watch| seekset_core::eden::validate(&windows.inner, &sequences.inner, watch);
    let found = watched(py, progress.as_ref(), validate)?;
    let faults = found.faults.into_iter().map(|(fault, (count, told))| (fault.name(), count, told));
    Ok((found.windows, found.sequences, found.samples, faults.collect()))
}
