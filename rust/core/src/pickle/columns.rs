//! Examples into columns: a list of dicts becomes one array for each field that holds numbers.
//!
//! The first example says which fields there are, and the first value of a field, what all of them are. A field that is
//! `None` somewhere is zeros there, and a column `has_...` says so. An example that lacks a field, or has it in another
//! shape or dtype, is a bad row, which is zeros in all columns.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::dtype::Dtype;
use super::heap::{Budget, Heap, Span, Value, damaged};
use crate::error::{Error, Result};
use crate::io::room::reserve;

/// A field that may be `None` in any shard, so that all shards have the flag that says where it is not.
const OPTIONAL: &[u8] = b"policy";
/// From halfway to the next power of two on, a float of four bytes would be infinite.
const LARGEST: f64 = f32::MAX as f64 * (1.0 + 1.0 / 33_554_432.0);
/// What is told of a bad row, and what is known of a field, roughly.
const BAD_BYTES: usize = 256;

/// A column of numbers, little-endian and one row after another.
#[derive(Debug, PartialEq, Eq)]
pub struct Column {
    /// UTF-8, in which there may be halves of surrogate pairs.
    pub name: Vec<u8>,
    /// As numpy writes it, such as `<f4`.
    pub dtype: String,
    /// The shape of one row.
    pub shape: Vec<usize>,
    /// The bytes of all rows.
    pub values: Vec<u8>,
}

/// What was found in the place of what was expected.
#[derive(Debug, PartialEq)]
pub enum Found {
    /// Nothing at all.
    Nothing,
    /// A number, or an array of them: dtype and shape.
    Numbers(String, Vec<usize>),
    /// A value of this type.
    Type(&'static str),
    /// An integer of so many bits.
    Integer(usize),
    /// A float that is too large.
    Float(f64),
}

/// A row that is none.
#[derive(Debug, PartialEq)]
pub struct Bad {
    /// Its number.
    pub row: usize,
    /// The number of the column in which it is wrong; none where it is no dict.
    pub column: Option<usize>,
    /// What was found there.
    pub found: Found,
}

/// Examples as columns.
#[derive(Debug)]
pub struct Columns {
    /// How many rows there are.
    pub rows: usize,
    /// Fields in the order of the first example, then flags in that order.
    pub columns: Vec<Column>,
    /// Rows that are wrong, in order.
    pub bad: Vec<Bad>,
    /// Fields that are no numbers.
    pub dropped: Vec<Vec<u8>>,
    /// Fields that are `None` in every row that is not bad, so that nobody knows what they are.
    pub absent: Vec<Vec<u8>>,
}

/// Columns of examples that are dicts; nothing where no field of the first holds numbers.
pub fn stack(heap: &mut Heap<'_>, examples: Value, max_bytes: usize) -> Result<Option<Columns>> {
    let Some(names) = names(heap, examples)? else { return Ok(None) };
    let mut table = Table::new(heap, examples, names)?;
    for field in 0..table.names.len() {
        table.judge(heap, field)?;
    }
    if table.numeric == 0 {
        return Ok(None);
    }
    if table.strange {
        return Err(damaged("the keys of an example are strings of Python's, not of numpy's"));
    }
    table.check_size(max_bytes)?;
    table.check_flags(heap)?;
    let columns = table.columns(heap)?;
    let (absent, dropped) = (table.others(heap, true), table.dropped(heap));
    let mut bad = table.bad;
    bad.sort_by_key(|bad| bad.row);
    Ok(Some(Columns { rows: table.rows, columns, bad, dropped, absent }))
}

/// The fields of the first example, if it is a dict with names as keys.
fn names(heap: &mut Heap<'_>, examples: Value) -> Result<Option<Vec<Span>>> {
    let Some(&Value::Dict(first)) = heap.sequence(examples).first() else { return Ok(None) };
    let entries = heap.dicts[first as usize].len();
    heap.budget.take(entries.saturating_mul(BAD_BYTES))?;
    let mut seen = HashSet::new();
    let mut names = Vec::with_capacity(entries);
    for &(key, _) in &heap.dicts[first as usize] {
        let Value::Text(name) = key else { return Ok(None) };
        if seen.insert(heap.bytes(name)) {
            names.push(name);
        }
    }
    Ok(Some(names))
}

/// What the values of a field are: a dtype, and the shape of all of them.
#[derive(Debug, Clone)]
struct Kind {
    dtype: Dtype,
    shape: Vec<usize>,
}

impl Kind {
    fn row_bytes(&self) -> usize {
        // Checked where arrays are made: they have as many bytes.
        self.shape.iter().product::<usize>() * self.dtype.size
    }
}

#[derive(Debug, Default)]
struct Field {
    kind: Option<Kind>,
    /// Whether a flag says where it is not `None`.
    flagged: bool,
}

/// The values of all fields of all rows.
struct Table {
    rows: usize,
    names: Vec<Span>,
    /// Row after row; nothing where a field is missing.
    cells: Vec<Option<Value>>,
    fields: Vec<Field>,
    /// How many fields are numbers.
    numeric: usize,
    bad: Vec<Bad>,
    is_bad: Vec<bool>,
    /// Names that later rows have, but the first has not.
    more: Vec<Vec<u8>>,
    /// Whether a string of numpy's is a key, which may equal a name.
    strange: bool,
}

impl Table {
    fn new(heap: &mut Heap<'_>, examples: Value, names: Vec<Span>) -> Result<Self> {
        let rows = heap.sequence(examples).len();
        let mut table = Self {
            rows,
            cells: Vec::new(),
            fields: Vec::new(),
            numeric: 0,
            bad: Vec::new(),
            is_bad: Vec::new(),
            more: Vec::new(),
            strange: false,
            names,
        };
        let cells = rows.saturating_mul(table.names.len());
        heap.budget.take(rows)?;
        table.is_bad = vec![false; rows];
        heap.budget.reserve(&mut table.cells, cells)?;
        let mut odd = Vec::new();
        for row in 0..rows {
            let example = heap.sequence(examples)[row];
            let Value::Dict(dict) = example else {
                table.cells.resize(table.cells.len() + table.names.len(), None);
                let found = described(heap, example);
                table.note(&mut heap.budget, Bad { row, column: None, found })?;
                continue;
            };
            if !table.take_alike(heap, dict) {
                table.cells.resize((row + 1) * table.names.len(), None);
                heap.budget.push(&mut odd, (row, dict))?;
            }
        }
        table.take_odd(heap, &odd)?;
        Ok(table)
    }

    /// Takes the values of a row that has the fields of the first, in that order.
    fn take_alike(&mut self, heap: &Heap<'_>, dict: u32) -> bool {
        let entries = &heap.dicts[dict as usize];
        let same = |(key, name): (&Value, &Span)| {
            // A name is mostly that of the first example, by the memo.
            matches!(key, Value::Text(key) if key == name || heap.bytes(*key) == heap.bytes(*name))
        };
        let alike = entries.len() == self.names.len() && entries.iter().map(|(key, _)| key).zip(&self.names).all(same);
        if alike {
            self.cells.extend(entries.iter().map(|&(_, value)| Some(value)));
        }
        alike
    }

    /// Takes the values of rows by their names. Of equal ones, the last counts.
    fn take_odd(&mut self, heap: &mut Heap<'_>, odd: &[(usize, u32)]) -> Result<()> {
        let keys = odd.iter().map(|&(_, dict)| heap.dicts[dict as usize].len()).fold(0, usize::saturating_add);
        heap.budget.take(keys.saturating_mul(BAD_BYTES / 2))?;
        let places: HashMap<&[u8], usize> =
            self.names.iter().enumerate().map(|(place, &name)| (heap.bytes(name), place)).collect();
        let mut more = BTreeSet::new();
        // Where all have as many, none is taken to have others.
        let mut same_length = self.bad.is_empty();
        for &(row, dict) in odd {
            let mut keys = HashSet::new();
            for (place, &(key, value)) in heap.dicts[dict as usize].iter().enumerate() {
                keys.insert(key_of(heap, key, place));
                self.strange |= matches!(key, Value::Scalar(_));
                let Value::Text(name) = key else { continue };
                match places.get(heap.bytes(name)) {
                    Some(place) => self.cells[row * self.names.len() + place] = Some(value),
                    None => {
                        more.insert(heap.bytes(name));
                    }
                }
            }
            same_length &= keys.len() == self.names.len();
        }
        if !same_length {
            self.more = more.into_iter().map(<[u8]>::to_vec).collect();
        }
        Ok(())
    }

    fn note(&mut self, budget: &mut Budget, bad: Bad) -> Result<()> {
        if !std::mem::replace(&mut self.is_bad[bad.row], true) {
            budget.take(BAD_BYTES)?;
            self.bad.push(bad);
        }
        Ok(())
    }

    /// Finds out what a field is, and which rows have something else there.
    fn judge(&mut self, heap: &mut Heap<'_>, field: usize) -> Result<()> {
        let width = self.names.len();
        let (mut first, mut any_none) = (None, false);
        for row in 0..self.rows {
            match self.cells[row * width + field] {
                None => {}
                Some(Value::None) => any_none = true,
                Some(value) => {
                    check_filled(heap, value)?;
                    first = first.or(Some(value));
                }
            }
        }
        let mut judged = Field::default();
        if let Some(kind) = first.and_then(|value| kind_of(heap, value)) {
            let number = self.numeric;
            self.numeric += 1;
            judged.flagged = any_none || heap.bytes(self.names[field]) == OPTIONAL;
            for row in 0..self.rows {
                let cell = self.cells[row * width + field];
                let found = match cell {
                    None => Some(Found::Nothing),
                    Some(Value::None) => None,
                    Some(value) => differs(heap, value, &kind),
                };
                if let Some(found) = found {
                    self.note(&mut heap.budget, Bad { row, column: Some(number), found })?;
                }
            }
            judged.kind = Some(kind);
        }
        self.fields.push(judged);
        Ok(())
    }

    /// A pickle may name one large array in many examples: what it becomes is not bounded by what it takes.
    fn check_size(&self, max_bytes: usize) -> Result<()> {
        let row: u128 = self.fields.iter().filter_map(|field| Some(field.kind.as_ref()?.row_bytes() as u128)).sum();
        let size = row * self.rows as u128;
        if size > max_bytes as u128 {
            return Err(Error::too_large(format!(
                "its columns take {size} bytes, but {max_bytes} are allowed; give the reader a larger max_bytes"
            )));
        }
        Ok(())
    }

    fn check_flags(&self, heap: &Heap<'_>) -> Result<()> {
        let fields = || self.fields.iter().zip(&self.names);
        let names: HashSet<&[u8]> =
            fields().filter(|(field, _)| field.kind.is_some()).map(|(_, &name)| heap.bytes(name)).collect();
        for (_, &name) in fields().filter(|(field, _)| field.flagged) {
            let flag = flag(heap, name);
            if names.contains(&flag[..]) {
                let [name, flag] =
                    [heap.bytes(name), &flag].map(|text| String::from_utf8_lossy(text).escape_debug().to_string());
                return Err(Error::unreadable(format!(
                    "field '{name}' may be None, and '{flag}' would say where, but is a field itself"
                )));
            }
        }
        Ok(())
    }

    fn columns(&self, heap: &Heap<'_>) -> Result<Vec<Column>> {
        let width = self.names.len();
        let numeric =
            || self.fields.iter().enumerate().filter_map(|(field, one)| Some((field, one, one.kind.as_ref()?)));
        let of_field = |field| move |row: usize| if self.is_bad[row] { None } else { self.cells[row * width + field] };
        let column = |(field, _, kind): (usize, &Field, &Kind)| {
            Ok(Column {
                name: heap.bytes(self.names[field]).to_vec(),
                dtype: kind.dtype.code(),
                shape: kind.shape.clone(),
                values: joined(heap, kind, (0..self.rows).map(of_field(field)))?,
            })
        };
        let flag = |(field, _, _): (usize, &Field, &Kind)| {
            let cells = (0..self.rows).map(of_field(field));
            let mut values = Vec::new();
            reserve(&mut values, self.rows)?;
            values.extend(cells.map(|cell| u8::from(!matches!(cell, None | Some(Value::None)))));
            Ok(Column { name: flag(heap, self.names[field]), dtype: Dtype::BOOL.code(), shape: Vec::new(), values })
        };
        numeric().map(column).chain(numeric().filter(|(_, field, _)| field.flagged).map(flag)).collect()
    }

    /// Whether a field is `None` in every row that is not bad.
    fn is_absent(&self, field: usize) -> bool {
        let cells = self.cells.iter().skip(field).step_by(self.names.len());
        let mut sound = cells.zip(&self.is_bad).filter(|(_, is_bad)| !**is_bad).map(|(cell, _)| cell).peekable();
        sound.peek().is_some() && sound.all(|cell| matches!(cell, Some(Value::None)))
    }

    /// The names of fields that are no numbers, and absent or not.
    fn others(&self, heap: &Heap<'_>, absent: bool) -> Vec<Vec<u8>> {
        let fields = (0..self.names.len()).filter(|&field| self.fields[field].kind.is_none());
        let wanted = fields.filter(|&field| self.is_absent(field) == absent);
        wanted.map(|field| heap.bytes(self.names[field]).to_vec()).collect()
    }

    fn dropped(&self, heap: &Heap<'_>) -> Vec<Vec<u8>> {
        let mut dropped = self.others(heap, false);
        dropped.extend(self.more.iter().cloned());
        dropped
    }
}

/// The name of the flag of a field.
fn flag(heap: &Heap<'_>, name: Span) -> Vec<u8> {
    [b"has_", heap.bytes(name)].concat()
}

/// A key, so that equal ones are counted once: 1, 1.0 and `True` are equal in Python.
#[derive(PartialEq, Eq, Hash)]
enum Key<'h> {
    None,
    Number(u64),
    Text(&'h [u8]),
    Bytes(&'h [u8]),
    Other(usize),
}

fn key_of<'h>(heap: &'h Heap<'_>, key: Value, place: usize) -> Key<'h> {
    match key {
        Value::Text(text) => Key::Text(heap.bytes(text)),
        Value::Bytes(bytes) => Key::Bytes(heap.bytes(bytes)),
        Value::None => Key::None,
        Value::Bool(value) => Key::Number(f64::from(u8::from(value)).to_bits()),
        Value::Int(number) if i32::try_from(number).is_ok() => Key::Number(f64::from(number as i32).to_bits()),
        Value::Float(number) => Key::Number((number + 0.0).to_bits()),
        // Tuples and large numbers are taken to be different: only names are ever asked for.
        _ => Key::Other(place),
    }
}

/// Refuses an array that was never filled.
fn check_filled(heap: &Heap<'_>, value: Value) -> Result<()> {
    match value {
        Value::Array(number) if heap.arrays[number as usize].is_none() => {
            Err(damaged("an array is made of a version, a shape, a dtype, an order and bytes"))
        }
        _ => Ok(()),
    }
}

/// The dtype of a value and its shape, where it has them.
fn parts<'h>(heap: &'h Heap<'_>, value: Value) -> Option<(Dtype, &'h [Value])> {
    match value {
        Value::Bool(_) => Some((Dtype::BOOL, &[])),
        Value::Int(_) | Value::Long(_) => Some((Dtype::INT, &[])),
        Value::Float(_) => Some((Dtype::FLOAT, &[])),
        Value::Scalar(number) => Some((heap.scalars[number as usize].dtype, &[])),
        Value::Array(number) => {
            let array = heap.arrays[number as usize]?;
            Some((heap.dtypes[array.dtype as usize], heap.tuple(array.shape)))
        }
        _ => None,
    }
}

fn sizes(shape: &[Value]) -> Vec<usize> {
    shape.iter().map(|size| if let Value::Int(size) = size { *size as usize } else { 0 }).collect()
}

/// What a number or an array of numbers is; nothing for all else.
fn kind_of(heap: &Heap<'_>, value: Value) -> Option<Kind> {
    let (dtype, shape) = parts(heap, value).filter(|(dtype, _)| dtype.is_numeric())?;
    Some(Kind { dtype: dtype.little(), shape: sizes(shape) })
}

/// What a value is, if it is something else than the values of its field.
fn differs(heap: &Heap<'_>, value: Value, kind: &Kind) -> Option<Found> {
    let same = |(size, expected): (&Value, &usize)| matches!(size, Value::Int(size) if *size as usize == *expected);
    let fits = parts(heap, value).is_some_and(|(dtype, shape)| {
        dtype.little() == kind.dtype && shape.len() == kind.shape.len() && shape.iter().zip(&kind.shape).all(same)
    });
    match value {
        _ if !fits => Some(described(heap, value)),
        Value::Long(bits) => Some(Found::Integer(bits)),
        Value::Float(number) if number.is_finite() && number.abs() > LARGEST => Some(Found::Float(number)),
        _ => None,
    }
}

fn described(heap: &Heap<'_>, value: Value) -> Found {
    match (value, parts(heap, value)) {
        (Value::Array(_), Some((dtype, shape))) => Found::Numbers(dtype.code(), sizes(shape)),
        (_, Some((dtype, shape))) if dtype.is_numeric() => Found::Numbers(dtype.little().code(), sizes(shape)),
        _ => Found::Type(heap.type_name(value)),
    }
}

/// Values of one kind, one after another; zeros for those that are not there.
fn joined(heap: &Heap<'_>, kind: &Kind, cells: impl ExactSizeIterator<Item = Option<Value>>) -> Result<Vec<u8>> {
    let row_bytes = kind.row_bytes();
    let mut values = Vec::new();
    reserve(&mut values, cells.len().saturating_mul(row_bytes))?;
    for cell in cells {
        let start = values.len();
        match cell {
            Some(Value::Bool(value)) => values.push(u8::from(value)),
            Some(Value::Int(number)) => values.extend(number.to_le_bytes()),
            Some(Value::Float(number)) => values.extend((number as f32).to_le_bytes()),
            Some(Value::Scalar(number)) => {
                let scalar = heap.scalars[number as usize];
                values.extend_from_slice(heap.bytes(scalar.raw));
                straighten(&mut values[start..], scalar.dtype);
            }
            Some(Value::Array(number)) => {
                if let Some(array) = heap.arrays[number as usize] {
                    let raw = heap.bytes(array.raw);
                    if array.fortran && kind.shape.len() > 1 {
                        by_rows(raw, kind, &mut values);
                    } else {
                        values.extend_from_slice(raw);
                    }
                    straighten(&mut values[start..], heap.dtypes[array.dtype as usize]);
                }
            }
            _ => {}
        }
        values.resize(start + row_bytes, 0);
    }
    Ok(values)
}

/// Numbers with their lowest byte first, and truths as 0 and 1, whatever a damaged file has.
fn straighten(values: &mut [u8], dtype: Dtype) {
    if dtype.big {
        values.chunks_exact_mut(dtype.swapped()).for_each(<[u8]>::reverse);
    }
    if dtype.kind == b'b' {
        for byte in values {
            *byte = u8::from(*byte != 0);
        }
    }
}

/// Appends the values of an array that lies in memory by columns, row by row.
fn by_rows(raw: &[u8], kind: &Kind, out: &mut Vec<u8>) {
    let size = kind.dtype.size;
    let mut place = vec![0; kind.shape.len()];
    let mut strides = Vec::with_capacity(place.len());
    kind.shape.iter().fold(size, |stride, &len| {
        strides.push(stride);
        stride * len
    });
    for _ in 0..raw.len() / size {
        let at: usize = place.iter().zip(&strides).map(|(place, stride)| place * stride).sum();
        out.extend_from_slice(&raw[at..at + size]);
        for (place, &len) in place.iter_mut().zip(&kind.shape).rev() {
            *place += 1;
            if *place < len {
                break;
            }
            *place = 0;
        }
    }
}
