//! What an object of Python's shares with the calls on it, until it is closed.

use crate::error::{Answer, closed};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
