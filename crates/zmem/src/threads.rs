//! Whether a thread is the only one that may look at managed memory.
//!
//! Threads of this crate's own touch none, and are counted here: as soon as they run, and until
//! they are about to end. The system counts all threads, from before they run until they can touch
//! nothing any more. So where it counts one more than there are here, it is the thread that asks;
//! and as it alone could make another, that stays so until it returns to its program.
//!
//! Where the program's threads tell when they wait, those that do are none that may look.

use crate::kept_file::TASKS;
use crate::process::shares_memory;
use crate::safepoint::Safepoint;
use crate::sync::AtomicU32;
use rustix::fs::Stat;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst, fence};

/// A directory has so many links besides those of the directories in it: here one for each thread.
const LINKS: usize = 2;
/// How often `OWN` has changed is kept above how many there are.
const CHANGE: u64 = 1 << 32;

/// Threads of ours that run, and how often that has changed.
static OWN: AtomicU64 = AtomicU64::new(0);

/// A thread that was not alone does not ask so many times: where there are others it is one more
/// system call, or a wait.
const ASKED_LATER: u32 = 16;
/// So many at most, where others were waited for: it doubles each time.
const ASKED_LATER_MAX: u32 = 64;

thread_local! {
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
    /// How often this thread will not ask, and how often after the next time in vain.
    static LATER: Cell<(u32, u32)> = const { Cell::new((0, ASKED_LATER)) };
}

/// Which threads of the program run. Whoever makes, ends or suspends them tells it.
pub static SAFEPOINT: Safepoint = Safepoint { word: AtomicU32::new(0) };

/// That no other thread may look at managed memory: where threads are stopped for that, until this
/// is dropped; else until this thread is back in its program.
#[derive(Debug)]
pub(crate) struct Alone(PhantomData<*const ()>);

impl Drop for Alone {
    fn drop(&mut self) {
        if SAFEPOINT.is_told() {
            SAFEPOINT.go_on();
        }
    }
}

/// That this thread is ours.
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

/// Takes note that this is a child, with one thread.
pub(crate) fn begin_child() {
    OWN.store(0, SeqCst);
    SAFEPOINT.begin_child();
}

/// Threads of the process whose memory this is.
fn count() -> Option<usize> {
    let count = |stat: &Stat| usize::try_from(stat.st_nlink).ok()?.checked_sub(LINKS);
    match TASKS.current() {
        Some(stat) => count(&stat),
        // It would count its own thread alone.
        None if shares_memory() => None,
        None => count(&TASKS.stat().ok()?),
    }
}

/// Whether this thread is the only one that may look at managed memory, if it is known. All signals
/// are blocked.
pub(crate) fn alone() -> Option<Alone> {
    let is_told = SAFEPOINT.is_told();
    // Who has stopped others must not be killed: only whole processes are.
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
    // A thread of ours that ended before it could be counted has changed the word by now.
    fence(SeqCst);
    count == Some(own as u32 as usize + 1) && OWN.load(SeqCst) == own
}
