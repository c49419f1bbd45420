//! Pickles of examples, read without an interpreter: from bytes to columns of numbers.
//!
//! A pickle is a program for a stack machine (`opcode`, `machine`). It may call whatever it can name; here, names stand
//! for a short list of makers (`makers`) of numpy's arrays and plain values, and any other is refused by its name. What
//! a program makes lies in a `heap`, by numbers and not by references, so that values may hold themselves and be nested
//! as deep as they please: nothing here follows them by calls of calls. Everything that is allocated is counted first.
//!
//! Examples that are dicts become `columns`. All else is objects, which are for Python to make: of a pickle that was
//! read here to its end, it is known that it names nothing else, asks for no memory beyond its budget, and has no key
//! whose hash would not end.
//!
//! ```
//! use seekset_core::pickle::{Examples, read};
//! // What pickle.dumps([{"x": 1}, {"x": 2}], protocol=2) gives.
//! let pickle = b"\x80\x02]q\0(}q\x01X\x01\0\0\0xq\x02K\x01s}q\x03h\x02K\x02se.";
//! let Examples::Columns(found) = read(pickle, 1000)?.examples else { panic!("objects") };
//! assert_eq!(found.columns[0].name, b"x");
//! assert_eq!(found.columns[0].dtype, "<i8");
//! assert_eq!(found.columns[0].values, [[1, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0]].concat());
//! # Ok::<(), seekset_core::Error>(())
//! ```

mod columns;
mod dtype;
mod heap;
mod long;
mod machine;
mod makers;
mod opcode;
#[cfg(test)]
mod tests;
mod text;

pub use columns::{Bad, Column, Columns, Found};

use crate::error::{Error, Result};
use heap::Value;

/// What the examples of a pickle are.
#[derive(Debug)]
pub enum Examples {
    /// Dicts of numbers.
    Columns(Columns),
    /// Something else, which Python may unpickle.
    Objects,
}

/// A pickle that was read.
#[derive(Debug)]
pub struct Pickled {
    /// What its examples are.
    pub examples: Examples,
    /// How many bytes were allocated for its values, at the most.
    pub bytes: usize,
}

/// Python's objects may take a few times what is allowed for the bytes that they come from.
const OBJECTS: u64 = 4;

/// Reads a pickle of a list of examples, or of a dict that has one in `"examples"`.
///
/// Its values may take `max_bytes`, and so may the columns.
pub fn read(pickle: &[u8], max_bytes: usize) -> Result<Pickled> {
    let (mut heap, found, objects) = machine::run(pickle, max_bytes)?;
    let examples = examples_in(&heap, found)?;
    let examples = match columns::stack(&mut heap, examples, max_bytes)? {
        Some(columns) => Examples::Columns(columns),
        None if objects > OBJECTS.saturating_mul(max_bytes as u64) => return Err(heap::too_large(max_bytes)),
        None => Examples::Objects,
    };
    Ok(Pickled { examples, bytes: heap.budget.taken() })
}

/// The list or tuple of examples.
fn examples_in(heap: &heap::Heap<'_>, found: Value) -> Result<Value> {
    let inside = match found {
        Value::Dict(dict) => heap.find(dict, b"examples"),
        other => Some(other),
    };
    match inside {
        Some(examples @ (Value::List(_) | Value::Tuple(_))) => Ok(examples),
        wrong => {
            let what = match (found, wrong) {
                (Value::Dict(_), Some(wrong)) => format!("a dict with {} in it", heap.type_name(wrong)),
                (Value::Dict(_), None) => "a dict without 'examples'".to_owned(),
                _ => heap.type_name(found).to_owned(),
            };
            Err(Error::unreadable(format!(
                "expected a list of examples, or a dict that has one in 'examples', found {what}"
            )))
        }
    }
}
