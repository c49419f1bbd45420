//! `TokenTable` in Python.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use seekset_core::gather::TokenTable as Table;

use crate::errors::OrRaise;

/// From letters to token ids: an id for each letter, ids that stand for no letter, and what goes around a record.
#[pyclass(frozen, eq, module = "seekset._core")]
#[derive(PartialEq)]
pub struct TokenTable {
    pub inner: Table,
    letters: BTreeMap<String, i32>,
    fold_case: bool,
}

#[pymethods]
impl TokenTable {
    #[new]
    #[pyo3(signature = (letters, *, specials=None, prefix=vec![], suffix=vec![], fold_case=false, name="custom".to_owned()))]
    fn new(
        py: Python<'_>,
        letters: BTreeMap<String, i32>,
        specials: Option<BTreeMap<String, i32>>,
        prefix: Vec<i32>,
        suffix: Vec<i32>,
        fold_case: bool,
        name: String,
    ) -> PyResult<Self> {
        let mut known = Vec::new();
        for (letter, &id) in &letters {
            match letter.as_bytes() {
                [byte] if byte.is_ascii_graphic() => known.push((*byte, id)),
                _ => {
                    return Err(PyValueError::new_err(format!(
                        "a letter is one printable ASCII character, not {letter:?}"
                    )));
                }
            }
        }
        let specials = specials.unwrap_or_default();
        if let Some(id) = specials.values().chain(&prefix).chain(&suffix).find(|&&id| id < 0) {
            return Err(PyValueError::new_err(format!("token ids are not negative, but a special one is {id}")));
        }
        let mut inner = Table::new(&name, known).or_raise(py)?.with_specials(specials).with_ends(prefix, suffix);
        if fold_case {
            inner = inner.with_case_folded();
        }
        Ok(Self { inner, letters, fold_case })
    }

    /// A table that comes with seekset: "esm", "dna", "nucleotide" or "bytes".
    #[staticmethod]
    fn named(py: Python<'_>, name: &str) -> PyResult<Self> {
        Ok(Self { inner: Table::named(name).or_raise(py)?, letters: BTreeMap::new(), fold_case: false })
    }

    /// The table's name.
    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// Ids that stand for no letter, by name.
    #[getter]
    fn specials(&self) -> BTreeMap<String, i32> {
        self.inner.specials().clone()
    }

    /// What padding is filled with, if the table has an id for it.
    #[getter]
    fn pad(&self) -> Option<i32> {
        self.inner.pad()
    }

    /// The id of letters the table does not know; without one they are errors.
    #[getter]
    fn unk(&self) -> Option<i32> {
        self.inner.special("unk")
    }

    /// Ids put before every record.
    #[getter]
    fn prefix(&self) -> Vec<i32> {
        self.inner.prefix().to_vec()
    }

    /// Ids put after every record.
    #[getter]
    fn suffix(&self) -> Vec<i32> {
        self.inner.suffix().to_vec()
    }

    /// The largest id that can come out of the table.
    #[getter]
    fn largest(&self) -> i32 {
        self.inner.largest()
    }

    /// The id of one letter; `KeyError` if the table has none for it.
    fn __getitem__(&self, letter: &str) -> PyResult<i32> {
        let [byte] = letter.as_bytes() else { return Err(PyTypeError::new_err("a letter is one ASCII character")) };
        let missing = || pyo3::exceptions::PyKeyError::new_err(letter.to_owned());
        self.inner.id(*byte).ok_or_else(missing)
    }

    /// The ids of a text, without prefix and suffix.
    fn encode(&self, text: &str) -> PyResult<Vec<i32>> {
        let id = |(at, byte): (usize, u8)| {
            let message =
                || format!("position {at}: '{}' is not in token table '{}'", char::from(byte), self.inner.name());
            self.inner.id(byte).ok_or_else(|| PyValueError::new_err(message()))
        };
        text.bytes().enumerate().map(id).collect()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let class = py.get_type::<Self>();
        if self.letters.is_empty() && Table::named(self.name()).is_ok_and(|table| table == self.inner) {
            return Ok((class.getattr("named")?, PyTuple::new(py, [self.name()])?));
        }
        let kwargs = PyDict::new(py);
        kwargs.set_item("specials", self.specials())?;
        kwargs.set_item("prefix", self.prefix())?;
        kwargs.set_item("suffix", self.suffix())?;
        kwargs.set_item("fold_case", self.fold_case)?;
        kwargs.set_item("name", self.name())?;
        let partial = py.import("functools")?.getattr("partial")?.call((class,), Some(&kwargs))?;
        Ok((partial, PyTuple::new(py, [&self.letters])?))
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.inner.name(), self.inner.prefix(), self.inner.suffix(), self.inner.specials()).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("TokenTable({:?})", self.inner.name())
    }
}
