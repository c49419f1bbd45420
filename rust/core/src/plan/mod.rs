//! Pure arithmetic on an index: which bytes, in which order. Nothing here reads a file.

pub mod address;
pub mod balanced;
pub mod batch;
pub mod ledger;
pub mod mixing;
mod order;
pub mod packing;
pub mod permutation;
pub mod schedule;
pub mod split;
pub mod windows;

pub use address::Address;
pub use balanced::BalancedOrder;
pub use batch::{Batch, Request};
pub use mixing::Mixing;
pub use packing::{Packing, pack};
pub use permutation::Permutation;
pub use windows::Windows;
