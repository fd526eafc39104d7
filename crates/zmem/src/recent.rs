//! The last faults. From a thread's last fault, the pager recognizes that the thread accesses
//! blocks in ascending or descending order. A faulting thread does not evict the blocks that the
//! last faults accessed, because one instruction can need several blocks. If each fault evicted
//! another block that the instruction needs, the instruction would fault forever.

use crate::policy::{FAULTING_THREADS, RECENT_BYTES, RECENT_MAX, RECENT_MIN};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The resident blocks that an eviction does not evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spares {
    Nothing,
    /// The blocks that the last faults accessed. A faulting thread does not evict these blocks.
    Recent,
}

/// The blocks that the last faults accessed, whichever thread faulted.
#[derive(Debug)]
pub(crate) struct Recent {
    blocks: [AtomicUsize; RECENT_MAX],
    next: AtomicUsize,
    count: usize,
}

impl Recent {
    /// Returns an empty list. A block has `size` bytes.
    pub(crate) fn new(size: usize) -> Self {
        let count = (RECENT_BYTES / size).clamp(RECENT_MIN, RECENT_MAX);
        let blocks = [const { AtomicUsize::new(usize::MAX) }; RECENT_MAX];
        Recent { blocks, next: AtomicUsize::new(0), count }
    }

    pub(crate) fn note(&self, block: usize) {
        let next = self.next.fetch_add(1, Relaxed) % self.count;
        self.blocks[next].store(block, Relaxed);
    }

    /// Returns whether a block is one of the last `count` recorded blocks.
    pub(crate) fn has(&self, block: usize) -> bool {
        self.blocks[..self.count].iter().any(|recent| recent.load(Relaxed) == block)
    }
}

const COUNT_BITS: u32 = 8;
const BLOCK_BITS: u32 = 32;

thread_local! {
    /// The last fault of this thread: the number of the pager (`Order::name`), the number of the
    /// block after the filled blocks, and the number of filled blocks.
    static LAST: Cell<(usize, usize, usize)> = const { Cell::new((0, 0, 0)) };
}

/// The blocks that a fault should fill: the accessed block, and neighbours in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The maximum number of blocks, including the accessed block.
    pub(crate) most: usize,
    pub(crate) side: Side,
}

/// The position of the neighbours relative to the accessed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Behind,
    Before,
    /// Neighbours after the accessed block. If these are too few, also neighbours before the block.
    Both,
}

impl Wanted {
    /// Returns a request for the accessed block and the neighbours after it, `most` blocks in all.
    pub(crate) fn from_it_on(most: usize) -> Self {
        Wanted { most, side: Side::Behind }
    }
}

/// The thread whose access caused a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Toucher {
    This,
    /// A thread that waits for a fault thread. The number is the kernel's thread ID.
    Other(u32),
}

/// The last fault of each thread whose faults are handled by fault threads. Threads with the same
/// slot overwrite each other's data.
#[derive(Debug)]
pub(crate) struct Order([AtomicU64; FAULTING_THREADS]);

impl Default for Order {
    fn default() -> Self {
        Order([const { AtomicU64::new(0) }; FAULTING_THREADS])
    }
}

impl Order {
    /// Returns a number that distinguishes this pager from other pagers.
    fn name(&self) -> usize {
        (&raw const *self).addr()
    }

    /// Packs a fault into a word: 24 bits of the thread ID, the number of the block after the
    /// filled blocks, and the number of filled blocks.
    fn pack(thread: u32, next: usize, count: usize) -> u64 {
        let place = u64::from(thread) << BLOCK_BITS | next as u64 & ((1 << BLOCK_BITS) - 1);
        place << COUNT_BITS | (count as u64).min((1 << COUNT_BITS) - 1)
    }

    /// Returns the number of the block after the blocks that a thread's last fault filled, and the
    /// number of these blocks.
    fn last(&self, toucher: Toucher) -> Option<(usize, usize)> {
        match toucher {
            Toucher::This => {
                let (pager, next, count) = LAST.get();
                (pager == self.name()).then_some((next, count))
            }
            Toucher::Other(thread) => {
                let last = self.0[thread as usize % FAULTING_THREADS].load(Relaxed);
                let count = last as usize & ((1 << COUNT_BITS) - 1);
                let next = (last >> COUNT_BITS) as usize & ((1 << BLOCK_BITS) - 1);
                (count > 0 && last == Self::pack(thread, next, count)).then_some((next, count))
            }
        }
    }

    /// Returns a request for twice as many blocks as the thread's last fault filled, if `block` is
    /// directly before or after those blocks.
    pub(crate) fn wanted(&self, toucher: Toucher, block: usize) -> Option<Wanted> {
        let (next, count) = self.last(toucher)?;
        let is_before = block + 1 + count == next;
        let side = if is_before { Side::Before } else { Side::Behind };
        (is_before || block == next).then_some(Wanted { most: 2 * count, side })
    }

    pub(crate) fn note(&self, toucher: Toucher, brought: &Range<usize>) {
        let (next, count) = (brought.end, brought.len());
        match toucher {
            Toucher::This => LAST.set((self.name(), next, count)),
            Toucher::Other(thread) => {
                self.0[thread as usize % FAULTING_THREADS]
                    .store(Self::pack(thread, next, count), Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_in_order_want_twice_as_many() {
        let order = Order::default();
        let (own, other, third) = (Toucher::This, Toucher::Other(7), Toucher::Other(7 + 64));
        for toucher in [own, other] {
            assert_eq!(order.wanted(toucher, 0), None);
            order.note(toucher, &(100..104));
            assert_eq!(order.wanted(toucher, 104), Some(Wanted::from_it_on(8)));
            assert_eq!(order.wanted(toucher, 99), Some(Wanted { most: 8, side: Side::Before }));
            for elsewhere in [98, 100, 103, 105] {
                assert_eq!(order.wanted(toucher, elsewhere), None);
            }
        }
        assert_eq!(order.wanted(third, 104), None);
        order.note(third, &(0..300));
        assert_eq!((order.wanted(other, 104), order.wanted(third, 301)), (None, None));
        // The number of filled blocks in a slot is at most 255.
        assert_eq!(order.wanted(third, 300), Some(Wanted::from_it_on(2 * 255)));
        assert_eq!(Order::default().wanted(own, 104), None);
    }
}
