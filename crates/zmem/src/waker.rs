//! How other threads wake the pager thread, and wait for its steps.

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

/// The words by which the pager thread and other threads communicate.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    /// Requests to the thread.
    pub(crate) word: AtomicU32,
    /// The number of steps of eviction that the thread has done.
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

    /// Makes sure that the pager thread, if there is one, tries again after an eviction in vain: it
    /// may be in a sleep without an end, because nothing was wanted when it began. Returns whether
    /// there is such a thread.
    pub(crate) fn watch(&self) -> bool {
        let naps = self.word.load(Acquire) & NAPS != 0;
        self.has_thread() && (naps || self.wake())
    }

    /// Makes the pager thread, which calls this, sleep for `time`, or until it is woken.
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
