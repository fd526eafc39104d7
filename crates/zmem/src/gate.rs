//! The gate. A thread is inside the gate while it changes states of blocks or holds a lock of this
//! crate. To close the gate, a forking thread waits until no thread is inside. From then on, no
//! thread can enter until the fork has ended (zm-F1).
//!
//! A thread inside the gate has all signals blocked (zm-H2), so no handler on this thread enters
//! the gate again.

use crate::error::fatal;
use crate::policy::{FORK_TIME, MISSING_OWNER_LOOKS};
use crate::process;
use crate::signals::{SignalMask, set_mask, without_signals};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, wait, wait_for, wake};
use page::fork::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

const CLOSED: u32 = 1 << 31;

#[derive(Debug)]
pub(crate) struct Gate {
    /// The number of threads inside. The flag `CLOSED` is set while a fork is in progress or waits
    /// for threads inside.
    word: AtomicU32,
    /// Whether this process lacks threads that were inside the gate when it or an ancestor was
    /// created.
    is_torn: AtomicBool,
    /// The signal mask of the forking thread before the fork.
    mask: Mutex<Option<SignalMask>>,
}

/// Proof that this thread is inside the gate. When this value is dropped, the thread leaves the
/// gate.
#[derive(Debug)]
pub(crate) struct Inside<'g>(&'g Gate);

/// The gate of all regions.
pub(crate) static GATE: Gate =
    Gate { word: AtomicU32::new(0), is_torn: AtomicBool::new(false), mask: Mutex::new(None) };

/// Runs `work` inside the gate, with all signals blocked.
pub(crate) fn inside<T>(work: impl FnOnce() -> T) -> T {
    without_signals(|| {
        let _inside = GATE.enter();
        work()
    })
}

impl Gate {
    /// Enters the gate. If the gate is closed, waits until the fork has ended. If the fork still
    /// waits for threads inside after `FORK_TIME`, enters nevertheless. The caller has blocked all
    /// signals.
    pub(crate) fn enter(&self) -> Inside<'_> {
        process::look();
        let mut seen = self.word.load(Relaxed);
        let mut until = None;
        loop {
            if seen & CLOSED != 0 {
                let until = *until.get_or_insert_with(|| Instant::now() + FORK_TIME);
                let left = until.saturating_duration_since(Instant::now());
                if seen == CLOSED || !left.is_zero() {
                    wait_for(&self.word, seen, left.max(FORK_TIME / 20));
                    seen = self.word.load(Relaxed);
                    continue;
                }
            }
            match self.word.compare_exchange_weak(seen, seen + 1, Acquire, Relaxed) {
                Ok(_) => return Inside(self),
                Err(now) => seen = now,
            }
        }
    }

    /// Returns whether a fork is in progress, or waits for threads inside.
    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Relaxed) & CLOSED != 0
    }

    /// Closes the gate, and waits until no thread is inside. Blocks all signals, because a handler
    /// on this thread would wait at the gate forever.
    pub(crate) fn close_for_fork(&self) {
        let mask = set_mask(SignalMask::ALL);
        process::look();
        self.close();
        *self.mask.lock() = Some(mask);
    }

    /// Opens the gate, and restores the signal mask of this thread.
    pub(crate) fn open_after_fork(&self) {
        let mask = self.mask.lock().take();
        self.open();
        mask.map(set_mask);
    }

    fn close(&self) {
        self.word.fetch_or(CLOSED, Acquire);
        loop {
            match self.word.load(Acquire) {
                CLOSED => return,
                seen => wait(&self.word, seen),
            }
        }
    }

    /// In a child for which no fork handler ran, sets the number of threads inside to 0. The child
    /// lacks the threads that were inside, and none of its own threads has entered yet.
    pub(crate) fn begin_copy(&self) {
        let seen = self.word.swap(0, AcqRel);
        if seen & CLOSED != 0 {
            // Another thread's fork held all locks, and this child has no thread that releases
            // them.
            fatal("memory can't be used", &"this process was copied amid a fork");
        }
        self.is_torn.fetch_or(seen != 0, AcqRel);
    }

    /// Returns whether this process lacks threads that were inside when it or an ancestor was
    /// created. Blocks that these threads owned stay `Busy`.
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn.load(Acquire)
    }

    /// Returns whether this thread is the only thread inside.
    pub(crate) fn is_alone_inside(&self) -> bool {
        self.word.load(Acquire) & !CLOSED == 1
    }

    fn open(&self) {
        self.word.store(0, Release);
        wake(&self.word);
    }

    /// Waits while another thread owns a block or changes a chunk. Aborts the process if it is a
    /// child that lacks the other thread (zm-F3).
    pub(crate) fn wait_for_owner(&self, has_ended: impl Fn() -> bool, wait: impl FnOnce()) {
        if !self.is_torn() {
            return wait();
        }
        for _ in 0..MISSING_OWNER_LOOKS {
            std::thread::yield_now();
            if has_ended() || !self.is_alone_inside() {
                return;
            }
        }
        fatal("a block is missing", &"a thread had it when this process was made without handlers");
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // The last thread that leaves a closed gate wakes the forking thread.
        if self.0.word.fetch_sub(1, Release) == CLOSED + 1 {
            wake(&self.0.word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use testkit::wait::until;

    /// While a fork waits for a thread inside the gate, another thread can enter after `FORK_TIME`.
    #[test]
    fn a_fork_that_waits_keeps_no_one_out_for_ever() {
        static GATE: Gate = Gate {
            word: AtomicU32::new(0),
            mask: Mutex::new(None),
            is_torn: AtomicBool::new(false),
        };
        let inside = GATE.enter();
        let fork = thread::spawn(|| GATE.close());
        until("the fork waits", || GATE.is_closed());
        let other = thread::spawn(|| drop(GATE.enter()));
        until("the other thread was inside", || other.is_finished());
        assert!(!fork.is_finished());
        drop(inside);
        fork.join().unwrap();
        let last = thread::spawn(|| drop(GATE.enter()));
        thread::sleep(2 * FORK_TIME);
        assert!(!last.is_finished(), "no one enters while the process is copied");
        GATE.open();
        last.join().unwrap();
    }
}
