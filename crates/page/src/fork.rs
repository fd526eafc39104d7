//! Fork: what must be whole in the child is registered here, held still before the fork and let go after it.
//!
//! A child has only the thread that forked. A lock that another thread held would never be released there,
//! and what it guarded would stay half changed; so all locks are taken before the fork, in their order.
//!
//! # Safety
//! The handlers are plain functions; the C library calls them in the thread that forks. A mutex is unlocked
//! without its guard only when `hold` took it and forgot the guard, which the flag beside it says.
#![allow(unsafe_code)]

use crate::Error;
use rustix_futex_sync as futex;
use std::sync::atomic::{
    AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Weak};

/// A mutex that can be held over a fork: one futex word, which knows no owner and keeps no list of waiters
/// that the child would lack.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    mutex: futex::Mutex<T>,
    held: AtomicBool,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Mutex { mutex: futex::Mutex::new(value), held: AtomicBool::new(false) }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> futex::MutexGuard<'_, T> {
        self.mutex.lock()
    }

    /// The lock, if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<futex::MutexGuard<'_, T>> {
        self.mutex.try_lock()
    }

    /// Takes the lock until [`let_go`](Self::let_go).
    pub fn hold(&self) {
        self.hold_with(|_| ());
    }

    /// As [`hold`](Self::hold), with a look at what it guards.
    pub fn hold_with(&self, look: impl FnOnce(&mut T)) {
        let mut guard = self.mutex.lock();
        look(&mut guard);
        std::mem::forget(guard);
        self.held.store(true, Relaxed);
    }

    /// Releases what [`hold`](Self::hold) took; nothing, if it took nothing.
    pub fn let_go(&self) {
        if self.held.swap(false, Relaxed) {
            // SAFETY: `held` says that `hold` locked it and forgot the guard, so it is locked and no guard
            // of it lives.
            unsafe { self.mutex.force_unlock() }
        }
    }
}

/// What must be whole in a child.
pub trait Forks: Send + Sync {
    /// Waits until nothing of it is half done, and keeps it so: takes its locks in their order.
    fn hold(&self);

    /// Releases what `hold` took, in the parent.
    fn let_go(&self);

    /// The same in the child, where no other thread is left.
    fn let_go_in_child(&self);
}

#[derive(Default)]
struct Registry {
    members: Vec<Weak<dyn Forks>>,
    /// Those that are held at the moment.
    held: Vec<Arc<dyn Forks>>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { members: Vec::new(), held: Vec::new() });

/// Held from before a fork to after it: one thread forks at a time, or two would wait for what the other holds.
static FORKING: Mutex<()> = Mutex::new(());

/// Forks that lie between this process and the first that asked.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that is another one in each child than it was in the process it was forked from. What was made under
/// another one than that of now came over a fork: locks may be held by threads that are not here, and memory may be
/// the parent's alone.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// Has [`generation`] count from now on.
///
/// # Errors
/// [`Error::Forks`]; the next call tries again.
pub fn watch() -> Result<(), Error> {
    static ARE_WATCHED: AtomicBool = AtomicBool::new(false);
    static WATCHING: Mutex<()> = Mutex::new(());
    if ARE_WATCHED.load(Acquire) {
        return Ok(());
    }
    let _one = WATCHING.lock();
    if !ARE_WATCHED.load(Relaxed) {
        // SAFETY: the three are `extern "C"` functions without arguments, as pthread_atfork wants them,
        // and stay for the life of the process.
        let failed = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        if failed != 0 {
            return Err(Error::Forks);
        }
        ARE_WATCHED.store(true, Release);
    }
    Ok(())
}

/// Has `member` held over every fork, as long as it lives; not where [`watch`] fails, which its owner may ask before.
pub fn register(member: Weak<dyn Forks>) {
    let _unwatched = watch();
    let mut registry = REGISTRY.lock();
    registry.members.retain(|member| member.strong_count() > 0);
    registry.members.push(member);
}

extern "C" fn before() {
    FORKING.hold();
    // Held throughout: who registers now does so after the fork.
    REGISTRY.hold_with(|registry| {
        registry.held = registry.members.iter().filter_map(Weak::upgrade).collect();
        registry.held.iter().for_each(|member| member.hold());
    });
}

extern "C" fn in_parent() {
    after(|member| member.let_go());
}

extern "C" fn in_child() {
    // There is no other thread yet.
    GENERATION.store(generation().wrapping_add(1), Relaxed);
    after(|member| member.let_go_in_child());
}

fn after(let_go: impl Fn(&dyn Forks)) {
    REGISTRY.let_go();
    let held = std::mem::take(&mut REGISTRY.lock().held);
    held.iter().rev().for_each(|member| let_go(&**member));
    drop(held);
    FORKING.let_go();
}
