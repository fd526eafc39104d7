//! The data that background threads share with other threads: the words of the pager thread, and
//! the state and copies of the compressor thread. The evicting thread copies a block and drops its
//! pages; the compressor thread compresses the copy (zm-Q1 to zm-Q6).
//!
//! ```text
//!   evicts: copied, marked, pages dropped -> queue -> compressor thread: the device -> Evicted
//!                                               '---> a touch: put back -> Resident
//! ```
//! An arena uses a compressor thread if the arena's caller can start threads that are hidden from
//! the program. The thread ends after a time without evictions, or on request.

use crate::policy::IDLE_TIME;
use crate::process::generation;
use crate::queue::Queue;
use crate::sync::{AtomicU32, Ordering::SeqCst, fence, wait_for, wake};
use page::fork::Mutex;
use std::fmt::Debug;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire};
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

/// Starts threads that are hidden from the program.
pub trait StartThread: Debug + Send + Sync {
    /// Starts a thread that calls `run` and exits. The new thread has all signals blocked, like the
    /// calling thread, and has the thread-local storage that this crate needs. Returns whether the
    /// thread was started. The start fails while the previous thread still exists.
    fn start(&self, run: Box<dyn FnOnce() + Send>) -> bool;

    /// Returns the number of the thread that was started last, or 0 if no thread was started.
    fn last(&self) -> u32;

    /// Waits up to `time` until the thread with the number `last` has exited. Returns whether that
    /// thread has exited.
    fn has_ended(&self, last: u32, time: Duration) -> bool;
}

/// No thread exists.
pub(crate) const NONE: u32 = 0;
/// A thread was started, but does not run yet.
pub(crate) const STARTING: u32 = 1;
pub(crate) const RUNS: u32 = 2;
/// The thread was asked to end.
pub(crate) const STOPS: u32 = 3;

/// The state of the compressor thread.
#[derive(Debug, Default)]
pub(crate) struct CompressorThread {
    /// The copies, allocated when the first block is queued; `None` if blocks must not be copied.
    pub(crate) copies: OnceLock<Option<Copies>>,
    /// The state of this process's thread: `NONE`, `STARTING`, `RUNS` or `STOPS`.
    pub(crate) state: AtomicU32,
    /// The futex on which the thread sleeps. The value of the futex changes when the thread has to
    /// look at the queue.
    bell: AtomicU32,
    sleeps: AtomicU32,
    /// The number of starts to skip, because a start was refused or the thread was asked to end.
    pub(crate) passed: AtomicU32,
    /// Whether no more threads may be started.
    pub(crate) is_over: AtomicBool,
    /// The number of blocks that became resident again because compression did not make them
    /// smaller.
    pub(crate) returned: AtomicU64,
}

/// The queue of blocks, and the copies of their contents.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) queue: Queue,
    /// The copied data in each slot of the queue. Only the thread that owns a slot takes the slot's
    /// lock, so no thread ever waits for such a lock.
    pub(crate) data: Box<[Mutex<Box<[u8]>>]>,
    bytes: usize,
}

impl Copies {
    /// Allocates room for `count` blocks of `bytes` bytes, or returns `None` if the allocation
    /// fails.
    pub(crate) fn new(count: usize, bytes: usize) -> Option<Self> {
        let block = |_| {
            let mut block = Vec::new();
            block.try_reserve_exact(bytes).ok()?;
            block.resize(bytes, 0);
            Some(Mutex::new(block.into()))
        };
        let data = (0..count).map(block).collect::<Option<_>>()?;
        Some(Copies { queue: Queue::new(count), data, bytes: count * bytes })
    }
}

impl CompressorThread {
    pub(crate) fn bytes(&self) -> u64 {
        self.made().map_or(0, |copies| copies.bytes) as u64
    }

    pub(crate) fn made(&self) -> Option<&Copies> {
        self.copies.get()?.as_ref()
    }

    /// Wakes the thread to look at the queue.
    pub(crate) fn ring(&self) {
        fence(SeqCst);
        if self.sleeps.load(SeqCst) != 0 {
            self.bell.fetch_add(1, SeqCst);
            wake(&self.bell);
        }
    }

    /// Waits up to `IDLE_TIME` for a block, or for a request that the thread end. Returns true if
    /// the time has passed without either.
    pub(crate) fn sleep(&self, queue: &Queue) -> bool {
        let seen = self.bell.load(SeqCst);
        self.sleeps.store(1, SeqCst);
        fence(SeqCst);
        let is_due = !queue.is_done() || self.state.load(SeqCst) == STOPS;
        if !is_due {
            wait_for(&self.bell, seen, IDLE_TIME);
        }
        self.sleeps.store(0, SeqCst);
        !is_due && self.bell.load(SeqCst) == seen
    }
}
