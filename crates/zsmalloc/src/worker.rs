//! A thread of the pool. The thread is started on the first request, and ends after a time without
//! requests.
//!
//! A thread that takes the lock `inner` is allowed to hold locks of entries and streams, but no
//! other lock. A fork takes `inner` before all other locks.

use crate::policy::{self, NICENESS, THREAD_STACK};
use page::fork::{Mutex, Step};
use rustix_futex_sync::Condvar;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Notified,
    Timeout,
    Stop,
}

#[derive(Debug, Default)]
struct Inner {
    thread: Option<JoinHandle<()>>,
    stopping: bool,
    /// No thread is started before this moment, because the last thread panicked.
    not_before: Option<Instant>,
}

/// The thread, if it is running, and its requests.
pub(crate) struct Worker {
    name: &'static str,
    inner: Mutex<Inner>,
    condvar: Condvar,
    notified: AtomicBool,
    panics: AtomicU32,
    /// A function that starts or wakes the thread. The function is unset if the worker is not
    /// enabled.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Worker {
    /// Returns a worker without a thread. The thread's name will be `name`.
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

    /// Sets `wake` as the function that all further requests call. `wake` must call
    /// [`start_or_wake`](Self::start_or_wake).
    pub(crate) fn enable(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A second call has no effect.
        let _ = self.wake.set(Box::new(wake));
    }

    /// Returns whether requests have an effect.
    pub(crate) fn is_enabled(&self) -> bool {
        self.wake.get().is_some()
    }

    /// Requests work from the thread.
    pub(crate) fn notify(&self) {
        if let Some(wake) = self.wake.get()
            && !self.notified.load(Relaxed)
            && !self.notified.swap(true, SeqCst)
        {
            wake();
        }
    }

    /// Starts the thread, which calls `run`, or wakes the running thread.
    pub(crate) fn start_or_wake(self: &Arc<Self>, run: impl FnOnce() + Send + 'static) {
        let mut inner = self.inner.lock();
        if inner.thread.is_none() && !inner.stopping {
            let worker = self.clone();
            let run = move || {
                // On Linux this call changes the niceness of this thread only. If the call fails,
                // the thread keeps the normal niceness.
                let _ = rustix::process::nice(NICENESS);
                // If the thread panics, unwinding releases its locks, and the panic message is
                // printed.
                if catch_unwind(AssertUnwindSafe(run)).is_err() {
                    worker.ended_by_panic();
                }
            };
            let is_early = inner.not_before.is_some_and(|moment| Instant::now() < moment);
            let thread = thread::Builder::new().name(self.name.into()).stack_size(THREAD_STACK);
            // If no thread was started, the next request tries again.
            inner.thread = if is_early { None } else { thread.spawn(run).ok() };
            if inner.thread.is_none() {
                self.notified.store(false, SeqCst);
            }
        }
        drop(inner);
        self.condvar.notify_all();
    }

    /// The thread calls this function after it has panicked. After a pause, a request starts
    /// another thread.
    fn ended_by_panic(&self) {
        let before = self.panics.fetch_add(1, Relaxed);
        let mut inner = self.inner.lock();
        inner.not_before = Some(Instant::now() + policy::restart_after(before));
        inner.thread = None;
        self.notified.store(false, SeqCst);
    }

    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Relaxed).into()
    }

    /// Blocks the calling thread until a request arrives, at most for `time`. If `ends` is true and
    /// no request arrives, the thread must end.
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

    /// Sets whether the calling thread checks for work repeatedly, so that requests need not wake
    /// it.
    pub(crate) fn set_awake(&self, awake: bool) {
        self.notified.store(awake, SeqCst);
    }

    /// Blocks the calling thread for `time`, or until it must end. Returns whether it must end.
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

    /// Ends the thread and waits until it has ended. No thread is started afterwards.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut inner = self.inner.lock();
            inner.stopping = true;
            inner.thread.take()
        };
        self.condvar.notify_all();
        // The thread itself can drop the last reference to the pool, and can't join itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id())
        {
            // The join can't fail, because panics of the thread are caught.
            let _ = thread.join();
        }
    }

    /// Locks the worker before a fork, or unlocks it after the fork. The worker's thread neither
    /// starts nor ends during the fork.
    pub(crate) fn at_fork(&self, step: Step) {
        self.inner.at_fork(step);
    }

    /// In a child of fork, discards the record of the thread, which the child lacks.
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

    /// The first three threads panic. A pause follows each panic, and then a new thread serves
    /// requests.
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
