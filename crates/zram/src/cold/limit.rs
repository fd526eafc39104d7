//! How much may be written back.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// How much may be written back, and how: may change while it is.
#[derive(Debug)]
pub struct WritebackLimit {
    is_enabled: AtomicBool,
    /// Blocks of 4 KiB that may still be written.
    left: AtomicU64,
    batch: AtomicU32,
}

impl Default for WritebackLimit {
    fn default() -> Self {
        let (is_enabled, left) = (AtomicBool::new(false), AtomicU64::new(0));
        WritebackLimit { is_enabled, left, batch: AtomicU32::new(4) }
    }
}

impl WritebackLimit {
    /// Whether the limit holds.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled.load(Relaxed)
    }

    /// Has the limit hold, or not.
    pub fn enable(&self, is_enabled: bool) {
        self.is_enabled.store(is_enabled, Relaxed);
    }

    /// Blocks of 4 KiB that may still be written.
    pub fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }

    /// Sets what [`left`](Self::left) tells.
    pub fn set_left(&self, blocks: u64) {
        self.left.store(blocks, Relaxed);
    }

    /// Writes of 1 MiB that are made durable together, and leave memory.
    pub fn batch(&self) -> u32 {
        self.batch.load(Relaxed)
    }

    /// Sets what [`batch`](Self::batch) tells, 1 at least.
    pub fn set_batch(&self, writes: u32) {
        self.batch.store(writes.max(1), Relaxed);
    }

    /// Takes up to `most` blocks of what is left.
    pub(super) fn charge(&self, most: u64) -> u64 {
        if !self.is_enabled() {
            return most;
        }
        let take = |left: u64| Some(left - left.min(most));
        self.left.fetch_update(Relaxed, Relaxed, take).map_or(0, |left| left.min(most))
    }

    pub(super) fn give_back(&self, blocks: u64) {
        if self.is_enabled() {
            self.left.fetch_add(blocks, Relaxed);
        }
    }
}
