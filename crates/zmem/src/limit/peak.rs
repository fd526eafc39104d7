//! The most that was held at a time, and of it the most blocks that were resident.

use crate::stats::raise;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    held: AtomicU64,
    resident: AtomicU64,
}

impl Peak {
    pub(super) fn note(&self, held: u64, resident: usize) {
        raise(&self.held, held);
        raise(&self.resident, resident as u64);
    }

    /// Begins anew.
    pub(super) fn begin(&self, held: u64, resident: usize) {
        self.held.store(held, Relaxed);
        self.resident.store(resident as u64, Relaxed);
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    pub(crate) fn resident(&self) -> usize {
        self.resident.load(Relaxed) as usize
    }
}
