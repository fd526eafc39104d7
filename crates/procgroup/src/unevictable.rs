//! The memory of a process that can't be evicted, for the message about a limit that can't be kept.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The memory of a process that can't be evicted, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unevictable {
    /// Bytes of compressed data, with the memory that manages them.
    pub(crate) compressed: u64,
    /// Bytes of resident blocks.
    pub(crate) resident: u64,
    pub(crate) shared: u64,
    /// Bytes of private memory that the pager does not manage.
    pub(crate) unmanaged: u64,
}

/// The memory that this process could not evict when it last found that the limit can't be kept. A
/// reader may see some words of one call of `store` and other words of the next call.
#[derive(Debug, Default)]
pub(crate) struct UnevictableWords([AtomicU64; 4]);

impl UnevictableWords {
    pub(crate) fn store(&self, kept: &Unevictable) {
        let values = [kept.compressed, kept.resident, kept.shared, kept.unmanaged];
        self.0.iter().zip(values).for_each(|(word, value)| word.store(value, Relaxed));
    }

    pub(crate) fn load(&self) -> Unevictable {
        let [compressed, resident, shared, unmanaged] =
            [0, 1, 2, 3].map(|at| self.0[at].load(Relaxed));
        Unevictable { compressed, resident, shared, unmanaged }
    }
}

/// The memory that a process holds and can't evict, in bytes, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Compressed data, and the memory that manages them.
    pub compressed: u64,
    /// The part of `compressed` that is stored uncompressed, because compression does not make it
    /// smaller.
    pub incompressible: u64,
    /// Blocks that are resident because system calls or locks pin them.
    pub pinned: u64,
    /// Other resident blocks: the minimum that a process needs, blocks whose eviction frees
    /// nothing, and blocks that were pinned for calls which have returned.
    pub resident: u64,
    /// Blocks that stay resident because a debugger reads them.
    pub debugged: u64,
    /// Shared memory.
    pub shared: u64,
    /// Private memory that is outside the arena, or inside it but not managed.
    pub unmanaged: u64,
}

impl Holdings {
    /// Returns the sum of all kinds, in bytes.
    pub fn all(&self) -> u64 {
        let managed = self.compressed + self.pinned + self.resident + self.debugged;
        managed + self.shared + self.unmanaged
    }
}
