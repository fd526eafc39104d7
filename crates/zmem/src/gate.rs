//! The gate. A thread that changes states of blocks, or holds a lock of this crate, is inside it. A
//! fork closes it: waits until no thread is inside, and lets none in until it is over (zm-F1).
//!
//! A thread has all signals blocked while it is inside (zm-H2), so no handler that wants to enter
//! interrupts it.

use crate::fatal::fatal;
use crate::process::{self, Told};
use crate::signals::{self, SignalMask};
use crate::sync::{AtomicU32, Ordering, wait, wait_for, wake};
use crate::{kept_file, threads};
use page::fork::{AtFork, Mutex, Turn};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const CLOSED: u32 = 1 << 31;
/// How long a thread that wants to enter waits for a fork that waits for threads inside. One of
/// those may in turn wait for a lock of the program (its allocator's, say), which the thread that
/// wants to enter holds if it is in a handler; so it enters then, ahead of the fork.
const FORK_TIME: Duration = Duration::from_millis(20);

/// The gate's state.
#[derive(Debug)]
pub(crate) struct Gate {
    /// How many threads are inside, and `CLOSED`.
    word: AtomicU32,
    /// Whether threads were inside when this copy of a process was made, which it lacks.
    is_torn: AtomicBool,
    /// The signals that the forking thread had blocked before.
    mask: Mutex<Option<SignalMask>>,
}

/// Shows that the thread is inside, until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside<'g>(&'g Gate);

/// The gate of all regions.
pub(crate) static GATE: Gate =
    Gate { word: AtomicU32::new(0), is_torn: AtomicBool::new(false), mask: Mutex::new(None) };

/// What is done for regions at a fork, while the gate is closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forks {
    pub(crate) prepare: fn(),
    pub(crate) in_parent: fn(),
    pub(crate) in_child: fn(),
}

struct Hook(Forks);

/// Makes forks close the gate and call `forks`. Called before the first device of a region is made,
/// as a fork has to take the locks of those after the gate; and before the gate, those of all else:
/// who holds them may touch a region.
pub(crate) fn register(forks: Forks) {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    process::begin(put_right);
    page::fork::register_once(&IS_REGISTERED, Hook(forks), Turn::Last);
}

/// Replaces what a copy of a process must not share with the original.
fn put_right(told: Told) {
    threads::begin_child();
    if told == Told::ByPage {
        GATE.begin_copy();
    }
    kept_file::begin_child();
}

impl Gate {
    /// Enters, once no fork is under way. The caller has blocked all signals.
    pub(crate) fn enter(&self) -> Inside<'_> {
        process::look();
        let mut seen = self.word.load(Ordering::Relaxed);
        let mut until = None;
        loop {
            if seen & CLOSED != 0 {
                let until = *until.get_or_insert_with(|| Instant::now() + FORK_TIME);
                let left = until.saturating_duration_since(Instant::now());
                if seen == CLOSED || !left.is_zero() {
                    wait_for(&self.word, seen, left.max(FORK_TIME / 20));
                    seen = self.word.load(Ordering::Relaxed);
                    continue;
                }
            }
            let entered = self.word.compare_exchange_weak(
                seen,
                seen + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match entered {
                Ok(_) => return Inside(self),
                Err(now) => seen = now,
            }
        }
    }

    /// Returns whether a fork is under way, or waits for threads inside.
    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Lets no thread in any more, and waits until none is inside.
    fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::Acquire);
        loop {
            match self.word.load(Ordering::Acquire) {
                CLOSED => return,
                seen => wait(&self.word, seen),
            }
        }
    }

    /// Sets the count of threads inside to 0, in a copy that no fork handler was called for. None
    /// of its own threads has entered yet, and it lacks those that were inside.
    pub(crate) fn begin_copy(&self) {
        let seen = self.word.swap(0, Ordering::AcqRel);
        if seen & CLOSED != 0 {
            // The fork held all locks, and nothing will release them in this copy.
            fatal("memory can't be used", &"this process was copied amid a fork");
        }
        self.is_torn.fetch_or(seen != 0, Ordering::AcqRel);
    }

    /// Returns whether threads were inside when this copy was made. The blocks that they owned stay
    /// `Busy`.
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn.load(Ordering::Acquire)
    }

    /// Returns whether this thread is the only one inside.
    pub(crate) fn is_alone_inside(&self) -> bool {
        self.word.load(Ordering::Acquire) & !CLOSED == 1
    }

    /// Lets threads in again, after a fork.
    fn open(&self) {
        self.word.store(0, Ordering::Release);
        wake(&self.word);
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // The last thread that leaves wakes a fork that waits.
        if self.0.word.fetch_sub(1, Ordering::Release) == CLOSED + 1 {
            wake(&self.0.word);
        }
    }
}

impl AtFork for Hook {
    fn prepare(&self) {
        // A handler on this thread would wait for ever, as the gate is closed by this thread.
        let mask = signals::block_all();
        process::look();
        GATE.close();
        (self.0.prepare)();
        *GATE.mask.lock() = Some(mask);
    }

    fn in_parent(&self) {
        (self.0.in_parent)();
        self.let_in();
    }

    fn in_child(&self) {
        process::begin_child();
        (self.0.in_child)();
        self.let_in();
    }
}

impl Hook {
    /// Opens the gate, and restores the thread's signal mask.
    fn let_in(&self) {
        let mask = GATE.mask.lock().take();
        GATE.open();
        mask.inspect(signals::restore);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use testkit::wait::until;

    /// A thread inside may wait for a lock of the program that a thread that wants to enter holds.
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
