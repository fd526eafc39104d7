//! Counts of the changes of a region's blocks, and maxima of the memory that it holds.

use crate::times::Times;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of different rounds that a block's word can hold: the round in which the block was
/// evicted has 4 bits.
pub(crate) const DISTANCES: usize = 16;

/// The counters of a region. [`Stats`] describes each counter.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) first_touches: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) filled: AtomicU64,
    pub(crate) ahead: AtomicU64,
    pub(crate) in_place: AtomicU64,
    pub(crate) refaults: AtomicU64,
    /// Numbers of filled blocks, by the number of rounds of the clock between eviction and fill.
    pub(crate) distances: [AtomicU64; DISTANCES],
    pub(crate) waits: AtomicU64,
    pub(crate) marked: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) aside: AtomicU64,
    pub(crate) zeros: AtomicU64,
    pub(crate) stolen: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) incompressible: AtomicU64,
    pub(crate) times: Times,
}

/// The most data that the device stored. The upper half of the word holds the KiB after
/// compression, which are compared; the lower half holds the KiB before compression at the same
/// moment.
#[derive(Debug, Default)]
pub(crate) struct StoredMost(AtomicU64);

impl StoredMost {
    pub(crate) fn note(&self, bytes: u64, compressed: u64) {
        let kib = |bytes: u64| bytes.div_ceil(1024).min(u32::MAX.into());
        raise(&self.0, kib(compressed) << 32 | kib(bytes));
    }

    /// Returns the maximum in bytes, before and after compression.
    pub(crate) fn get(&self) -> (u64, u64) {
        let word = self.0.load(Relaxed);
        (1024 * (word & u64::from(u32::MAX)), 1024 * (word >> 32))
    }

    /// Sets the maximum to 0.
    pub(crate) fn begin(&self) {
        self.0.store(0, Relaxed);
    }
}

impl Counters {
    /// Sets all counters to zero in a child, because earlier events count for the parent.
    pub(crate) fn begin_child(&self) {
        let Counters { first_touches, kept, filled, ahead, in_place, refaults, waits, .. } = self;
        let Counters {
            marked, evicted, aside, zeros, stolen, refused, incompressible, times, ..
        } = self;
        let counts = [first_touches, kept, filled, ahead, in_place, refaults, waits];
        let more = [marked, evicted, aside, zeros, stolen, refused, incompressible];
        let all = counts.into_iter().chain(more).chain(times.words());
        all.for_each(|count| count.store(0, Relaxed));
    }
}

/// Raises a maximum to `value` if `value` is larger. Usually `value` is not larger, and the cache
/// line is only read.
pub(crate) fn raise(most: &AtomicU64, value: u64) {
    if value > most.load(Relaxed) {
        most.fetch_max(value, Relaxed);
    }
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Relaxed);
}

/// The maximum number of bytes held at the same time, and the maximum number of resident bytes.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    held: AtomicU64,
    resident: AtomicU64,
}

impl Peak {
    pub(crate) fn note(&self, held: u64, resident: u64) {
        raise(&self.held, held);
        raise(&self.resident, resident);
    }

    /// Sets both maxima to the present values.
    pub(crate) fn begin(&self, held: u64, resident: u64) {
        self.held.store(held, Relaxed);
        self.resident.store(resident, Relaxed);
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    pub(crate) fn resident(&self) -> u64 {
        self.resident.load(Relaxed)
    }
}
