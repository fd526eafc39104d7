//! Whether a thread is the only one that may access managed memory.
//!
//! Threads of this crate never do. They are counted here from when they run until they are about to
//! end. The kernel counts every thread from before it runs until it can touch nothing any more. So
//! if the kernel counts one thread more than this module, that thread is the caller. As only the
//! caller could create another, this holds until it returns to its program.
//!
//! If the program's threads report when they wait, a thread that waits does not access memory.

use crate::kept_file::TASKS;
use crate::process::shares_memory;
use crate::safepoint::Safepoint;
use crate::sync::AtomicU32;
use rustix::fs::Stat;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst, fence};

/// The links of a directory beyond those of the directories in it, one for each thread.
const LINKS: usize = 2;
/// The upper half of `OWN` counts its changes, the lower half the threads.
const CHANGE: u64 = 1 << 32;

/// The number of this crate's threads that run, and how often it has changed.
static OWN: AtomicU64 = AtomicU64::new(0);

/// The number of faults at which a thread that was not alone does not check again: if there are
/// other threads, a check is a system call or a wait in vain.
const ASKED_LATER: u32 = 16;
/// The maximum of that number, which doubles after each stop in vain.
const ASKED_LATER_MAX: u32 = 64;

thread_local! {
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
    /// The number of checks that this thread will skip, and the number after the next check in
    /// vain.
    static LATER: Cell<(u32, u32)> = const { Cell::new((0, ASKED_LATER)) };
}

/// The count of the program's threads that run. The code that creates, ends or suspends threads
/// maintains it.
pub static SAFEPOINT: Safepoint = Safepoint { word: AtomicU32::new(0) };

/// Proof that no other thread may access managed memory. If other threads are stopped, it holds
/// until this is dropped; else until this thread is back in its program.
#[derive(Debug)]
pub(crate) struct Alone(PhantomData<*const ()>);

impl Drop for Alone {
    fn drop(&mut self) {
        if SAFEPOINT.is_told() {
            SAFEPOINT.go_on();
        }
    }
}

/// Marks this thread as one of this crate's.
#[derive(Debug)]
pub(crate) struct OwnThread(PhantomData<*const ()>);

impl OwnThread {
    /// Counts this thread, which touches no managed memory while the result lives.
    pub(crate) fn begin() -> Self {
        IS_OWN.set(true);
        OWN.fetch_add(CHANGE + 1, SeqCst);
        OwnThread(PhantomData)
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        OWN.fetch_add(CHANGE - 1, SeqCst);
        IS_OWN.set(false);
    }
}

/// Sets the counts for a child of fork, which has one thread.
pub(crate) fn begin_child() {
    OWN.store(0, SeqCst);
    SAFEPOINT.begin_child();
}

/// Returns the number of threads of the process that owns this memory.
fn count() -> Option<usize> {
    let count = |stat: &Stat| usize::try_from(stat.st_nlink).ok()?.checked_sub(LINKS);
    match TASKS.current() {
        Some(stat) => count(&stat),
        // The file would count this process's own thread only.
        None if shares_memory() => None,
        None => count(&TASKS.stat().ok()?),
    }
}

/// Returns a proof that this thread is the only one that may access managed memory, or `None` if it
/// is not, or can't determine it. All signals are blocked.
pub(crate) fn alone() -> Option<Alone> {
    let is_told = SAFEPOINT.is_told();
    // A thread that has stopped the others must not be killed alone, as a process that shares
    // memory may be.
    let is_never = IS_OWN.get() || is_told && shares_memory();
    let (later, next) = LATER.get();
    let is_alone = match later {
        _ if is_never => false,
        0 if is_told => SAFEPOINT.stop(),
        0 => is_alone(),
        _ => is_told && SAFEPOINT.try_stop(),
    };
    LATER.set(match later {
        _ if is_alone => (0, ASKED_LATER),
        0 => (next, if is_told { (2 * next).min(ASKED_LATER_MAX) } else { next }),
        _ => (later - 1, next),
    });
    is_alone.then(|| Alone(PhantomData))
}

fn is_alone() -> bool {
    let own = OWN.load(SeqCst);
    fence(SeqCst);
    let count = count();
    // A thread of this crate that ended before the kernel's count has changed the word before this
    // load.
    fence(SeqCst);
    count == Some(own as u32 as usize + 1) && OWN.load(SeqCst) == own
}
