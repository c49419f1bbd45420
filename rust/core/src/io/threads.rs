//! Threads for gathering: a pool of our own, made anew in every process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::Result;

struct Pool {
    pid: u32,
    threads: usize,
    rayon: ThreadPool,
}

/// More threads than this help nobody, and a number with a typing error in it must not bring the machine down.
const MOST: usize = 256;

static POOL: ArcSwapOption<Pool> = ArcSwapOption::const_empty();
static WANTED: AtomicUsize = AtomicUsize::new(0);
static DEFAULT: AtomicUsize = AtomicUsize::new(0);

/// How many threads scans and gathers use: what was set, else `SEEKSET_THREADS` as it was at first, else one per core.
#[must_use]
pub fn threads() -> usize {
    let wanted = match WANTED.load(Ordering::Relaxed) {
        0 => default_threads(),
        n => n,
    };
    wanted.min(MOST)
}

/// Asks the environment once: neither it nor the number of cores is free to ask for at every batch.
fn default_threads() -> usize {
    match DEFAULT.load(Ordering::Relaxed) {
        0 => {
            let asked =
                std::env::var("SEEKSET_THREADS").ok().and_then(|text| text.parse().ok()).filter(|&n: &usize| n > 0);
            let cores = || std::thread::available_parallelism().map_or(1, Into::into);
            let found = asked.unwrap_or_else(cores);
            DEFAULT.store(found, Ordering::Relaxed);
            found
        }
        n => n,
    }
}

/// Sets the number of threads for this process and those it forks; 0 asks the environment again.
pub fn set_threads(threads: usize) {
    WANTED.store(threads, Ordering::Relaxed);
    DEFAULT.store(0, Ordering::Relaxed);
}

/// Runs `work`, and all that rayon does inside it, in this process's pool. Also one thread needs a pool: outside of any,
/// rayon would use its global one, in which forked children hang.
pub fn in_pool<R: Send>(work: impl FnOnce() -> R + Send) -> Result<R> {
    Ok(pool(threads())?.rayon.install(work))
}

/// Runs `work` in this process's pool and `here` meanwhile, on the calling thread.
pub fn in_pool_and_here<R: Send, H>(work: impl FnOnce() -> R + Send, here: impl FnOnce() -> H) -> Result<(R, H)> {
    let pool = pool(threads())?;
    let mut done = None;
    let here = pool.rayon.in_place_scope(|scope| {
        scope.spawn(|_| done = Some(work()));
        here()
    });
    let done = done.ok_or_else(|| io::Error::other("a thread of the pool ended before its work was done"))?;
    Ok((done, here))
}

/// The pool of this very process. A forked child inherits the parent's pool without its threads: waiting for it would
/// last for ever, and so would dropping it, so the child leaks it and makes its own.
fn pool(threads: usize) -> Result<Arc<Pool>> {
    let pid = std::process::id();
    if let Some(pool) = POOL.load_full() {
        if pool.pid == pid && pool.threads == threads {
            return Ok(pool);
        }
        if pool.pid != pid {
            std::mem::forget(pool);
        }
    }
    let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("seekset-{i}"));
    let rayon = builder.build().map_err(io::Error::other)?;
    let pool = Arc::new(Pool { pid, threads, rayon });
    POOL.store(Some(Arc::clone(&pool)));
    Ok(pool)
}
