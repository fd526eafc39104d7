//! What manages a slab: the `data` of its extent's descriptor.
//!
//! ```text
//!   |  0  next        4  previous   |  slab numbers in the cache's list of slabs with room, 0 = none
//!   |  8  active     12             |  objects in use
//!   | 16  used: 512 bits            |  bit n: object n is in use
//!   | 80  committed: 256 bits       |  bit n: page n is committed
//! ```
//!
//! Everything here changes under the cache's lock only; the fields are atomics so that a stale reader
//! of a descriptor reads old numbers, not a data race.
//!
//! # Safety
//! A descriptor begins as zeros: all its fields are atomic integers.
#![allow(unsafe_code)]

use crate::geometry::OBJECTS_MAX;
use crate::sync::{AtomicU32, AtomicU64, Relaxed};
use page::PageSet;

const WORDS: usize = OBJECTS_MAX / 64;

/// A slab's management.
#[derive(Debug)]
pub(crate) struct Slab {
    pub(crate) next: AtomicU32,
    pub(crate) previous: AtomicU32,
    pub(crate) active: AtomicU32,
    used: [AtomicU64; WORDS],
    committed: PageSet,
}

// SAFETY: all its fields are atomic integers.
unsafe impl page::Zeroed for Slab {}

impl Slab {
    /// Takes the lowest free object below `objects`.
    pub(crate) fn take(&self, objects: usize) -> Option<usize> {
        let (word, bits) = self
            .used
            .iter()
            .enumerate()
            .map(|(word, bits)| (word, bits.load(Relaxed)))
            .find(|&(_, bits)| bits != u64::MAX)?;
        let index = word * 64 + bits.trailing_ones() as usize;
        if index >= objects {
            return None;
        }
        self.used[word].store(bits | (1 << (index % 64)), Relaxed);
        self.active.fetch_add(1, Relaxed);
        Some(index)
    }

    /// Gives object `index` back; false where it was not in use.
    pub(crate) fn give(&self, index: usize) -> bool {
        let mask = 1 << (index % 64);
        let was = self.used[index / 64].fetch_and(!mask, Relaxed) & mask != 0;
        if was {
            self.active.fetch_sub(1, Relaxed);
        }
        was
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Relaxed) as usize
    }

    /// The pages that are committed.
    pub(crate) fn committed(&self) -> &PageSet {
        &self.committed
    }

    /// Makes a slab's descriptor that of an empty one, of whose pages none is committed.
    pub(crate) fn reset(&self) {
        self.next.store(0, Relaxed);
        self.previous.store(0, Relaxed);
        self.active.store(0, Relaxed);
        for bits in &self.used {
            bits.store(0, Relaxed);
        }
        self.committed.clear();
    }

    /// Whether the bits agree with `active` and end at `objects`.
    pub(crate) fn check(&self, objects: usize) {
        let ones: u32 = self.used.iter().map(|bits| bits.load(Relaxed).count_ones()).sum();
        assert_eq!(ones as usize, self.active(), "used bits of a slab");
        let beyond = (objects..OBJECTS_MAX)
            .filter(|index| self.used[index / 64].load(Relaxed) >> (index % 64) & 1 == 1);
        assert_eq!(beyond.count(), 0, "used bits beyond the last object");
    }
}
