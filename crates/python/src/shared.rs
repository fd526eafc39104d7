//! What an object of Python's shares with the calls on it, until it is closed.

use crate::error::{Answer, closed};
use pyo3::prelude::*;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Below so many bytes a codec is done before another thread would have the interpreter.
const TINY: usize = 2048;

/// Locks, whatever a thread that panicked has left.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that can be closed. A call that is under way keeps it to its end.
pub(crate) struct Shared<T> {
    what: &'static str,
    value: Mutex<Option<Arc<T>>>,
}

impl<T: Send + Sync> Shared<T> {
    /// Returns what is open; `what` is its name in errors.
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Shared { what, value: Mutex::new(Some(Arc::new(value))) }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// `ValueError`: it is closed.
    pub(crate) fn get(&self) -> Answer<Arc<T>> {
        lock(&self.value).clone().ok_or_else(|| closed(self.what))
    }

    /// Returns whether it is closed.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.value).is_none()
    }

    /// Closes it; again, if it is closed.
    pub(crate) fn close(&self, py: Python<'_>) {
        let value = lock(&self.value).take();
        py.detach(|| drop(value));
    }
}

/// How often is looked whether the interpreter is free, at most: some microseconds.
const LOOKS: usize = 200;

/// Whether who did some work last has the interpreter still, between that and its next. A hint:
/// others may have it, and two may have set it.
static HELD: AtomicBool = AtomicBool::new(false);

/// Does the work on so many bytes, and lets other threads of Python's run meanwhile if that pays.
///
/// From one call to the next takes a thread some tenths of a microsecond, and to sleep for that and
/// be woken takes tens: who is done stays awake for a while.
pub(crate) fn work<T: Send>(py: Python<'_>, bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    if bytes < TINY {
        return work();
    }
    py.detach(|| {
        HELD.store(false, Ordering::Relaxed);
        let done = work();
        for _ in 0..LOOKS {
            if !HELD.load(Ordering::Relaxed) {
                break;
            }
            hint::spin_loop();
        }
        HELD.store(true, Ordering::Relaxed);
        done
    })
}
