//! The maximum number of bytes held at the same time, and the maximum number of resident bytes.

use crate::stats::raise;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    held: AtomicU64,
    resident: AtomicU64,
}

impl Peak {
    pub(crate) fn note(&self, held: u64, resident: u64) {
        raise(&self.held, held);
        raise(&self.resident, resident);
    }

    /// Sets both maxima to the present values.
    pub(super) fn begin(&self, held: u64, resident: u64) {
        self.held.store(held, Relaxed);
        self.resident.store(resident, Relaxed);
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    pub(crate) fn resident(&self) -> u64 {
        self.resident.load(Relaxed)
    }
}
