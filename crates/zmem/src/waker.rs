//! What others tell the thread that evicts, and it tells them.

use crate::sync::wake;
use page::fork::generation;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};

pub(crate) const WANTED: u32 = 1;
pub(crate) const STOPPED: u32 = 2;

/// What others tell the thread, and it tells them.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    pub(crate) word: AtomicU32,
    /// Steps of eviction that were done.
    pub(crate) steps: AtomicU32,
    /// 1 more than the generation of the process that has the thread; 0 if none has.
    pub(crate) process: AtomicU32,
}

impl Waker {
    /// Has the thread evict, if this process has it; whether it has.
    pub(crate) fn wake(&self) -> bool {
        if self.process.load(Acquire) != generation().wrapping_add(1) {
            return false;
        }
        if self.word.fetch_or(WANTED, AcqRel) & WANTED == 0 {
            wake(&self.word);
        }
        true
    }

    pub(crate) fn step(&self) {
        self.steps.fetch_add(1, AcqRel);
        wake(&self.steps);
    }
}
