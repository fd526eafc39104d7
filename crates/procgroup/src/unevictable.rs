//! The memory of this process that can't be evicted, recorded for the message about a limit that
//! can't be kept: see `over_limit`.

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
