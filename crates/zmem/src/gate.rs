//! The gate: who changes states of blocks, or holds a lock of this crate, is inside; a fork waits
//! until no one is, and lets no one in (zm-F1).
//!
//! Whoever enters has all signals blocked (zm-H2), so no one inside is interrupted by a handler
//! that wants to enter as well.

use crate::signals::{self, SignalMask};
use crate::sync::{AtomicU32, Ordering, wait, wake};
use page::fork::{AtFork, Mutex};
use std::sync::atomic::AtomicBool;

const CLOSED: u32 = 1 << 31;

/// A count of who is inside, and whether it is closed.
#[derive(Debug)]
pub(crate) struct Gate {
    word: AtomicU32,
    /// The signals that the thread that forks had blocked before.
    mask: Mutex<Option<SignalMask>>,
}

/// That the caller is inside.
#[derive(Debug)]
pub(crate) struct Inside<'g>(&'g Gate);

/// The gate of all regions.
pub(crate) static GATE: Gate = Gate { word: AtomicU32::new(0), mask: Mutex::new(None) };

struct Hook;

/// Has forks wait for who is inside. To be called before a device is made, whose locks come after
/// the gate.
pub(crate) fn register() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    page::fork::register_once(&IS_REGISTERED, Hook);
}

impl Gate {
    /// Enters, when no fork is under way. All signals are blocked.
    pub(crate) fn enter(&self) -> Inside<'_> {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen & CLOSED != 0 {
                wait(&self.word, seen);
                seen = self.word.load(Ordering::Relaxed);
                continue;
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

    fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::Acquire);
        loop {
            match self.word.load(Ordering::Acquire) {
                CLOSED => return,
                seen => wait(&self.word, seen),
            }
        }
    }

    fn open(&self) {
        self.word.store(0, Ordering::Release);
        wake(&self.word);
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // The last one out wakes a fork that waits.
        if self.0.word.fetch_sub(1, Ordering::Release) == CLOSED + 1 {
            wake(&self.0.word);
        }
    }
}

impl AtFork for Hook {
    fn prepare(&self) {
        // A handler on this thread could not enter, and would wait for ever.
        let mask = signals::block_all();
        GATE.close();
        *GATE.mask.lock() = Some(mask);
    }

    fn in_parent(&self) {
        let mask = GATE.mask.lock().take();
        GATE.open();
        mask.inspect(signals::restore);
    }

    fn in_child(&self) {
        self.in_parent();
    }
}
