//! The synchronisation primitives of this crate. In builds for loom, loom's types replace these
//! primitives.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(not(loom))]
use rustix::thread::futex;
#[cfg(not(loom))]
use std::time::Duration;

/// Waits for a [`wake`] of `word`, if `word` still has the value `seen`. The wait can end early.
#[cfg(not(loom))]
pub(crate) fn wait(word: &AtomicU32, seen: u32) {
    let mut patience = page::Patience::new("a word of another thread's");
    let time = cfg!(debug_assertions).then_some(&rustix::time::Timespec { tv_sec: 1, tv_nsec: 0 });
    while futex::wait(word, futex::Flags::PRIVATE, seen, time) == Err(rustix::io::Errno::TIMEDOUT) {
        patience.spend();
    }
}

/// Waits for a [`wake`] of `word` while the thread has no work, without a time limit.
#[cfg(not(loom))]
pub(crate) fn idle(word: &AtomicU32, seen: u32) {
    let _woken = futex::wait(word, futex::Flags::PRIVATE, seen, None);
}

/// Waits for a [`wake`] of `word`, for at most `time`.
#[cfg(not(loom))]
pub(crate) fn wait_for(word: &AtomicU32, seen: u32, time: Duration) {
    let time = rustix::time::Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    let _woken = futex::wait(word, futex::Flags::PRIVATE, seen, Some(&time));
}

#[cfg(not(loom))]
pub(crate) fn wake(word: &AtomicU32) {
    let _count = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
}

/// A futex made of loom's types. One lock protects both the comparison before a wait and the wake.
#[cfg(loom)]
mod model {
    use super::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(crate) fn wait(word: &AtomicU32, seen: u32) {
        let guard = QUEUE.0.lock().unwrap();
        if word.load(Ordering::SeqCst) == seen {
            drop(QUEUE.1.wait(guard).unwrap());
        }
    }

    pub(crate) fn wake(_word: &AtomicU32) {
        let _guard = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_all();
    }
}
#[cfg(loom)]
pub(crate) use model::{wait, wake};
