//! `Plan` and `BalancedOrder` in Python, as thin as it goes: seekset/plan.py gives the plan its manners.

use std::path::PathBuf;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use seekset_core::index::PlanFile;
use seekset_core::index::plan_file::{PlannedBatch, fingerprint_of};
use seekset_core::plan::packing::{self, Overflow, Rules};
use seekset_core::{Result, plan, plans};

use crate::errors::OrRaise;
use crate::permutation::from_front;
use crate::view::View;

/// Rows, starts and lengths of the pieces of a batch.
type Pieces<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

/// A packing plan, in memory or mapped from a file.
#[pyclass(frozen, module = "seekset._core")]
pub struct Plan {
    inner: PlanFile,
}

#[pymethods]
impl Plan {
    /// Packs sequences of these lengths. The fingerprint is that of the lengths unless given.
    #[staticmethod]
    #[pyo3(signature = (lengths, *, max_tokens, max_length=None, specials=0, overflow="truncate", overlap=0, layout="packed", fingerprint=None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of a Python constructor")]
    fn pack(
        py: Python<'_>,
        lengths: PyReadonlyArray1<'_, u64>,
        max_tokens: u64,
        max_length: Option<u64>,
        specials: u64,
        overflow: &str,
        overlap: u64,
        layout: &str,
        fingerprint: Option<String>,
    ) -> PyResult<Self> {
        let overflow = Overflow::named(overflow, overlap).or_raise(py)?;
        let rules = Rules { max_tokens, max_length, specials, overflow, layout: layout.parse().or_raise(py)? };
        let lengths = lengths.as_slice()?;
        let pack = || {
            let packing = plan::pack(lengths, rules)?;
            PlanFile::of(&packing, &fingerprint.unwrap_or_else(|| fingerprint_of(lengths)))
        };
        Ok(Self { inner: py.detach(pack).or_raise(py)? })
    }

    /// Opens a plan in a file, in constant time.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Self { inner: py.detach(|| plans::open(&path)).or_raise(py)? })
    }

    /// The fingerprint of an index that has none but its lengths.
    #[staticmethod]
    fn fingerprint_of(py: Python<'_>, lengths: PyReadonlyArray1<'_, u64>) -> PyResult<String> {
        let lengths = lengths.as_slice()?;
        Ok(py.detach(|| fingerprint_of(lengths)))
    }

    /// Raises `MismatchError` unless lengths descend, which `repacked` relies on.
    #[staticmethod]
    fn check_descending(py: Python<'_>, lengths: PyReadonlyArray1<'_, u64>) -> PyResult<()> {
        let lengths = lengths.as_slice()?;
        py.detach(|| packing::check_descending(lengths)).or_raise(py)
    }

    /// Writes the plan to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| plans::save(&self.inner, &path)).or_raise(py)
    }

    fn __len__(&self) -> usize {
        self.inner.len() as usize
    }

    /// Rows, starts and lengths of a batch; compared with the lengths of the index, if they are given.
    #[pyo3(signature = (number, lengths=None))]
    fn batch<'py>(
        &self,
        py: Python<'py>,
        number: u64,
        lengths: Option<PyReadonlyArray1<'py, u64>>,
    ) -> PyResult<Pieces<'py>> {
        let lengths = lengths.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let batch = self.compared(number, lengths).or_raise(py)?;
        Ok(columns(py, batch.rows.iter().map(|&row| row.into()).collect(), &batch))
    }

    /// A batch as `batch` gives it, in which sequences of equal length have changed places. Lengths must descend.
    fn repacked<'py>(
        &self,
        py: Python<'py>,
        number: u64,
        lengths: PyReadonlyArray1<'py, u64>,
        seed: u64,
        epoch: u64,
    ) -> PyResult<Pieces<'py>> {
        let lengths = lengths.as_slice()?;
        let batch = self.compared(number, Some(lengths)).or_raise(py)?;
        let rules = &self.inner.facts().rules;
        let row = |&row: &u32| packing::repack(row, lengths, rules, seed, epoch).map(i64::from);
        let rows = py.detach(|| batch.rows.iter().map(row).collect::<Result<Vec<i64>>>()).or_raise(py)?;
        Ok(columns(py, rows, &batch))
    }

    /// The tokens of each batch, as a buffer of uint64.
    fn tokens(&self, py: Python<'_>) -> PyResult<View> {
        let (store, place) = self.inner.tokens_place().or_raise(py)?;
        Ok(View::new(store.clone(), place))
    }

    /// Where each batch ends among all pieces, starting with a 0, as a buffer of uint64.
    fn ends(&self, py: Python<'_>) -> PyResult<View> {
        let (store, place) = self.inner.ends_place().or_raise(py)?;
        Ok(View::new(store.clone(), place))
    }

    /// Of which index the plan is.
    #[getter]
    fn fingerprint(&self) -> &str {
        &self.inner.facts().fingerprint
    }

    /// A checksum of all batches.
    #[getter]
    fn digest(&self) -> String {
        format!("{:016x}", self.inner.facts().digest)
    }

    /// How many sequences the index has.
    #[getter]
    fn sequences(&self) -> u64 {
        self.inner.facts().sequences
    }

    /// How many pieces they have become.
    #[getter]
    fn pieces(&self) -> u64 {
        self.inner.facts().pieces
    }

    /// How many sequences were cut.
    #[getter]
    fn truncated(&self) -> u64 {
        self.inner.facts().truncated
    }

    /// Tokens of all batches.
    #[getter]
    fn total_tokens(&self) -> u64 {
        self.inner.facts().tokens
    }

    /// Which part of the batches' capacity is tokens.
    #[getter]
    fn efficiency(&self) -> f64 {
        self.inner.efficiency()
    }

    /// The most tokens of a batch.
    #[getter]
    fn max_tokens(&self) -> u64 {
        self.inner.facts().rules.max_tokens
    }

    /// The most letters of a piece, if there is a most.
    #[getter]
    fn max_length(&self) -> Option<u64> {
        self.inner.facts().rules.max_length
    }

    /// Tokens that every piece has beside its letters.
    #[getter]
    fn specials(&self) -> u64 {
        self.inner.facts().rules.specials
    }

    /// What became of sequences longer than allowed: "truncate", "split" or "error".
    #[getter]
    fn overflow(&self) -> String {
        self.inner.facts().rules.overflow.to_string()
    }

    /// Letters that neighbouring pieces share.
    #[getter]
    fn overlap(&self) -> u64 {
        self.inner.facts().rules.overflow.overlap()
    }

    /// "packed" or "padded".
    #[getter]
    fn layout(&self) -> String {
        self.inner.facts().rules.layout.to_string()
    }
}

impl Plan {
    fn compared(&self, number: u64, lengths: Option<&[u64]>) -> Result<PlannedBatch<'_>> {
        let batch = self.inner.batch(number)?;
        if let Some(lengths) = lengths {
            batch.compare(lengths, &self.inner.facts().rules)?;
        }
        Ok(batch)
    }
}

fn columns<'py>(py: Python<'py>, rows: Vec<i64>, batch: &PlannedBatch<'_>) -> Pieces<'py> {
    let starts = batch.starts.iter().map(|&start| start as i64).collect();
    let lengths = batch.lengths.iter().map(|&length| length.into()).collect();
    (PyArray1::from_vec(py, rows), PyArray1::from_vec(py, starts), PyArray1::from_vec(py, lengths))
}

/// An order of batches that are sorted by tokens, in which ranks that take every n-th have about as many tokens each.
#[pyclass(frozen, eq, hash, module = "seekset._core")]
#[derive(PartialEq, Eq, Hash)]
pub struct BalancedOrder {
    inner: plan::BalancedOrder,
    seed: u64,
    epoch: u64,
}

#[pymethods]
impl BalancedOrder {
    #[new]
    #[pyo3(signature = (n, ranks=1, seed=0, epoch=0))]
    fn new(py: Python<'_>, n: u64, ranks: u64, seed: u64, epoch: u64) -> PyResult<Self> {
        Ok(Self { inner: plan::BalancedOrder::new(n, ranks, seed, epoch).or_raise(py)?, seed, epoch })
    }

    fn __len__(&self) -> usize {
        self.inner.len() as usize
    }

    /// The batch at a place of the order, as Python counts.
    fn __getitem__(&self, py: Python<'_>, place: i64) -> PyResult<u64> {
        self.inner.at(from_front(place, self.inner.len(), "batches")?).or_raise(py)
    }

    /// The batches at many places.
    fn take<'py>(&self, py: Python<'py>, places: PyReadonlyArray1<'py, i64>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let places = places.as_slice()?;
        let batches = py.detach(|| self.inner.take(places)).or_raise(py)?;
        Ok(PyArray1::from_vec(py, batches))
    }

    /// The place of a batch in the order.
    fn place_of(&self, py: Python<'_>, batch: u64) -> PyResult<u64> {
        self.inner.place_of(batch).or_raise(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (u64, u64, u64, u64)) {
        (py.get_type::<Self>().into_any(), (self.inner.len(), self.inner.ranks(), self.seed, self.epoch))
    }

    fn __repr__(&self) -> String {
        let (batches, ranks) = (self.inner.len(), self.inner.ranks());
        format!("BalancedOrder({batches}, ranks={ranks}, seed={}, epoch={})", self.seed, self.epoch)
    }
}
