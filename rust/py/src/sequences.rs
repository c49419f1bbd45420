//! `SequenceIndex` in Python, as thin as it goes: seekset/sequences.py gives it its manners.

use std::path::PathBuf;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyList;
use seekset_core::gather::Kernel;
use seekset_core::plan::Request;
use seekset_core::sequences::{CreateOptions, Resolved, SequenceIndex as Core};
use seekset_core::{Error, Result};

use crate::batch::positions;
use crate::errors::OrRaise;
use crate::fasta::{texts, told};
use crate::gather::{Encoding, Letters, Shape, Wanted, empty, encode};
use crate::table::TokenTable;
use crate::view::View;
use crate::watch::watched;

/// An open index over many FASTA files.
#[pyclass(frozen, module = "seekset._core")]
pub struct SequenceIndex {
    inner: Core,
}

/// Letters of many files.
struct OfIndex<'a> {
    index: &'a Core,
    resolved: Resolved,
}

impl Letters for OfIndex<'_> {
    fn letters(&self) -> &[u64] {
        self.resolved.letters()
    }

    fn gather<K: Kernel>(&self, kernel: &K, slots: Vec<&mut [K::Out]>) -> Result<()> {
        self.index.gather(&self.resolved, kernel, slots)
    }
}

/// Token ids, where each sequence starts and ends, the place of each token in its sequence, ids, the longest.
type Packed<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyList>, i64);

/// Token ids, one row each; which of them are no padding; ids.
type Padded<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyList>);

impl SequenceIndex {
    /// Reads from the index alone, which must still be what it was at open.
    fn look<'a, T>(&'a self, py: Python<'_>, read: impl FnOnce(&'a Core) -> Result<T>) -> PyResult<T> {
        self.inner.check_now_and_then().and_then(|()| read(&self.inner)).map_err(|e| self.inner.named(e)).or_raise(py)
    }

    fn resolve(&self, py: Python<'_>, requests: &[Request]) -> PyResult<OfIndex<'_>> {
        let resolved = py.detach(|| self.inner.resolve(requests)).or_raise(py)?;
        Ok(OfIndex { index: &self.inner, resolved })
    }

    fn ids_of<'py>(&self, py: Python<'py>, rows: impl Iterator<Item = u64>) -> PyResult<Bound<'py, PyList>> {
        let ids = self.look(py, |core| rows.map(|row| core.sequences().id(row)).collect::<Result<Vec<_>>>())?;
        PyList::new(py, ids)
    }

    fn view(&self, range: std::ops::Range<usize>) -> View {
        View::new(self.inner.sequences().store().clone(), range)
    }

    /// A view of a column of numbers, which were compared with their checksums once.
    fn checked_view(&self, py: Python<'_>, range: std::ops::Range<usize>) -> PyResult<View> {
        py.detach(|| self.inner.check_numbers()).or_raise(py)?;
        Ok(self.view(range))
    }
}

#[pymethods]
impl SequenceIndex {
    /// Opens an index in either form.
    #[staticmethod]
    #[pyo3(signature = (path, *, progress=None))]
    fn open(py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        Ok(Self { inner: watched(py, progress.as_ref(), |watch| Core::open(&path, watch))? })
    }

    /// The index of these files, made unless the one at `path` fits; in memory if there is no path.
    #[staticmethod]
    #[pyo3(signature = (files, path=None, *, unique=false, force=false, progress=None))]
    fn create(
        py: Python<'_>,
        files: Vec<PathBuf>,
        path: Option<PathBuf>,
        unique: bool,
        force: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let options = CreateOptions { force, unique };
        let make = |watch: &dyn seekset_core::watch::Watch| Core::create(&files, path.as_deref(), &options, watch);
        Ok(Self { inner: watched(py, progress.as_ref(), make)? })
    }

    /// Writes the index to a path, in the form that its ending asks for.
    #[pyo3(signature = (path, *, progress=None))]
    fn save(&self, py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<()> {
        watched(py, progress.as_ref(), |watch| self.inner.save(&path, watch))
    }

    fn __len__(&self) -> usize {
        self.inner.len() as usize
    }

    /// How the index came about: ("found" | "built" | "memory", why or None).
    #[getter]
    fn origin(&self) -> (&'static str, Option<String>) {
        told(self.inner.origin())
    }

    /// What is odd about the index or its files and no reason not to read them.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.inner.remarks().to_vec()
    }

    /// Where the index is; None if it is in memory.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.inner.path().map(ToOwned::to_owned)
    }

    /// When the index was made.
    #[getter]
    fn created(&self) -> &str {
        &self.inner.sequences().facts().created
    }

    /// The sum of all lengths.
    #[getter]
    fn total_tokens(&self) -> u64 {
        self.inner.sequences().tokens()
    }

    /// The same for the same sequences in the same order.
    #[getter]
    fn fingerprint(&self) -> String {
        format!("{:016x}", self.inner.sequences().fingerprint())
    }

    /// The files, in the order of their numbers.
    fn files(&self) -> Vec<PathBuf> {
        self.inner.files().to_vec()
    }

    /// The modification times of the files when they were indexed, in seconds.
    fn mtimes(&self) -> Vec<f64> {
        self.inner.sequences().facts().files.iter().map(|file| file.seen.time()).collect()
    }

    /// Raises an error if a file is missing or not what it was.
    fn check_files(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.check_files()).or_raise(py)
    }

    /// Raises `DuplicateIdError` if an id names two sequences.
    fn refuse_duplicates(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.refuse_duplicates()).or_raise(py)
    }

    /// Reads all of the index and raises `FormatError` where it is damaged.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        let verify = || self.inner.check_unchanged().and_then(|()| self.inner.sequences().verify());
        py.detach(|| verify().map_err(|e| self.inner.named(e))).or_raise(py)
    }

    /// The lengths of all sequences as little-endian u64, without a copy.
    fn lengths(&self, py: Python<'_>) -> PyResult<View> {
        py.detach(|| self.inner.check_lengths()).or_raise(py)?;
        Ok(self.view(self.inner.sequences().lengths_place()))
    }

    /// The rows of all sequences in their files as little-endian u64, all bits set where one is not known.
    fn rows(&self, py: Python<'_>) -> PyResult<View> {
        self.checked_view(py, self.inner.sequences().rows_place())
    }

    /// The number of each sequence's file as little-endian u32.
    fn file_numbers(&self, py: Python<'_>) -> PyResult<View> {
        self.checked_view(py, self.inner.sequences().files_place())
    }

    /// Where the `>` of each sequence stands as little-endian u64.
    fn byte_offsets(&self, py: Python<'_>) -> PyResult<View> {
        self.checked_view(py, self.inner.sequences().offsets_place())
    }

    /// A sequence: its id, its length, its file and where its `>` stands.
    fn entry(&self, py: Python<'_>, row: u64) -> PyResult<(&str, u64, PathBuf, u64)> {
        self.look(py, |core| {
            let (id, sequence) = (core.sequences().id(row)?, core.sequences().sequence(row)?);
            let path = core.files().get(sequence.file as usize).cloned().unwrap_or_default();
            Ok((id, sequence.length, path, sequence.byte_offset))
        })
    }

    /// The ids of many sequences.
    fn ids<'py>(&self, py: Python<'py>, rows: PyReadonlyArray1<'py, i64>) -> PyResult<Bound<'py, PyList>> {
        self.ids_of(py, rows.as_slice()?.iter().map(|&row| row as u64))
    }

    /// The letters of many sequences as a list of str, in the order asked.
    #[pyo3(signature = (rows, *, starts=None, lengths=None, max_length=None))]
    fn fetch_many<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray1<'py, i64>,
        starts: Option<PyReadonlyArray1<'py, i64>>,
        lengths: Option<PyReadonlyArray1<'py, i64>>,
        max_length: Option<u64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let wanted = Wanted { rows, starts, lengths, reverse: None, max_length };
        let requests = wanted.requests(py, self.inner.len())?;
        let (letters, starts) = py.detach(|| self.inner.windows(&requests)).or_raise(py)?;
        texts(py, &letters, &starts)
    }

    /// Token ids of many sequences, one after another, and what goes with them.
    #[pyo3(signature = (rows, table, *, starts=None, lengths=None, max_length=None, specials=true, dtype="int64"))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments, spelled out once for the Python layer")]
    fn packed<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray1<'py, i64>,
        table: &TokenTable,
        starts: Option<PyReadonlyArray1<'py, i64>>,
        lengths: Option<PyReadonlyArray1<'py, i64>>,
        max_length: Option<u64>,
        specials: bool,
        dtype: &str,
    ) -> PyResult<Packed<'py>> {
        let wanted = Wanted { rows, starts, lengths, reverse: None, max_length };
        let requests = wanted.requests(py, self.inner.len())?;
        drop(wanted);
        let letters = self.resolve(py, &requests)?;
        let around = if specials { table.inner.prefix().len() + table.inner.suffix().len() } else { 0 };
        let ends = cumulative(letters.letters(), around).or_raise(py)?;
        let encoding = tokens(table, specials, dtype);
        let (values, _) = encode(py, &letters, Shape::Ragged, &encoding, None)?;
        let longest = ends.windows(2).map(|span| i64::from(span[1] - span[0])).max().unwrap_or(0);
        let positions = py.detach(|| positions(&ends)).or_raise(py)?;
        let ids = self.ids_of(py, requests.iter().map(|request| request.row))?;
        Ok((values, PyArray1::from_vec(py, ends), PyArray1::from_vec(py, positions), ids, longest))
    }

    /// Token ids of many sequences, one row each, filled up with the table's padding.
    #[pyo3(signature = (rows, table, *, starts=None, lengths=None, max_length=None, columns=None, specials=true,
                        dtype="int64"))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments, spelled out once for the Python layer")]
    fn padded<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray1<'py, i64>,
        table: &TokenTable,
        starts: Option<PyReadonlyArray1<'py, i64>>,
        lengths: Option<PyReadonlyArray1<'py, i64>>,
        max_length: Option<u64>,
        columns: Option<usize>,
        specials: bool,
        dtype: &str,
    ) -> PyResult<Padded<'py>> {
        let wanted = Wanted { rows, starts, lengths, reverse: None, max_length };
        let requests = wanted.requests(py, self.inner.len())?;
        drop(wanted);
        let letters = self.resolve(py, &requests)?;
        refuse_unpadded(table).or_raise(py)?;
        let around = if specials { table.inner.prefix().len() + table.inner.suffix().len() } else { 0 };
        let needed = letters.letters().iter().max().map_or(0, |&most| most as usize + around);
        let columns = columns.unwrap_or(needed);
        let (values, _) = encode(py, &letters, Shape::Rows(columns), &tokens(table, specials, dtype), None)?;
        let mask = empty::<i64>(py, &[requests.len(), columns])?;
        let mut room: numpy::PyReadwriteArray2<'_, i64> = mask.extract()?;
        for (row, &letters) in room.as_slice_mut()?.chunks_exact_mut(columns.max(1)).zip(letters.letters()) {
            let (real, padding) = row.split_at_mut(letters as usize + around);
            real.fill(1);
            padding.fill(0);
        }
        drop(room);
        Ok((values, mask, self.ids_of(py, requests.iter().map(|request| request.row))?))
    }
}

/// An error if a table has nothing to fill rows up with.
fn refuse_unpadded(table: &TokenTable) -> Result<()> {
    if table.inner.pad().is_some() {
        return Ok(());
    }
    let name = table.inner.name();
    let message =
        format!("token table '{name}' has no pad id, and padded rows need one; make it with specials={{\"pad\": id}}");
    Err(Error::Mismatch(message))
}

fn tokens<'a>(table: &'a TokenTable, specials: bool, dtype: &'a str) -> Encoding<'a> {
    Encoding { table: Some(&table.inner), one_hot: None, unknown: 0.0, dtype, specials, pad: None }
}

/// Where each sequence starts and the last one ends, in the numbers that attention kernels take.
fn cumulative(letters: &[u64], around: usize) -> Result<Vec<i32>> {
    let mut end = 0_u64;
    let mut ends = vec![0];
    for &letters in letters {
        end = end.saturating_add(letters).saturating_add(around as u64);
        ends.push(i32::try_from(end).map_err(|_| {
            let message = "a packed batch has at most 2147483647 tokens, because cu_seqlens is int32, but these rows \
                           have more; ask for fewer";
            Error::Mismatch(message.to_owned())
        })?);
    }
    Ok(ends)
}
