//! Counters of events of a region's blocks, histograms of times, and maxima of the memory that the
//! region holds. From the counters, [`Window`] computes how much memory the working set lacks.

use crate::policy::{BUCKETS, PREVENTED_SHARE, SLOW_SHARE, SLOW_WINDOWS, WATCHED_TIME};
use crate::state::HEAT_MAX;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of different refault distances in rounds of the clock. The word of an evicted block
/// holds the round of its eviction in the bits that hold a resident block's heat.
pub(crate) const DISTANCES: usize = HEAT_MAX as usize + 1;

/// The counters of a region. [`Stats`] describes each counter.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) first_touches: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) filled: AtomicU64,
    pub(crate) ahead: AtomicU64,
    pub(crate) in_place: AtomicU64,
    pub(crate) refaults: AtomicU64,
    /// The number of filled blocks for each number of rounds between a block's eviction and its
    /// fill.
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

/// The largest amount of data that the device stored. The integer's upper half is their size in KiB
/// after compression, the lower half their size before compression.
#[derive(Debug, Default)]
pub(crate) struct StoredMost(pub(crate) AtomicU64);

impl StoredMost {
    pub(crate) fn note(&self, bytes: u64, compressed: u64) {
        let kib = |bytes: u64| bytes.div_ceil(1024).min(u32::MAX.into());
        raise(&self.0, kib(compressed) << 32 | kib(bytes));
    }

    /// Returns the largest amount of stored data in bytes, before and after compression.
    pub(crate) fn get(&self) -> (u64, u64) {
        let word = self.0.load(Relaxed);
        (1024 * (word & u64::from(u32::MAX)), 1024 * (word >> 32))
    }
}

impl Counters {
    /// Zeroes all counters except `distances`, in a child of fork.
    pub(crate) fn begin_child(&self) {
        let Counters { first_touches, kept, filled, ahead, in_place, refaults, waits, .. } = self;
        let Counters {
            marked, evicted, aside, zeros, stolen, refused, incompressible, times, ..
        } = self;
        let counts = [first_touches, kept, filled, ahead, in_place, refaults, waits];
        let more = [marked, evicted, aside, zeros, stolen, refused, incompressible];
        let all = counts.into_iter().chain(more).chain(&times.0);
        all.for_each(|count| count.store(0, Relaxed));
    }
}

/// Raises a maximum to `value`. Usually `value` is not larger than the maximum, so the cache line
/// is only read.
pub(crate) fn raise(most: &AtomicU64, value: u64) {
    if value > most.load(Relaxed) {
        most.fetch_max(value, Relaxed);
    }
}

pub(crate) fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Relaxed);
}

/// The maximum of the held bytes so far, and the maximum of the resident bytes so far.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    pub(crate) held: AtomicU64,
    pub(crate) resident: AtomicU64,
}

impl Peak {
    pub(crate) fn note(&self, held: u64, resident: u64) {
        raise(&self.held, held);
        raise(&self.resident, resident);
    }

    /// Sets the maxima to `held` and `resident`.
    pub(crate) fn begin(&self, held: u64, resident: u64) {
        self.held.store(held, Relaxed);
        self.resident.store(resident, Relaxed);
    }
}

/// The values of counters at the start of a period of `WATCHED_TIME`. Suppose that `n` other blocks
/// are evicted between a block's eviction and its fill. The block would have stayed resident under
/// a limit that is larger by `n` blocks. `n` is measured in rounds of the clock, so the result is
/// accurate to one round.
///
/// ```text
///   a window: | evicted, rounds, time in faults, distances of the filled blocks |
///   lacks     = blocks evicted per round * rounds that nine in ten refaults do not exceed,
///               minus the compressed size of these blocks
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// The start of the time window in milliseconds, or 0 before the first time window.
    pub(crate) began: u64,
    pub(crate) in_faults: Duration,
    pub(crate) evicted: u64,
    pub(crate) round: u32,
    pub(crate) distances: [u64; DISTANCES],
    /// The number of consecutive slow time windows (`SLOW_SHARE`) directly before this one.
    pub(crate) slow: u32,
}

/// Returns the smallest number of rounds such that more than nine in ten filled blocks have a
/// smaller refault distance, or 0 if no block was filled.
fn rounds_of_most(distances: &[u64; DISTANCES]) -> u64 {
    let wanted = distances.iter().sum::<u64>() * PREVENTED_SHARE.0 / PREVENTED_SHARE.1;
    let mut below = 0;
    let nth = distances.iter().position(|count| {
        below += count;
        below > wanted
    });
    nth.map_or(0, |nth| nth as u64 + 1)
}

impl Window {
    /// Returns true if the time window has ended at the time `now`, in milliseconds, or if no time
    /// window has begun.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.began == 0 || now.saturating_sub(self.began) >= WATCHED_TIME
    }

    /// Ends this time window, and begins the time window `next`. A block has `size` bytes. After
    /// `SLOW_WINDOWS` consecutive slow time windows, returns the number of bytes by which the limit
    /// is too small. Otherwise returns `None`.
    pub(crate) fn end(&mut self, next: Window, size: usize) -> Option<u64> {
        let took = next.began.saturating_sub(self.began);
        let in_faults = next.in_faults.saturating_sub(self.in_faults);
        let is_slow = self.began != 0 && in_faults > Duration::from_millis(took) / SLOW_SHARE;
        let slow = if is_slow { self.slow + 1 } else { 0 };
        let before = std::mem::replace(self, Window { slow, ..next });
        let rounds = u64::from(self.round.wrapping_sub(before.round)).max(1);
        let per_round = self.evicted.saturating_sub(before.evicted) / rounds;
        let distances = |nth: usize| self.distances[nth].saturating_sub(before.distances[nth]);
        let blocks = per_round * rounds_of_most(&std::array::from_fn(distances));
        (slow >= SLOW_WINDOWS && blocks > 0).then_some(blocks * size as u64)
    }
}

/// A histogram of times. Bucket n counts the times from 2^(n-1) ns to 2^n ns. The last word is the
/// sum of all times in ns.
#[derive(Debug)]
pub(crate) struct Times([AtomicU64; BUCKETS + 1]);

/// Returns the time of a monotonic clock in milliseconds, with the resolution of the kernel's timer
/// tick. The clock does not read the time stamp counter.
pub fn milliseconds() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

impl Default for Times {
    fn default() -> Self {
        Times([const { AtomicU64::new(0) }; BUCKETS + 1])
    }
}

impl Times {
    pub(crate) fn add(&self, time: Duration) {
        let nanoseconds = time.as_nanos().min(u128::from(u64::MAX)) as u64;
        let bucket = (u64::BITS - nanoseconds.leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)].fetch_add(1, Relaxed);
        self.0[BUCKETS].fetch_add(nanoseconds, Relaxed);
    }

    pub(crate) fn histogram(&self) -> Histogram {
        Histogram(std::array::from_fn(|word| self.0[word].load(Relaxed)))
    }
}

/// A histogram of measured times: the count of each bucket, and the sum of all times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram([u64; BUCKETS + 1]);

impl Default for Histogram {
    fn default() -> Self {
        Histogram([0; BUCKETS + 1])
    }
}

impl Histogram {
    /// The number of 8-byte words that encode a histogram: the counts of the buckets, and the sum.
    pub const WORDS: usize = BUCKETS + 1;

    /// Returns the histogram that `words` encode. Any words are valid.
    pub fn of_words(words: &[u64; Self::WORDS]) -> Self {
        Histogram(*words)
    }

    /// Returns the words that encode the histogram.
    pub fn words(&self) -> [u64; Self::WORDS] {
        self.0
    }

    /// Returns the histogram of all times in `self` and `other`.
    pub fn plus(&self, other: &Self) -> Self {
        Histogram(std::array::from_fn(|nth| self.0[nth].saturating_add(other.0[nth])))
    }

    /// Returns the number of measured durations.
    pub fn count(&self) -> u64 {
        self.0[..BUCKETS].iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the sum of the measured times.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.0[BUCKETS])
    }

    /// Returns the upper bound and the count of each bucket. A bucket counts the times below its
    /// bound that no earlier bucket counts. The last bucket also counts all longer times.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let bounds = (0..BUCKETS).map(|bucket| Duration::from_nanos(1 << bucket));
        bounds.zip(self.0)
    }

    /// Returns a time that `share` thousandths of all times do not exceed. The result is a bucket's
    /// bound, at most twice the exact time. Times above the last bound count as that bound.
    pub fn per_mille(&self, share: u64) -> Duration {
        let wanted = (u128::from(self.count()) * u128::from(share)).div_ceil(1000);
        let mut below = 0;
        for (time, count) in self.buckets() {
            below += u128::from(count);
            if below >= wanted {
                return time;
            }
        }
        Duration::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_refaults_come_within_some_rounds() {
        let mut distances = [0; DISTANCES];
        assert_eq!(rounds_of_most(&distances), 0);
        distances[0] = 90;
        assert_eq!(rounds_of_most(&distances), 1);
        distances[3] = 10;
        assert_eq!(rounds_of_most(&distances), 4);
        distances[0] = 91;
        assert_eq!(rounds_of_most(&distances), 1);
    }

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
        assert_eq!(histogram.total(), Duration::from_nanos(3053 + 1_000_000_000_000));
    }
}
