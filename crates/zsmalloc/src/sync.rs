//! All synchronisation of this crate comes from here, so that loom can stand in.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::thread;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
use loom::thread;

pub(crate) use page::fork::Mutex;
pub(crate) use rustix_futex_sync::MutexGuard;
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

/// Waits longer each time: for a lock that is held for nanoseconds, unless its holder was preempted.
#[derive(Default)]
pub(crate) struct Backoff {
    rounds: u32,
}

impl Backoff {
    pub(crate) fn wait(&mut self) {
        self.rounds += 1;
        match self.rounds {
            #[cfg(not(loom))]
            0..6 => (0..1 << self.rounds).for_each(|_| std::hint::spin_loop()),
            #[cfg(not(loom))]
            30.. => thread::sleep(std::time::Duration::from_micros(50)),
            _ => thread::yield_now(),
        }
    }
}
