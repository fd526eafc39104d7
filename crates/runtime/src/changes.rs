//! Retries faults that occur while another thread changes mappings (pl-25). The runtime changes a
//! mapping in several steps, so a fault can occur between two steps.

use crate::pieces::Kind;
use crate::policy::{FAULT_TRIES, LOCKED_TRIES};
use crate::space::Space;
use crate::windows;
use page::fork::Mutex;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use zmem::Arena;

thread_local! {
    /// The address of the last fault that was retried, and the number of retries at that address.
    static LAST: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

/// Returns a number that identifies this thread.
fn own() -> usize {
    LAST.with(|last| (&raw const *last).addr())
}

/// The thread that changes mappings and holds the lock of `Space`.
#[derive(Debug, Default)]
pub(crate) struct Changer(AtomicUsize);

impl Changer {
    /// Calls `work`, which changes mappings. Until `work` returns, this thread is recorded as the
    /// thread that changes mappings.
    pub(crate) fn change<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.store(own(), Relaxed);
        let done = work();
        self.0.store(0, Relaxed);
        done
    }

    fn is_another(&self) -> bool {
        let changer = self.0.load(Relaxed);
        changer != 0 && changer != own()
    }

    /// Resets the number of retries, because the pager has resolved a fault of this thread.
    pub(crate) fn forget_tries() {
        LAST.set((0, 0));
    }

    /// Returns whether this thread must retry a fault that the pager has not resolved. Another
    /// thread may be changing mappings, or may just have made the memory at `address` managed.
    pub(crate) fn is_transient(&self, arena: &Arena, space: &Mutex<Space>, address: usize) -> bool {
        if self.is_another() {
            std::thread::yield_now();
            return true;
        }
        if !windows::has(arena, address) {
            return false;
        }
        let (last, tries) = LAST.get();
        let tries = if last == address { tries } else { 0 };
        let is_again = match space.try_lock() {
            Some(space) => {
                tries < FAULT_TRIES && space.pieces.is_all(address..address + 1, Kind::Data)
            }
            // Another thread holds the lock, or this thread holds the lock and would wait for
            // itself.
            None => {
                std::thread::yield_now();
                tries < LOCKED_TRIES
            }
        };
        LAST.set(if is_again { (address, tries + 1) } else { (0, 0) });
        is_again
    }
}
