//! How other threads wake the pager thread, and learn of its steps.

use crate::process::generation;
use crate::sync::wake;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};

/// A bit of `word`: the pager thread is to evict.
pub(crate) const WANTED: u32 = 1;
/// A bit of `word`: the pager thread is to end.
pub(crate) const STOPPED: u32 = 2;

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

    /// Counts a step of eviction, and wakes threads that wait for one.
    pub(crate) fn step(&self) {
        self.steps.fetch_add(1, AcqRel);
        wake(&self.steps);
    }
}
