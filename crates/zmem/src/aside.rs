//! What a thread that evicts and one that stores share: the first copies a block, gives its pages
//! up and goes on, and the other compresses the copy (zm-Q1 to zm-Q6).
//!
//! ```text
//!   evicts: copied, marked, pages dropped -> queue -> the thread: the device -> Evicted
//!                                               '---> a touch: put back -> Resident
//! ```
//! An arena has one if its caller can start threads that the program does not know of. The thread
//! ends where nothing was evicted for a while, and where it is asked to.

use crate::process::shares_memory;
use crate::queue::Queue;
use crate::sync::{AtomicU32, Ordering::SeqCst, fence, wait_for, wake};
use page::fork::Mutex;
use std::fmt::{self, Debug, Formatter};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// A thread without work ends after this time.
const IDLE_TIME: Duration = Duration::from_millis(50);
/// A thread that is to end is told so again after this time.
const END_TIME: Duration = Duration::from_millis(5);
/// After it had to end so many starts are not tried: who asked for one thread may look whether
/// there is one. Python does, after a fork.
const STARTS_AT_REST: u32 = 64;

/// Starts a thread that the program knows nothing of.
pub trait StartThread: Debug + Send + Sync {
    /// Starts a thread that calls `run` and ends. It has all signals blocked, as its maker has, and
    /// this crate's thread-local storage. Returns whether it was started; not so if the last one is
    /// still there.
    fn start(&self, run: Box<dyn FnOnce() + Send>) -> bool;

    /// Returns a number of the thread that was started last, 0 if there was none.
    fn last(&self) -> u32;

    /// Waits until the system has no more of the thread with that number, for `time` at most.
    /// Returns whether it has none.
    fn has_ended(&self, last: u32, time: Duration) -> bool;
}

/// There is no thread.
pub(crate) const NONE: u32 = 0;
/// One was started, and does not run yet.
pub(crate) const STARTING: u32 = 1;
pub(crate) const RUNS: u32 = 2;
/// It is to end.
pub(crate) const STOPS: u32 = 3;

/// What a thread runs.
type Run = Box<dyn FnOnce() + Send>;

/// What starts the thread.
pub(crate) struct Starter {
    system: &'static dyn StartThread,
    /// Makes what it runs.
    make: Box<dyn Fn() -> Run + Send + Sync>,
}

impl Debug for Starter {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.debug_struct("Starter").field("system", &self.system).finish_non_exhaustive()
    }
}

impl Starter {
    pub(crate) fn start(&self) -> bool {
        self.system.start((self.make)())
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Storer {
    pub(crate) starter: OnceLock<Starter>,
    /// Made with the first block that waits; `None` if none may.
    pub(crate) copies: OnceLock<Option<Copies>>,
    /// `NONE`, `STARTING`, `RUNS`, `STOPS`: of the thread, in this process.
    pub(crate) state: AtomicU32,
    /// What the thread waits for: it changes with what it is to look at.
    bell: AtomicU32,
    sleeps: AtomicU32,
    /// Starts that are not tried, as one was refused, or the thread had to end.
    pub(crate) passed: AtomicU32,
    /// Whether no thread is to be started any more.
    pub(crate) is_over: AtomicBool,
    /// Blocks that were put back, as they got no smaller.
    pub(crate) returned: AtomicU64,
}

/// Blocks that wait, and their contents.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) queue: Queue,
    /// Of each slot: locked by who has what is in it, so nobody ever waits for one.
    pub(crate) data: Box<[Mutex<Box<[u8]>>]>,
    bytes: usize,
}

impl Copies {
    /// Makes room for `count` blocks of `bytes` bytes, if there is memory.
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

impl Storer {
    /// Takes note of what starts the thread, and of what makes that which it runs.
    pub(crate) fn set_starter(
        &self,
        system: &'static dyn StartThread,
        make: impl Fn() -> Run + Send + Sync + 'static,
    ) {
        let _before = self.starter.set(Starter { system, make: Box::new(make) });
    }

    /// Returns the bytes of the copies.
    pub(crate) fn bytes(&self) -> u64 {
        self.made().map_or(0, |copies| copies.bytes) as u64
    }

    /// Returns the copies, if they were made.
    pub(crate) fn made(&self) -> Option<&Copies> {
        self.copies.get()?.as_ref()
    }

    /// Begins in a child, which has no such thread. What waits in its copy of the queue is its own.
    pub(crate) fn begin_child(&self) {
        self.state.store(NONE, SeqCst);
    }

    /// Ends the thread, until something is evicted again. What waits still does.
    pub(crate) fn rest(&self) {
        let Some(Starter { system, .. }) = self.starter.get() else { return };
        // A process that uses another one's memory leaves that one's thread alone.
        if shares_memory() {
            return;
        }
        self.passed.fetch_max(STARTS_AT_REST, SeqCst);
        let last = system.last();
        loop {
            let _runs = self.state.compare_exchange(RUNS, STOPS, SeqCst, SeqCst);
            self.ring();
            if system.has_ended(last, END_TIME) {
                return;
            }
        }
    }

    /// Ends it for good.
    pub(crate) fn end(&self) {
        self.is_over.store(true, SeqCst);
        self.rest();
    }

    /// Has the thread look at the queue.
    pub(crate) fn ring(&self) {
        fence(SeqCst);
        if self.sleeps.load(SeqCst) != 0 {
            self.bell.fetch_add(1, SeqCst);
            wake(&self.bell);
        }
    }

    /// Waits until there is something to look at, or nothing came for a while. Returns whether the
    /// time is over.
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
