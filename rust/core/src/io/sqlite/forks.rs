//! Forks that wait until no thread is inside SQLite. It has mutexes of its own, which all connections of a process share:
//! a child that was forked while another thread held one would wait for it for ever.

use std::cell::{Cell, RefCell};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    /// How many times this thread is inside. It waits at the gate once: a fork that waits lets nobody in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static HELD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// While it lives, its thread is inside SQLite, and no fork is made by way of [`hold`].
pub(crate) struct Inside {
    _gate: Option<RwLockReadGuard<'static, ()>>,
}

/// Goes inside. Not to be held while other threads are waited for that go inside, too; and not to be called by a thread that
/// holds what whoever forks needs, such as Python's GIL.
pub(crate) fn enter() -> Inside {
    let depth = DEPTH.get();
    let gate = (depth == 0).then(|| GATE.read().unwrap_or_else(PoisonError::into_inner));
    DEPTH.set(depth + 1);
    Inside { _gate: gate }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// Waits until no other thread is inside, and keeps all out until [`release`] is called on the same thread. A thread that is
/// inside itself doesn't wait: it would for ever.
pub fn hold() {
    if DEPTH.get() == 0 {
        HELD.set(Some(GATE.write().unwrap_or_else(PoisonError::into_inner)));
    }
}

/// Lets threads inside again: in the parent, and in the child.
pub fn release() {
    HELD.take();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn nobody_goes_inside_while_a_fork_is_made() {
        let (told, heard) = channel();
        hold();
        let inside = std::thread::spawn(move || {
            let _first = enter();
            let _again = enter();
            told.send(()).unwrap();
        });
        assert!(heard.recv_timeout(Duration::from_millis(50)).is_err());
        release();
        heard.recv().unwrap();
        inside.join().unwrap();
        let _inside = enter();
        hold(); // does not wait for itself
        release();
    }
}
