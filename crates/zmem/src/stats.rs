//! Statistics of a region: what it has done, and what it holds.

use crate::times::{Histogram, Times};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A block's word has the round of its eviction in 4 bits.
pub(crate) const DISTANCES: usize = 16;

/// The counters of a region; [`Stats`] says what each counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) first_touches: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) filled: AtomicU64,
    pub(crate) ahead: AtomicU64,
    pub(crate) in_place: AtomicU64,
    pub(crate) refaults: AtomicU64,
    /// Filled blocks, by the rounds of the clock since they were evicted.
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

/// What the device stored when it was most: KiB after compression in the upper half, so that the
/// greatest word is of that moment, and KiB before it in the lower one.
#[derive(Debug, Default)]
pub(crate) struct StoredMost(AtomicU64);

impl StoredMost {
    pub(crate) fn note(&self, bytes: u64, compressed: u64) {
        let kib = |bytes: u64| bytes.div_ceil(1024).min(u32::MAX.into());
        raise(&self.0, kib(compressed) << 32 | kib(bytes));
    }

    /// Returns bytes before and after compression.
    pub(crate) fn get(&self) -> (u64, u64) {
        let word = self.0.load(Relaxed);
        (1024 * (word & u64::from(u32::MAX)), 1024 * (word >> 32))
    }

    /// Begins anew.
    pub(crate) fn begin(&self) {
        self.0.store(0, Relaxed);
    }
}

impl Counters {
    /// Counts from zero on, in a child: what its parent has done is its parent's.
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

/// Raises a maximum, if it is one. Most are not, so no line of the cache moves for them.
pub(crate) fn raise(most: &AtomicU64, value: u64) {
    if value > most.load(Relaxed) {
        most.fetch_max(value, Relaxed);
    }
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Relaxed);
}

/// What a region holds and has done. Counts, and what was held at most, are since the region was
/// made, or in a child since the fork.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The backend that answers touches of absent blocks: `signal`, `signal-mappings`,
    /// `signal-remap`, `userfaultfd`, `userfaultfd-sigbus`, or `none` in a child.
    pub backend: &'static str,
    /// How it does so, and why it was chosen, in words that may change.
    pub backend_reason: &'static str,
    /// Bytes that go and come as one: a block of the order that was asked for, or several of them
    /// where each could be a mapping of its own and there would be too many.
    pub block: usize,
    /// Most bytes that may be held, if there is a limit.
    pub limit: Option<u64>,
    /// Bytes held: resident blocks, the device, tables (page tables too) and buffers.
    pub held: u64,
    /// The most bytes that were held at a time.
    pub held_max: u64,
    /// Whether the limit is kept together with the other processes of a [`Tree`](crate::Tree).
    pub is_in_tree: bool,
    /// Bytes of resident blocks.
    pub resident: u64,
    /// The most bytes of resident blocks at a time.
    pub resident_max: u64,
    /// Bytes of the device, with all its tables and streams.
    pub device: u64,
    /// Bytes of the device's pool, which are its pages of compressed blocks.
    pub pool: u64,
    /// Bytes that the device stores, before compression.
    pub stored: u64,
    /// Bytes that the device stores, after compression.
    pub compressed: u64,
    /// The same when it was most, as far as that was seen, in whole KiB: before compression,
    pub stored_max: u64,
    /// and after.
    pub compressed_max: u64,
    /// The times that faults took, without what the system takes to deliver them.
    pub faults: Histogram,
    /// Blocks that were touched for the first time, or the first time since they became zeros.
    pub first_touches: u64,
    /// Blocks that were touched in probation. They needed no codec.
    pub kept: u64,
    /// Blocks that were brought back from the device.
    pub filled: u64,
    /// Of the filled blocks, those that were brought ahead, with a block that was needed.
    pub ahead: u64,
    /// Of the filled blocks, those that were decompressed in place, as no other thread ran.
    pub in_place: u64,
    /// Of the filled blocks, those that had been evicted only a short time before.
    pub refaults: u64,
    /// How often a thread waited for a block that another thread was changing.
    pub waits: u64,
    /// Blocks that were put in probation.
    pub marked: u64,
    /// Blocks that were evicted.
    pub evicted: u64,
    /// Of the evicted blocks, those that a thread of their own stored, while the one that evicted
    /// them went on.
    pub aside: u64,
    /// Of the evicted blocks, those that were zeros. Nothing is stored of them.
    pub zeros: u64,
    /// Blocks that were touched while they were being stored.
    pub stolen: u64,
    /// Blocks that stayed resident because the device refused them, or the system kept their pages.
    pub refused: u64,
    /// Blocks that stayed resident because compression did not make them smaller.
    pub incompressible: u64,
    /// What the device did with blocks of each order.
    pub orders: Vec<zram::OrderStat>,
}
