//! All synchronization of this crate is imported from here, so that loom can replace it.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::thread;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
use loom::thread;

#[cfg(loom)]
pub(crate) use model::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use page::fork::Mutex;
#[cfg(not(loom))]
pub(crate) use rustix_futex_sync::MutexGuard;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};

/// A pointer whose changes synchronize threads, so loom models must use loom's type.
#[cfg(not(loom))]
pub(crate) type AtomicLink = std::sync::atomic::AtomicPtr<u8>;
#[cfg(loom)]
pub(crate) type AtomicLink = loom::sync::atomic::AtomicPtr<u8>;

/// Returns this thread's number, which selects one of several cache lines, so that threads rarely
/// share a cache line.
#[cfg(not(loom))]
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local! {
        static NUMBER: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

#[cfg(loom)]
loom::thread_local! {
    static NUMBER: std::cell::Cell<usize> = std::cell::Cell::new(0);
}

/// In a loom model, the number of every thread is 0 by default, because threads that share a stripe
/// conflict more often.
#[cfg(loom)]
pub(crate) fn thread_number() -> usize {
    NUMBER.with(|number| number.get())
}

/// Sets the number of this thread of a model to `of_its_own`. The thread then shares a stripe only
/// with threads of the same number.
#[cfg(all(test, loom))]
pub(crate) fn set_thread_number(of_its_own: usize) {
    NUMBER.with(|number| number.set(of_its_own));
}

/// A flag that is set while a thread holds a job. The flag is changed only by read-modify-writes.
/// So a thread that clears the flag sees the earlier writes of the threads that found the flag set.
pub(crate) trait Flag {
    /// Sets the flag to `taken`. Returns its previous value.
    fn swap(&self, taken: bool) -> bool;
}

impl Flag for AtomicBool {
    fn swap(&self, taken: bool) -> bool {
        AtomicBool::swap(self, taken, Ordering::SeqCst)
    }
}

#[cfg(loom)]
impl Flag for loom::sync::atomic::AtomicBool {
    fn swap(&self, taken: bool) -> bool {
        loom::sync::atomic::AtomicBool::swap(self, taken, Ordering::SeqCst)
    }
}

/// The right to do a job that one thread does at a time. If `begin` finds the job taken, it does
/// not wait, and the calling thread leaves the work to the other thread.
pub(crate) struct JobGuard<'f, F: Flag = AtomicBool>(&'f F);

impl<'f, F: Flag> JobGuard<'f, F> {
    /// Takes the job. Returns `None` if another thread has the job.
    pub(crate) fn begin(taken: &'f F) -> Option<Self> {
        // `then_some` would create and drop a `JobGuard` even if another thread has the job. The
        // drop would end the other thread's job.
        (!taken.swap(true)).then(|| JobGuard(taken))
    }

    /// Takes the job, and waits while another thread has the job.
    pub(crate) fn wait(taken: &'f F) -> Self {
        let mut backoff = Backoff::default();
        loop {
            match JobGuard::begin(taken) {
                Some(alone) => return alone,
                None => backoff.wait(),
            }
        }
    }
}

impl<F: Flag> Drop for JobGuard<'_, F> {
    fn drop(&mut self) {
        self.0.swap(false);
    }
}

/// Sleeps by a direct system call. The C library's function is a cancellation point. A cancellation
/// there would unwind through code that can't be unwound.
#[cfg(not(loom))]
fn sleep() {
    _ = rustix::thread::nanosleep(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000 });
}

/// A wait for a lock: first by spinning, then by yielding, and finally by sleeping. The lock is
/// held for nanoseconds, except if its holder is preempted.
#[derive(Default)]
pub(crate) struct Backoff {
    rounds: u32,
}

impl Backoff {
    pub(crate) fn wait(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        match self.rounds {
            #[cfg(not(loom))]
            0..6 => (0..1 << self.rounds).for_each(|_| std::hint::spin_loop()),
            #[cfg(not(loom))]
            30.. => sleep(),
            _ => thread::yield_now(),
        }
    }
}

/// loom's mutex with the interface of the real mutex. Locks that are taken under a class's lock are
/// real even in a model. loom schedules no other thread while such a lock is held, so a model never
/// waits for the lock.
#[cfg(loom)]
mod model {
    use super::{AtomicU64, Ordering};
    use std::ops::{Deref, DerefMut};

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T> {
        mutex: loom::sync::Mutex<T>,
        /// A count that is incremented after each unlock. Without this counter, loom does not
        /// switch to another thread between an unlock and the next lock, although pages are
        /// released and objects written in between.
        unlocked: AtomicU64,
    }

    #[derive(Debug)]
    pub(crate) struct MutexGuard<'m, T> {
        guard: Option<loom::sync::MutexGuard<'m, T>>,
        unlocked: &'m AtomicU64,
    }

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            let guard = self.mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            MutexGuard { guard: Some(guard), unlocked: &self.unlocked }
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let guard = self.mutex.try_lock().ok()?;
            Some(MutexGuard { guard: Some(guard), unlocked: &self.unlocked })
        }

        pub(crate) fn at_fork(&self, _step: page::fork::Step) {
            unreachable!("no model forks");
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            match &self.guard {
                Some(guard) => guard,
                None => unreachable!("only drop takes the guard"),
            }
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            match &mut self.guard {
                Some(guard) => guard,
                None => unreachable!("only drop takes the guard"),
            }
        }
    }

    impl<T> Drop for MutexGuard<'_, T> {
        fn drop(&mut self) {
            drop(self.guard.take());
            self.unlocked.fetch_add(1, Ordering::AcqRel);
        }
    }
}
