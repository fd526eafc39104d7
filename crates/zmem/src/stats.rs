//! What a region has done, and what it holds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets of a [`Histogram`]: the last one is of half a minute, and all above.
const BUCKETS: usize = 36;

/// How often something took how long: each bucket is twice as wide as the one before it.
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

/// How often something took how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram([u64; BUCKETS]);

impl Histogram {
    /// How often in all.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Times that are each twice the one before, and how often less was taken than that, but not
    /// less than half of it.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        (0..).zip(self.0).map(|(bucket, count)| (Duration::from_nanos(1 << bucket), count))
    }

    /// A time that so many of a thousand took at most, up to a factor of two.
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

/// Counters of a region.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) first_touches: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) filled: AtomicU64,
    pub(crate) ahead: AtomicU64,
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

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Relaxed);
}

/// What a region holds and has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// What answers touches of absent blocks, and why it was chosen.
    pub backend: &'static str,
    /// Bytes of a block.
    pub block: usize,
    /// Bytes that may be held, if there is a limit.
    pub limit: Option<u64>,
    /// Bytes held: resident blocks, the device, tables and buffers.
    pub held: u64,
    /// The most that was held.
    pub held_max: u64,
    /// Bytes of resident blocks.
    pub resident: u64,
    /// Bytes of the device, with all its tables and streams.
    pub device: u64,
    /// Bytes of the device's pool: compressed blocks as they are packed.
    pub pool: u64,
    /// Bytes that the device stores, before compression.
    pub stored: u64,
    /// The same after compression.
    pub compressed: u64,
    /// Faults, and how long each took without what the system takes to deliver it.
    pub faults: Histogram,
    /// Blocks that were touched first.
    pub first_touches: u64,
    /// Blocks that were touched while in probation, which took no codec.
    pub kept: u64,
    /// Blocks brought back.
    pub filled: u64,
    /// Those of them that nobody had touched yet.
    pub ahead: u64,
    /// Those that had gone a short time ago.
    pub refaults: u64,
    /// Faults that waited for another thread's.
    pub waits: u64,
    /// Blocks that were put in probation.
    pub marked: u64,
    /// Blocks evicted.
    pub evicted: u64,
    /// Those of them that were zeros, of which nothing is stored.
    pub zeros: u64,
    /// Blocks touched while they were being stored.
    pub stolen: u64,
    /// Blocks that the device had no room for, or failed to compress.
    pub refused: u64,
    /// Blocks that would have been no smaller.
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
