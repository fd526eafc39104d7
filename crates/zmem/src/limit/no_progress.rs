//! The time of the next attempt after an unsuccessful eviction (`PROGRESS_SHARE`). Blocks that
//! could not be evicted may become evictable later, because the program can overwrite them with
//! data that compress. The pager does not notice such writes, because resident memory does not
//! fault.

use crate::counters::milliseconds as now;
use crate::policy::{
    BRAKED, GROWTHS, NEW_SHARE, PAUSE_MAX, PAUSE_MIN, SLOW_ROUNDS, WEIGHT_MAX, WEIGHT_MIN, batch,
};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct NoProgress {
    /// The number of resident blocks after the last attempt if the attempt was unsuccessful,
    /// otherwise `usize::MAX`.
    pub(super) resident: AtomicUsize,
    /// The number of consecutive unsuccessful attempts, at most `GROWTHS + 1`.
    failures: AtomicU32,
    /// Whether the last unsuccessful attempt found data that do not compress.
    is_dense: AtomicBool,
    /// The time of the next attempt, in milliseconds of the clock `now`.
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

    /// Records an unsuccessful attempt that took the time `took`. `is_dense` is true if the attempt
    /// found data that do not compress.
    pub(crate) fn postpone(&self, took: Duration, is_dense: bool) {
        self.is_dense.store(is_dense, Relaxed);
        let growths = self.failures.load(Relaxed).min(GROWTHS);
        self.failures.store(growths + 1, Relaxed);
        let first = PAUSE_MIN.max(took * WEIGHT_MIN);
        let pause = (first * (1 << growths)).min(PAUSE_MAX.max(took * WEIGHT_MAX));
        self.due.store(now() + pause.as_millis() as u64, Relaxed);
    }

    /// Records a successful attempt.
    pub(crate) fn succeed(&self) {
        self.failures.store(0, Relaxed);
    }

    /// Returns whether most of the memory seems to be incompressible, because several attempts were
    /// unsuccessful.
    pub(crate) fn is_braked(&self) -> bool {
        self.failures.load(Relaxed) >= BRAKED && self.is_dense.load(Relaxed)
    }

    /// Returns whether blocks that did not compress keep their heat in the round `round` of the
    /// clock.
    pub(crate) fn is_slow(&self, round: u32) -> bool {
        self.is_braked() && !round.is_multiple_of(SLOW_ROUNDS)
    }

    /// Returns whether the last attempt was unsuccessful, and few blocks of `block` bytes have
    /// become resident since then. `resident` is the present number of resident blocks.
    pub(super) fn is_known_for(&self, resident: usize, block: usize) -> bool {
        let then = self.resident.load(Relaxed);
        let growths = self.failures.load(Relaxed).saturating_sub(1);
        let new = (batch(block) << growths).min(then / NEW_SHARE).max(batch(block));
        then != usize::MAX && resident <= then.saturating_add(new)
    }
}

#[cfg(test)]
mod tests {
    use super::{NEW_SHARE, NoProgress, PAUSE_MAX, PAUSE_MIN, WEIGHT_MAX, WEIGHT_MIN};
    use crate::limit::Limit;
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
            limit.set_no_progress(true);
            limit.no_progress.postpone(Duration::ZERO, true);
            limit.add(new.min(limit.resident() / NEW_SHARE));
            assert!(limit.has_no_progress(), "{new}");
            limit.add(1);
            assert!(!limit.has_no_progress(), "{new}");
        }
    }
}
