//! Touches in order: for each thread, where its last fault ended and how many blocks that brought.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Slots of the table of threads that wait for a fault thread.
const LASTS: usize = 64;
const COUNT_BITS: u32 = 8;
const UNIT_BITS: u32 = 32;

thread_local! {
    /// The last fault of this thread: the pager, the block behind those that came, and how many
    /// came.
    static LAST: Cell<(usize, usize, usize)> = const { Cell::new((0, 0, 0)) };
}

/// The thread whose touch a fault is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Toucher {
    /// The thread that answers the fault.
    This,
    /// A thread that waits for a fault thread, by its number.
    Other(u32),
}

/// The last faults of threads that wait for a fault thread. Threads whose numbers share a slot
/// overwrite each other's.
#[derive(Debug)]
pub(crate) struct Order([AtomicU64; LASTS]);

impl Default for Order {
    fn default() -> Self {
        Order([const { AtomicU64::new(0) }; LASTS])
    }
}

impl Order {
    /// Returns a number that tells this pager from others.
    fn name(&self) -> usize {
        (&raw const *self).addr()
    }

    /// Packs a fault into a slot: 24 bits of the thread's number, the next block, the count.
    fn pack(thread: u32, next: usize, count: usize) -> u64 {
        let place = u64::from(thread) << UNIT_BITS | next as u64 & ((1 << UNIT_BITS) - 1);
        place << COUNT_BITS | (count as u64).min((1 << COUNT_BITS) - 1)
    }

    /// Returns how many blocks the thread's last fault brought, if that ended where this one is.
    pub(crate) fn before(&self, toucher: Toucher, unit: usize) -> Option<usize> {
        match toucher {
            Toucher::This => {
                let (pager, next, count) = LAST.get();
                ((pager, next) == (self.name(), unit)).then_some(count)
            }
            Toucher::Other(thread) => {
                let last = self.0[thread as usize % LASTS].load(Relaxed);
                let count = last as usize & ((1 << COUNT_BITS) - 1);
                (count > 0 && last == Self::pack(thread, unit, count)).then_some(count)
            }
        }
    }

    /// Records a fault that brought `count` blocks, up to block `next`.
    pub(crate) fn note(&self, toucher: Toucher, next: usize, count: usize) {
        match toucher {
            Toucher::This => LAST.set((self.name(), next, count)),
            Toucher::Other(thread) => {
                self.0[thread as usize % LASTS].store(Self::pack(thread, next, count), Relaxed);
            }
        }
    }
}
