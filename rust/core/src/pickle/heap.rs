//! What a pickle makes: values, and the containers that they lie in, by number.

use super::dtype::Dtype;
use crate::error::{Error, Result};
use crate::io::room::reserve;

/// The error for a pickle that is none.
pub fn damaged(what: impl AsRef<str>) -> Error {
    Error::unreadable(format!("expected a pickle, but it can't be read: {}", what.as_ref()))
}

/// The error for a pickle that asks for more than it may have.
pub fn too_large(max_bytes: usize) -> Error {
    Error::too_large(format!("unpickling it takes more than max_bytes ({max_bytes}) of memory"))
}

/// Bytes that may still be allocated. They are counted before they are asked for.
#[derive(Debug)]
pub struct Budget {
    most: usize,
    left: usize,
}

impl Budget {
    pub fn new(most: usize) -> Self {
        Self { most, left: most }
    }

    /// Counts bytes that are about to be allocated.
    pub fn take(&mut self, bytes: usize) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| too_large(self.most))?;
        Ok(())
    }

    /// Counts room for so many.
    pub fn take_room<T>(&mut self, count: usize) -> Result<()> {
        self.take(count.checked_mul(size_of::<T>()).ok_or_else(|| too_large(self.most))?)
    }

    /// What has been counted.
    pub fn taken(&self) -> usize {
        self.most - self.left
    }

    /// Makes room for `more` in a vector, at least doubling it where it has none left.
    pub fn reserve<T>(&mut self, vec: &mut Vec<T>, more: usize) -> Result<()> {
        if vec.capacity() - vec.len() < more {
            // Few are few: most dicts and tuples are filled once.
            let room = more.max(vec.len());
            self.take_room::<T>(room)?;
            reserve(vec, room)?;
        }
        Ok(())
    }

    pub fn push<T>(&mut self, vec: &mut Vec<T>, item: T) -> Result<()> {
        if vec.len() == vec.capacity() {
            self.reserve(vec, 4)?;
        }
        vec.push(item);
        Ok(())
    }
}

/// A run of bytes, of the pickle or of those that were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Counted from the end of the pickle, where bytes were made.
    start: usize,
    len: usize,
}

impl Span {
    pub fn new(start: usize, len: usize) -> Self {
        Self { start, len }
    }

    pub fn len(self) -> usize {
        self.len
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    Reconstruct,
    Scalar,
    FromBuffer,
    Dtype,
    Ndarray,
    Encode,
    Bytes,
    ByteArray,
    Complex,
    Set,
    FrozenSet,
}

/// A value. What can be changed after it was made, or is large, is a number: its place on the heap.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// An integer beyond 64 bits, of which only the bits are known that it takes.
    Long(usize),
    Float(f64),
    Complex,
    /// UTF-8, in which there may be halves of surrogate pairs, as in Python's strings.
    Text(Span),
    Bytes(Span),
    ByteArray(Span),
    Tuple(u32),
    List(u32),
    Dict(u32),
    /// Nobody looks into sets: what they would take is counted, and what is put into them can be.
    Set,
    FrozenSet(u32),
    Name(Name),
    Dtype(u32),
    Array(u32),
    Scalar(u32),
}

/// A tuple: a run of items, and what its hash costs.
#[derive(Debug, Clone, Copy)]
struct Tuple {
    start: usize,
    len: u32,
    hashing: Option<Hashing>,
}

/// What it takes to hash a value: so many values, nested so deep.
#[derive(Debug, Clone, Copy)]
pub struct Hashing {
    cost: u32,
    depth: u16,
}

/// Beyond these, no value is a key: hashes of tuples are calls of calls, and those of shared ones are computed anew each time.
const MOST_HASHED: u32 = 1 << 16;
const DEEPEST_HASHED: u16 = 200;

/// An array as a pickle has it.
#[derive(Debug, Clone, Copy)]
pub struct Array {
    pub shape: u32,
    pub dtype: u32,
    pub fortran: bool,
    pub raw: Span,
}

/// A number of numpy's.
#[derive(Debug, Clone, Copy)]
pub struct Scalar {
    pub dtype: Dtype,
    pub raw: Span,
}

/// All that a pickle has made.
pub struct Heap<'p> {
    pickle: &'p [u8],
    made: Vec<u8>,
    items: Vec<Value>,
    tuples: Vec<Tuple>,
    pub lists: Vec<Vec<Value>>,
    pub dicts: Vec<Vec<(Value, Value)>>,
    pub dtypes: Vec<Dtype>,
    /// Those without a state are yet to be filled.
    pub arrays: Vec<Option<Array>>,
    pub scalars: Vec<Scalar>,
    pub budget: Budget,
}

impl<'p> Heap<'p> {
    pub fn new(pickle: &'p [u8], max_bytes: usize) -> Self {
        Self {
            pickle,
            made: Vec::new(),
            items: Vec::new(),
            tuples: Vec::new(),
            lists: Vec::new(),
            dicts: Vec::new(),
            dtypes: Vec::new(),
            arrays: Vec::new(),
            scalars: Vec::new(),
            budget: Budget::new(max_bytes),
        }
    }

    /// The bytes of a span.
    pub fn bytes(&self, span: Span) -> &[u8] {
        match span.start.checked_sub(self.pickle.len()) {
            Some(start) => &self.made[start..start + span.len],
            None => &self.pickle[span.start..span.start + span.len],
        }
    }

    /// Keeps bytes that are not in the pickle as they are.
    pub fn make(&mut self, bytes: impl ExactSizeIterator<Item = u8>) -> Result<Span> {
        self.budget.reserve(&mut self.made, bytes.len())?;
        let start = self.pickle.len() + self.made.len();
        let len = bytes.len();
        self.made.extend(bytes);
        Ok(Span { start, len })
    }

    /// The items of a tuple.
    pub fn tuple(&self, number: u32) -> &[Value] {
        let Tuple { start, len, .. } = self.tuples[number as usize];
        &self.items[start..start + len as usize]
    }

    /// The items of a list or a tuple.
    pub fn sequence(&self, value: Value) -> &[Value] {
        match value {
            Value::List(list) => &self.lists[list as usize],
            Value::Tuple(tuple) => self.tuple(tuple),
            _ => &[],
        }
    }

    pub fn make_tuple(&mut self, items: &[Value]) -> Result<Value> {
        let len = u32::try_from(items.len()).map_err(|_| damaged("a tuple has too many items"))?;
        let mut hashing = Some(Hashing { cost: 1, depth: 1 });
        for &item in items {
            hashing = hashing.zip(self.hashing(item)).map(|(all, one)| Hashing {
                cost: all.cost.saturating_add(one.cost),
                depth: all.depth.max(one.depth.saturating_add(1)),
            });
        }
        let start = self.items.len();
        self.budget.reserve(&mut self.items, items.len())?;
        self.items.extend_from_slice(items);
        let number = number_of(&self.tuples)?;
        self.budget.push(&mut self.tuples, Tuple { start, len, hashing })?;
        Ok(Value::Tuple(number))
    }

    pub fn make_list(&mut self, items: &[Value]) -> Result<Value> {
        let number = number_of(&self.lists)?;
        let mut list = Vec::new();
        self.budget.reserve(&mut list, items.len())?;
        list.extend_from_slice(items);
        self.budget.push(&mut self.lists, list)?;
        Ok(Value::List(number))
    }

    pub fn make_dict(&mut self) -> Result<Value> {
        let number = number_of(&self.dicts)?;
        self.budget.push(&mut self.dicts, Vec::new())?;
        Ok(Value::Dict(number))
    }

    pub fn make_dtype(&mut self, dtype: Dtype) -> Result<Value> {
        let number = number_of(&self.dtypes)?;
        self.budget.push(&mut self.dtypes, dtype)?;
        Ok(Value::Dtype(number))
    }

    pub fn make_array(&mut self, array: Option<Array>) -> Result<Value> {
        let number = number_of(&self.arrays)?;
        self.budget.push(&mut self.arrays, array)?;
        Ok(Value::Array(number))
    }

    pub fn make_scalar(&mut self, scalar: Scalar) -> Result<Value> {
        let number = number_of(&self.scalars)?;
        self.budget.push(&mut self.scalars, scalar)?;
        Ok(Value::Scalar(number))
    }

    fn hashing(&self, value: Value) -> Option<Hashing> {
        match value {
            Value::List(_) | Value::Dict(_) | Value::Set | Value::ByteArray(_) | Value::Array(_) => None,
            Value::Tuple(tuple) => self.tuples[tuple as usize].hashing,
            // A frozen set knows the hashes of its items.
            Value::FrozenSet(len) => Some(Hashing { cost: len.max(1), depth: 1 }),
            _ => Some(Hashing { cost: 1, depth: 1 }),
        }
    }

    /// Refuses a value that can't be a key of a dict, or an item of a set.
    pub fn check_key(&self, value: Value) -> Result<()> {
        match self.hashing(value) {
            None => Err(damaged(format!("TypeError: unhashable type: '{}'", self.type_name(value)))),
            Some(Hashing { cost, depth }) if cost > MOST_HASHED || depth > DEEPEST_HASHED => Err(damaged(format!(
                "a key is made of up to {MOST_HASHED} values, nested up to {DEEPEST_HASHED} deep, but this one of more"
            ))),
            Some(_) => Ok(()),
        }
    }

    /// The value in a dict by a name: the last that was put there.
    pub fn find(&self, dict: u32, name: &[u8]) -> Option<Value> {
        let is_it = |key: &Value| matches!(*key, Value::Text(span) if self.bytes(span) == name);
        self.dicts[dict as usize].iter().rev().find(|(key, _)| is_it(key)).map(|&(_, value)| value)
    }

    /// What Python calls the type of a value.
    pub fn type_name(&self, value: Value) -> &'static str {
        match value {
            Value::None => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Long(_) => "int",
            Value::Float(_) => "float",
            Value::Complex => "complex",
            Value::Text(_) => "str",
            Value::Bytes(_) => "bytes",
            Value::ByteArray(_) => "bytearray",
            Value::Tuple(_) => "tuple",
            Value::List(_) => "list",
            Value::Dict(_) => "dict",
            Value::Set => "set",
            Value::FrozenSet(_) => "frozenset",
            Value::Name(_) => "function",
            Value::Dtype(_) => "dtype",
            Value::Array(_) => "ndarray",
            Value::Scalar(number) => self.scalars[number as usize].dtype.scalar_name(),
        }
    }
}

/// The number that the next one gets.
fn number_of<T>(all: &[T]) -> Result<u32> {
    u32::try_from(all.len()).map_err(|_| damaged("it has too many values"))
}
