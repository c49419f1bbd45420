//! gzip and zlib: files compressed as a whole, read at random.
//!
//! A deflate stream can be inflated from the start of any of its blocks by whoever knows the 32 KiB before it. So one pass
//! over a file ([`Inflating`]) notes such points every few MB, and a read ([`Deflate`]) begins at the nearest one before
//! the bytes it wants. The points are kept in a [`Zidx`](crate::io::zidx::Zidx), together with checksums of all that
//! comes out: nothing is handed out that was not compared.

mod decoder;
mod gunzip;
mod header;
mod inflater;
mod inflating;
mod source;

pub use gunzip::gunzip;
pub(crate) use gunzip::inflates_beyond;
pub use header::{Kind, detect};
pub use inflater::WINDOW;
pub use inflating::Inflating;
pub use source::Deflate;
pub(crate) use source::Lent;
