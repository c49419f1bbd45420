//! Watching long work from outside: how far it is, and whether to stop.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Told how far a scan is, and asked whether to stop, on the thread that called, several times a second.
///
/// A closure will do:
///
/// ```
/// use seekset_core::Error;
/// use seekset_core::fasta::{Fasta, OpenOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("one.fa");
/// # std::fs::write(&path, b">a\nACGT\n")?;
/// let impatient = |done: u64, total: u64| done < total / 2;
/// let stopped = Fasta::open_watched(&path, &OpenOptions::default(), &impatient);
/// assert!(matches!(stopped, Err(Error::Interrupted)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Watch {
    /// `done` of `total` bytes have been read. Return `false` to stop the work with [`crate::Error::Interrupted`].
    fn progress(&self, done: u64, total: u64) -> bool;
}

/// How often a watcher is told.
pub(crate) const BEAT: Duration = Duration::from_millis(50);

/// Tells a watcher now and then, and passes on its wish to stop.
pub(crate) struct Beat<'a> {
    watch: &'a dyn Watch,
    last: Instant,
    total: u64,
}

impl<'a> Beat<'a> {
    pub fn new(watch: &'a dyn Watch, total: u64) -> Self {
        Self { watch, last: Instant::now(), total }
    }

    /// `done` bytes have been read. The end is told in any case.
    pub fn tell(&mut self, done: u64) -> Result<()> {
        if done == self.total { self.now(done) } else { self.pass(done) }
    }

    /// All bytes have been read, and there is more to do.
    pub fn go_on(&mut self) -> Result<()> {
        self.pass(self.total)
    }

    fn pass(&mut self, done: u64) -> Result<()> {
        if self.last.elapsed() < BEAT { Ok(()) } else { self.now(done) }
    }

    fn now(&mut self, done: u64) -> Result<()> {
        self.last = Instant::now();
        if self.watch.progress(done, self.total) { Ok(()) } else { Err(Error::Interrupted) }
    }
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
