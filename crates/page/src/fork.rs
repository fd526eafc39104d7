//! Fork: what must be whole in the child is registered here, locked before the fork and unlocked
//! after it.
//!
//! A child has only the thread that forked. A lock that another thread held would never be released
//! there, and what it guarded would stay half changed; so all locks are taken before the fork, in
//! their order. The handlers are asked for when the program is loaded, before it has threads: a
//! fork that began before they were there would be held by none, and a lock that was made and taken
//! since would be lost. (So it may be where a library with this in it is loaded later, by a program
//! that forks in another thread at that moment.)
//!
//! # Safety
//! The handlers are plain functions; the C library calls them in the thread that forks. A mutex is
//! unlocked without its guard only when `lock_for_fork` took it and forgot the guard, which the
//! flag beside it says.
#![allow(unsafe_code)]

use crate::Error;
use rustix_futex_sync as futex;
use std::cell::Cell;
use std::sync::atomic::{
    AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Weak};

/// A mutex that can be locked over a fork: one futex word, which knows no owner and keeps no list
/// of waiters that the child would lack.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    mutex: futex::Mutex<T>,
    is_locked_for_fork: AtomicBool,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Mutex { mutex: futex::Mutex::new(value), is_locked_for_fork: AtomicBool::new(false) }
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

    /// Takes the lock until [`unlock_after_fork`](Self::unlock_after_fork).
    pub fn lock_for_fork(&self) {
        self.lock_for_fork_with(|_| ());
    }

    /// As [`lock_for_fork`](Self::lock_for_fork), with a look at what it guards.
    pub fn lock_for_fork_with(&self, look: impl FnOnce(&mut T)) {
        let mut guard = self.mutex.lock();
        look(&mut guard);
        std::mem::forget(guard);
        self.is_locked_for_fork.store(true, Relaxed);
    }

    /// Releases what [`lock_for_fork`](Self::lock_for_fork) took; nothing, if it took nothing.
    pub fn unlock_after_fork(&self) {
        if self.is_locked_for_fork.swap(false, Relaxed) {
            // SAFETY: `is_locked_for_fork` says that `lock_for_fork` locked it and forgot the
            // guard, so it is locked and no guard of it lives.
            unsafe { self.mutex.force_unlock() }
        }
    }
}

/// What must be whole in a child.
pub trait AtFork: Send + Sync {
    /// Waits until nothing of it is half done, and keeps it so: takes its locks in their order.
    fn prepare(&self);

    /// Releases what `prepare` took, in the parent.
    fn in_parent(&self);

    /// The same in the child, where no other thread is left.
    fn in_child(&self);
}

#[derive(Default)]
struct Registry {
    members: Vec<Weak<dyn AtFork>>,
    /// Those that are locked for a fork at the moment.
    prepared: Vec<Arc<dyn AtFork>>,
}

impl Registry {
    fn add(&mut self, member: Weak<dyn AtFork>) {
        self.members.retain(|member| member.strong_count() > 0);
        self.members.push(member);
    }
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { members: Vec::new(), prepared: Vec::new() });

/// Held from before a fork to after it: one thread forks at a time, or two would wait for what the
/// other holds.
static FORKING: Mutex<()> = Mutex::new(());

/// Forks that lie between this process and the first that asked.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that is another one in each child than it was in the process it was forked from. What
/// was made under another one than that of now came over a fork: locks may be held by threads that
/// are not here, and memory may be the parent's alone.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

#[used]
// SAFETY: what lies there are functions of this kind, which are called once each before `main`, or
// when the library is loaded. This one needs nothing that Rust's runtime sets up before `main`.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    // Who needs it asks again.
    let _not_installed = install();
}

/// Has [`generation`] count from now on, if it does not yet.
///
/// # Errors
/// [`Error::Forks`]; the next call tries again.
pub fn install() -> Result<(), Error> {
    static ARE_INSTALLED: AtomicBool = AtomicBool::new(false);
    install_once(&ARE_INSTALLED, || {
        // SAFETY: the three are `extern "C"` functions without arguments, as pthread_atfork wants
        // them, and stay for the life of the process.
        unsafe {
            libc::pthread_atfork(
                Some(before_fork),
                Some(in_parent_after_fork),
                Some(in_child_after_fork),
            )
        }
    })
}

/// Before the handlers are there a child may lack any thread, so none is waited for here. Several
/// threads may have come in between, and have the handlers called several times: see [`DEPTH`].
fn install_once(
    are_installed: &AtomicBool,
    ask: impl FnOnce() -> libc::c_int,
) -> Result<(), Error> {
    if !are_installed.load(Acquire) {
        if ask() != 0 {
            return Err(Error::Forks);
        }
        are_installed.store(true, Release);
    }
    Ok(())
}

/// Has `member` held over every fork, as long as it lives; not where [`install`] fails, which its
/// owner may ask before.
pub fn register(member: Weak<dyn AtFork>) {
    let _not_installed = install();
    REGISTRY.lock().add(member);
}

/// Has `member` held over every fork for good, if `is_registered` is not set yet, and sets it.
pub fn register_once(is_registered: &AtomicBool, member: impl AtFork + 'static) {
    if is_registered.load(Acquire) {
        return;
    }
    let _not_installed = install();
    // Forks wait for this lock, so no child is without what it sees set.
    let mut registry = REGISTRY.lock();
    if !is_registered.load(Relaxed) {
        let member: Arc<dyn AtFork> = Arc::new(member);
        registry.add(Arc::downgrade(&member));
        std::mem::forget(member);
        is_registered.store(true, Release);
    }
}

thread_local! {
    /// Times that the handlers were called for the fork which this thread is in: once for each time
    /// that they were asked for. The first call before it locks, the last one after it unlocks.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

extern "C" fn before_fork() {
    if DEPTH.replace(DEPTH.get() + 1) > 0 {
        return;
    }
    FORKING.lock_for_fork();
    // Locked throughout: who registers now does so after the fork.
    REGISTRY.lock_for_fork_with(|registry| {
        registry.prepared = registry.members.iter().filter_map(Weak::upgrade).collect();
        registry.prepared.iter().for_each(|member| member.prepare());
    });
}

/// Whether this is the last call after the fork.
fn is_last() -> bool {
    DEPTH.set(DEPTH.get() - 1);
    DEPTH.get() == 0
}

extern "C" fn in_parent_after_fork() {
    if is_last() {
        after(|member| member.in_parent());
    }
}

extern "C" fn in_child_after_fork() {
    if is_last() {
        // There is no other thread yet.
        GENERATION.store(generation().wrapping_add(1), Relaxed);
        after(|member| member.in_child());
    }
}

fn after(work: impl Fn(&dyn AtFork)) {
    REGISTRY.unlock_after_fork();
    let prepared = std::mem::take(&mut REGISTRY.lock().prepared);
    prepared.iter().rev().for_each(|member| work(&**member));
    drop(prepared);
    FORKING.unlock_after_fork();
}

#[cfg(test)]
mod tests {
    use super::{
        AtFork, AtomicBool, Cell, Error, FORKING, REGISTRY, before_fork, generation,
        in_parent_after_fork, install_once, register_once,
    };

    /// The child does `work`, and ends with 0 if it returns; it is not waited for longer than half
    /// a minute.
    fn in_child(work: impl FnOnce()) {
        // SAFETY: the child does nothing but `work`, which allocates nothing, and never returns;
        // `status` is here.
        let status = unsafe {
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                libc::alarm(30);
                work();
                libc::_exit(0);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            status
        };
        assert_eq!(status, 0, "the child failed");
    }

    fn ends_unless(is_right: bool) {
        if !is_right {
            // SAFETY: it ends the child.
            unsafe { libc::_exit(1) }
        }
    }

    /// As when another thread asks for the handlers at that moment, whom the child lacks.
    #[test]
    fn a_child_of_a_fork_amid_the_first_install_can_install() {
        let are_installed = AtomicBool::new(false);
        let installed = install_once(&are_installed, || {
            in_child(|| ends_unless(install_once(&are_installed, || 0) == Ok(())));
            1
        });
        assert_eq!(installed, Err(Error::Forks));
        assert_eq!(install_once(&are_installed, || 0), Ok(()));
        assert_eq!(install_once(&are_installed, || 1), Ok(()));
    }

    thread_local! {
        /// How often this thread has locked `Counts`, and unlocked it, in the parent or in a child.
        static COUNTS: Cell<[u32; 3]> = const { Cell::new([0; 3]) };
    }

    struct Counts;

    impl Counts {
        fn count(nth: usize) {
            let mut counts = COUNTS.get();
            counts[nth] += 1;
            COUNTS.set(counts);
        }
    }

    impl AtFork for Counts {
        fn prepare(&self) {
            Self::count(0);
        }

        fn in_parent(&self) {
            Self::count(1);
        }

        fn in_child(&self) {
            Self::count(2);
        }
    }

    #[test]
    fn handlers_that_were_asked_for_twice_hold_once() {
        let is_registered = AtomicBool::new(false);
        for _ in 0..2 {
            register_once(&is_registered, Counts);
        }
        for _ in 0..3 {
            install_once(&AtomicBool::new(false), || {
                // SAFETY: as in `install`.
                unsafe {
                    libc::pthread_atfork(
                        Some(before_fork),
                        Some(in_parent_after_fork),
                        Some(super::in_child_after_fork),
                    )
                }
            })
            .unwrap();
        }
        let before = generation();
        in_child(|| {
            ends_unless(COUNTS.get() == [1, 0, 1] && generation() == before.wrapping_add(1));
            ends_unless(REGISTRY.try_lock().is_some() && FORKING.try_lock().is_some());
        });
        assert_eq!((COUNTS.get(), generation()), ([1, 1, 0], before));
    }
}
