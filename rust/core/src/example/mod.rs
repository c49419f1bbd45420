//! `tf.train.Example` and `SequenceExample`: from the payloads of many records to columns, and back to bytes.
//!
//! [`decode`] reads protobuf's wire format in place: floats are copied from the payload into their column, byte strings
//! stay where they are, and nothing is allocated per record. What protobuf says about odd messages holds: unknown fields
//! are passed over, lists may be packed or not, of two entries with one name the later counts, and a message in several
//! pieces is their sum.
//!
//! ```
//! use seekset_core::example::{Dtype, Feature, Items, Schema, Shape, Slot, decode, encode};
//!
//! let payload = encode::example(&[("x", Items::Float(&[0.5, 1.5])), ("label", Items::Int(&[7]))]);
//! let feature = |name: &str, dtype, shape| Feature { name: name.to_owned(), dtype, shape, default: None };
//! let schema = Schema::new(vec![feature("x", Dtype::F32, Shape::Fixed(2))])?;
//! let mut x = [0.0; 4];
//! decode::examples(&[&payload, &payload], &schema, vec![Some(Slot::F32(&mut x))])?;
//! assert_eq!(x, [0.5, 1.5, 0.5, 1.5]);
//! # Ok::<(), seekset_core::Error>(())
//! ```

pub mod column;
pub mod decode;
pub mod encode;
pub mod infer;
pub mod list;
pub mod record;
pub mod schema;
mod search;
pub mod wire;

pub use column::{Cells, Column, Slot};
pub use encode::Items;
pub use list::Kind;
pub use schema::{Dtype, Feature, Schema, Shape, Values};
