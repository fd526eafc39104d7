//! Which threads of a program run its code. One that waits in a system call, for which the system
//! touches only pinned memory, is at a safepoint: who finds all others there is alone (zm-A6).
//!
//! ```text
//!   word: | STOPPED | WAITED | threads that are not at a safepoint |
//! ```
//! A program whose calls do not come to us first has 0 there: nobody tells.

use crate::sync::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    wait, wake,
};

/// The thread that is counted is alone: no other may leave its safepoint.
const STOPPED: u32 = 1 << 31;
/// Somebody waits to leave.
const WAITED: u32 = 1 << 30;

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
        let mut seen = self.word.load(Relaxed);
        loop {
            let is_stopped = seen & STOPPED != 0;
            let next = if is_stopped { seen | WAITED } else { seen + 1 };
            match self.word.compare_exchange_weak(seen, next, Acquire, Relaxed) {
                Ok(_) if is_stopped => {
                    wait(&self.word, next);
                    seen = self.word.load(Relaxed);
                }
                Ok(_) => return,
                Err(now) => seen = now,
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

    /// Lets other threads leave again.
    pub(crate) fn go_on(&self) {
        if self.word.swap(1, Release) & WAITED != 0 {
            wake(&self.word);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
