//! What a pickle may name, and what calling these makes. All of them check what they are given.
//!
//! numpy's own constructors can be talked into reading memory that is not theirs: a dtype's flags are part of its pickle. Of
//! the parts of an array, only those are believed that are checked here.

use super::dtype::{self, Dtype};
use super::heap::{Array, Heap, Name, Scalar, Value, damaged};
use super::text;
use crate::error::{Error, Result};

const PARTS: &str = "an array is made of a version, a shape, a dtype, an order and bytes";
const SHAPE: &str = "a shape is a few numbers that are not negative";
const MOST_AXES: usize = 32;
/// The other axes of an array that has no values could be of any length; numpy has a limit there, too.
const MOST_EMPTY: u128 = 1 << 40;
/// What an item of a set takes.
const ITEM_BYTES: usize = 64;

/// What a name stands for; those that are not on the list are refused.
pub fn find(module: &[u8], name: &[u8]) -> Result<Name> {
    Ok(match (module, name) {
        (b"_codecs", b"encode") => Name::Encode,
        (b"numpy", b"dtype") => Name::Dtype,
        (b"numpy", b"ndarray") => Name::Ndarray,
        (b"numpy.core.multiarray" | b"numpy._core.multiarray", b"_reconstruct") => Name::Reconstruct,
        (b"numpy.core.multiarray" | b"numpy._core.multiarray", b"scalar") => Name::Scalar,
        (b"numpy.core.numeric" | b"numpy._core.numeric", b"_frombuffer") => Name::FromBuffer,
        // Older protocols have the module that Python 2 had.
        (b"builtins" | b"__builtin__", b"bytes") => Name::Bytes,
        (b"builtins" | b"__builtin__", b"bytearray") => Name::ByteArray,
        (b"builtins" | b"__builtin__", b"complex") => Name::Complex,
        (b"builtins" | b"__builtin__", b"set") => Name::Set,
        (b"builtins" | b"__builtin__", b"frozenset") => Name::FrozenSet,
        _ => {
            let [module, name] = [module, name].map(|text| String::from_utf8_lossy(&text[..text.len().min(200)]));
            return Err(Error::unreadable(format!(
                "expected a pickle of plain values and numpy arrays, but it names {module}.{name}, which is refused"
            )));
        }
    })
}

/// What a call makes.
pub fn call(heap: &mut Heap<'_>, function: Value, arguments: Value) -> Result<Value> {
    let (Value::Name(name), Value::Tuple(arguments)) = (function, arguments) else {
        return Err(damaged(format!("TypeError: '{}' object is not callable", heap.type_name(function))));
    };
    match (name, heap.tuple(arguments)) {
        (Name::Reconstruct, &[kind, _, _]) => {
            if !matches!(kind, Value::Name(Name::Ndarray)) {
                return Err(damaged("only plain arrays are read, not what is derived from them"));
            }
            heap.make_array(None)
        }
        (Name::FromBuffer, &[raw, dtype, shape, Value::Text(order), ref axes @ ..]) => {
            let fortran = match (heap.bytes(order), axes.iter().all(|axis| matches!(axis, Value::None))) {
                (b"C", true) => false,
                (b"F", true) => true,
                _ => return Err(damaged("the axes of an array are in the order C or F")),
            };
            let array = array(heap, shape, dtype, fortran, raw)?;
            heap.make_array(Some(array))
        }
        (Name::Scalar, &[Value::Dtype(dtype), Value::Bytes(raw)]) if heap.dtypes[dtype as usize].size == raw.len() => {
            heap.make_scalar(Scalar { dtype: heap.dtypes[dtype as usize], raw })
        }
        (Name::Scalar, _) => Err(damaged("a number is made of a dtype and its bytes")),
        (Name::Dtype, &[Value::Text(code) | Value::Bytes(code), ..]) => {
            let dtype = Dtype::new(heap.bytes(code))?;
            heap.make_dtype(dtype)
        }
        (Name::Dtype, &[code, ..]) => {
            Err(damaged(format!("dtype {} is refused: only plain numbers and strings are read", heap.type_name(code))))
        }
        (Name::Encode, &[text, encoding]) => encoded(heap, text, encoding).map(Value::Bytes),
        (Name::Bytes, []) => heap.make([].into_iter()).map(Value::Bytes),
        (Name::Bytes, _) => Err(damaged("bytes are called by their name only where there are none")),
        (Name::ByteArray, []) => heap.make([].into_iter()).map(Value::ByteArray),
        (Name::ByteArray, &[Value::Bytes(bytes)]) => {
            // It is a copy in Python, whatever it is here.
            heap.budget.take(bytes.len())?;
            Ok(Value::ByteArray(bytes))
        }
        (Name::ByteArray, &[text, encoding]) => encoded(heap, text, encoding).map(Value::ByteArray),
        (Name::Complex, &[Value::Float(_), Value::Float(_)]) => Ok(Value::Complex),
        (Name::Complex, _) => Err(damaged("a complex number is made of two floats")),
        (Name::Set | Name::FrozenSet, &[items @ Value::List(_)]) => {
            let items = heap.sequence(items);
            let len = items.len();
            items.iter().try_for_each(|&item| heap.check_key(item))?;
            made_set(heap, len, name == Name::FrozenSet)
        }
        (Name::Set | Name::FrozenSet, _) => Err(damaged("a set is made of a list")),
        (name, arguments) => {
            Err(damaged(format!("TypeError: {name:?} is not called with {} arguments of these kinds", arguments.len())))
        }
    }
}

/// A set of so many items, which have been checked.
pub fn made_set(heap: &mut Heap<'_>, len: usize, frozen: bool) -> Result<Value> {
    add_items(heap, len)?;
    Ok(if frozen { Value::FrozenSet(u32::try_from(len).unwrap_or(u32::MAX)) } else { Value::Set })
}

/// Counts items of a set.
pub fn add_items(heap: &mut Heap<'_>, len: usize) -> Result<()> {
    heap.budget.take(len.saturating_mul(ITEM_BYTES))
}

/// Bytes, as protocols have them that know text only.
fn encoded(heap: &mut Heap<'_>, text: Value, encoding: Value) -> Result<super::heap::Span> {
    let refused = || damaged("bytes are written as text in latin1");
    let (Value::Text(text), Value::Text(encoding)) = (text, encoding) else { return Err(refused()) };
    if !matches!(heap.bytes(encoding), b"latin1" | b"latin-1") {
        return Err(refused());
    }
    // Counted before it is made, as text that is at most as long.
    heap.budget.take(text.len())?;
    let bytes = text::latin1(heap.bytes(text)).ok_or_else(refused)?;
    heap.make(bytes.into_iter())
}

/// Sets the state of a value.
pub fn build(heap: &mut Heap<'_>, value: Value, state: Value) -> Result<()> {
    match (value, state) {
        (Value::Array(number), Value::Tuple(state)) => {
            let &[_, shape, dtype, fortran, raw] = heap.tuple(state) else { return Err(damaged(PARTS)) };
            let fortran = match fortran {
                Value::Bool(fortran) => fortran,
                Value::Int(fortran) => fortran != 0,
                _ => return Err(damaged(PARTS)),
            };
            heap.arrays[number as usize] = Some(array(heap, shape, dtype, fortran, raw)?);
            Ok(())
        }
        (Value::Array(_), _) => Err(damaged(PARTS)),
        (Value::Dtype(number), Value::Tuple(state)) => {
            let mut dtype = heap.dtypes[number as usize];
            match *heap.tuple(state) {
                [_, Value::Text(order), ref inside @ ..]
                    if inside.iter().take(3).all(|one| matches!(one, Value::None)) =>
                {
                    dtype.set_order(heap.bytes(order))?;
                }
                [_, _, ..] => return Err(dtype::fields()),
                _ => return Err(damaged("ValueError: not enough values in the state of a dtype")),
            }
            heap.dtypes[number as usize] = dtype;
            Ok(())
        }
        (Value::Name(name), _) if name != Name::Ndarray => Err(damaged("a function has no state to set")),
        _ => Err(damaged(format!("AttributeError: '{}' object has no state to set", heap.type_name(value)))),
    }
}

/// An array of parts that fit together.
fn array(heap: &Heap<'_>, shape: Value, dtype: Value, fortran: bool, raw: Value) -> Result<Array> {
    let (Value::Tuple(shape), Value::Dtype(dtype)) = (shape, dtype) else { return Err(damaged(PARTS)) };
    let sizes = heap.tuple(shape);
    let size = |&value: &Value| match value {
        Value::Int(size) if size >= 0 => Some(size as u128),
        Value::Long(_) => Some(u128::MAX),
        _ => None,
    };
    if sizes.len() > MOST_AXES || sizes.iter().any(|one| size(one).is_none()) {
        return Err(damaged(SHAPE));
    }
    let raw = match raw {
        Value::Bytes(raw) | Value::ByteArray(raw) => raw,
        other => return Err(damaged(format!("an array is made of bytes, not of {}", heap.type_name(other)))),
    };
    let kind = heap.dtypes[dtype as usize];
    let times = |product: u128, size: u128| product.saturating_mul(size);
    let bytes = sizes.iter().filter_map(size).fold(kind.size as u128, times);
    if bytes != raw.len() as u128 {
        let told = if bytes == u128::MAX { "too many".to_owned() } else { bytes.to_string() };
        return Err(damaged(format!(
            "an array of {} and shape {} has {told} bytes, but {} were found",
            kind.name(),
            told_shape(sizes),
            raw.len()
        )));
    }
    // Of nothing, any number of times is nothing.
    if sizes.iter().filter_map(size).map(|size| size.max(1)).fold(1, times) > MOST_EMPTY.max(bytes) {
        return Err(damaged(SHAPE));
    }
    Ok(Array { shape, dtype, fortran, raw })
}

/// A shape as Python writes it.
fn told_shape(sizes: &[Value]) -> String {
    let told: Vec<String> = sizes
        .iter()
        .map(|size| if let Value::Int(size) = size { size.to_string() } else { "too many".to_owned() })
        .collect();
    if told.len() == 1 { format!("({},)", told[0]) } else { format!("({})", told.join(", ")) }
}
