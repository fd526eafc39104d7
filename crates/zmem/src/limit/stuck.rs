//! When eviction is tried again after it was in vain. What could not go may be able to later, and
//! nothing tells: the program writes to memory that is resident, and no fault comes of it.

use super::Limit;
use crate::policy::batch;
use crate::times::milliseconds as now;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The pause after the first try in vain; each next one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest, where a try takes little.
const PAUSE_MAX: Duration = Duration::from_millis(3200);
/// Where a try takes long, the first pause is this many times as long.
const WEIGHT_MIN: u32 = 8;
/// And the longest pause this many times.
const WEIGHT_MAX: u32 = 128;
/// Pauses grow this often: from the shortest to the longest.
const GROWTHS: u32 = 5;
/// After this number of tries in vain in a row, most of the memory does not compress.
const BRAKED: u32 = 2;
/// If most blocks do not compress, those that did not lose heat in one round of this number.
const SLOW_ROUNDS: u32 = 8;
/// A try is worth its time once this share of the resident blocks has come, whatever the pause is.
const NEW_SHARE: usize = 32;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Stuck {
    /// Resident blocks when nothing more could be evicted; `usize::MAX` if something could.
    resident: AtomicUsize,
    /// Tries in vain in a row.
    vain: AtomicU32,
    /// Whether the last of them found data that do not compress.
    is_dense: AtomicBool,
    /// When the next try is due, in milliseconds of `now`.
    due: AtomicU64,
}

impl Stuck {
    pub(super) fn new() -> Self {
        let resident = AtomicUsize::new(usize::MAX);
        Stuck { resident, vain: 0.into(), is_dense: false.into(), due: 0.into() }
    }

    /// Returns the time until the next try.
    pub(crate) fn left(&self) -> Duration {
        Duration::from_millis(self.due.load(Relaxed).saturating_sub(now()))
    }

    /// Notes that a try was in vain, how long it took, and whether data did not compress.
    pub(crate) fn postpone(&self, took: Duration, is_dense: bool) {
        self.is_dense.store(is_dense, Relaxed);
        let growths = self.vain.load(Relaxed).min(GROWTHS);
        self.vain.store(growths + 1, Relaxed);
        let first = PAUSE_MIN.max(took * WEIGHT_MIN);
        let pause = (first * (1 << growths)).min(PAUSE_MAX.max(took * WEIGHT_MAX));
        self.due.store(now() + pause.as_millis() as u64, Relaxed);
    }

    /// Notes that a try was not in vain.
    pub(crate) fn succeed(&self) {
        self.vain.store(0, Relaxed);
    }

    /// Returns whether most of the memory does not compress, as far as was tried.
    pub(crate) fn is_braked(&self) -> bool {
        self.vain.load(Relaxed) >= BRAKED && self.is_dense.load(Relaxed)
    }

    /// Returns whether blocks that did not compress keep their heat in a round of the clock.
    pub(crate) fn is_slow(&self, round: u32) -> bool {
        self.is_braked() && !round.is_multiple_of(SLOW_ROUNDS)
    }

    /// Returns the resident blocks above which a try is worth its time again.
    fn enough(&self, unit: usize) -> usize {
        let resident = self.resident.load(Relaxed);
        let growths = self.vain.load(Relaxed).saturating_sub(1);
        let new = (batch(unit) << growths).min(resident / NEW_SHARE).max(batch(unit));
        resident.saturating_add(new)
    }
}

impl Limit {
    /// Takes note of whether anything could be evicted.
    pub(crate) fn set_stuck(&self, is_stuck: bool) {
        let resident = if is_stuck { self.resident() } else { usize::MAX };
        self.stuck.resident.store(resident, Relaxed);
    }

    /// Notes that an eviction was in vain, or nearly so, how long it took, and whether data did not
    /// compress. The next one is due when more blocks have come, or after a pause.
    pub(crate) fn postpone(&self, took: Duration, is_dense: bool) {
        self.set_stuck(true);
        self.stuck.postpone(took, is_dense);
    }

    /// Returns whether nothing could be evicted, and few blocks have come since.
    pub(crate) fn is_stuck(&self) -> bool {
        let is_known = self.stuck.resident.load(Relaxed) != usize::MAX;
        is_known && self.resident() <= self.stuck.enough(self.unit)
    }

    /// Whether an eviction is worth its time: something could go, or more has come, or what could
    /// not go may do so by now.
    pub(crate) fn may_try(&self) -> bool {
        !self.is_stuck() || self.stuck.left().is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, NEW_SHARE, PAUSE_MAX, PAUSE_MIN, Stuck, WEIGHT_MAX, WEIGHT_MIN};
    use std::time::Duration;

    #[test]
    fn pauses_grow_and_begin_anew() {
        let (stuck, near) = (Stuck::new(), Duration::from_millis(50));
        let is = |pause: Duration| stuck.left() <= pause && stuck.left() + near >= pause;
        assert!(stuck.left().is_zero());
        stuck.postpone(Duration::ZERO, true);
        assert!(is(PAUSE_MIN));
        (0..10).for_each(|_| stuck.postpone(Duration::ZERO, true));
        assert!(is(PAUSE_MAX));
        stuck.postpone(PAUSE_MIN, true);
        assert!(is(PAUSE_MIN * WEIGHT_MAX), "what costs much is seldom done");
        assert!(stuck.is_braked());
        stuck.succeed();
        stuck.postpone(PAUSE_MIN, true);
        assert!(is(PAUSE_MIN * WEIGHT_MIN) && !stuck.is_braked());
    }

    #[test]
    fn who_is_stuck_waits_again_once_a_batch_has_come() {
        for (unit, batch) in [(4 << 10, 64), (64 << 10, 4), (256 << 10, 1), (512 << 10, 1)] {
            let limit = Limit::new(Some(1 << 30), 0, unit, unit);
            limit.add(10);
            assert!(!limit.is_stuck());
            limit.set_stuck(true);
            limit.add(batch);
            assert!(limit.is_stuck(), "{unit}");
            limit.add(1);
            assert!(!limit.is_stuck(), "{unit}");
        }
    }

    #[test]
    fn more_has_to_come_after_each_try_in_vain() {
        let limit = Limit::new(Some(1 << 30), 0, 4 << 10, 4 << 10);
        limit.add(6400);
        for new in [64, 128, 256, 512] {
            limit.postpone(Duration::ZERO, true);
            limit.add(new.min(limit.resident() / NEW_SHARE));
            assert!(limit.is_stuck(), "{new}");
            limit.add(1);
            assert!(!limit.is_stuck(), "{new}");
        }
    }
}
