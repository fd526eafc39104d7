//! The body of a zspage: which slots are taken, and whose they are.
//!
//! ```text
//!   | taken: one bit per slot, in words of 64 | owners: u32 per slot |
//! ```
//!
//! A slot is *free* (bit clear), *live* (bit set, owner's number) or *held* (bit set, `HELD`): held
//! slots are those on pages that are being given back, kept from the allocator meanwhile.

use crate::sync::{AtomicU32, Ordering::Relaxed};
use std::ops::Range;
use std::sync::atomic::AtomicU64;

/// Owner of a slot that is held for a release. No owner's word has this number.
pub(crate) const HELD: u32 = u32::MAX;

/// A body, borrowed under the class's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    pub(crate) taken: &'a [AtomicU64],
    pub(crate) owners: &'a [AtomicU32],
}

impl Body<'_> {
    /// Words of the bitmap for `objects` slots.
    pub(crate) fn words(objects: usize) -> usize {
        objects.div_ceil(64)
    }

    /// Bytes of a body for `objects` slots.
    pub(crate) fn bytes(objects: usize) -> usize {
        Self::words(objects) * 8 + objects * 4
    }

    /// The lowest free slot.
    pub(crate) fn lowest_free(&self) -> Option<u32> {
        self.free_from(0)
    }

    /// The lowest free slot from `start` on.
    pub(crate) fn free_from(&self, start: u32) -> Option<u32> {
        let mut ignored = (1u64 << (start % 64)) - 1;
        for word in start as usize / 64..self.taken.len() {
            let free = !(self.taken[word].load(Relaxed) | ignored);
            ignored = 0;
            if free != 0 {
                let slot = word as u32 * 64 + free.trailing_zeros();
                return Some(slot).filter(|&slot| (slot as usize) < self.owners.len());
            }
        }
        None
    }

    pub(crate) fn is_taken(&self, slot: u32) -> bool {
        self.taken[slot as usize / 64].load(Relaxed) >> (slot % 64) & 1 == 1
    }

    /// The owner's number of a live slot.
    pub(crate) fn owner(&self, slot: u32) -> Option<u32> {
        let owner = self.owners[slot as usize].load(Relaxed);
        (self.is_taken(slot) && owner != HELD).then_some(owner)
    }

    /// Takes a free slot for `owner`, which may be `HELD`.
    pub(crate) fn take(&self, slot: u32, owner: u32) {
        debug_assert!(!self.is_taken(slot), "slot {slot} is taken twice");
        let word = &self.taken[slot as usize / 64];
        word.store(word.load(Relaxed) | 1 << (slot % 64), Relaxed);
        self.owners[slot as usize].store(owner, Relaxed);
    }

    /// Makes a slot free.
    pub(crate) fn give(&self, slot: u32) {
        debug_assert!(self.is_taken(slot), "slot {slot} is freed twice");
        let word = &self.taken[slot as usize / 64];
        word.store(word.load(Relaxed) & !(1 << (slot % 64)), Relaxed);
    }

    /// Whether one of `slots` is live.
    pub(crate) fn any_live(&self, slots: Range<u32>) -> bool {
        slots.into_iter().any(|slot| self.owner(slot).is_some())
    }

    /// Holds those of `slots` that are free.
    pub(crate) fn hold(&self, slots: Range<u32>) {
        for slot in slots.filter(|&slot| !self.is_taken(slot)) {
            self.take(slot, HELD);
        }
    }

    /// Makes those of `slots` free that are held.
    pub(crate) fn unhold(&self, slots: Range<u32>) {
        for slot in slots {
            if self.is_taken(slot) && self.owner(slot).is_none() {
                self.give(slot);
            }
        }
    }

    /// Number of live slots, after a look at the bits beyond the last.
    pub(crate) fn check(&self) -> u32 {
        for slot in self.owners.len()..self.taken.len() * 64 {
            assert!(!self.is_taken(slot as u32), "slot {slot} is beyond the last");
        }
        (0..self.owners.len() as u32).filter(|&slot| self.owner(slot).is_some()).count() as u32
    }
}
