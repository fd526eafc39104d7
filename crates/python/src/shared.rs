//! The value behind a Python object. Running calls of the object's methods share the value.

use crate::error::{Answer, closed};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Takes the lock, even if a thread that held it has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value that can be closed. A running call keeps the value alive until the call ends.
pub(crate) struct Shared<T> {
    what: &'static str,
    value: Mutex<Option<Arc<T>>>,
}

impl<T: Send + Sync> Shared<T> {
    /// Returns an open value; `what` is the name of the value in error messages.
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Shared { what, value: Mutex::new(Some(Arc::new(value))) }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// Returns `ValueError` if the value is closed.
    pub(crate) fn get(&self) -> Answer<Arc<T>> {
        lock(&self.value).clone().ok_or_else(|| closed(self.what))
    }

    /// Returns true if the value is closed.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.value).is_none()
    }

    /// Closes the value. Closing a closed value has no effect.
    pub(crate) fn close(&self, py: Python<'_>) {
        let value = lock(&self.value).take();
        py.detach(|| drop(value));
    }
}
