//! How other threads wake the pager thread, and learn of its steps.

use crate::process::generation;
use crate::sync::{wait_for, wake};
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};
use std::time::Duration;

/// A bit of `word`: the pager thread is to evict.
pub(crate) const WANTED: u32 = 1;
/// A bit of `word`: the pager thread is to end.
pub(crate) const STOPPED: u32 = 2;
/// A bit of `word`: the pager thread sleeps until it tries again by itself.
pub(crate) const NAPS: u32 = 4;

/// What the pager thread and other threads tell each other.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    /// What the thread is to do.
    pub(crate) word: AtomicU32,
    /// How many steps of eviction the thread has done.
    pub(crate) steps: AtomicU32,
    /// The generation of the process that has the thread, plus 1; 0 if there is no thread.
    pub(crate) process: AtomicU32,
}

impl Waker {
    /// Returns whether this process has a pager thread.
    pub(crate) fn has_thread(&self) -> bool {
        self.process.load(Acquire) == generation().wrapping_add(1)
    }

    /// Makes the pager thread evict. Returns whether this process has that thread.
    pub(crate) fn wake(&self) -> bool {
        if !self.has_thread() {
            return false;
        }
        if self.word.fetch_or(WANTED, AcqRel) & WANTED == 0 {
            wake(&self.word);
        }
        true
    }

    /// Sees to it that the pager thread will try again, if there is one, where an eviction was in
    /// vain: it may sleep for good, as nothing was wanted then. Returns whether there is one.
    pub(crate) fn watch(&self) -> bool {
        let naps = self.word.load(Acquire) & NAPS != 0;
        self.has_thread() && (naps || self.wake())
    }

    /// Has the pager thread, which calls this, sleep so long, or until it is woken.
    pub(crate) fn nap(&self, time: Duration) {
        if self.word.fetch_or(NAPS, AcqRel) == 0 {
            wait_for(&self.word, NAPS, time);
        }
        self.word.fetch_and(!NAPS, AcqRel);
    }

    /// Counts a step of eviction, and wakes threads that wait for one.
    pub(crate) fn step(&self) {
        self.steps.fetch_add(1, AcqRel);
        wake(&self.steps);
    }
}
