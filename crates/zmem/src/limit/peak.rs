//! The most that was held at a time, and of it the most blocks that were resident.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    held: AtomicU64,
    resident: AtomicUsize,
}

impl Peak {
    pub(super) fn note(&self, held: u64, resident: usize) {
        if held > self.held.load(Relaxed) {
            self.held.fetch_max(held, Relaxed);
        }
        if resident > self.resident.load(Relaxed) {
            self.resident.fetch_max(resident, Relaxed);
        }
    }

    /// Begins anew.
    pub(super) fn begin(&self, held: u64, resident: usize) {
        self.held.store(held, Relaxed);
        self.resident.store(resident, Relaxed);
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    pub(crate) fn resident(&self) -> usize {
        self.resident.load(Relaxed)
    }
}
