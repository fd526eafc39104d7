//! The memory that the processes of a group hold together, and the share of each: the memory that
//! each process may hold if all processes that need more get the same (zm-L6).
//!
//! ```text
//!   limit: | a | b | c: share      | d: share      |    a and b hold less, and need no more
//! ```

use crate::group::ProcessGroup;
use crate::layout::CLEARED;
use crate::policy::{STEPS, WANT_TIME};
use std::sync::atomic::Ordering::Relaxed;
use zmem::Sum;

/// The memory that a process may hold while it needs room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) bytes: u64,
    /// Whether another process holds more than `bytes`.
    pub(crate) is_passed: bool,
}

impl Share {
    /// Returns the share of the process in slot `own`, which needs room. Processes that hold less
    /// than the share and need no room keep their memory. The other processes divide the rest of
    /// the limit. `now` is in milliseconds.
    pub(crate) fn of(group: &ProcessGroup, own: usize, limit: u64, now: u64) -> Self {
        let mut share = Share::default();
        for _ in 0..STEPS {
            let next = share.next(group, own, limit, now);
            // A larger share never lowers the number of processes that hold less than the share.
            let is_found = next.bytes <= share.bytes;
            share = next;
            if is_found {
                break;
            }
        }
        share
    }

    /// Divides the limit, minus the memory of processes that hold at most this share and need no
    /// room, by the number of the other processes.
    fn next(self, group: &ProcessGroup, own: usize, limit: u64, now: u64) -> Self {
        let (mut rest, mut sharers, mut is_passed) = (limit, 1, false);
        for nth in group.in_use().filter(|nth| *nth != own) {
            // A free slot records no memory held and no room needed.
            let held = group.held(nth);
            is_passed |= held > self.bytes;
            if held > self.bytes || wants(group, nth, now) {
                sharers += 1;
            } else {
                rest = rest.saturating_sub(held);
            }
        }
        Share { bytes: rest / sharers, is_passed }
    }
}

/// Returns whether the process in slot `nth` found no room less than `WANT_TIME` ago.
pub(crate) fn wants(group: &ProcessGroup, nth: usize, now: u64) -> bool {
    let wanted = group.slot(nth).wanted.load(Relaxed);
    wanted <= now && now - wanted < WANT_TIME
}

/// Returns the sum of all slots except `own`. A process with at least `much` bytes is large.
pub(crate) fn sum_but(group: &ProcessGroup, own: usize, much: u64) -> Sum {
    let mut sum = Sum::default();
    for nth in group.in_use().filter(|nth| *nth != own) {
        if !matches!(group.slot(nth).process.load(Relaxed), 0 | CLEARED) {
            let (held, evictable) = group.counted(nth);
            sum.held += held;
            sum.evictable += evictable;
            sum.large += u64::from(held >= much);
        }
    }
    sum
}

/// Returns the slot of the process that holds the most bytes, and these bytes.
pub(crate) fn largest_holder(group: &ProcessGroup) -> Option<(usize, u64)> {
    let held = |nth: usize| (nth, group.held(nth));
    group.in_use().map(held).max_by_key(|(_, bytes)| *bytes)
}

/// Returns the process that holds the most bytes that can't be evicted, and these bytes.
pub(crate) fn largest(group: &ProcessGroup) -> (u64, u64) {
    let stays = |nth: usize| {
        let (held, evictable) = group.counted(nth);
        (group.slot(nth).process.load(Relaxed), held.saturating_sub(evictable))
    };
    let named = group.in_use().map(stays).filter(|(process, _)| !matches!(process, &(0 | CLEARED)));
    named.max_by_key(|(_, bytes)| *bytes).unwrap_or_default()
}
