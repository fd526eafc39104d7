//! A mutex that is locked during a fork.
//!
//! # Safety
//! A mutex is unlocked without its guard only after `lock_for_fork` locked it and forgot the guard.
//! The flag `is_locked_for_fork` records that state.
#![allow(unsafe_code)]

use crate::patience::Patience;
use rustix_futex_sync as futex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A mutex that can be locked during a fork. The futex word of the lock records no owner and no
/// waiters, because a child would lack their threads.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    mutex: futex::Mutex<T>,
    is_locked_for_fork: AtomicBool,
}

impl<T> Mutex<T> {
    /// Returns an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Mutex { mutex: futex::Mutex::new(value), is_locked_for_fork: AtomicBool::new(false) }
    }

    /// Takes the lock. Waits while another thread holds it.
    #[inline]
    pub fn lock(&self) -> futex::MutexGuard<'_, T> {
        if !cfg!(debug_assertions) {
            return self.mutex.lock();
        }
        let mut patience = Patience::new("a lock");
        loop {
            if let Some(guard) = self.mutex.try_lock() {
                return guard;
            }
            patience.spend();
            std::thread::yield_now();
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<futex::MutexGuard<'_, T>> {
        self.mutex.try_lock()
    }

    /// Takes the lock, and holds it until [`unlock_after_fork`](Self::unlock_after_fork).
    pub fn lock_for_fork(&self) {
        self.lock_for_fork_with(|_| ());
    }

    /// Takes the lock if `step` is [`Step::Lock`], and releases it otherwise.
    pub fn at_fork(&self, step: Step) {
        if step == Step::Lock { self.lock_for_fork() } else { self.unlock_after_fork() }
    }

    /// Does the same as [`lock_for_fork`](Self::lock_for_fork), and calls `look` with the data.
    pub fn lock_for_fork_with(&self, look: impl FnOnce(&mut T)) {
        let mut guard = self.lock();
        look(&mut guard);
        std::mem::forget(guard);
        self.is_locked_for_fork.store(true, Relaxed);
    }

    /// Releases the lock if [`lock_for_fork`](Self::lock_for_fork) took it.
    pub fn unlock_after_fork(&self) {
        if self.is_locked_for_fork.swap(false, Relaxed) {
            // SAFETY: `is_locked_for_fork` was set, so `lock_for_fork` locked the mutex and forgot
            // the guard. So the mutex is locked and no guard of it exists.
            unsafe { self.mutex.force_unlock() }
        }
    }
}

/// The time before or after a fork. Before a fork, locks are taken in their order. After the fork,
/// they may be released in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Before the fork.
    Lock,
    /// After the fork.
    Unlock,
}
