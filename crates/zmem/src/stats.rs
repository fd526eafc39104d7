//! Statistics of a region: what it has done, and what it holds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets of a [`Histogram`]. The last one has all times from 2^34 ns (17 s) on.
const BUCKETS: usize = 36;

/// Counts times by their size: bucket n has those below 2^n ns that are in no earlier bucket.
#[derive(Debug)]
pub(crate) struct Times([AtomicU64; BUCKETS]);

impl Default for Times {
    fn default() -> Self {
        Times([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Times {
    pub(crate) fn add(&self, time: Duration) {
        let nanoseconds = time.as_nanos().min(u128::from(u64::MAX)) as u64;
        let bucket = (u64::BITS - nanoseconds.leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    pub(crate) fn histogram(&self) -> Histogram {
        Histogram(std::array::from_fn(|bucket| self.0[bucket].load(Relaxed)))
    }
}

/// How many times of each size were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram([u64; BUCKETS]);

impl Histogram {
    /// Returns the number of all times.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the buckets: for each its upper bound, which is twice that of the bucket before, and
    /// the number of times below it that are in no earlier bucket. The last has all longer times
    /// too.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        (0..).zip(self.0).map(|(bucket, count)| (Duration::from_nanos(1 << bucket), count))
    }

    /// Returns a bound that `share` of a thousand times are below: the upper bound of a bucket, so
    /// up to twice the exact time.
    pub fn per_mille(&self, share: u64) -> Duration {
        let wanted = (self.count() * share).div_ceil(1000);
        let mut below = 0;
        for (time, count) in self.buckets() {
            below += count;
            if below >= wanted {
                return time;
            }
        }
        Duration::MAX
    }
}

/// The counters of a region; [`Stats`] says what each counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) first_touches: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) filled: AtomicU64,
    pub(crate) ahead: AtomicU64,
    pub(crate) in_place: AtomicU64,
    pub(crate) refaults: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) marked: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) zeros: AtomicU64,
    pub(crate) stolen: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) incompressible: AtomicU64,
    pub(crate) times: Times,
}

impl Counters {
    /// Counts from zero on, in a child: what its parent has done is its parent's.
    pub(crate) fn begin_child(&self) {
        let Counters { first_touches, kept, filled, ahead, in_place, refaults, waits, .. } = self;
        let Counters { marked, evicted, zeros, stolen, refused, incompressible, times, .. } = self;
        let counts = [first_touches, kept, filled, ahead, in_place, refaults, waits];
        let more = [marked, evicted, zeros, stolen, refused, incompressible];
        let all = counts.into_iter().chain(more).chain(&times.0);
        all.for_each(|count| count.store(0, Relaxed));
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
    /// Bytes of the device, with all its tables and streams.
    pub device: u64,
    /// Bytes of the device's pool, which are its pages of compressed blocks.
    pub pool: u64,
    /// Bytes that the device stores, before compression.
    pub stored: u64,
    /// Bytes that the device stores, after compression.
    pub compressed: u64,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_by_their_size() {
        let times = Times::default();
        for nanoseconds in [0, 1, 2, 3, 1000, 1023, 1024] {
            times.add(Duration::from_nanos(nanoseconds));
        }
        times.add(Duration::from_secs(1000));
        let histogram = times.histogram();
        assert_eq!(histogram.count(), 8);
        let shown: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        let expected = [(1, 1), (2, 1), (4, 2), (1024, 2), (2048, 1), (1 << 35, 1)];
        assert_eq!(shown, expected.map(|(time, count)| (Duration::from_nanos(time), count)));
        assert_eq!(histogram.per_mille(500), Duration::from_nanos(4));
    }
}
