//! The queue of evicted blocks that wait for the compressor thread.
//!
//! ```text
//!   slots:   | Empty | Taken   | Filled | Empty | Filled | Empty | ...
//!                      ^ head: compressor         (taken back) ^ tail: evicting thread
//!
//!   a slot:  Empty --offer--> Filled --take, or take_back--> Taken --drop--> Empty
//!
//!   31 .. 2   1 .. 0
//!   | block | state |
//! ```
//! A block in a slot is `Busy`, and no thread owns the block (zm-Q1). A thread that takes the block
//! out of the slot becomes the block's owner. The compressor thread takes a block to store it, and
//! other threads take a block to make it resident. Blocks are offered under the eviction lock, and
//! only one thread at a time calls `take` (zm-Q2).

#[cfg(all(test, loom))]
mod loom_tests;

use crate::sync::{AtomicU32, Ordering};

const STATE_BITS: u32 = 2;
const EMPTY: u32 = 0;
const FILLED: u32 = 1;
const TAKEN: u32 = 2;

/// Blocks from this number on can't be queued, because their numbers do not fit in a slot.
pub(crate) const BLOCKS_MAX: usize = 1 << (u32::BITS - STATE_BITS);

#[derive(Debug)]
pub(crate) struct Queue {
    slots: Box<[AtomicU32]>,
    /// The number of slots that `take` has examined so far. `tail` is the number of slots that
    /// `offer` has filled so far. `head` and `tail` only grow.
    head: AtomicU32,
    tail: AtomicU32,
}

/// A block that was taken out of the queue. The holder of this value owns the block, and the copy
/// of its data in the slot.
#[derive(Debug)]
pub(crate) struct Taken<'q> {
    queue: &'q Queue,
    pub(crate) slot: usize,
    pub(crate) block: usize,
}

impl Queue {
    /// Creates a queue of `slots` slots. `slots` is a power of two, because `head` and `tail` wrap
    /// around.
    pub(crate) fn new(slots: usize) -> Self {
        assert!(slots.is_power_of_two());
        Queue {
            slots: (0..slots).map(|_| AtomicU32::new(EMPTY)).collect(),
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
        }
    }

    fn index(&self, nth: u32) -> usize {
        nth as usize % self.slots.len()
    }

    /// Returns the number of blocks that can be offered, up to `most`. The caller holds the
    /// eviction lock.
    pub(crate) fn room(&self, most: usize) -> usize {
        let (tail, head) = (self.tail.load(Ordering::Relaxed), self.head.load(Ordering::Acquire));
        let free = self.slots.len() - tail.wrapping_sub(head) as usize;
        let is_empty = |nth: &u32| {
            let slot = self.index(tail.wrapping_add(*nth));
            self.slots[slot].load(Ordering::Acquire) == EMPTY
        };
        (0..most.min(free) as u32).take_while(is_empty).count()
    }

    /// Queues an owned block in the next slot. First, `fill` copies the block's data to the slot.
    /// The queue has space, and the caller holds the eviction lock.
    pub(crate) fn offer(&self, block: usize, fill: impl FnOnce(usize)) {
        let tail = self.tail.load(Ordering::Relaxed);
        let slot = self.index(tail);
        fill(slot);
        self.slots[slot].store((block as u32) << STATE_BITS | FILLED, Ordering::Release);
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
    }

    /// Returns whether `take` has examined all filled slots.
    pub(crate) fn is_done(&self) -> bool {
        self.head.load(Ordering::Acquire) == self.tail.load(Ordering::Acquire)
    }

    /// Takes the oldest block out of the queue.
    pub(crate) fn take(&self) -> Option<Taken<'_>> {
        loop {
            let head = self.head.load(Ordering::Relaxed);
            if head == self.tail.load(Ordering::Acquire) {
                return None;
            }
            let slot = self.index(head);
            let taken = self.try_take(slot, |seen| seen & !(!0 << STATE_BITS) == FILLED);
            // If `take_back` has taken the slot's block, the next slot is tried. `offer` fills a
            // slot again only when the slot is empty and `head` has passed the slot.
            self.head.store(head.wrapping_add(1), Ordering::Release);
            if taken.is_some() {
                return taken;
            }
        }
    }

    /// Takes the block `block` out of the queue, if it is queued.
    pub(crate) fn take_back(&self, block: usize) -> Option<Taken<'_>> {
        let wanted = (block as u32) << STATE_BITS | FILLED;
        (0..self.slots.len()).find_map(|slot| self.try_take(slot, |seen| seen == wanted))
    }

    fn try_take(&self, slot: usize, is_wanted: impl Fn(u32) -> bool) -> Option<Taken<'_>> {
        let seen = self.slots[slot].load(Ordering::Acquire);
        let taken = seen & (!0 << STATE_BITS) | TAKEN;
        let is_ours = is_wanted(seen)
            && self.slots[slot]
                .compare_exchange(seen, taken, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        is_ours.then(|| Taken { queue: self, slot, block: (seen >> STATE_BITS) as usize })
    }
}

impl Drop for Taken<'_> {
    /// Empties the slot. Called before the block is published.
    fn drop(&mut self) {
        self.queue.slots[self.slot].store(EMPTY, Ordering::Release);
    }
}
