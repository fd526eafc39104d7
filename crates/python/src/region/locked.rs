//! Locked ranges of a region.
//!
//! # Safety
//! A lock holds a reference to its region, so the region outlives the lock.
#![allow(unsafe_code)]

use super::memory::Memory;
use crate::error::{Answer, value_error};
use crate::shared::lock;
use pyo3::prelude::*;
use std::mem::transmute;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use uzram::Locked;

/// A locked range of a region, which stays resident until it is unlocked. `Region.lock` returns
/// this context manager.
#[pyclass(frozen, weakref, module = "uzram")]
pub(crate) struct RegionLock(Mutex<Option<Held>>);

struct Held {
    /// The lock of the range. The lock is dropped before the user, because the lock borrows the
    /// user's region.
    _locked: Locked<'static>,
    _user: User,
}

/// A user of a region. The region can't be closed while users exist.
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
        // SAFETY: the `Arc` beside the lock keeps the region in place as long as the lock exists.
        let locked = unsafe { transmute::<Locked<'_>, Locked<'static>>(locked) };
        Ok(RegionLock(Mutex::new(Some(Held { _locked: locked, _user: user }))))
    }
}

#[pymethods]
impl RegionLock {
    /// Unlocks the range. Unlocking an unlocked range has no effect.
    fn unlock(&self) {
        let held = lock(&self.0).take();
        drop(held);
    }

    /// True if the range is still locked.
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
