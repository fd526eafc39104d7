//! Which threads of a program run its code. One that waits in a system call, for which the system
//! touches only pinned memory, is at a safepoint: who finds all others there is alone (zm-A6).
//!
//! ```text
//!   word: | STOPPED | WAITED | threads that are not at a safepoint |
//! ```
//! A program whose calls do not come to us first has 0 there: nobody tells.

use crate::sync::{AtomicU32, Ordering::*, wait, wake};
use std::hint::spin_loop;

/// The thread that is counted is alone: no other may leave its safepoint.
const STOPPED: u32 = 1 << 31;
/// Somebody waits to leave.
const WAITED: u32 = 1 << 30;
const COUNT: u32 = WAITED - 1;
/// Looks at the word, some 25 ns each, before a wait is one by the system; and until others that
/// run have come to a safepoint, which those that fault as often do at their next fault.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 20_000 };

/// How many threads are not at a safepoint.
#[derive(Debug)]
pub struct Safepoint {
    pub(crate) word: AtomicU32,
}

impl Safepoint {
    /// Has threads be counted from now on. There is one, which calls this.
    pub fn begin(&self) {
        self.word.store(1, Release);
    }

    /// Counts a thread that is about to be made, or a process that shares this memory. The caller
    /// is counted.
    pub fn thread_begins(&self) {
        self.word.fetch_add(1, Relaxed);
    }

    /// Has this thread be at a safepoint from now on: it touches nothing that could be absent, and
    /// nor does the system for it. Also for a thread that has ended, or was not made.
    pub fn enter(&self) {
        self.word.fetch_sub(1, Release);
    }

    /// Has this thread go on, once none is alone.
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

    /// Takes note that this is a child, with one thread.
    pub(crate) fn begin_child(&self) {
        self.word.store(self.is_told().into(), Relaxed);
    }

    /// Returns whether threads are counted.
    pub(crate) fn is_told(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    /// Has other threads stay at their safepoints, if all are there. Returns whether they do: until
    /// [`go_on`](Self::go_on).
    pub(crate) fn try_stop(&self) -> bool {
        self.word.compare_exchange(1, STOPPED | 1, Acquire, Relaxed).is_ok()
    }

    /// The same, and waits a moment for others that run: who comes here meanwhile is at a safepoint
    /// until this thread goes on, and then has its turn.
    pub(crate) fn stop(&self) -> bool {
        while self.word.fetch_or(STOPPED, Relaxed) & STOPPED != 0 {
            self.enter();
            self.leave();
        }
        let is_alone = |seen| seen & COUNT == 1;
        is_alone(self.look_until(is_alone)) || {
            self.go_on();
            false
        }
    }

    /// Returns the word as soon as it is `wanted`, or after a while.
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

    /// Lets other threads leave again.
    pub(crate) fn go_on(&self) {
        if self.word.fetch_and(COUNT, Release) & WAITED != 0 {
            wake(&self.word);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
