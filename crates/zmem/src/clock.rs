//! The hand of the clock, and the first-in, first-out queue of the clock windows that have blocks
//! in probation.

use crate::Error;
use crate::policy::PROBATION_MAX;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Clock {
    /// The number of clock windows of the region.
    pub(crate) windows: usize,
    /// The clock window that the next step examines.
    hand: usize,
    /// After a round without an eviction, the number of clock windows that the hand must still pass
    /// to complete the next round. Otherwise 0.
    after_no_progress: usize,
    /// Clock windows with blocks in probation, the oldest first. `new` allocates space for
    /// `queue_max` clock windows, so a fault allocates nothing.
    queue: VecDeque<u32>,
    queue_max: usize,
    /// Whether all threads must stop evicting.
    pub(crate) has_ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The clock window to examine, or `None` if no clock window with an open chunk is left in this
    /// round.
    pub(crate) window: Option<usize>,
    /// The number of clock windows that the hand passed in this step, including `window`.
    pub(crate) passed: usize,
    pub(crate) is_round: bool,
    /// Whether the previous round of the hand evicted nothing.
    pub(crate) is_after_no_progress: bool,
}

impl Clock {
    pub(crate) fn new(windows: usize) -> Result<Self, Error> {
        let (mut queue, queue_max) = (VecDeque::new(), windows.min(PROBATION_MAX));
        queue
            .try_reserve_exact(queue_max)
            .map_err(|_| Error::System { what: "a queue of blocks", errno: libc::ENOMEM })?;
        Ok(Clock { windows, hand: 0, after_no_progress: 0, queue, queue_max, has_ended: false })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.queue_max * size_of::<u32>()
    }

    /// Appends a clock window to the queue, which must not be full.
    pub(crate) fn push(&mut self, window: usize) {
        debug_assert!(!self.is_full());
        self.queue.push_back(window as u32);
    }

    pub(crate) fn pop(&mut self) -> Option<usize> {
        self.queue.pop_front().map(|window| window as usize)
    }

    /// Puts a clock window that still has blocks in probation back at the front of the queue.
    pub(crate) fn push_back(&mut self, window: usize) {
        self.queue.push_front(window as u32);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() == self.queue_max
    }

    /// Moves the hand past the next clock window with an open chunk, or to the end of the round.
    /// `next(window)` returns the first clock window, from `window` on, that has an open chunk.
    /// `has_no_progress` is true if the last round evicted nothing.
    pub(crate) fn step(
        &mut self,
        has_no_progress: bool,
        next: impl FnOnce(usize) -> Option<usize>,
    ) -> Step {
        let (from, window) = (self.hand, next(self.hand));
        let end = window.map_or(self.windows, |window| window + 1);
        self.hand = end % self.windows;
        let after_no_progress = if has_no_progress { self.windows } else { self.after_no_progress };
        self.after_no_progress = after_no_progress.saturating_sub(end - from);
        let (is_round, is_after_no_progress) = (self.hand == 0, after_no_progress > 0);
        Step { window, passed: end - from, is_round, is_after_no_progress }
    }
}
