//! TFRecord files in Python, as thin as it goes: seekset/tfrecord.py gives them their manners.

use std::cell::RefCell;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};
use seekset_core::io::deflate::Kind;
use seekset_core::io::{Access, Origin};
use seekset_core::scan::tfrecord::AROUND;
use seekset_core::tfrecord::{self, Ensured, OpenOptions, Rows, TfRecordFile as Core};
use seekset_core::{Entry, Error, Result, Verify};

use crate::bytes::bytes;
use crate::errors::OrRaise;
use crate::view::View;
use crate::watch::watched;

/// Reads of more bytes let other threads run.
const MANY_BYTES: u64 = 1 << 16;

/// Bytes that are checked before they are copied.
const NEAR_BYTES: u64 = 1 << 20;

/// An open TFRecord file.
#[pyclass(frozen, module = "seekset._core")]
pub struct TFRecordFile {
    pub(crate) inner: Arc<Core>,
}

#[pymethods]
impl TFRecordFile {
    #[new]
    #[pyo3(signature = (path, *, index=None, walk=false, build=true, verify=Some("lengths"), io="mmap", progress=None))]
    #[allow(clippy::too_many_arguments)] // one for each option of Python's
    fn new(
        py: Python<'_>,
        path: PathBuf,
        index: Option<PathBuf>,
        walk: bool,
        build: bool,
        verify: Option<&str>,
        io: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let rows = match index {
            Some(index) => Rows::Index(index),
            None if walk => Rows::Walk,
            None => Rows::Beside,
        };
        let options = OpenOptions {
            rows,
            verify: named(verify).or_raise(py)?,
            access: io.parse::<Access>().or_raise(py)?,
            keep: !build,
        };
        let inner = watched(py, progress.as_ref(), |watch| Core::open_watched(&path, &options, watch))?;
        Ok(Self { inner: Arc::new(inner) })
    }

    fn __len__(&self) -> usize {
        self.inner.len() as usize
    }

    /// The index that the rows come from, if they come from one.
    #[getter]
    fn index_path(&self) -> Option<PathBuf> {
        self.inner.index_path().map(ToOwned::to_owned)
    }

    /// What the file is compressed with: "gzip", "zlib" or None.
    #[getter]
    fn compression(&self) -> Option<&'static str> {
        self.inner.compression().map(Kind::name)
    }

    /// Why the index of a compressed file is in memory only, if it is because it can't be written.
    #[getter]
    fn not_written(&self) -> Option<String> {
        match self.inner.origin() {
            Some(Origin::Memory { because }) => Some(because.clone()),
            _ => None,
        }
    }

    /// Where a row lies: (offset, size).
    fn entry(&self, py: Python<'_>, row: u64) -> PyResult<(u64, u64)> {
        self.inner.entry(row).map(pair).or_raise(py)
    }

    /// The bytes of each payload.
    fn lengths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let length = |row| self.inner.entry(row).map(|entry| entry.size.saturating_sub(AROUND) as i64);
        let found = py.detach(|| (0..self.inner.len()).map(length).collect::<Result<Vec<_>>>()).or_raise(py)?;
        Ok(PyArray1::from_vec(py, found))
    }

    /// The payload of a row.
    fn read<'py>(&self, py: Python<'py>, row: u64) -> PyResult<Bound<'py, PyBytes>> {
        if self.inner.entry(row).or_raise(py)?.size > MANY_BYTES || self.inner.compression().is_some() {
            // Checked, and waited for, by the call for many, which lets other threads run.
            return Ok(self.read_rows(py, &[row])?.get_item(0)?.cast_into()?);
        }
        self.inner.with_payload(row, |payload| bytes(py, payload)).or_raise(py)?
    }

    /// The payloads of many rows, in the order asked.
    fn read_many<'py>(&self, py: Python<'py>, rows: PyReadonlyArray1<'py, i64>) -> PyResult<Bound<'py, PyList>> {
        let rows = row_numbers(py, &rows)?;
        self.read_rows(py, &rows)
    }

    /// The payload of a row as a buffer: without a copy, unless the file is not mapped.
    fn view(&self, py: Python<'_>, row: u64) -> PyResult<View> {
        let (store, range) = py.detach(|| self.inner.view(row)).or_raise(py)?;
        Ok(View::new(store, range))
    }
}

impl TFRecordFile {
    /// Checked without the GIL, copied with it, some at a time: what was checked is then still near the processor.
    fn read_rows<'py>(&self, py: Python<'py>, rows: &[u64]) -> PyResult<Bound<'py, PyList>> {
        let mut copies: Vec<Py<PyBytes>> = Vec::with_capacity(rows.len());
        let mut rest = rows;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.near(rest));
            let copy = |payloads: &[&[u8]]| {
                Ok(Python::attach(|py| -> PyResult<()> {
                    for payload in payloads {
                        copies.push(bytes(py, payload)?.unbind());
                    }
                    Ok(())
                }))
            };
            py.detach(|| self.inner.with_payloads(now, copy)).or_raise(py)??;
            rest = later;
        }
        PyList::new(py, copies)
    }

    /// How many of these rows, one at least, are few enough bytes to stay near the processor.
    fn near(&self, rows: &[u64]) -> usize {
        let mut bytes = 0;
        let fits = |&&row: &&u64| {
            bytes += self.inner.entry(row).map_or(0, |entry| entry.size);
            bytes <= NEAR_BYTES
        };
        rows.iter().take_while(fits).count().max(1)
    }
}

/// Rows as the core counts them; the Python layer has made negative ones positive.
pub(crate) fn row_numbers(py: Python<'_>, rows: &PyReadonlyArray1<'_, i64>) -> PyResult<Vec<u64>> {
    let number = |&row: &i64| u64::try_from(row).map_err(|_| Error::RowOutOfRange { row, rows: 0 });
    rows.as_slice()?.iter().map(number).collect::<Result<_>>().or_raise(py)
}

fn named(verify: Option<&str>) -> Result<Verify> {
    verify.map_or(Ok(Verify::None), str::parse)
}

fn pair(entry: Entry) -> (u64, u64) {
    (entry.offset, entry.size)
}

fn pairs(entries: Vec<Entry>) -> Vec<(u64, u64)> {
    entries.into_iter().map(pair).collect()
}

/// Writes the index of a TFRecord file and returns how many records there are.
#[pyfunction]
#[pyo3(signature = (path, index_path, verify=Some("lengths"), progress=None))]
pub fn write_tfrecord_index(
    py: Python<'_>,
    path: PathBuf,
    index_path: PathBuf,
    verify: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<u64> {
    let verify = named(verify).or_raise(py)?;
    watched(py, progress.as_ref(), |watch| tfrecord::write_index_watched(&path, &index_path, verify, watch))
}

/// Writes the index of a TFRecord file unless it has one that fits: ("found" | "own" | "built", why or None).
#[pyfunction]
#[pyo3(signature = (path, index_path, verify=Some("lengths"), progress=None))]
pub fn ensure_tfrecord_index(
    py: Python<'_>,
    path: PathBuf,
    index_path: PathBuf,
    verify: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(&'static str, Option<String>)> {
    let verify = named(verify).or_raise(py)?;
    let ensure = |watch: &dyn seekset_core::watch::Watch| tfrecord::ensure_index(&path, &index_path, verify, watch);
    Ok(match watched(py, progress.as_ref(), ensure)? {
        Ensured::Found => ("found", None),
        Ensured::Own => ("own", None),
        Ensured::Built { because } => ("built", because),
    })
}

/// Decompresses a TFRecord file, writes its index as well if that is given, and returns how many records there are.
#[pyfunction]
#[pyo3(signature = (path, out, index_path=None, verify=Some("lengths"), *, replace=false, progress=None))]
pub fn decompress_tfrecord(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    index_path: Option<PathBuf>,
    verify: Option<&str>,
    replace: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<u64> {
    let verify = named(verify).or_raise(py)?;
    watched(py, progress.as_ref(), |watch| {
        tfrecord::decompress(&path, &out, index_path.as_deref(), verify, replace, watch)
    })
}

/// Every fault of a TFRecord file as a message, and how many records were looked at.
#[pyfunction]
#[pyo3(signature = (path, progress=None))]
pub fn survey_tfrecord(py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<(u64, Vec<String>)> {
    watched(py, progress.as_ref(), |watch| {
        let mut faults = Vec::new();
        let records = tfrecord::survey_file(&path, watch, &mut |fault| faults.push(fault.to_string()))?;
        Ok((records, faults))
    })
}

/// Reads an index as a list of (offset, size).
#[pyfunction]
pub fn read_tfrecord_index(py: Python<'_>, path: PathBuf) -> PyResult<Vec<(u64, u64)>> {
    py.detach(|| tfrecord::read_index_file(&path)).map(pairs).or_raise(py)
}

/// Where the records of a TFRecord file lie, whose bytes are in a buffer: a list of (offset, size).
#[pyfunction]
#[pyo3(signature = (data, verify=Some("lengths")))]
pub fn tfrecord_entries(py: Python<'_>, data: &Bound<'_, PyAny>, verify: Option<&str>) -> PyResult<Vec<(u64, u64)>> {
    let verify = named(verify).or_raise(py)?;
    with_bytes(data, |bytes| tfrecord::index_entries_from_bytes(bytes, verify).map(pairs))
}

/// The index of a TFRecord file, whose bytes are in a buffer, as text.
#[pyfunction]
#[pyo3(signature = (data, verify=Some("lengths")))]
pub fn tfrecord_index_text(py: Python<'_>, data: &Bound<'_, PyAny>, verify: Option<&str>) -> PyResult<String> {
    let verify = named(verify).or_raise(py)?;
    with_bytes(data, |bytes| tfrecord::index_text_from_bytes(bytes, verify))
}

/// Looks at bytes without a copy. Only those that can't change meanwhile are looked at without the GIL.
fn with_bytes<T: Send>(data: &Bound<'_, PyAny>, look: impl Fn(&[u8]) -> Result<T> + Send + Sync) -> PyResult<T> {
    let py = data.py();
    if let Ok(bytes) = data.cast::<PyBytes>() {
        let bytes = PyBackedBytes::from(bytes.clone());
        return py.detach(|| look(&bytes)).or_raise(py);
    }
    let array: PyReadonlyArray1<'_, u8> = data.extract()?;
    look(array.as_slice()?).or_raise(py)
}

/// Indexes what a Python object with `read(size)` gives: writes to `index_path`, or returns the text if there is none.
#[pyfunction]
#[pyo3(signature = (reader, name, index_path=None, verify=Some("lengths")))]
pub fn index_tfrecord_stream(
    py: Python<'_>,
    reader: Py<PyAny>,
    name: &str,
    index_path: Option<PathBuf>,
    verify: Option<&str>,
) -> PyResult<(u64, Option<String>)> {
    let verify = named(verify).or_raise(py)?;
    let (result, raised) = py.detach(|| {
        let stream = PyReader { reader, raised: RefCell::new(None) };
        let result = if let Some(index) = index_path {
            tfrecord::write_index_for_stream(&stream, name, &index, verify).map(|records| (records, None))
        } else {
            let mut text = Vec::new();
            let written = tfrecord::index_stream(&stream, name, verify, &mut text);
            written.map(|records| (records, Some(String::from_utf8_lossy(&text).into_owned())))
        };
        (result, stream.raised.into_inner())
    });
    raised.map_or(Ok(()), Err)?;
    result.or_raise(py)
}

/// A Python reader as a Rust one; what it raises is kept.
struct PyReader {
    reader: Py<PyAny>,
    raised: RefCell<Option<PyErr>>,
}

impl Read for &PyReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = out.len();
        let read = Python::attach(|py| {
            let bytes = self.reader.bind(py).call_method1("read", (most,))?.cast_into::<PyBytes>()?;
            let bytes = bytes.as_bytes();
            let room = out
                .get_mut(..bytes.len())
                .ok_or_else(|| PyValueError::new_err(format!("read({most}) gave {} bytes", bytes.len())))?;
            room.copy_from_slice(bytes);
            Ok(bytes.len())
        });
        read.map_err(|error: PyErr| {
            *self.raised.borrow_mut() = Some(error);
            io::Error::other("the reader raised an exception")
        })
    }
}
