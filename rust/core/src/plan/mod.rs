//! Pure arithmetic on an index: which bytes, in which order. Nothing here reads a file.

pub mod address;
pub mod batch;
mod order;
pub mod permutation;

pub use address::Address;
pub use batch::{Batch, Request};
pub use permutation::Permutation;
