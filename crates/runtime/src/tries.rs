//! `execve` calls that signals interrupt. If signals arrive faster than a helper starts, they could
//! interrupt every repetition of a call.
//!
//! ```text
//!   slot of a thread:  | its ID | consecutive calls that signals ended |
//! ```
//! Threads with the same slot reset each other's counts.

use crate::policy::{EXEC_SLOTS, EXEC_TRIES};
use dispatch::system;
use std::array::from_fn;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[derive(Debug, Default)]
struct Slot {
    thread: AtomicU32,
    ended: AtomicU32,
}

/// The number of consecutive `execve` calls of each thread that signals interrupted.
#[derive(Debug)]
pub(crate) struct Tries([Slot; EXEC_SLOTS]);

impl Default for Tries {
    fn default() -> Self {
        Tries(from_fn(|_| Slot::default()))
    }
}

fn own_number() -> u32 {
    system(libc::SYS_gettid, [0; 6]).unwrap_or(0) as u32
}

impl Tries {
    fn slot(&self, thread: u32) -> &Slot {
        &self.0[thread as usize % EXEC_SLOTS]
    }

    /// Returns whether the next call of this thread is allowed to start a helper.
    pub(crate) fn may_try(&self) -> bool {
        let thread = own_number();
        let slot = self.slot(thread);
        slot.thread.load(Relaxed) != thread || slot.ended.load(Relaxed) < EXEC_TRIES
    }

    /// Records a call of this thread that failed to execute a program. Counts the call if a signal
    /// ended it, else resets the count.
    pub(crate) fn count(&self, is_ended_by_signal: bool) {
        let thread = own_number();
        let slot = self.slot(thread);
        let is_same = slot.thread.swap(thread, Relaxed) == thread;
        let before = if is_same { slot.ended.load(Relaxed) } else { 0 };
        slot.ended.store(if is_ended_by_signal { before + 1 } else { 0 }, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_fail_are_tried_as_ever() {
        let tries = Tries::default();
        for round in 0..3 * EXEC_TRIES {
            assert!(tries.may_try(), "round {round}");
            tries.count(false);
        }
        for round in 0..EXEC_TRIES {
            assert!(tries.may_try(), "round {round}");
            tries.count(true);
        }
        assert!(!tries.may_try());
        tries.count(true);
        assert!(!tries.may_try());
        tries.count(false);
        assert!(tries.may_try());
    }

    #[test]
    fn threads_have_counts_of_their_own() {
        let tries = Tries::default();
        (0..EXEC_TRIES).for_each(|_| tries.count(true));
        std::thread::scope(|scope| {
            assert!(scope.spawn(|| tries.may_try()).join().unwrap());
        });
        assert!(!tries.may_try());
    }
}
