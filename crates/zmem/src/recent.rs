//! The blocks that were brought last, which the clock passes over where a fault evicts: one
//! instruction may need several, and would begin again for ever if each had another one go.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// As many as an instruction that gathers words may need.
const COUNT: usize = 32;
/// Of large blocks there are fewer: as many as one that copies needs.
const COUNT_MIN: usize = 4;
const BYTES: usize = 128 << 10;

/// What an eviction passes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spares {
    Nothing,
    /// What was brought last, for the fault that evicts.
    Recent,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Recent {
    units: [AtomicUsize; COUNT],
    next: AtomicUsize,
    count: usize,
}

impl Recent {
    /// Returns an empty one for blocks of so many bytes.
    pub(crate) fn new(unit: usize) -> Self {
        let count = (BYTES / unit).clamp(COUNT_MIN, COUNT);
        let units = [const { AtomicUsize::new(usize::MAX) }; COUNT];
        Recent { units, next: AtomicUsize::new(0), count }
    }

    /// Takes note of a block that a thread was given as it touched it.
    pub(crate) fn note(&self, unit: usize) {
        let next = self.next.fetch_add(1, Relaxed) % self.count;
        self.units[next].store(unit, Relaxed);
    }

    /// Returns whether a block is one of the last.
    pub(crate) fn has(&self, unit: usize) -> bool {
        self.units[..self.count].iter().any(|recent| recent.load(Relaxed) == unit)
    }
}
