//! Statistics of a region: counts of the changes of its blocks, and the memory that it holds.

use crate::times::{Histogram, Times};
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

/// The memory that a region holds, and what was done with its blocks. Counts and maxima begin when
/// the region is created, or in a child at the fork.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The backend that handles accesses to absent blocks: `signal`, `signal-mappings`,
    /// `signal-remap`, `userfaultfd`, `userfaultfd-sigbus`, or `none` in a child.
    pub backend: &'static str,
    /// How the backend handles accesses, and why it was chosen, as a text that may change.
    pub backend_reason: &'static str,
    /// The size of a block, the unit of eviction, in bytes: the size of the requested order, or a
    /// multiple of this size if the process could otherwise have too many mappings.
    pub block: usize,
    /// The maximum of `held` in bytes, if there is a limit.
    pub limit: Option<u64>,
    /// Bytes held: resident blocks, the device, tables (page tables too) and buffers.
    pub held: u64,
    /// The maximum of `held` in bytes.
    pub held_max: u64,
    /// Bytes of resident blocks.
    pub resident: u64,
    /// The maximum of `resident` in bytes.
    pub resident_max: u64,
    /// Bytes of memory that the device uses, with all its tables and streams.
    pub device: u64,
    /// Bytes of the device's pool: the pages that hold compressed blocks.
    pub pool: u64,
    /// Bytes stored on the device, before compression.
    pub stored: u64,
    /// Bytes stored on the device, after compression.
    pub compressed: u64,
    /// Bytes before compression at the measurement with the largest `compressed`, a multiple of 1
    /// KiB.
    pub stored_max: u64,
    /// The largest measured value of `compressed`, in bytes, rounded up to a multiple of 1 KiB.
    pub compressed_max: u64,
    /// The durations of faults, without the kernel's time to deliver them.
    pub faults: Histogram,
    /// Blocks that were touched for the first time, or for the first time since they became zeros.
    pub first_touches: u64,
    /// Blocks that were accessed in probation, and so needed no decompression.
    pub kept: u64,
    /// Blocks that were filled from the device.
    pub filled: u64,
    /// Filled blocks that were not needed yet, and were filled together with a needed block.
    pub ahead: u64,
    /// Filled blocks that were decompressed in place, because no other thread ran.
    pub in_place: u64,
    /// Filled blocks that had been evicted only a short time before the fill.
    pub refaults: u64,
    /// The number of times that a thread waited for a block that another thread was changing.
    pub waits: u64,
    /// Blocks that were put in probation.
    pub marked: u64,
    /// Blocks that were evicted.
    pub evicted: u64,
    /// Evicted blocks that the compressor thread stored, while the evicting thread continued.
    pub aside: u64,
    /// Evicted blocks that contained only zeros, so nothing was stored.
    pub zeros: u64,
    /// Blocks that were accessed while they were being stored.
    pub stolen: u64,
    /// Blocks that stayed resident because the device refused them or the kernel did not free their
    /// pages.
    pub refused: u64,
    /// Blocks that stayed resident because compression did not make them smaller.
    pub incompressible: u64,
    /// The statistics of the device for blocks of each order.
    pub orders: Vec<zram::OrderStat>,
}
