//! A region's memory, and the count of its users. The region can't be closed while it has users.

use crate::error::{Answer, closed};
use crate::shared::lock;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

struct Open {
    region: Option<Arc<uzram::Region>>,
    /// The number of views and locks of the region.
    users: usize,
}

/// A region that calls can use until it is closed.
pub(crate) struct Memory(Mutex<Open>);

impl Memory {
    pub(crate) fn new(region: uzram::Region) -> Self {
        Memory(Mutex::new(Open { region: Some(Arc::new(region)), users: 0 }))
    }

    /// Returns the region, which another thread can close at any time.
    ///
    /// # Errors
    /// Returns `ValueError` if the region is closed.
    pub(crate) fn get(&self) -> Answer<Arc<uzram::Region>> {
        lock(&self.0).region.clone().ok_or_else(|| closed("region"))
    }

    /// Returns true if the region is closed.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.0).region.is_none()
    }

    /// Counts a user, and returns the region. The region can't be closed until `leave` is called.
    ///
    /// # Errors
    /// Fails as [`get`](Self::get) does. After an error no user is counted.
    pub(crate) fn take(&self) -> Answer<Arc<uzram::Region>> {
        let mut open = lock(&self.0);
        let region = open.region.clone().ok_or_else(|| closed("region"))?;
        open.users += 1;
        Ok(region)
    }

    /// Removes a user from the count.
    pub(crate) fn leave(&self) {
        lock(&self.0).users -= 1;
    }

    /// Closes the region. Closing a closed region has no effect.
    ///
    /// # Errors
    /// Returns `BufferError` if the region has users.
    pub(crate) fn close(&self, py: Python<'_>) -> Answer<()> {
        let mut open = lock(&self.0);
        if open.users > 0 {
            let users = open.users;
            let message = format!(
                "the region can't be closed: {users} views and locks of it are left; release them \
                 first"
            );
            return Err(PyBufferError::new_err(message).into());
        }
        let region = open.region.take();
        drop(open);
        py.detach(|| drop(region));
        Ok(())
    }
}
