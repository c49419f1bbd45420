//! What a scan found, on disk and in memory. Record payloads are never read here.

pub mod columns;
pub mod fai;
pub mod ids;
pub mod idx;
pub mod lookup;
pub mod plan_file;
pub mod sequences;
pub mod sidx;

pub use plan_file::PlanFile;
pub use sequences::Sequences;
pub use sidx::{Entry, Sidx};
