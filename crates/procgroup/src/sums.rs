//! Adds up the memory that the processes of a group hold, and computes each process's share of the
//! limit. A process is allowed to hold its share while it needs room. All processes that need more
//! memory get equal shares (zm-L6).
//!
//! ```text
//!   limit: | a | b | c: share      | d: share      |    a and b hold less, and need no more
//! ```

use crate::group::ProcessGroup;
use crate::policy::{STEPS, WANT_TIME};
use std::sync::atomic::Ordering::Relaxed;
use zmem::Sum;

/// The memory that a process is allowed to hold while it needs room to fill blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) bytes: u64,
    /// Whether another process holds more than `bytes` bytes.
    pub(crate) is_passed: bool,
}

impl Share {
    /// Returns the share of a process that uses slot `own` and needs room. A process that holds
    /// less than the share and needs no room keeps its memory. The other processes divide the
    /// remaining limit equally. `now` is in milliseconds.
    pub(crate) fn of(group: &ProcessGroup, own: usize, limit: u64, now: u64) -> Self {
        let mut share = Share::default();
        for _ in 0..STEPS {
            let next = share.next(group, own, limit, now);
            // If the share grows, the number of processes that hold less than the share can only
            // grow too. So the computation ends when an iteration does not raise the share.
            let is_found = next.bytes <= share.bytes;
            share = next;
            if is_found {
                break;
            }
        }
        share
    }

    /// Returns the next approximation of the share. Subtracts from the limit the memory of
    /// processes that hold at most the current share and need no room. Divides the difference by
    /// the number of the other processes.
    fn next(self, group: &ProcessGroup, own: usize, limit: u64, now: u64) -> Self {
        let (mut rest, mut sharers, mut is_passed) = (limit, 1, false);
        for nth in group.in_use().filter(|nth| *nth != own) {
            // Free slots do not change the result, because their words `held` and `wanted` are 0.
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

/// Returns whether the process in slot `nth` found no room within the last `WANT_TIME`
/// milliseconds.
pub(crate) fn wants(group: &ProcessGroup, nth: usize, now: u64) -> bool {
    let wanted = group.slot(nth).wanted.load(Relaxed);
    wanted <= now && now - wanted < WANT_TIME
}

/// Adds up the memory of all processes except the process in slot `own`, and counts the large
/// processes. A process is large if it holds at least `much` bytes.
pub(crate) fn sum_but(group: &ProcessGroup, own: usize, much: u64) -> Sum {
    let mut sum = Sum::default();
    for (nth, _) in group.processes().filter(|(nth, _)| *nth != own) {
        let (held, evictable) = group.counted(nth);
        sum.held += held;
        sum.evictable += evictable;
        sum.large += u64::from(held >= much);
    }
    sum
}

/// Finds the process for which `bytes` returns the largest value. Returns the index of its slot,
/// its ID, and that value. The arguments of `bytes` are the number of bytes that are charged to a
/// process, and the number of evictable bytes among them.
pub(crate) fn largest(
    group: &ProcessGroup,
    bytes: impl Fn((u64, u64)) -> u64,
) -> Option<(usize, u64, u64)> {
    let all = group.processes().map(|(nth, process)| (nth, process, bytes(group.counted(nth))));
    all.max_by_key(|(_, _, bytes)| *bytes)
}
