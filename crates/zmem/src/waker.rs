//! How other threads wake the pager thread, and wait for its steps.

use crate::process::generation;
use crate::sync::{wait_for, wake};
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};
use std::time::Duration;

/// A bit of `word`: the pager thread should evict.
pub(crate) const WANTED: u32 = 1;
/// A bit of `word`: the pager thread should end.
pub(crate) const STOPPED: u32 = 2;
/// A bit of `word`: the pager thread sleeps, and will try to evict again without being woken.
pub(crate) const NAPS: u32 = 4;

/// The words by which the pager thread and other threads communicate.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    /// Requests to the pager thread.
    pub(crate) word: AtomicU32,
    /// The number of eviction steps that the pager thread has completed.
    pub(crate) steps: AtomicU32,
    /// The generation of the process that has the pager thread, plus 1; 0 if no process has one.
    pub(crate) process: AtomicU32,
}

impl Waker {
    /// Returns whether this process has a pager thread.
    pub(crate) fn has_thread(&self) -> bool {
        self.process.load(Acquire) == generation().wrapping_add(1)
    }

    /// Wakes the pager thread, which then evicts. Returns whether this process has such a thread.
    pub(crate) fn wake(&self) -> bool {
        if !self.has_thread() {
            return false;
        }
        if self.word.fetch_or(WANTED, AcqRel) & WANTED == 0 {
            wake(&self.word);
        }
        true
    }

    /// If there is a pager thread, ensures that it tries again after an unsuccessful eviction. The
    /// thread may sleep without a time limit, because no eviction was needed when it fell asleep.
    /// Returns whether there is such a thread.
    pub(crate) fn watch(&self) -> bool {
        let naps = self.word.load(Acquire) & NAPS != 0;
        self.has_thread() && (naps || self.wake())
    }

    /// Lets the calling thread, the pager thread, sleep for `time`, or until it is woken.
    pub(crate) fn nap(&self, time: Duration) {
        if self.word.fetch_or(NAPS, AcqRel) == 0 {
            wait_for(&self.word, NAPS, time);
        }
        self.word.fetch_and(!NAPS, AcqRel);
    }

    /// Counts a completed eviction step, and wakes threads that wait for a step.
    pub(crate) fn step(&self) {
        self.steps.fetch_add(1, AcqRel);
        wake(&self.steps);
    }
}
