//! Looks that are cheap, but not so cheap as to be taken at every single read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::error::Result;

/// Looks at something until it was seen to be well once. No lock, which a fork could leave taken: two threads that come
/// first both look.
#[derive(Debug, Default)]
pub(crate) struct Once {
    seen: AtomicBool,
}

impl Once {
    /// Looks, unless all was well before.
    pub fn look(&self, look: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.seen.load(Ordering::Relaxed) {
            look()?;
            self.seen.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Looks at something at most once a millisecond.
#[derive(Debug)]
pub(crate) struct Seldom {
    since: Instant,
    /// Milliseconds after `since` when all was last seen to be well.
    looked: AtomicU64,
}

impl Seldom {
    pub fn new() -> Self {
        Self { since: Instant::now(), looked: AtomicU64::new(0) }
    }

    /// Looks, unless that was done within this millisecond. What is wrong stays wrong: it is looked at again each time.
    pub fn look(&self, look: impl FnOnce() -> Result<()>) -> Result<()> {
        let now = self.since.elapsed().as_millis() as u64 + 1;
        if self.looked.swap(now, Ordering::Relaxed) == now {
            return Ok(());
        }
        let seen = look();
        if seen.is_err() {
            self.looked.store(0, Ordering::Relaxed);
        }
        seen
    }
}
