//! The time at which eviction is retried after it evicted nothing. Blocks that could not be evicted
//! may become evictable later, without notice: the program may overwrite resident memory with data
//! that compress, and no fault occurs.

use super::Limit;
use crate::policy::{
    BRAKED, GROWTHS, NEW_SHARE, PAUSE_MAX, PAUSE_MIN, SLOW_ROUNDS, WEIGHT_MAX, WEIGHT_MIN, batch,
};
use crate::times::milliseconds as now;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct NoProgress {
    /// The number of resident blocks when no more blocks could be evicted, or `usize::MAX` if
    /// blocks could be evicted.
    resident: AtomicUsize,
    /// The number of consecutive attempts that evicted nothing.
    failures: AtomicU32,
    /// Whether the last attempt that evicted nothing found data that do not compress.
    is_dense: AtomicBool,
    /// The time of the next attempt, in milliseconds of `now`.
    due: AtomicU64,
}

impl NoProgress {
    pub(super) fn new() -> Self {
        let resident = AtomicUsize::new(usize::MAX);
        NoProgress { resident, failures: 0.into(), is_dense: false.into(), due: 0.into() }
    }

    pub(crate) fn left(&self) -> Duration {
        Duration::from_millis(self.due.load(Relaxed).saturating_sub(now()))
    }

    /// Records that an attempt evicted nothing, the duration of the attempt, and whether data did
    /// not compress.
    pub(crate) fn postpone(&self, took: Duration, is_dense: bool) {
        self.is_dense.store(is_dense, Relaxed);
        let growths = self.failures.load(Relaxed).min(GROWTHS);
        self.failures.store(growths + 1, Relaxed);
        let first = PAUSE_MIN.max(took * WEIGHT_MIN);
        let pause = (first * (1 << growths)).min(PAUSE_MAX.max(took * WEIGHT_MAX));
        self.due.store(now() + pause.as_millis() as u64, Relaxed);
    }

    /// Records that an attempt was successful.
    pub(crate) fn succeed(&self) {
        self.failures.store(0, Relaxed);
    }

    /// Returns whether most of the memory that the last attempts tried to evict does not compress.
    pub(crate) fn is_braked(&self) -> bool {
        self.failures.load(Relaxed) >= BRAKED && self.is_dense.load(Relaxed)
    }

    /// Returns whether blocks that did not compress keep their heat in a round of the clock.
    pub(crate) fn is_slow(&self, round: u32) -> bool {
        self.is_braked() && !round.is_multiple_of(SLOW_ROUNDS)
    }

    /// Returns the number of resident blocks above which another attempt is worthwhile.
    fn enough(&self, block: usize) -> usize {
        let resident = self.resident.load(Relaxed);
        let growths = self.failures.load(Relaxed).saturating_sub(1);
        let new = (batch(block) << growths).min(resident / NEW_SHARE).max(batch(block));
        resident.saturating_add(new)
    }
}

impl Limit {
    /// Records whether no block could be evicted.
    pub(crate) fn set_no_progress(&self, has_no_progress: bool) {
        let resident = if has_no_progress { self.resident() } else { usize::MAX };
        self.no_progress.resident.store(resident, Relaxed);
    }

    /// Records that an eviction evicted (almost) nothing, the duration of the eviction, and whether
    /// data did not compress. The next attempt is due when more blocks are resident, or after a
    /// pause.
    pub(crate) fn postpone(&self, took: Duration, is_dense: bool) {
        self.set_no_progress(true);
        self.no_progress.postpone(took, is_dense);
    }

    /// Returns whether no block could be evicted by the last attempt, and few blocks have become
    /// resident since then.
    pub(crate) fn has_no_progress(&self) -> bool {
        let is_known = self.no_progress.resident.load(Relaxed) != usize::MAX;
        is_known && self.resident() <= self.no_progress.enough(self.block)
    }

    /// Returns whether an eviction is worthwhile: the last attempt evicted blocks, more blocks are
    /// resident, or the pause has ended.
    pub(crate) fn may_try(&self) -> bool {
        !self.has_no_progress() || self.no_progress.left().is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, NEW_SHARE, NoProgress, PAUSE_MAX, PAUSE_MIN, WEIGHT_MAX, WEIGHT_MIN};
    use std::time::Duration;

    #[test]
    fn pauses_grow_and_begin_anew() {
        let (no_progress, near) = (NoProgress::new(), Duration::from_millis(50));
        let is =
            |pause: Duration| no_progress.left() <= pause && no_progress.left() + near >= pause;
        assert!(no_progress.left().is_zero());
        no_progress.postpone(Duration::ZERO, true);
        assert!(is(PAUSE_MIN));
        (0..10).for_each(|_| no_progress.postpone(Duration::ZERO, true));
        assert!(is(PAUSE_MAX));
        no_progress.postpone(PAUSE_MIN, true);
        assert!(is(PAUSE_MIN * WEIGHT_MAX), "what costs much is seldom done");
        assert!(no_progress.is_braked());
        no_progress.succeed();
        no_progress.postpone(PAUSE_MIN, true);
        assert!(is(PAUSE_MIN * WEIGHT_MIN) && !no_progress.is_braked());
    }

    #[test]
    fn who_is_stuck_waits_again_once_a_batch_has_come() {
        for (block, batch) in [(4 << 10, 64), (64 << 10, 4), (256 << 10, 1), (512 << 10, 1)] {
            let limit = Limit::new(Some(1 << 30), 0, block, block);
            limit.add(10);
            assert!(!limit.has_no_progress());
            limit.set_no_progress(true);
            limit.add(batch);
            assert!(limit.has_no_progress(), "{block}");
            limit.add(1);
            assert!(!limit.has_no_progress(), "{block}");
        }
    }

    #[test]
    fn more_has_to_come_after_each_try_in_vain() {
        let limit = Limit::new(Some(1 << 30), 0, 4 << 10, 4 << 10);
        limit.add(6400);
        for new in [64, 128, 256, 512] {
            limit.postpone(Duration::ZERO, true);
            limit.add(new.min(limit.resident() / NEW_SHARE));
            assert!(limit.has_no_progress(), "{new}");
            limit.add(1);
            assert!(!limit.has_no_progress(), "{new}");
        }
    }
}
