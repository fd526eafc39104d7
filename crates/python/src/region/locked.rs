//! Locked ranges of a region.
//!
//! # Safety
//! A lock holds its region, which so outlives it.
#![allow(unsafe_code)]

use super::memory::Memory;
use crate::error::{Answer, value_error};
use crate::shared::lock;
use pyo3::prelude::*;
use std::mem::transmute;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use uzram::Locked;

/// A locked range of a region, which stays resident until it is unlocked: a context manager, and
/// the result of `Region.lock`.
#[pyclass(frozen, weakref, module = "uzram")]
pub(crate) struct RegionLock(Mutex<Option<Held>>);

struct Held {
    /// Dropped before the user, whose region it borrows.
    _locked: Locked<'static>,
    _user: User,
}

/// One who keeps a region from being closed.
struct User {
    region: Arc<uzram::Region>,
    memory: Arc<Memory>,
}

impl Drop for User {
    fn drop(&mut self) {
        self.memory.leave();
    }
}

impl RegionLock {
    /// Locks a range of a region.
    pub(crate) fn new(py: Python<'_>, memory: &Arc<Memory>, range: Range<usize>) -> Answer<Self> {
        let user = User { region: memory.take()?, memory: memory.clone() };
        let locked = py.detach(|| user.region.lock(range))?;
        // SAFETY: the `Arc` beside it keeps the region where it is for as long as the lock is.
        let locked = unsafe { transmute::<Locked<'_>, Locked<'static>>(locked) };
        Ok(RegionLock(Mutex::new(Some(Held { _locked: locked, _user: user }))))
    }
}

#[pymethods]
impl RegionLock {
    /// Unlocks the range. Unlocking it again does nothing.
    fn unlock(&self) {
        let held = lock(&self.0).take();
        drop(held);
    }

    /// Whether the range is locked still.
    #[getter]
    fn locked(&self) -> bool {
        lock(&self.0).is_some()
    }

    fn __enter__(slf: PyRef<'_, Self>) -> Answer<PyRef<'_, Self>> {
        if slf.locked() { Ok(slf) } else { Err(value_error("the range is unlocked; lock it anew")) }
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyAny>) {
        self.unlock();
    }
}
