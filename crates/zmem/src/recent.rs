//! The blocks that were filled last. If a fault evicts, the clock passes over these blocks: one
//! instruction may need several blocks, and would fault forever if each fault evicted another of
//! these blocks.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The maximum number of recent blocks: enough for an instruction that gathers words.
const COUNT: usize = 32;
/// The minimum number of recent blocks, for large blocks: enough for an instruction that copies.
const COUNT_MIN: usize = 4;
const BYTES: usize = 128 << 10;

/// The blocks that an eviction spares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spares {
    Nothing,
    /// The blocks that were filled last. A fault that evicts spares them.
    Recent,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Recent {
    blocks: [AtomicUsize; COUNT],
    next: AtomicUsize,
    count: usize,
}

impl Recent {
    /// Returns an empty list for blocks of `size` bytes.
    pub(crate) fn new(size: usize) -> Self {
        let count = (BYTES / size).clamp(COUNT_MIN, COUNT);
        let blocks = [const { AtomicUsize::new(usize::MAX) }; COUNT];
        Recent { blocks, next: AtomicUsize::new(0), count }
    }

    /// Records a block that became resident because a thread accessed it.
    pub(crate) fn note(&self, block: usize) {
        let next = self.next.fetch_add(1, Relaxed) % self.count;
        self.blocks[next].store(block, Relaxed);
    }

    /// Returns whether a block is one of the last `count` recorded blocks.
    pub(crate) fn has(&self, block: usize) -> bool {
        self.blocks[..self.count].iter().any(|recent| recent.load(Relaxed) == block)
    }
}
