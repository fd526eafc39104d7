//! Counts the program's threads that are not at a *safepoint*. A thread is at a safepoint while it
//! waits in a system call during which the kernel accesses only pinned memory. A thread is alone if
//! all other threads are at safepoints (zm-A6).
//!
//! ```text
//!   word: | STOPPED | WAITED | threads that are not at a safepoint |
//! ```
//! Threads are counted only in programs whose system calls the crate `dispatch` handles. In other
//! programs, the word is 0.

use crate::policy::LOOKS;
use crate::sync::{AtomicU32, Ordering::*, wait, wake};
use std::hint::spin_loop;

/// If set, a thread is alone or tries to be alone, so no other thread is allowed to leave its
/// safepoint.
const STOPPED: u32 = 1 << 31;
/// If set, some thread waits to leave its safepoint.
const WAITED: u32 = 1 << 30;
const COUNT: u32 = WAITED - 1;

/// The number of threads that are not at a safepoint.
#[derive(Debug)]
pub struct Safepoint {
    pub(crate) word: AtomicU32,
}

impl Safepoint {
    /// Begins to count threads. The caller is the only thread of the process.
    pub fn enable(&self) {
        self.word.store(1, Release);
    }

    /// Counts a new thread, or a new process that shares this memory, before it is created. The
    /// caller is already counted.
    pub fn thread_begins(&self) {
        self.word.fetch_add(1, Relaxed);
    }

    /// Puts this thread at a safepoint. Until [`leave`](Self::leave), neither the thread nor a
    /// system call of the thread accesses memory that could be absent. This function is also called
    /// on behalf of a thread that has ended or was not created.
    pub fn enter(&self) {
        self.word.fetch_sub(1, Release);
    }

    /// Ends this thread's safepoint. Waits while another thread keeps the other threads at
    /// safepoints.
    pub fn leave(&self) {
        loop {
            let seen = self.look_until(|seen| seen & STOPPED == 0);
            let is_stopped = seen & STOPPED != 0;
            let next = if is_stopped { seen | WAITED } else { seen + 1 };
            let changed = self.word.compare_exchange_weak(seen, next, Acquire, Relaxed);
            match is_stopped {
                _ if changed.is_err() => {}
                true => wait(&self.word, next),
                false => return,
            }
        }
    }

    /// Sets the count for a child of fork, which has one thread.
    pub(crate) fn begin_child(&self) {
        self.word.store(self.is_enabled().into(), Relaxed);
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    /// If all other threads are at safepoints, keeps them there until [`resume`](Self::resume), and
    /// returns true. Otherwise returns false.
    pub(crate) fn try_stop(&self) -> bool {
        self.word.compare_exchange(1, STOPPED | 1, Acquire, Relaxed).is_ok()
    }

    /// Does the same as [`try_stop`](Self::try_stop), but waits briefly until running threads reach
    /// safepoints. If another thread is already stopping threads, the caller first waits at a
    /// safepoint until that thread calls `resume`.
    pub(crate) fn stop(&self) -> bool {
        while self.word.fetch_or(STOPPED, Relaxed) & STOPPED != 0 {
            self.enter();
            self.leave();
        }
        let is_alone = |seen| seen & COUNT == 1;
        is_alone(self.look_until(is_alone)) || {
            self.resume();
            false
        }
    }

    /// Loads the word until `wanted` returns true for its value, `LOOKS` times at most. Returns the
    /// last value.
    fn look_until(&self, wanted: impl Fn(u32) -> bool) -> u32 {
        let mut seen = self.word.load(Acquire);
        for _ in 0..LOOKS {
            if wanted(seen) {
                break;
            }
            spin_loop();
            seen = self.word.load(Acquire);
        }
        seen
    }

    /// Permits other threads to leave their safepoints again.
    pub(crate) fn resume(&self) {
        if self.word.fetch_and(COUNT, Release) & WAITED != 0 {
            wake(&self.word);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
