//! Watching long work from outside: how far it is, and whether to stop.

use crate::error::{Error, Result};

/// Told how far a scan is, and asked whether to stop, on the thread that called, several times a second.
pub trait Watch {
    /// `done` of `total` bytes have been read. Return `false` to stop the work with [`crate::Error::Interrupted`].
    fn progress(&self, done: u64, total: u64) -> bool;
}

/// Asks a watcher, after all bytes have been read, whether to go on with what is left to do.
pub(crate) fn go_on(watch: &dyn Watch, total: u64) -> Result<()> {
    if watch.progress(total, total) { Ok(()) } else { Err(Error::Interrupted) }
}

/// Watches nothing and never stops the work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn progress(&self, _done: u64, _total: u64) -> bool {
        true
    }
}

impl<F: Fn(u64, u64) -> bool> Watch for F {
    fn progress(&self, done: u64, total: u64) -> bool {
        self(done, total)
    }
}
