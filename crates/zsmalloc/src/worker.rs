//! A thread of the pool's own: started when it is first asked, ended when it has not been for a
//! while.
//!
//! Locks: `inner` is taken with no lock held but an entry or a stream, and over a fork before all
//! others.

use crate::policy::{self, NICENESS};
use page::fork::{Mutex, Step};
use rustix_futex_sync::Condvar;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of its stack: a plan takes 30 KiB of it.
const STACK: usize = 512 << 10;

/// What a wait came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// It was asked for.
    Notified,
    /// The time has passed.
    Timeout,
    /// It is to end.
    Stop,
}

#[derive(Debug, Default)]
struct Inner {
    thread: Option<JoinHandle<()>>,
    stopping: bool,
    /// Before this moment none is started, since the last panicked.
    not_before: Option<Instant>,
}

/// The thread, while there is one, and what it is told.
pub(crate) struct Worker {
    name: &'static str,
    inner: Mutex<Inner>,
    condvar: Condvar,
    notified: AtomicBool,
    panics: AtomicU32,
    /// Starts or wakes the thread; unset where there is to be none.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Worker {
    /// None yet; its thread will be called `name`.
    pub(crate) fn new(name: &'static str) -> Self {
        Worker {
            name,
            inner: Mutex::default(),
            condvar: Condvar::new(),
            notified: AtomicBool::new(false),
            panics: AtomicU32::new(0),
            wake: OnceLock::new(),
        }
    }

    /// Sets `wake`, which has to call [`start_or_wake`](Self::start_or_wake), for all requests from
    /// now on.
    pub(crate) fn enable(&self, wake: impl Fn() + Send + Sync + 'static) {
        // For a second time, there is nothing to change.
        let _ = self.wake.set(Box::new(wake));
    }

    /// Returns whether there is anyone to ask.
    pub(crate) fn is_enabled(&self) -> bool {
        self.wake.get().is_some()
    }

    /// Has the thread work soon.
    pub(crate) fn notify(&self) {
        if let Some(wake) = self.wake.get()
            && !self.notified.load(Relaxed)
            && !self.notified.swap(true, SeqCst)
        {
            wake();
        }
    }

    /// Starts the thread, which does `run`, or wakes it.
    pub(crate) fn start_or_wake(self: &Arc<Self>, run: impl FnOnce() + Send + 'static) {
        let mut inner = self.inner.lock();
        if inner.thread.is_none() && !inner.stopping {
            let worker = self.clone();
            let run = move || {
                // Of this thread alone, as Linux counts it. If it is refused, the thread is as nice
                // as the others.
                let _ = rustix::process::nice(NICENESS);
                // Unwinding has released its locks, and the panic's message said why.
                if catch_unwind(AssertUnwindSafe(run)).is_err() {
                    worker.ended_by_panic();
                }
            };
            let is_early = inner.not_before.is_some_and(|moment| Instant::now() < moment);
            let thread = thread::Builder::new().name(self.name.into()).stack_size(STACK);
            // Without a thread all stays as it is until the next request.
            inner.thread = if is_early { None } else { thread.spawn(run).ok() };
            if inner.thread.is_none() {
                self.notified.store(false, SeqCst);
            }
        }
        drop(inner);
        self.condvar.notify_all();
    }

    /// For the thread: another is started in its place, not at once.
    fn ended_by_panic(&self) {
        let before = self.panics.fetch_add(1, Relaxed);
        let mut inner = self.inner.lock();
        inner.not_before = Some(Instant::now() + policy::restart_after(before));
        inner.thread = None;
        self.notified.store(false, SeqCst);
    }

    /// Threads that ended by a panic.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Relaxed).into()
    }

    /// For the thread: waits until someone asks, `time` at most. `ends`: it is not to go on after
    /// that time.
    pub(crate) fn wait(&self, time: Duration, ends: bool) -> Wake {
        let mut inner = self.inner.lock();
        while !inner.stopping && !self.notified.load(SeqCst) {
            let (guard, result) = self.condvar.wait_timeout(inner, time);
            inner = guard;
            if result.timed_out() && !self.notified.load(SeqCst) && !inner.stopping {
                if ends {
                    inner.thread = None;
                    return Wake::Stop;
                }
                return Wake::Timeout;
            }
        }
        self.notified.store(false, SeqCst);
        if inner.stopping { Wake::Stop } else { Wake::Notified }
    }

    /// For the thread: says whether it looks by itself, so that requests need not wake it.
    pub(crate) fn set_awake(&self, awake: bool) {
        self.notified.store(awake, SeqCst);
    }

    /// For the thread: waits for `time`, or until it is to end, and returns whether it is.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut inner = self.inner.lock();
        while !inner.stopping {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            inner = self.condvar.wait_timeout(inner, left).0;
        }
        true
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.inner.lock().stopping
    }

    /// Ends the thread and waits for it; none is started again.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut inner = self.inner.lock();
            inner.stopping = true;
            inner.thread.take()
        };
        self.condvar.notify_all();
        // The thread itself may drop the last reference to the pool.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id())
        {
            // It ends without a panic, as these are caught.
            let _ = thread.join();
        }
    }

    /// Holds the thread's start and end still over a fork.
    pub(crate) fn at_fork(&self, step: Step) {
        self.inner.at_fork(step);
    }

    /// Forgets the thread, in a child that has not got it.
    pub(crate) fn forget_thread(&self) {
        self.notified.store(false, SeqCst);
        std::mem::forget(self.inner.lock().thread.take());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::policy::IDLE;
    use std::sync::atomic::AtomicUsize;

    /// Each thread but the fourth panics; a request is served by a new one after a while.
    #[test]
    fn another_thread_comes_after_a_panic() {
        let worker = Arc::new(Worker::new("uzram-test"));
        let runs = Arc::new(AtomicUsize::new(0));
        let (weak, count) = (Arc::downgrade(&worker), runs.clone());
        worker.enable(move || {
            let Some(worker) = weak.upgrade() else { return };
            let (shared, runs) = (worker.clone(), count.clone());
            worker.start_or_wake(move || {
                assert!(runs.fetch_add(1, SeqCst) >= 3, "a panic that is wanted here");
                while shared.wait(IDLE, true) == Wake::Notified {
                    runs.fetch_add(100, SeqCst);
                }
            });
        });
        let begun = Instant::now();
        while runs.load(SeqCst) < 104 {
            worker.notify();
            assert!(begun.elapsed() < Duration::from_secs(60), "{} runs", runs.load(SeqCst));
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(worker.panics(), 3);
        worker.stop();
    }
}
