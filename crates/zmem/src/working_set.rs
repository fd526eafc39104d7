//! The memory that a working set lacks, computed from the distances of refaults. A block that is
//! filled after `n` other blocks were evicted would have stayed resident if the limit were larger
//! by `n` blocks. `n` is measured in rounds of the clock (zm-S3), so the result is exact to a
//! round.
//!
//! ```text
//!   a window: | evicted, rounds, time in faults, distances of the filled blocks |
//!   lacks     = blocks evicted in a round * the rounds of nine refaults in ten, uncompressed
//!               less compressed
//! ```

use crate::counters::DISTANCES;
use crate::policy::{PREVENTED_SHARE, SLOW_SHARE, SLOW_WINDOWS, WATCHED_TIME};
use std::time::Duration;

/// Counts at the start of a window.
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

/// Returns the number of rounds within which most refaults happen, or 0 if there are none.
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

    /// Ends this window, and begins the next one. Returns the bytes that a larger limit would keep
    /// resident; a block has `size` bytes. Returns `None` unless this window is the last of
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
}
