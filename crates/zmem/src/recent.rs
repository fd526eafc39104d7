//! The blocks that were filled last. If a fault evicts, the clock passes over these blocks: one
//! instruction may need several blocks, and would fault forever if each fault evicted another of
//! these blocks.

use crate::policy::{RECENT_BYTES, RECENT_MAX, RECENT_MIN};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
    blocks: [AtomicUsize; RECENT_MAX],
    next: AtomicUsize,
    count: usize,
}

impl Recent {
    /// Returns an empty list for blocks of `size` bytes.
    pub(crate) fn new(size: usize) -> Self {
        let count = (RECENT_BYTES / size).clamp(RECENT_MIN, RECENT_MAX);
        let blocks = [const { AtomicUsize::new(usize::MAX) }; RECENT_MAX];
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
