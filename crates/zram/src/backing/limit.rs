//! The limit of write-back.

use crate::policy::WRITES_PER_SYNC_DEFAULT;
use rustix_futex_sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The limit of write-back, and the size of a group of writes. The limit and the group size can
/// change during a write-back.
#[derive(Debug)]
pub struct WritebackLimit {
    budget: Mutex<Budget>,
    batch: AtomicU32,
}

#[derive(Debug, Default)]
struct Budget {
    is_enabled: bool,
    /// The number of further 4 KiB blocks that jobs are allowed to write.
    left: u64,
    /// The number of times that the limit was set. A charge to an earlier limit is not refunded to
    /// a later limit.
    set: u64,
}

/// A charge to the limit: the number of charged blocks, and the value of `Budget::set` at the time
/// of the charge, or `None` if the limit was not in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitCharge {
    pub(crate) blocks: u64,
    of: Option<u64>,
}

impl LimitCharge {
    /// Divides the charge into a charge for `blocks` blocks and a charge for the remaining blocks.
    pub(crate) fn split(self, blocks: u64) -> [LimitCharge; 2] {
        let blocks = blocks.min(self.blocks);
        [LimitCharge { blocks, ..self }, LimitCharge { blocks: self.blocks - blocks, ..self }]
    }
}

impl Default for WritebackLimit {
    fn default() -> Self {
        WritebackLimit { budget: Mutex::default(), batch: AtomicU32::new(WRITES_PER_SYNC_DEFAULT) }
    }
}

impl WritebackLimit {
    /// Returns true if the limit is in force.
    pub fn is_enabled(&self) -> bool {
        self.budget.lock().is_enabled
    }

    /// Sets whether the limit is in force.
    pub fn enable(&self, is_enabled: bool) {
        self.budget.lock().is_enabled = is_enabled;
    }

    /// Returns the number of further 4 KiB blocks that jobs are allowed to write.
    pub fn left(&self) -> u64 {
        self.budget.lock().left
    }

    /// Sets the number that [`left`](Self::left) returns.
    pub fn set_left(&self, blocks: u64) {
        let mut budget = self.budget.lock();
        budget.left = blocks;
        budget.set += 1;
    }

    /// Returns the number of writes (of 1 MiB) in a group. The writes of a group share a sync.
    /// After the sync, the objects of the group are freed in memory.
    pub fn batch(&self) -> u32 {
        self.batch.load(Relaxed)
    }

    /// Sets the number that [`batch`](Self::batch) returns, at least 1.
    pub fn set_batch(&self, writes: u32) {
        self.batch.store(writes.max(1), Relaxed);
    }

    /// Charges up to `most` blocks, as far as the limit allows.
    pub(crate) fn charge(&self, most: u64) -> LimitCharge {
        let mut budget = self.budget.lock();
        if !budget.is_enabled {
            return LimitCharge { blocks: most, of: None };
        }
        let blocks = budget.left.min(most);
        budget.left -= blocks;
        LimitCharge { blocks, of: Some(budget.set) }
    }

    /// Refunds the charge for blocks that were not written.
    pub(crate) fn give_back(&self, charge: LimitCharge) {
        let mut budget = self.budget.lock();
        if charge.of == Some(budget.set) {
            budget.left += charge.blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_taken_is_given_back() {
        let limit = WritebackLimit::default();
        let free = limit.charge(256);
        assert_eq!(free.blocks, 256);
        limit.set_left(10);
        limit.enable(true);
        limit.give_back(free);
        assert_eq!(limit.left(), 10, "that was taken of no limit");
        let [used, rest] = limit.charge(256).split(4);
        assert_eq!((used.blocks, rest.blocks, limit.left()), (4, 6, 0));
        limit.give_back(rest);
        assert_eq!(limit.left(), 6);
        limit.enable(false);
        limit.give_back(used);
        assert_eq!(limit.left(), 10, "though it does not hold now");
        limit.enable(true);
        let old = limit.charge(3);
        limit.set_left(1);
        limit.give_back(old);
        assert_eq!(limit.left(), 1, "that was taken of another");
    }
}
