//! The data by which the pager thread and the compressor thread communicate with other threads. The
//! evicting thread copies a block and drops the block's pages. The compressor thread then
//! compresses the copy (zm-Q1 to zm-Q6).
//!
//! ```text
//!   evicts: copied, marked, pages dropped -> queue -> compressor thread: the device -> Evicted
//!                                               '---> a touch: put back -> Resident
//! ```
//! Only an arena whose caller can start threads that are hidden from the program has a compressor
//! thread. The compressor thread ends on request, or after some time without a block to store.

use crate::policy::IDLE_TIME;
use crate::process::generation;
use crate::queue::Queue;
use crate::sync::{AtomicU32, Ordering::SeqCst, fence, wait_for, wake};
use page::fork::Mutex;
use std::fmt::Debug;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire};
use std::time::Duration;

/// A bit of `Waker::word`: the pager thread should evict.
pub(crate) const WANTED: u32 = 1;
/// A bit of `Waker::word`: the pager thread should end.
pub(crate) const STOPPED: u32 = 2;
/// A bit of `Waker::word`: the pager thread sleeps with a timeout, and then tries to evict again.
pub(crate) const NAPS: u32 = 4;

/// The atomic words by which the pager thread and other threads communicate.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    /// `WANTED`, `STOPPED` and `NAPS`. The pager thread sleeps on this futex.
    pub(crate) word: AtomicU32,
    /// The number of eviction steps that the pager thread has completed.
    pub(crate) steps: AtomicU32,
    /// The generation (see `process`) of the pager thread's process plus 1, or 0 if there is no
    /// pager thread.
    pub(crate) process: AtomicU32,
}

impl Waker {
    pub(crate) fn has_thread(&self) -> bool {
        self.process.load(Acquire) == generation().wrapping_add(1)
    }

    /// Makes the pager thread evict. Returns whether this process has a pager thread.
    pub(crate) fn wake(&self) -> bool {
        if !self.has_thread() {
            return false;
        }
        if self.word.fetch_or(WANTED, AcqRel) & WANTED == 0 {
            wake(&self.word);
        }
        true
    }

    /// Ensures that the pager thread tries again after an unsuccessful eviction. If the pager
    /// thread sleeps without a timeout, wakes it. Returns whether this process has a pager thread.
    pub(crate) fn watch(&self) -> bool {
        let naps = self.word.load(Acquire) & NAPS != 0;
        self.has_thread() && (naps || self.wake())
    }

    /// Sleeps for `time`, or until another thread calls `wake`. Only the pager thread calls this
    /// function.
    pub(crate) fn nap(&self, time: Duration) {
        if self.word.fetch_or(NAPS, AcqRel) == 0 {
            wait_for(&self.word, NAPS, time);
        }
        self.word.fetch_and(!NAPS, AcqRel);
    }

    /// Counts a completed eviction step, and wakes the threads that wait for this step.
    pub(crate) fn step(&self) {
        self.steps.fetch_add(1, AcqRel);
        wake(&self.steps);
    }
}

/// The functions by which an arena's caller starts a compressor thread that is hidden from the
/// program.
pub trait StartThread: Debug + Send + Sync {
    /// Starts a thread that calls `run` and exits. Like the calling thread, the new thread has all
    /// signals blocked. The new thread has the thread-local storage that this crate needs. Returns
    /// whether the thread was started. No thread is started while the previous thread still exists.
    fn start(&self, run: Box<dyn FnOnce() + Send>) -> bool;

    /// Returns an identifier of the thread that was started last, or 0 if no thread was ever
    /// started.
    fn last(&self) -> u32;

    /// Waits until the thread `last` has exited, for at most `time`. Returns whether the thread has
    /// exited.
    fn has_ended(&self, last: u32, time: Duration) -> bool;
}

/// No compressor thread exists.
pub(crate) const NONE: u32 = 0;
/// The compressor thread was started, but does not run yet.
pub(crate) const STARTING: u32 = 1;
pub(crate) const RUNS: u32 = 2;
/// The compressor thread was asked to end.
pub(crate) const STOPS: u32 = 3;

/// The state of the compressor thread.
#[derive(Debug, Default)]
pub(crate) struct CompressorThread {
    /// The queue and its copies, which are allocated before the first block is queued. `None` if no
    /// block can be queued.
    pub(crate) copies: OnceLock<Option<Copies>>,
    /// `NONE`, `STARTING`, `RUNS` or `STOPS`.
    pub(crate) state: AtomicU32,
    /// The futex on which the compressor thread sleeps. Its value changes when the thread must
    /// check the queue or `state`.
    bell: AtomicU32,
    sleeps: AtomicU32,
    /// The number of later starts of the compressor thread that are skipped, because the system
    /// refused a start or the thread was asked to end.
    pub(crate) passed: AtomicU32,
    /// If true, the compressor thread is never started again.
    pub(crate) is_over: AtomicBool,
    /// The number of queued blocks that became resident again because they did not compress.
    pub(crate) returned: AtomicU64,
}

/// The queue of evicted blocks, and copies of their contents.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) queue: Queue,
    /// The contents of queued blocks, one for each slot of the queue. Only the thread that owns a
    /// slot locks its contents, so no thread waits for this lock.
    pub(crate) data: Box<[Mutex<Box<[u8]>>]>,
    bytes: usize,
}

impl Copies {
    /// Returns a queue with space for `count` blocks of `bytes` bytes, or `None` if the allocation
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

    /// Wakes the compressor thread, so that it checks the queue and `state`.
    pub(crate) fn ring(&self) {
        fence(SeqCst);
        if self.sleeps.load(SeqCst) != 0 {
            self.bell.fetch_add(1, SeqCst);
            wake(&self.bell);
        }
    }

    /// Waits until a block is queued or the thread is asked to end, for at most `IDLE_TIME`.
    /// Returns true if the wait timed out.
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
