//! A clock, and histograms of times.

use crate::policy::BUCKETS;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

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

    /// Returns the words: the counts of the buckets, and the sum.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.0
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
