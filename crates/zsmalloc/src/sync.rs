//! All synchronisation of this crate comes from here, so that loom can stand in.

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

/// A pointer whose changes are the threads' to agree on, so that loom is to see them.
#[cfg(not(loom))]
pub(crate) type AtomicLink = std::sync::atomic::AtomicPtr<u8>;
#[cfg(loom)]
pub(crate) type AtomicLink = loom::sync::atomic::AtomicPtr<u8>;

/// Returns a number of this thread's own, to spread over lines of memory what many threads count or
/// take.
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

/// In a model all share: fewer places, more that can go wrong.
#[cfg(loom)]
pub(crate) fn thread_number() -> usize {
    NUMBER.with(|number| number.get())
}

/// Has this thread of a model share with none that has another number.
#[cfg(all(test, loom))]
pub(crate) fn set_thread_number(of_its_own: usize) {
    NUMBER.with(|number| number.set(of_its_own));
}

/// Whether a job is taken: one word, changed by read-modify-write alone. So the thread that lets go
/// sees what other threads did before they found it taken.
pub(crate) trait Flag {
    /// Sets it; what it was.
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

/// The right to do a job that one thread does at a time. A thread that finds it taken does not
/// wait, but leaves the job to the other.
pub(crate) struct JobGuard<'f, F: Flag = AtomicBool>(&'f F);

impl<'f, F: Flag> JobGuard<'f, F> {
    /// Begins, unless another thread is at it.
    pub(crate) fn begin(taken: &'f F) -> Option<Self> {
        // Not `then_some`: what it is given is dropped where it is not wanted, which would end the
        // other's.
        (!taken.swap(true)).then(|| JobGuard(taken))
    }

    /// Begins as soon as no other thread is at it.
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

/// By the system call itself: in the C library's a thread may be cancelled, which can't unwind from
/// here.
#[cfg(not(loom))]
fn sleep() {
    _ = rustix::thread::nanosleep(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000 });
}

/// Waits longer each time: for a lock that is held for nanoseconds, unless its holder was
/// preempted.
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

/// loom's mutex, called as the other is. Locks below the class's stay the system's: they are held
/// over no step that loom knows, so in a model none is ever waited for.
#[cfg(loom)]
mod model {
    use super::{AtomicU64, Ordering};
    use std::ops::{Deref, DerefMut};

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T> {
        mutex: loom::sync::Mutex<T>,
        /// Grows after each unlock. By itself loom lets no one in between an unlock and what
        /// follows it up to the next lock, and it is there that pages are given back and objects
        /// written.
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
