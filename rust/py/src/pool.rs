//! Mixed pools in Python: the plan of one, the pool itself, and packing for it.

use numpy::{PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use seekset_core::plan;
use seekset_core::plan::mixing::{Row, Rules};
use seekset_core::plan::schedule::{Schedule, Stop};
use seekset_core::pool::{self, Block, packed};

use crate::bytes::bytes;
use crate::errors::OrRaise;

/// Stretches and rows in them.
type Order<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

/// Slots, readings and rows.
type Slots<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

fn stop(name: &str) -> PyResult<Stop> {
    match name {
        "first_exhausted" => Ok(Stop::First),
        "all_exhausted" => Ok(Stop::All),
        "cycle_until_all_exhausted" => Ok(Stop::Cycle),
        _ => Err(PyValueError::new_err(format!(
            "stop must be \"first_exhausted\", \"all_exhausted\" or \"cycle_until_all_exhausted\", not \"{name}\""
        ))),
    }
}

fn array(py: Python<'_>, numbers: impl Iterator<Item = u32>) -> Bound<'_, PyArray1<i64>> {
    PyArray1::from_vec(py, numbers.map(i64::from).collect())
}

fn slots<'py>(py: Python<'py>, rows: &[Row]) -> Slots<'py> {
    let column = |value: fn(&Row) -> u32| array(py, rows.iter().map(value));
    (column(|row| row.slot), column(|row| row.reading), column(|row| row.row))
}

/// How many turns sources of so many rows take in an epoch.
#[pyfunction]
#[pyo3(signature = (rows, weights=None, stop="all_exhausted"))]
pub fn count_turns(py: Python<'_>, rows: Vec<u64>, weights: Option<Vec<u64>>, stop: &str) -> PyResult<u64> {
    let stop = self::stop(stop)?;
    py.detach(|| Schedule::total(&rows, weights.as_deref(), stop)).or_raise(py)
}

/// The sources whose turns they are, from one turn on to before another.
#[pyfunction]
#[pyo3(signature = (rows, start, end, weights=None, stop="all_exhausted"))]
pub fn turns<'py>(
    py: Python<'py>,
    rows: Vec<u64>,
    start: usize,
    end: usize,
    weights: Option<Vec<u64>>,
    stop: &str,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let stop = self::stop(stop)?;
    let turns = |schedule: Schedule| {
        let wanted = schedule.skip(start).take(end.saturating_sub(start));
        wanted.map(|source| source as i64).collect()
    };
    let found = py.detach(|| Schedule::new(&rows, weights.as_deref(), stop).map(turns)).or_raise(py)?;
    Ok(PyArray1::from_vec(py, found))
}

/// The bytes that a packed row of so many takes in a pool.
#[pyfunction]
pub fn pooled_row_bytes(packed: usize) -> usize {
    pool::MixedPool::cost(packed)
}

/// Which row follows which in a mixed pool. It is a pure function of its arguments; no row is looked at.
#[pyclass(module = "seekset._core")]
pub struct Mixing {
    inner: plan::Mixing,
}

#[pymethods]
impl Mixing {
    #[new]
    #[allow(clippy::too_many_arguments, reason = "keywords, in Python")]
    #[pyo3(signature = (sources, *, weights=None, pool_rows, threshold, open_shards=1, stop="all_exhausted", key=0))]
    fn new(
        py: Python<'_>,
        sources: Vec<Vec<u32>>,
        weights: Option<Vec<u64>>,
        pool_rows: u64,
        threshold: u64,
        open_shards: usize,
        stop: &str,
        key: u64,
    ) -> PyResult<Self> {
        let rules = Rules { pool_rows, threshold, open: open_shards, stop: self::stop(stop)?, key };
        Ok(Self { inner: plan::Mixing::new(&sources, weights.as_deref(), rules).or_raise(py)? })
    }

    /// How many rows have been drawn.
    #[getter]
    fn drawn(&self) -> u64 {
        self.inner.drawn()
    }

    /// How many rows are pooled.
    #[getter]
    fn held(&self) -> u64 {
        self.inner.held()
    }

    /// Draw rows as if all were loaded, and say which: their stretches and the rows in these. Fewer at the end.
    fn order<'py>(&mut self, py: Python<'py>, count: usize) -> Order<'py> {
        let inner = &mut self.inner;
        let (stretches, rows) = py.detach(|| {
            // Orders have millions of rows, and vectors that grow to that size are copied again and again.
            let at_once = count.min(1 << 24);
            let (mut stretches, mut rows) = (Vec::with_capacity(at_once), Vec::with_capacity(at_once));
            while rows.len() < count
                && let Some(row) = inner.draw_next()
            {
                stretches.push(i64::from(inner.stretch(row.reading)));
                rows.push(i64::from(row.row));
            }
            (stretches, rows)
        });
        (PyArray1::from_vec(py, stretches), PyArray1::from_vec(py, rows))
    }

    /// Draw rows as if all were loaded, without saying which. Gives how many; fewer at the end.
    fn skip(&mut self, py: Python<'_>, count: usize) -> usize {
        let inner = &mut self.inner;
        py.detach(|| (0..count).take_while(|_| inner.draw_next().is_some()).count())
    }

    /// Load all that must be before rows can be drawn: slots, readings and rows.
    fn load<'py>(&mut self, py: Python<'py>) -> Slots<'py> {
        let mut rows = Vec::new();
        while let Some(row) = self.inner.to_load() {
            rows.push(row);
            self.inner.loaded();
        }
        slots(py, &rows)
    }

    /// Draw rows until some must be loaded: slots, readings and rows. Their slots are free from then on.
    fn draw<'py>(&mut self, py: Python<'py>, count: usize) -> Slots<'py> {
        let rows: Vec<Row> = std::iter::from_fn(|| self.inner.draw()).take(count).collect();
        slots(py, &rows)
    }

    /// What is pooled: slots, readings and rows.
    fn pooled<'py>(&self, py: Python<'py>) -> Slots<'py> {
        slots(py, &self.inner.pooled().collect::<Vec<_>>())
    }

    /// The stretch that a reading is of.
    fn stretch(&self, reading: u32) -> PyResult<u32> {
        self.inner.rows(reading).map(|_| self.inner.stretch(reading)).ok_or_else(|| unknown(reading))
    }

    /// Whether rows of a reading are still to be loaded.
    fn is_open(&self, reading: u32) -> bool {
        self.inner.first_unloaded(reading).is_some()
    }

    /// The readings that are needed at once where a pool begins, in the middle of an epoch too.
    fn resume(&mut self) -> Vec<u32> {
        self.inner.resume()
    }

    /// The reading that is opened next, of those that were not told of before.
    fn next_reading(&mut self) -> Option<u32> {
        self.inner.next_reading()
    }
}

fn unknown(reading: u32) -> PyErr {
    PyValueError::new_err(format!("there is no reading {reading} yet"))
}

/// A mixed pool of packed rows. It begins where a plan is, which it copies.
#[pyclass(module = "seekset._core")]
pub struct MixedPool {
    inner: pool::MixedPool,
}

/// Stretches, readings and rows of what was drawn, and a reading that is missing.
type Filled<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Option<u32>);

#[pymethods]
impl MixedPool {
    /// Fields are the bytes of a value, the number of values in a row, and whether they are floats.
    #[new]
    fn new(py: Python<'_>, mixing: &Mixing, fields: Vec<(usize, usize, bool)>) -> PyResult<Self> {
        let fields = fields.into_iter().map(|(width, values, float)| packed::Field::new(width, values, float));
        let fields = fields.collect::<Result<Vec<_>, _>>().or_raise(py)?;
        Ok(Self { inner: pool::MixedPool::new(mixing.inner.clone(), fields).or_raise(py)? })
    }

    /// Hand over the packed rows of a reading, and where each ends.
    fn provide(
        &mut self,
        py: Python<'_>,
        reading: u32,
        content: PyBackedBytes,
        ends: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<()> {
        let block = Block::new(Box::new(content), ends.as_slice()?.to_vec()).or_raise(py)?;
        let inner = &mut self.inner;
        py.detach(|| inner.provide(reading, block)).or_raise(py)
    }

    /// Draw up to so many rows and unpack them into arrays of bytes, one for each field.
    fn fill<'py>(
        &mut self,
        py: Python<'py>,
        count: usize,
        mut out: Vec<PyReadwriteArray1<'py, u8>>,
    ) -> PyResult<Filled<'py>> {
        let mut room = Vec::with_capacity(out.len());
        for array in &mut out {
            room.push(array.as_slice_mut()?);
        }
        let inner = &mut self.inner;
        let filled = py.detach(|| inner.fill(count, &mut room)).or_raise(py)?;
        let stretches = filled.rows.iter().map(|row| self.inner.mixing().stretch(row.reading)).collect::<Vec<_>>();
        let column = |value: fn(&Row) -> u32| array(py, filled.rows.iter().map(value));
        Ok((array(py, stretches.into_iter()), column(|row| row.reading), column(|row| row.row), filled.missing))
    }

    /// The readings that are needed at once where it begins.
    fn resume(&mut self) -> Vec<u32> {
        self.inner.mixing().resume()
    }

    /// The reading that is opened next, of those that were not told of before.
    fn next_reading(&mut self) -> Option<u32> {
        self.inner.mixing().next_reading()
    }

    /// The stretch that a reading is of.
    fn stretch(&mut self, reading: u32) -> PyResult<u32> {
        let mixing = self.inner.mixing();
        mixing.rows(reading).map(|_| mixing.stretch(reading)).ok_or_else(|| unknown(reading))
    }

    /// Whether rows of a reading are still to be pooled.
    fn is_open(&mut self, reading: u32) -> bool {
        self.inner.mixing().first_unloaded(reading).is_some()
    }

    /// How many rows are pooled.
    #[getter]
    fn held(&mut self) -> u64 {
        self.inner.mixing().held()
    }

    /// The bytes of rows, pooled and waiting to be; those asked for to hold them; and of the rows, those that wait.
    #[getter]
    fn bytes(&self) -> (usize, usize, usize) {
        let bytes = self.inner.bytes();
        (bytes.rows, bytes.allocated, bytes.waiting)
    }
}

/// Pack rows of fixed-shape columns, numpy arrays whose first axis is the row, in as few bytes as hold them exactly.
///
/// Gives the packed rows one after another, and where each ends.
#[pyfunction]
pub fn pack_rows<'py>(
    py: Python<'py>,
    arrays: Vec<Bound<'py, PyAny>>,
    rows: usize,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyArray1<u64>>)> {
    let (mut fields, mut flat) = (Vec::new(), Vec::new());
    for array in &arrays {
        let dtype = array.getattr("dtype")?;
        let width: usize = dtype.getattr("itemsize")?.extract()?;
        let is_float = dtype.getattr("kind")?.extract::<String>()? == "f";
        let size: usize = array.getattr("size")?.extract()?;
        fields.push(packed::Field::new(width, size.checked_div(rows).unwrap_or(0), is_float).or_raise(py)?);
        flat.push(
            array.call_method1("reshape", (-1,))?.call_method1("view", ("u1",))?.extract::<PyReadonlyArray1<u8>>()?,
        );
    }
    let columns = flat.iter().map(|column| column.as_slice()).collect::<Result<Vec<_>, _>>()?;
    let (content, ends) = py.detach(|| pool::pack_rows(&fields, &columns, rows)).or_raise(py)?;
    Ok((bytes(py, &content)?, PyArray1::from_vec(py, ends)))
}
