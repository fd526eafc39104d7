//! Whether a thread is the only one that may access managed memory.
//!
//! Threads of this crate never access managed memory. This module counts each of them from its
//! first instructions until shortly before its end. The kernel counts every thread from before it
//! runs until it can no longer access memory. So if the kernel counts one thread more than this
//! module, that thread is the caller. Only the caller could create another thread, so this holds
//! until the caller returns to the program's code.
//!
//! If the program's threads report that they wait, a waiting thread counts as one that accesses no
//! memory.

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

/// The number of links of the directory of threads, in addition to one link for each thread.
const LINKS: usize = 2;
/// The lower half of `OWN` is the number of threads, the upper half the number of its changes.
const CHANGE: u64 = 1 << 32;

/// The number of this crate's running threads, and the number of changes of this number.
static OWN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
    /// The number of checks that this thread will skip now, and the number to skip after the next
    /// unsuccessful check.
    static LATER: Cell<(u32, u32)> = const { Cell::new((0, ASKED_LATER)) };
}

/// The number of the program's running threads. The code that creates, ends or suspends threads
/// maintains this number.
pub static SAFEPOINT: Safepoint = Safepoint { word: AtomicU32::new(0) };

/// Proof that no other thread may access managed memory. If other threads are stopped, the proof
/// holds until this value is dropped; otherwise until this thread returns to the program's code.
#[derive(Debug)]
pub(crate) struct WorldStopped(PhantomData<*const ()>);

impl Drop for WorldStopped {
    fn drop(&mut self) {
        if SAFEPOINT.is_enabled() {
            SAFEPOINT.resume();
        }
    }
}

/// Calls `work`, which accesses no managed memory, on a thread of this crate. If `work` panics,
/// aborts the process with a message about `what`.
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

/// Returns the number of threads of the process that owns this memory.
fn count() -> Option<usize> {
    let count = |stat: &Stat| usize::try_from(stat.st_nlink).ok()?.checked_sub(LINKS);
    match TASKS.kept().look() {
        Some(stat) => count(&stat),
        // The file in /proc would count only this process's own thread.
        None if shares_memory() => None,
        None => count(&TASKS.with(|file| fstat(file)).ok()?),
    }
}

/// Returns a proof that this thread is the only one that may access managed memory. Returns `None`
/// if there are other such threads, or if that is unknown. The caller has blocked all signals.
pub(crate) fn try_stop_world() -> Option<WorldStopped> {
    let is_counted = SAFEPOINT.is_enabled();
    // Other threads may only be stopped by a thread that can't be killed alone. A process that
    // shares memory with this one can be killed alone.
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
    // A thread of this crate that ended before the kernel counted has changed `OWN` before this
    // load.
    fence(SeqCst);
    count == Some(own as u32 as usize + 1) && OWN.load(SeqCst) == own
}
