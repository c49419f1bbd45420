//! Threads for gathering: a pool of our own, made anew in every process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use rayon::{ThreadPool, ThreadPoolBuilder};

struct Pool {
    pid: u32,
    threads: usize,
    rayon: ThreadPool,
}

/// More threads than this help nobody, and a number with a typing error in it must not bring the machine down.
const MOST: usize = 256;

static POOL: ArcSwapOption<Pool> = ArcSwapOption::const_empty();
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// How many threads scans and gathers use: what was set, else `SEEKSET_THREADS`, else one per core.
#[must_use]
pub fn threads() -> usize {
    match WANTED.load(Ordering::Relaxed) {
        0 => std::env::var("SEEKSET_THREADS")
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|&n: &usize| n > 0)
            .or_else(|| std::thread::available_parallelism().ok().map(Into::into))
            .unwrap_or(1),
        n => n,
    }
    .min(MOST)
}

/// Sets the number of threads for this process and those it forks; 0 asks the environment again.
pub fn set_threads(threads: usize) {
    WANTED.store(threads, Ordering::Relaxed);
}

/// Runs `work` in this process's pool. Without one thread to spare it runs here.
pub fn in_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    match pool(threads()) {
        Some(pool) => pool.rayon.install(work),
        None => work(),
    }
}

/// The pool of this very process. A forked child inherits the parent's pool without its threads: waiting for it would
/// last for ever, and so would dropping it, so the child leaks it and makes its own.
fn pool(threads: usize) -> Option<Arc<Pool>> {
    if threads == 1 {
        return None;
    }
    let pid = std::process::id();
    if let Some(pool) = POOL.load_full() {
        if pool.pid == pid && pool.threads == threads {
            return Some(pool);
        }
        if pool.pid != pid {
            std::mem::forget(pool);
        }
    }
    let rayon = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("seekset-{i}")).build().ok()?;
    let pool = Arc::new(Pool { pid, threads, rayon });
    POOL.store(Some(Arc::clone(&pool)));
    Some(pool)
}
