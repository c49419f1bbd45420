//! `Fasta` in Python, as thin as it goes: seekset/fasta.py gives it its manners.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyList, PyString};
use seekset_core::Result;
use seekset_core::fasta::{FaiReport, Fasta as Core, OpenOptions, Origin};
use seekset_core::gather::complement::COMPLEMENT;
use seekset_core::index::Sidx;
use seekset_core::io::threads as core_threads;
use seekset_core::plan::Request;
use seekset_core::watch::Watch;

use crate::bytes::bytes;
use crate::errors::OrRaise;
use crate::gather::{self, Encoding, Shape, Wanted};
use crate::table::TokenTable;
use crate::view::View;
use crate::watch::watched;

/// How an index came about: ("found" | "built" | "memory", why).
pub fn told(origin: &Origin) -> (&'static str, Option<String>) {
    match origin {
        Origin::Found => ("found", None),
        Origin::Built { because } => ("built", because.clone()),
        Origin::Memory { because } => ("memory", Some(because.clone())),
    }
}

/// Reads of more letters let other threads run.
const MANY_LETTERS: u64 = 1 << 16;

/// Texts up to this many letters are made without asking whether there is memory for them.
const SURELY_FITS: usize = 1 << 20;

/// An open FASTA file and its index.
#[pyclass(frozen, module = "seekset._core")]
pub struct Fasta {
    inner: Arc<Core>,
}

impl Fasta {
    fn look_at_lengths(&self) -> Result<()> {
        self.inner.check_unchanged()?;
        self.inner.index().checked_lengths().map(drop).map_err(|e| e.in_file(self.inner.index_path()))
    }

    /// Reads from the index alone, which must still be what it was at open.
    fn look<'a, T>(&'a self, py: Python<'_>, read: impl FnOnce(&'a Sidx) -> Result<T>) -> PyResult<T> {
        self.inner.read_index(read).or_raise(py)
    }
}

#[pymethods]
impl Fasta {
    #[new]
    #[pyo3(signature = (path, *, index=None, build=true, force=false, allow_memory=true, io="mmap", progress=None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of a Python constructor")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        index: Option<PathBuf>,
        build: bool,
        force: bool,
        allow_memory: bool,
        io: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let access = io.parse::<seekset_core::io::Access>().or_raise(py)?;
        let options = OpenOptions { index, build, force, allow_memory, access };
        let inner = watched(py, progress.as_ref(), |watch| Core::open_watched(&path, &options, watch))?;
        Ok(Self { inner: Arc::new(inner) })
    }

    fn __len__(&self) -> usize {
        self.inner.len() as usize
    }

    /// How the index came about: ("found" | "built" | "memory", why or None).
    #[getter]
    fn origin(&self) -> (&'static str, Option<String>) {
        told(self.inner.origin())
    }

    /// Where the index is, or would be if it could be written.
    #[getter]
    fn index_path(&self) -> PathBuf {
        self.inner.index_path().to_owned()
    }

    /// What is odd about the file and no reason not to read it, or None.
    #[getter]
    fn remark(&self) -> Option<&str> {
        self.inner.remark()
    }

    /// How many records have an id that an earlier one has.
    #[getter]
    fn repeated_ids(&self) -> u64 {
        self.inner.index().repeated_ids()
    }

    /// Raises `DuplicateIdError` if an id names two records.
    fn refuse_duplicates(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.refuse_duplicates()).or_raise(py)
    }

    /// Reads all of the index and raises `FormatError` where it is damaged.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.read_index(Sidx::verify)).or_raise(py)
    }

    /// The row of the first record with this id, or None.
    fn find(&self, py: Python<'_>, id: &str) -> PyResult<Option<u64>> {
        self.look(py, |index| index.find(id))
    }

    /// Ids that look like this one, the most alike first.
    fn nearest(&self, py: Python<'_>, id: &str, count: usize, among: u64) -> PyResult<Vec<String>> {
        py.detach(|| self.inner.read_index(|index| Ok(index.nearest(id, count, among)))).or_raise(py)
    }

    /// The id of a row.
    fn id(&self, py: Python<'_>, row: u64) -> PyResult<&str> {
        self.look(py, |index| index.id(row))
    }

    /// The ids of rows `start` to `stop`.
    fn ids<'py>(&self, py: Python<'py>, start: u64, stop: u64) -> PyResult<Bound<'py, PyList>> {
        let ids = (start..stop.min(self.inner.len())).map(|row| self.id(py, row)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, ids)
    }

    /// The header line of a row, without `>`.
    fn header(&self, py: Python<'_>, row: u64) -> PyResult<String> {
        self.inner.header(row).or_raise(py)
    }

    /// How many letters a row has.
    fn length(&self, py: Python<'_>, row: u64) -> PyResult<u64> {
        self.look(py, |index| Ok(index.entry(row)?.length))
    }

    /// Where a row lies: (`header_offset`, `sequence_offset`, `line_bases`, `line_bytes`).
    fn entry(&self, py: Python<'_>, row: u64) -> PyResult<(u64, u64, u32, u32)> {
        let entry = self.look(py, |index| index.entry(row))?;
        Ok((entry.header_offset, entry.sequence_offset, entry.line_bases, entry.line_bytes))
    }

    /// The lengths of all rows as little-endian u64, without a copy.
    fn lengths(&self, py: Python<'_>) -> PyResult<View> {
        py.detach(|| self.look_at_lengths()).or_raise(py)?;
        let (store, range) = self.inner.index().lengths_place();
        Ok(View::new(store.clone(), range))
    }

    /// Letters `start` to `end` of a row as str.
    #[pyo3(signature = (row, start=0, end=None))]
    fn fetch<'py>(&self, py: Python<'py>, row: u64, start: u64, end: Option<u64>) -> PyResult<Bound<'py, PyString>> {
        let end = end.unwrap_or(u64::MAX);
        let read = || self.inner.window(row, start, end);
        let is_short = |index: &Sidx| Ok(index.lengths().get(row as usize).is_none_or(|&n| n <= MANY_LETTERS));
        let few = end.saturating_sub(start) <= MANY_LETTERS || self.look(py, is_short)?;
        let letters = if few { read() } else { py.detach(read) }.or_raise(py)?;
        text(py, &letters)
    }

    /// Letters `start` to `end` of the record with this id as str; None if there is none.
    #[pyo3(signature = (id, start=0, end=None))]
    fn fetch_id<'py>(
        &self,
        py: Python<'py>,
        id: &str,
        start: u64,
        end: Option<u64>,
    ) -> PyResult<Option<Bound<'py, PyString>>> {
        let row = self.look(py, |index| index.find(id))?;
        row.map(|row| self.fetch(py, row, start, end)).transpose()
    }

    /// The rows of many ids; -1 for those that no record has.
    fn find_many<'py>(&self, py: Python<'py>, ids: Vec<PyBackedStr>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let rows = py.detach(|| {
            self.inner.check_unchanged()?;
            let find = |id: &PyBackedStr| Ok(self.inner.index().find(id)?.map_or(-1, u64::cast_signed));
            ids.iter().map(find).collect::<Result<Vec<i64>>>()
        });
        Ok(PyArray1::from_vec(py, rows.map_err(|e| e.in_file(self.inner.index_path())).or_raise(py)?))
    }

    /// All letters of many rows as a list of str, in the order asked.
    fn fetch_many<'py>(&self, py: Python<'py>, rows: PyReadonlyArray1<'py, i64>) -> PyResult<Bound<'py, PyList>> {
        let wanted = Wanted { rows, starts: None, lengths: None, reverse: None, max_length: None };
        let requests = wanted.requests(py, self.inner.len())?;
        let (letters, starts) = py.detach(|| self.inner.windows(&requests)).or_raise(py)?;
        texts(py, &letters, &starts)
    }

    /// Rows or windows as arrays; see `seekset.Fasta.gather` and `gather_windows`.
    #[pyo3(signature = (rows, *, starts=None, lengths=None, reverse=None, max_length=None, columns=None, table=None,
                        one_hot=None, unknown=0.0, dtype="uint8", specials=true, pad=None, out=None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments, spelled out once for the Python layer")]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray1<'py, i64>,
        starts: Option<PyReadonlyArray1<'py, i64>>,
        lengths: Option<PyReadonlyArray1<'py, i64>>,
        reverse: Option<PyReadonlyArray1<'py, bool>>,
        max_length: Option<u64>,
        columns: Option<usize>,
        table: Option<&TokenTable>,
        one_hot: Option<&str>,
        unknown: f32,
        dtype: &str,
        specials: bool,
        pad: Option<i32>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>)> {
        let wanted = Wanted { rows, starts, lengths, reverse, max_length };
        let requests = wanted.requests(py, self.inner.len())?;
        drop(wanted);
        let table = table.map(|table| &table.inner);
        let encoding = Encoding { table, one_hot, unknown, dtype, specials, pad };
        let shape = columns.map_or(Shape::Ragged, Shape::Rows);
        gather::gather(py, &self.inner, &requests, shape, &encoding, out)
    }

    /// The reverse complement of letters `start` to `end` of a row.
    fn fetch_reverse_complement<'py>(
        &self,
        py: Python<'py>,
        row: u64,
        start: u64,
        end: u64,
    ) -> PyResult<Bound<'py, PyString>> {
        let request = Request { row, start, letters: end.saturating_sub(start), reverse: true };
        let read = || self.inner.windows(&[request]).map(|(letters, _)| letters);
        let letters = py.detach(read).or_raise(py)?;
        text(py, &letters)
    }
}

/// One str for each of the texts that start here.
pub fn texts<'py>(py: Python<'py>, letters: &[u8], starts: &[i64]) -> PyResult<Bound<'py, PyList>> {
    let texts = starts.windows(2).map(|span| text(py, &letters[span[0] as usize..span[1] as usize]));
    PyList::new(py, texts.collect::<PyResult<Vec<_>>>()?)
}

pub fn text<'py>(py: Python<'py>, letters: &[u8]) -> PyResult<Bound<'py, PyString>> {
    // The scan let only ASCII pass; a file changed behind our back may hold anything.
    let letters = std::str::from_utf8(letters)
        .map_err(|_| PyValueError::new_err("the sequence holds bytes that are not ASCII"))?;
    if letters.len() <= SURELY_FITS {
        return Ok(PyString::new(py, letters));
    }
    // PyO3 takes it for granted that there is memory for a str, too.
    Ok(bytes(py, letters.as_bytes())?.call_method1("decode", ("ascii",))?.cast_into()?)
}

/// Writes the `.fai` of a FASTA file; returns its path, how many records were left out, and what is odd about the file.
#[pyfunction]
#[pyo3(signature = (path, out=None, like_samtools=false, progress=None))]
pub fn faidx(
    py: Python<'_>,
    path: PathBuf,
    out: Option<PathBuf>,
    like_samtools: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(PathBuf, u64, Option<String>)> {
    let write = |watch: &dyn Watch| seekset_core::fasta::faidx(&path, out.as_deref(), like_samtools, watch);
    let FaiReport { path, left_out, remark } = watched(py, progress.as_ref(), write)?;
    Ok((path, left_out, remark))
}

/// Name, length, offset, letters per line, bytes per line.
type FaiTuple = (String, u64, u64, u64, u64);

/// Reads a `.fai` as a list of (name, length, offset, letters per line, bytes per line).
#[pyfunction]
pub fn read_fai(py: Python<'_>, path: PathBuf) -> PyResult<Vec<FaiTuple>> {
    let read = || {
        let text = std::fs::read(&path).map_err(|e| seekset_core::Error::io(&path, e))?;
        seekset_core::index::fai::read(&text).map_err(|e| e.in_file(&path))
    };
    let entries = py.detach(read).or_raise(py)?;
    Ok(entries.into_iter().map(|e| (e.name, e.length, e.offset, e.line_bases, e.line_bytes)).collect())
}

/// The reverse complement of a text, by the IUPAC codes, in both cases.
#[pyfunction]
pub fn reverse_complement<'py>(py: Python<'py>, letters: &str) -> PyResult<Bound<'py, PyString>> {
    if !letters.is_ascii() {
        return Err(PyTypeError::new_err("a sequence is ASCII text"));
    }
    let reversed: Vec<u8> = letters.bytes().rev().map(|b| COMPLEMENT[usize::from(b)]).collect();
    text(py, &reversed)
}

/// Sets how many threads scans and gathers use; 0 asks `SEEKSET_THREADS` or takes one per core.
#[pyfunction]
pub fn set_threads(threads: isize) -> PyResult<()> {
    let Ok(threads) = usize::try_from(threads) else {
        return Err(PyValueError::new_err(format!("threads must not be negative, but are {threads}")));
    };
    core_threads::set_threads(threads);
    Ok(())
}

/// How many threads scans and gathers use.
#[pyfunction]
pub fn threads() -> usize {
    core_threads::threads()
}
