//! Readers that one thread uses at a time and several take turns with, and that no forked child may touch.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use arc_swap::ArcSwapOption;

use super::sqlite::forks::close;
use super::threads;

/// How often a lock that is taken is tried. It is held for nanoseconds, unless a fork left it taken.
const TRIES: usize = 64;

/// Readers that are not in use, of the process that made them.
pub(crate) struct Readers<T: Send + 'static> {
    kept: ArcSwapOption<Kept<T>>,
}

struct Kept<T> {
    pid: u32,
    readers: Mutex<Vec<T>>,
}

impl<T: Send + 'static> Readers<T> {
    pub fn new() -> Self {
        Self { kept: ArcSwapOption::const_empty() }
    }

    /// So many readers, made where none are left. Those given back first come first: what they hold open is what the
    /// first part of a sorted batch needs.
    pub fn take(&self, count: usize, make: impl Fn() -> T) -> Vec<T> {
        let kept = self.kept();
        let mut taken: Vec<T> = match locked(&kept.readers) {
            Some(mut readers) => {
                let some = count.min(readers.len());
                readers.drain(..some).collect()
            }
            None => Vec::new(),
        };
        taken.resize_with(count, make);
        taken
    }

    /// One reader, if one is left.
    pub fn take_one(&self) -> Option<T> {
        let kept = self.kept();
        let mut readers = locked(&kept.readers)?;
        if readers.is_empty() { None } else { Some(readers.remove(0)) }
    }

    /// Keeps readers for others, no more than there are threads.
    pub fn give(&self, mut given: Vec<T>) {
        let kept = self.kept();
        if let Some(mut readers) = locked(&kept.readers) {
            readers.splice(..0, given.drain(..));
            let most = threads::threads().min(readers.len());
            given = readers.split_off(most);
        }
        close((given, kept)); // after the lock: closing files takes its time; and all was let go of meanwhile, perhaps
    }

    /// Lets go of all readers that are not in use.
    pub fn clear(&self) {
        let Some(kept) = self.kept.swap(None) else { return };
        if kept.pid == std::process::id() { close(kept) } else { std::mem::forget(kept) }
    }

    /// The readers of this very process. A forked child leaks those of its parent: they share places in files and locks.
    fn kept(&self) -> Arc<Kept<T>> {
        let pid = std::process::id();
        if let Some(kept) = self.kept.load_full() {
            if kept.pid == pid {
                return kept;
            }
            std::mem::forget(kept);
        }
        let kept = Arc::new(Kept { pid, readers: Mutex::new(Vec::new()) });
        self.kept.store(Some(Arc::clone(&kept)));
        kept
    }
}

impl<T: Send + 'static> Drop for Readers<T> {
    fn drop(&mut self) {
        self.clear();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..TRIES {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_come_back_in_the_order_they_were_given() {
        let readers = Readers::new();
        assert_eq!(readers.take(2, || 0), [0, 0]);
        threads::set_threads(3);
        readers.give(vec![1, 2]);
        readers.give(vec![3]);
        assert_eq!(readers.take(2, || 9), [3, 1]);
        assert_eq!(readers.take(2, || 9), [2, 9]);
        readers.give(vec![1, 2, 3, 4]);
        assert_eq!(readers.take(4, || 9), [1, 2, 3, 9]);
        readers.give(vec![1]);
        readers.clear();
        assert_eq!(readers.take(1, || 9), [9]);
        threads::set_threads(0);
    }

    #[test]
    fn a_lock_that_stays_taken_is_not_waited_for() {
        let readers = Readers::new();
        readers.give(vec![1]);
        let kept = readers.kept();
        let _held = kept.readers.lock().unwrap();
        assert_eq!(readers.take(1, || 9), [9]);
        readers.give(vec![2]);
    }
}
