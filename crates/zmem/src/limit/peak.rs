//! The most bytes that were held at a time, and of them the most that were resident.

use crate::stats::raise;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the head of this file.
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

    /// Begins anew.
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
