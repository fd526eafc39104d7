//! Determines whether the calling thread is *alone*. While a thread is alone, no other thread can
//! access managed memory.
//!
//! Threads of this crate never access managed memory. This module counts these threads, each from
//! its first instructions until shortly before its end. The kernel counts each thread of the
//! process as long as the thread can access memory. So if the kernel counts one thread more than
//! this module, no other thread of the program exists. Only the caller could create another thread,
//! so the caller stays alone until it returns to the program's code.
//!
//! If the program's system calls are dispatched, a thread is alone if all other threads of the
//! program are at safepoints (`SAFEPOINT`).

use crate::descriptor::TASKS;
use crate::error::fatal;
use crate::policy::{ASKED_LATER, ASKED_LATER_MAX};
use crate::process::shares_memory;
use crate::safepoint::Safepoint;
use crate::sync::AtomicU32;
use rustix::fs::{Stat, fstat};
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst, fence};

/// The number of links of /proc/self/task in addition to one link for each thread.
const LINKS: usize = 2;
/// One in the upper half of `OWN`, which counts the changes of the number of threads.
const CHANGE: u64 = 1 << 32;

/// The number of this crate's threads (lower half), and the number of times that this number has
/// changed (upper half).
static OWN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
    /// The number of further attempts in which this thread makes no system call and waits for no
    /// thread (`ASKED_LATER`), and the number that will be set after the next failure.
    static LATER: Cell<(u32, u32)> = const { Cell::new((0, ASKED_LATER)) };
}

/// The number of the program's threads that are not at a safepoint. Code that creates, ends or
/// suspends threads updates this number.
pub static SAFEPOINT: Safepoint = Safepoint { word: AtomicU32::new(0) };

/// Proof that no other thread accesses managed memory. The proof holds until this value is dropped
/// or this thread returns to the program's code. Dropping this value permits other threads to leave
/// their safepoints.
#[derive(Debug)]
pub(crate) struct WorldStopped(PhantomData<*const ()>);

impl Drop for WorldStopped {
    fn drop(&mut self) {
        if SAFEPOINT.is_enabled() {
            SAFEPOINT.resume();
        }
    }
}

/// Calls `work` on a thread of this crate. `OWN` counts the thread during the call. `work` accesses
/// no managed memory. If `work` panics, aborts the process with a message about `what`.
pub(crate) fn run_counted(what: &str, work: impl FnOnce()) {
    IS_OWN.set(true);
    OWN.fetch_add(CHANGE + 1, SeqCst);
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        fatal(what, &"it panicked");
    }
    OWN.fetch_add(CHANGE - 1, SeqCst);
    IS_OWN.set(false);
}

/// Sets the counts for a child of fork, which has one thread.
pub(crate) fn begin_child() {
    OWN.store(0, SeqCst);
    SAFEPOINT.begin_child();
}

/// Returns the number of threads that the kernel counts in the process that owns this memory.
fn count() -> Option<usize> {
    let count = |stat: &Stat| usize::try_from(stat.st_nlink).ok()?.checked_sub(LINKS);
    match TASKS.kept().look() {
        Some(stat) => count(&stat),
        // A child of `vfork` that opened the file would get the number of its own threads.
        None if shares_memory() => None,
        None => count(&TASKS.with(|file| fstat(file)).ok()?),
    }
}

/// Returns a proof that this thread is alone. Returns `None` if other threads can access managed
/// memory. The caller has blocked all signals.
pub(crate) fn try_stop_world() -> Option<WorldStopped> {
    let is_counted = SAFEPOINT.is_enabled();
    // A thread that can be killed without the other threads must not stop them. A child of `vfork`
    // is such a thread, because it is a process of its own.
    let is_never = IS_OWN.get() || is_counted && shares_memory();
    let (later, next) = LATER.get();
    let is_alone = match later {
        _ if is_never => false,
        0 if is_counted => SAFEPOINT.stop(),
        0 => is_alone(),
        _ => is_counted && SAFEPOINT.try_stop(),
    };
    LATER.set(match later {
        _ if is_alone => (0, ASKED_LATER),
        0 => (next, if is_counted { (2 * next).min(ASKED_LATER_MAX) } else { next }),
        _ => (later - 1, next),
    });
    is_alone.then(|| WorldStopped(PhantomData))
}

fn is_alone() -> bool {
    let own = OWN.load(SeqCst);
    fence(SeqCst);
    let count = count();
    // If a thread of this crate ended before the kernel's count, this load sees the thread's change
    // of `OWN`.
    fence(SeqCst);
    count == Some(own as u32 as usize + 1) && OWN.load(SeqCst) == own
}
