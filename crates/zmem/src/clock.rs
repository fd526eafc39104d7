//! The hand of the clock, and the queue (first in, first out) of clock windows with blocks in
//! probation.

use crate::Error;
use crate::policy::PROBATION_MAX;

#[derive(Debug)]
pub(crate) struct Clock {
    /// The number of clock windows of the region.
    pub(crate) windows: usize,
    /// The clock window that the clock looks at next.
    hand: usize,
    /// The number of clock windows that the hand has not passed yet in the round that follows a
    /// round without an eviction.
    after_no_progress: usize,
    /// A ring buffer that contains `queued` clock windows. The oldest clock window is at the index
    /// `first`.
    queue: Box<[u32]>,
    first: usize,
    queued: usize,
    /// Whether evictions have ended for good.
    pub(crate) has_ended: bool,
}

/// The result of a step of the hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The clock window to look at, or `None` if no open clock window is left in this round.
    pub(crate) window: Option<usize>,
    /// The number of clock windows that the hand passed, including `window`.
    pub(crate) passed: usize,
    pub(crate) is_round: bool,
    /// Whether the previous round evicted nothing.
    pub(crate) is_after_no_progress: bool,
}

impl Clock {
    pub(crate) fn new(windows: usize) -> Result<Self, Error> {
        let mut queue = Vec::new();
        let room = windows.min(PROBATION_MAX);
        queue
            .try_reserve_exact(room)
            .map_err(|_| Error::System { what: "a queue of blocks", errno: libc::ENOMEM })?;
        queue.resize(room, 0);
        let queue = queue.into();
        Ok(Clock {
            windows,
            hand: 0,
            after_no_progress: 0,
            queue,
            first: 0,
            queued: 0,
            has_ended: false,
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.queue)
    }

    /// Appends a clock window to the queue, which must not be full.
    pub(crate) fn push(&mut self, window: usize) {
        let at = (self.first + self.queued) % self.queue.len();
        self.queue[at] = window as u32;
        self.queued += 1;
    }

    /// Takes the oldest clock window out of the queue.
    pub(crate) fn pop(&mut self) -> Option<usize> {
        let window = *self.queue.get(self.first)?;
        if self.queued == 0 {
            return None;
        }
        self.first = (self.first + 1) % self.queue.len();
        self.queued -= 1;
        Some(window as usize)
    }

    /// Puts the clock window that `pop` returned back at the front of the queue, because the clock
    /// window still has blocks in probation.
    pub(crate) fn push_back(&mut self, window: usize) {
        self.first = (self.first + self.queue.len() - 1) % self.queue.len();
        self.queue[self.first] = window as u32;
        self.queued += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queued == self.queue.len()
    }

    /// Moves the hand past the next clock window with an open chunk. `next` returns the first such
    /// clock window at or after a given clock window. A step never passes the end of a round.
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
