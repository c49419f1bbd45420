//! Forks that wait until no thread is inside SQLite. It has mutexes of its own, which all connections of a process share:
//! a child that was forked while another thread held one would wait for it for ever.
//!
//! Whoever forks may hold what others need (Python's GIL), and runs foreign code between [`hold`] and [`release`], in which
//! anything may be collected as garbage. So what closes connections never waits here: see `close`.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

use crate::error::Result;

static GATE: RwLock<()> = RwLock::new(());

/// What is to be closed when a fork has been made, with the process that opened it.
static LATER: Mutex<Vec<(u32, Box<dyn Any + Send>)>> = Mutex::new(Vec::new());

thread_local! {
    /// How many times this thread is inside. It waits at the gate once: a fork that waits lets nobody in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static HELD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// How long a fork waits for a thread that passes over many rows.
const LONGEST: Duration = Duration::from_millis(10);

/// While it lives, its thread is inside SQLite, and no fork is made by way of [`hold`].
pub(crate) struct Inside {
    gate: Option<RwLockReadGuard<'static, ()>>,
    since: Instant,
}

impl Inside {
    /// Goes outside while `meanwhile` is called, so that a fork that waits is let through; nobody is to wait for foreign
    /// code either. A thread that is inside for others, too, stays there.
    pub fn outside<T>(&mut self, meanwhile: impl FnOnce() -> T) -> T {
        let alone = DEPTH.get() == 1;
        if alone {
            self.gate = None;
            DEPTH.set(0);
        }
        let done = meanwhile();
        if alone {
            self.gate = gate();
            DEPTH.set(1);
        }
        self.since = Instant::now();
        done
    }

    /// The same, if this thread has been inside for a while. To be called every few rows.
    pub fn now_and_then(&mut self, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.since.elapsed() < LONGEST { Ok(()) } else { self.outside(meanwhile) }
    }
}

/// Goes inside. Not to be held while other threads are waited for that go inside, too; and not to be called by a thread that
/// holds what whoever forks needs, such as Python's GIL.
pub(crate) fn enter() -> Inside {
    inside(gate())
}

fn gate() -> Option<RwLockReadGuard<'static, ()>> {
    (!is_let_in()).then(|| GATE.read().unwrap_or_else(PoisonError::into_inner))
}

fn inside(gate: Option<RwLockReadGuard<'static, ()>>) -> Inside {
    DEPTH.set(DEPTH.get() + 1);
    Inside { gate, since: Instant::now() }
}

/// Whether this thread need not wait: it is inside, or it is the one that forks and keeps all others out.
fn is_let_in() -> bool {
    DEPTH.get() > 0 || HELD.with_borrow(Option::is_some)
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// Closes what this process opened, by dropping it: now, or when the fork has been made that another thread is about to
/// make. It never waits, so that it may be called with the GIL held, and by a garbage collector at any time.
pub(crate) fn close<T: Send + 'static>(open: T) {
    let gate = if is_let_in() {
        None
    } else {
        match GATE.try_read() {
            Ok(gate) => Some(gate),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return close_later(std::process::id(), Box::new(open)),
        }
    };
    let _inside = inside(gate);
    drop(open);
    // What was put off just after a fork, by somebody who had seen it coming.
    close_all_put_off();
}

/// Taken for nanoseconds; where a fork left it taken in a child, what is open is leaked.
fn close_later(pid: u32, open: Box<dyn Any + Send>) {
    match LATER.try_lock() {
        Ok(mut later) => later.push((pid, open)),
        Err(_) => std::mem::forget(open),
    }
}

/// Waits until no other thread is inside, and keeps all out until [`release`] is called on the same thread. A thread that is
/// inside itself doesn't wait: it would for ever.
pub fn hold() {
    if !is_let_in() {
        HELD.set(Some(GATE.write().unwrap_or_else(PoisonError::into_inner)));
    }
}

/// Lets threads inside again, in the parent and in the child, and closes what was not closed meanwhile. A child leaves
/// alone what its parent opened.
pub fn release() {
    HELD.take();
    let gate = GATE.try_read().ok();
    if gate.is_some() || is_let_in() {
        let _inside = inside(gate);
        close_all_put_off();
    }
}

/// To be called inside.
fn close_all_put_off() {
    let later = LATER.try_lock().map(|mut later| std::mem::take(&mut *later)).unwrap_or_default();
    for (pid, open) in later {
        if pid == std::process::id() { drop(open) } else { std::mem::forget(open) }
    }
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

    /// Tells when it is dropped.
    struct Open(std::sync::mpsc::Sender<()>);

    impl Drop for Open {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }

    #[test]
    fn nobody_waits_to_close_something_while_a_fork_is_made() {
        let (told, heard) = channel();
        hold();
        close(Open(told.clone()));
        assert!(heard.try_recv().is_ok(), "the thread that forks closes at once");
        let _inside = enter(); // and goes inside: nobody else is there
        std::thread::spawn(move || close(Open(told))).join().unwrap();
        assert!(heard.try_recv().is_err(), "another thread leaves it for later");
        release();
        assert!(heard.try_recv().is_ok());
    }
}
