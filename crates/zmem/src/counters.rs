//! Counts of the changes of a region's blocks, histograms of times, and maxima of the memory that
//! the region holds. The counts show how much memory a working set lacks: see [`Window`].

use crate::policy::{BUCKETS, PREVENTED_SHARE, SLOW_SHARE, SLOW_WINDOWS, WATCHED_TIME};
use crate::state::HEAT_MAX;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of different rounds that a block's word can encode: the word of an evicted block
/// holds the round of the eviction instead of the heat.
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

/// The largest amount of data that the device stored. The upper half of the word holds the maximum
/// in KiB after compression; the lower half holds the KiB before compression at the same moment.
#[derive(Debug, Default)]
pub(crate) struct StoredMost(pub(crate) AtomicU64);

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
        let all = counts.into_iter().chain(more).chain(&times.0);
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

/// Adds `more` to a counter.
pub(crate) fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Relaxed);
}

/// The maximum number of bytes held at the same time, and the maximum number of resident bytes.
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

    /// Sets both maxima to the present values.
    pub(crate) fn begin(&self, held: u64, resident: u64) {
        self.held.store(held, Relaxed);
        self.resident.store(resident, Relaxed);
    }
}

/// The values of counters at the start of a window of time. The memory that a working set lacks is
/// computed from the distances of the refaults in the window. A block that is filled after `n`
/// other blocks were evicted would have stayed resident if the limit were larger by `n` blocks. `n`
/// is measured in rounds of the clock (zm-S3), so the result is exact to a round.
///
/// ```text
///   a window: | evicted, rounds, time in faults, distances of the filled blocks |
///   lacks     = blocks evicted in a round * the rounds of nine refaults in ten, uncompressed
///               less compressed
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// The time when the window began, in milliseconds; 0 before the first window.
    pub(crate) began: u64,
    pub(crate) in_faults: Duration,
    pub(crate) evicted: u64,
    pub(crate) round: u32,
    pub(crate) distances: [u64; DISTANCES],
    /// The number of consecutive slow windows before this one.
    pub(crate) slow: u32,
}

/// Returns the number of rounds within which nine in ten refaults happen, or 0 without refaults.
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
    /// Returns whether the window has ended at `now`, in milliseconds, or no window has begun.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.began == 0 || now.saturating_sub(self.began) >= WATCHED_TIME
    }

    /// Ends this window, and begins the next one. Returns the number of bytes by which the limit is
    /// too small; a block has `size` bytes. Returns `None` unless this window is the last of
    /// `SLOW_WINDOWS` consecutive slow windows.
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

/// Counts of times: bucket n counts the times below 2^n ns that no earlier bucket counts. The last
/// word is the sum of the times, in ns.
#[derive(Debug)]
pub(crate) struct Times([AtomicU64; BUCKETS + 1]);

/// Returns the milliseconds of a monotonic clock, with the precision of a tick of the kernel.
/// The clock does not read the time stamp counter.
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

/// The number of measured times in each bucket, and the sum of all times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram([u64; BUCKETS + 1]);

impl Default for Histogram {
    fn default() -> Self {
        Histogram([0; BUCKETS + 1])
    }
}

impl Histogram {
    /// The number of words that encode a histogram: the counts of the buckets, and the sum.
    pub const WORDS: usize = BUCKETS + 1;

    /// Returns the histogram with these counts and this sum, which may be any numbers.
    pub fn of_words(words: &[u64; Self::WORDS]) -> Self {
        Histogram(*words)
    }

    /// Returns the words that encode the histogram.
    pub fn words(&self) -> [u64; Self::WORDS] {
        self.0
    }

    /// Returns a histogram of the times in both histograms.
    pub fn plus(&self, other: &Self) -> Self {
        Histogram(std::array::from_fn(|nth| self.0[nth].saturating_add(other.0[nth])))
    }

    /// Returns the number of all times.
    pub fn count(&self) -> u64 {
        self.0[..BUCKETS].iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the sum of all times.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.0[BUCKETS])
    }

    /// Returns the buckets. A bucket consists of its upper bound, which is twice the previous
    /// bucket's bound, and the number of times below the bound that no earlier bucket counts. The
    /// last bucket also counts all longer times.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let bounds = (0..BUCKETS).map(|bucket| Duration::from_nanos(1 << bucket));
        bounds.zip(self.0)
    }

    /// Returns an upper bound of the shortest `share` thousandths of all times. The result is the
    /// bound of a bucket, so it is at most twice the exact time.
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
