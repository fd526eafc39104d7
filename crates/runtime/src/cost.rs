//! The number of dispatched system calls, and their cost.
//!
//! ```text
//!   a call: | to the runtime | room for others | before | the call itself | after | and back |
//!           |   `signal`     |                 | timed  |                 | timed |  `signal`
//!   signal: of any call, measured once, at the start; timed: for one call in 64
//! ```
//! The time in which the process evicts for other processes ("room for others") is not charged to a
//! call, because these evictions are rare and long. If the thread was preempted during a timed part
//! of a call, the time of this part is an outlier. The times of all other timed parts are
//! multiplied by 64, because one call in 64 is timed.

use crate::policy::{BUCKETS, FAR, OUTLIERS, SIGNAL_TRIES, SPREAD, TIMED_SHARE};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SHIFT: u32 = u64::BITS - TIMED_SHARE;

/// The number of timed parts of calls in a bucket, and the sum of their durations. Bucket n counts
/// the timed parts that took at least 2^n and less than 2^(n+1) ns. The last bucket also counts
/// longer parts.
#[derive(Debug, Default)]
struct Bucket {
    parts: AtomicU64,
    nanoseconds: AtomicU64,
}

/// The counts and times of dispatched calls: see the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    calls: AtomicU64,
    timed: AtomicU64,
    buckets: [Bucket; BUCKETS],
    /// The duration of `signal` in the module's diagram in nanoseconds, or 0 before its
    /// measurement. While `signal` is 0, every call is timed.
    signal: AtomicU64,
}

/// A snapshot of the counts and times in a [`Cost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    pub(crate) calls: u64,
    /// The number of calls that were timed.
    pub(crate) timed: u64,
    /// The nanoseconds that the runtime spent on the timed calls.
    pub(crate) nanoseconds: u64,
    /// The nanoseconds that a call takes to enter and leave the runtime.
    pub(crate) signal: u64,
}

/// Returns the sum of the nanoseconds in `buckets`. Each bucket consists of a number of timed
/// parts, and the sum of their nanoseconds. The nanoseconds of outliers are divided by
/// 2^`TIMED_SHARE`, because the sum is later extrapolated from one call in 2^`TIMED_SHARE` to all
/// calls.
fn without_outliers(buckets: &[(u64, u64)]) -> u64 {
    let all: u64 = buckets.iter().map(|(parts, _)| parts).sum();
    let mut below = 0;
    let median = buckets.iter().position(|(parts, _)| {
        below += parts;
        2 * below >= all
    });
    let far = (median.unwrap_or(0) + FAR).min(buckets.len());
    let sum = |of: &[(u64, u64)]| of.iter().map(|(_, nanoseconds)| nanoseconds).sum::<u64>();
    let are_outliers = buckets[far..].iter().map(|(parts, _)| parts).sum::<u64>() < OUTLIERS;
    let weight = if are_outliers { TIMED_SHARE } else { 0 };
    sum(&buckets[..far]) + (sum(&buckets[far..]) >> weight)
}

impl Cost {
    /// Counts a call. Returns the number of earlier calls.
    pub(crate) fn count(&self) -> u64 {
        self.calls.fetch_add(1, Relaxed)
    }

    /// Calls `work`, which handles a call before the call is issued. Measures the duration of
    /// `work` if this call is selected for timing. `nth` is the number of earlier calls.
    pub(crate) fn before<T>(&self, nth: u64, work: impl FnOnce() -> T) -> T {
        if !self.is_timed(nth) {
            return work();
        }
        let done = self.time(work);
        self.timed.fetch_add(1, Relaxed);
        done
    }

    /// Calls `work`, which handles a call after its return. `work` is timed if the last counted
    /// call is timed, even if another thread made that call.
    pub(crate) fn after<T>(&self, work: impl FnOnce() -> T) -> T {
        match self.is_timed(self.calls.load(Relaxed).wrapping_sub(1)) {
            true => self.time(work),
            false => work(),
        }
    }

    fn is_timed(&self, nth: u64) -> bool {
        nth.wrapping_mul(SPREAD) >> SHIFT == 0 || self.signal.load(Relaxed) == 0
    }

    fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        let took = nanoseconds(began.elapsed());
        let bucket = &self.buckets[(took.max(1).ilog2() as usize).min(BUCKETS - 1)];
        bucket.parts.fetch_add(1, Relaxed);
        bucket.nanoseconds.fetch_add(took, Relaxed);
        done
    }

    /// Measures `signal`, the time that a call takes to enter and leave the runtime, and then
    /// resets the counts. `dispatched` makes a call that does not block, and `direct` makes the
    /// same call without dispatch.
    pub(crate) fn measure(&self, dispatched: impl Fn(), direct: impl Fn()) {
        let took = |work: &dyn Fn()| {
            let began = Instant::now();
            work();
            nanoseconds(began.elapsed())
        };
        let signal = |_| {
            self.begin_child();
            let all = took(&dispatched);
            let inside = self.buckets.iter().map(|bucket| bucket.nanoseconds.load(Relaxed)).sum();
            all.saturating_sub(took(&direct)).saturating_sub(inside)
        };
        let least = (0..SIGNAL_TRIES).map(signal).min().unwrap_or(0);
        self.signal.store(least.max(1), Relaxed);
        self.begin_child();
    }

    pub(crate) fn begin_child(&self) {
        let counts = [&self.calls, &self.timed].into_iter();
        let buckets = self.buckets.iter().flat_map(|it| [&it.parts, &it.nanoseconds]);
        counts.chain(buckets).for_each(|count| count.store(0, Relaxed));
    }

    pub(crate) fn costs(&self) -> Costs {
        let get = |word: &AtomicU64| word.load(Relaxed);
        let of = |bucket: &Bucket| (get(&bucket.parts), get(&bucket.nanoseconds));
        Costs {
            calls: get(&self.calls),
            timed: get(&self.timed),
            nanoseconds: without_outliers(&self.buckets.each_ref().map(of)),
            signal: get(&self.signal),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    #[test]
    fn some_calls_are_timed_and_all_counted() {
        let cost = Cost::default();
        cost.before(cost.count(), || ());
        assert_eq!((cost.costs().timed, cost.costs().signal), (1, 0));
        cost.measure(|| cost.before(cost.count(), || sleep(Duration::from_millis(1))), || ());
        // `signal` does not include the time of `before`.
        let costs = cost.costs();
        assert!((1..500_000).contains(&costs.signal), "{costs:?}");
        assert_eq!((costs.calls, costs.timed, costs.nanoseconds), (0, 0, 0));
        for nth in 0..6400 {
            assert_eq!(cost.count(), nth);
            cost.before(nth, || ());
        }
        let costs = cost.costs();
        assert_eq!(costs.calls, 6400);
        assert!((95..106).contains(&costs.timed), "{costs:?}");
        // If calls of several kinds alternate regularly, each kind is timed equally often.
        for (kind, kinds) in [(0, 2), (1, 2), (2, 3), (5, 8), (17, 64)] {
            let timed = (0..640_000).filter(|nth| nth % kinds == kind && cost.is_timed(*nth));
            let share = timed.count() as u64 * kinds;
            assert!((9000..11_000).contains(&share), "{kind} of {kinds}: {share}");
        }
    }

    #[test]
    fn what_comes_after_a_timed_call_is_timed_too() {
        let cost = Cost::default();
        cost.signal.store(5, Relaxed);
        let wait = || sleep(Duration::from_millis(1));
        cost.before(cost.count(), wait);
        cost.after(wait);
        let both = cost.costs();
        assert!(both.timed == 1 && both.nanoseconds >= 2_000_000, "{both:?}");
        cost.before(cost.count(), wait);
        cost.after(wait);
        assert_eq!((cost.costs().timed, cost.costs().nanoseconds), (1, both.nanoseconds));
    }

    #[test]
    fn a_preempted_call_counts_once() {
        let mut buckets = [(0, 0); BUCKETS];
        buckets[10] = (100, 150_000);
        assert_eq!(without_outliers(&buckets), 150_000);
        buckets[26] = (1, 100_000_000);
        assert_eq!(without_outliers(&buckets), 150_000 + 100_000_000 / 64);
        // If long calls are frequent, they are not outliers.
        buckets[26] = (8, 800_000_000);
        assert_eq!(without_outliers(&buckets), 800_150_000);
        assert_eq!(without_outliers(&[(0, 0); BUCKETS]), 0);
    }
}
