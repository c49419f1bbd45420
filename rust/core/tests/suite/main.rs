//! The crate from outside: what it reads, against slow readers that are right by inspection.
//!
//! One binary, so that it links once. `reference` and `scanned` also serve the fuzz targets.

mod bgzf;
mod chunks;
mod compressed;
mod damage;
mod deflate;
mod example;
mod fai;
mod frames;
mod generate;
mod handle;
mod packing;
mod plan_file;
mod records;
mod reference;
mod samples;
mod scan;
mod scanned;
mod sequences;
mod sidx;
mod stretch;
mod tfrecord;
mod windows;
