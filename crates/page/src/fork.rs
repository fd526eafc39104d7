//! Fork handling. Structures that must be consistent in a child are registered in this module,
//! locked before each fork and unlocked after the fork.
//!
//! A child has only the thread that forked. If another thread held a lock at the fork, the lock
//! would stay locked in the child, and its data might be half changed. So all locks are taken
//! before the fork, in their order. The handlers are registered when the program is loaded, before
//! it has threads. If a program loads a library with this crate later, another thread may be
//! forking at that time. A fork that began before the registration calls no handlers, so a lock
//! taken during the fork stays locked in the child.
//!
//! # Safety
//! The handlers are plain functions, which the C library calls in the thread that forks.
#![allow(unsafe_code)]

mod mutex;

pub use mutex::{Mutex, Step};

use crate::Error;
use std::cell::Cell;
use std::sync::atomic::{
    AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Weak};

/// A structure that must be consistent in a child.
pub trait AtFork: Send + Sync {
    /// Takes the structure's locks in their order, so that no change to the structure is incomplete
    /// at the fork.
    fn prepare(&self);

    /// Releases in the parent the locks that `prepare` took.
    fn in_parent(&self);

    /// Releases in the child the locks that `prepare` took. The child has no other thread.
    fn in_child(&self);
}

/// The turn in which a member is locked before a fork.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// The member is locked before all members of [`Turn::Last`], in the order of registration.
    #[default]
    First,
    /// The member is locked after all members of [`Turn::First`], in the order of registration.
    /// This turn is for locks that a thread may take while it holds a lock of the first turn. For
    /// example, the thread touches evicted memory, and the page fault takes locks.
    Last,
}

#[derive(Default)]
struct Registry {
    /// The members of [`Turn::First`], and the members of [`Turn::Last`].
    members: [Vec<Weak<dyn AtFork>>; 2],
    /// The members that the current fork has locked.
    prepared: Vec<Arc<dyn AtFork>>,
}

impl Registry {
    fn add(&mut self, member: Weak<dyn AtFork>, turn: Turn) {
        let members = &mut self.members[turn as usize];
        members.retain(|member| member.strong_count() > 0);
        members.push(member);
    }
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { members: [Vec::new(), Vec::new()], prepared: Vec::new() });

/// The lock that a forking thread holds before, during and after the fork, so that one thread at a
/// time forks. Two forking threads could otherwise wait for each other's locks.
static FORKING: Mutex<()> = Mutex::new(());

/// The number of forks between the process that installed the handlers and this process.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Returns a number that differs between a child and its parent. If an object was created under
/// another number, this process inherited the object. The object's locks may be held by threads
/// that exist only in the parent, and its memory can exist only in the parent.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

#[used]
// SAFETY: `.init_array` contains functions of this type, each called once before `main` or when the
// library is loaded. `at_load` uses nothing that Rust's runtime sets up before `main`.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    // If this fails, the next call of `install` tries again.
    let _not_installed = install();
}

/// Installs the handlers, if they are not installed yet.
///
/// # Errors
/// Returns [`Error::Forks`] if no memory is available. The next call tries again.
pub fn install() -> Result<(), Error> {
    static ARE_INSTALLED: AtomicBool = AtomicBool::new(false);
    install_once(&ARE_INSTALLED, || {
        // SAFETY: the three handlers are `extern "C"` functions without arguments, as
        // pthread_atfork requires, and exist for the life of the process.
        unsafe {
            libc::pthread_atfork(
                Some(before_fork),
                Some(in_parent_after_fork),
                Some(in_child_after_fork),
            )
        }
    })
}

/// Installs the handlers by a call of `ask` and sets `are_installed`, unless this flag is already
/// set.
///
/// No lock is taken, because before the handlers are installed, a child can lack the thread that
/// holds a lock. If several threads install the handlers at the same time, a fork calls each
/// handler several times: see [`DEPTH`].
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

/// Registers `member`, which is locked during every fork while it exists. If [`install`] fails,
/// forks do not lock `member`. To detect this failure, the owner calls `install` first.
pub fn register(member: Weak<dyn AtFork>, turn: Turn) {
    let _not_installed = install();
    REGISTRY.lock().add(member, turn);
}

/// Registers `member` for the life of the process and sets `is_registered`, unless this flag is
/// already set.
pub fn register_once(is_registered: &AtomicBool, member: impl AtFork + 'static, turn: Turn) {
    if is_registered.load(Acquire) {
        return;
    }
    let _not_installed = install();
    // A fork waits for this lock. So if the flag is set in a child, the member is registered in the
    // child.
    let mut registry = REGISTRY.lock();
    if !is_registered.load(Relaxed) {
        let member: Arc<dyn AtFork> = Arc::new(member);
        registry.add(Arc::downgrade(&member), turn);
        std::mem::forget(member);
        is_registered.store(true, Release);
    }
}

/// Whether [`take_over`] has disabled the handlers that the C library calls.
static IS_TAKEN_OVER: AtomicBool = AtomicBool::new(false);

/// Disables the handlers that the C library calls, for a caller that intercepts each fork. The
/// caller calls [`before`] before the fork, and [`after_in_parent`] or [`after_in_child`] after it.
/// No thread is allowed to fork during this call.
pub fn take_over() {
    IS_TAKEN_OVER.store(true, Release);
}

/// Takes the locks of all members before a fork.
pub fn before() {
    FORKING.lock_for_fork();
    // The registry stays locked, so a concurrent registration completes only after the fork.
    REGISTRY.lock_for_fork_with(|registry| {
        registry.prepared = registry.members.iter().flatten().filter_map(Weak::upgrade).collect();
        registry.prepared.iter().for_each(|member| member.prepare());
    });
}

/// Releases the locks in the parent after a fork.
pub fn after_in_parent() {
    after(|member| member.in_parent());
}

/// Releases the locks in the child after a fork. The child has no other thread yet.
pub fn after_in_child() {
    GENERATION.store(generation().wrapping_add(1), Relaxed);
    after(|member| member.in_child());
}

thread_local! {
    /// The number of calls of `before_fork` in this thread's current fork. Each fork causes one
    /// call for each time that the handlers were installed. The first call locks. After the fork,
    /// the last call of a handler unlocks.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

extern "C" fn before_fork() {
    if !IS_TAKEN_OVER.load(Acquire) && DEPTH.replace(DEPTH.get() + 1) == 0 {
        before();
    }
}

/// Counts a call of a handler after the fork. Returns whether this is the last call of a handler in
/// the current fork.
fn is_last() -> bool {
    if IS_TAKEN_OVER.load(Acquire) {
        return false;
    }
    DEPTH.set(DEPTH.get() - 1);
    DEPTH.get() == 0
}

extern "C" fn in_parent_after_fork() {
    if is_last() {
        after_in_parent();
    }
}

extern "C" fn in_child_after_fork() {
    if is_last() {
        after_in_child();
    }
}

/// Unlocks the registry and calls `work` for each prepared member, in the reverse order of locking.
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
        Arc, AtFork, AtomicBool, Cell, Error, FORKING, REGISTRY, Turn, Weak, before_fork,
        generation, in_parent_after_fork, install_once, register, register_once,
    };

    /// Runs `work` in a child, and asserts that it returns within half a minute.
    fn in_child(work: impl FnOnce()) {
        // SAFETY: the child does nothing except `work`, which allocates nothing, and never returns;
        // `status` is a local variable.
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
            // SAFETY: `_exit` only ends the child.
            unsafe { libc::_exit(1) }
        }
    }

    /// The child lacks the thread that was installing the handlers at the moment of the fork.
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
        /// The number of times that this thread has locked `Counts`, unlocked it in the parent, and
        /// unlocked it in a child.
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
            register_once(&is_registered, Counts, Turn::First);
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

    thread_local! {
        /// The members that this thread has locked, in the order of locking.
        static LOCKED: std::cell::RefCell<Vec<u32>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    struct Nth(u32);

    impl AtFork for Nth {
        fn prepare(&self) {
            LOCKED.with_borrow_mut(|locked| locked.push(self.0));
        }

        fn in_parent(&self) {
            assert_eq!(
                LOCKED.with_borrow_mut(Vec::pop),
                Some(self.0),
                "unlocked the other way round"
            );
        }

        fn in_child(&self) {}
    }

    #[test]
    fn who_is_last_is_locked_after_who_came_later() {
        let turns = [Turn::Last, Turn::First, Turn::Last, Turn::First];
        let members: Vec<Arc<Nth>> = (0..4).map(|nth| Arc::new(Nth(nth))).collect();
        for (member, turn) in members.iter().zip(turns) {
            let weak: Weak<Nth> = Arc::downgrade(member);
            register(weak, turn);
        }
        super::before();
        assert_eq!(LOCKED.take(), [1, 3, 0, 2]);
        LOCKED.set(vec![1, 3, 0, 2]);
        super::after_in_parent();
        assert!(LOCKED.take().is_empty());
    }
}
