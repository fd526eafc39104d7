//! The memory that each process of a tree may hold so that all that want more may hold the same
//! (zm-L6).
//!
//! ```text
//!   limit: | a | b | c: share      | d: share      |    a and b hold less, and want no more
//! ```

use super::{Member, Tree};
use crate::times::milliseconds;
use std::sync::atomic::Ordering::Relaxed;

/// A process wants room for this time after it found none, in milliseconds.
const WANT_TIME: u64 = 200;
/// The maximum number of steps to find a share, which may then be inexact.
const STEPS: usize = 8;

/// The memory that a process which wants room may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) bytes: u64,
    /// Whether another process holds more than that.
    pub(crate) is_passed: bool,
}

impl Tree {
    /// Returns the share of the process of slot `own`, which wants room. Processes that hold less
    /// and want no more keep their memory. The others divide the rest of the limit. `now` is in
    /// milliseconds.
    fn share(&self, own: usize, limit: u64, now: u64) -> Share {
        let mut share = Share::default();
        for _ in 0..STEPS {
            let next = self.next_share(own, limit, now, share.bytes);
            // A larger share never lowers the number of processes that hold less than it.
            let is_found = next.bytes <= share.bytes;
            share = next;
            if is_found {
                break;
            }
        }
        share
    }

    /// Returns whether the process of a slot found no room a moment ago.
    pub(super) fn wants(&self, nth: usize, now: u64) -> bool {
        let wanted = self.slot(nth).wanted.load(Relaxed);
        wanted <= now && now - wanted < WANT_TIME
    }

    /// Divides the limit, less the memory of processes that hold at most `bytes` and want no more.
    fn next_share(&self, own: usize, limit: u64, now: u64, bytes: u64) -> Share {
        let (mut rest, mut sharers, mut is_passed) = (limit, 1, false);
        for nth in self.in_use().filter(|nth| *nth != own) {
            // A free slot holds nothing, and wants nothing.
            let held = self.held(nth);
            is_passed |= held > bytes;
            if held > bytes || self.wants(nth, now) {
                sharers += 1;
            } else {
                rest = rest.saturating_sub(held);
            }
        }
        Share { bytes: rest / sharers, is_passed }
    }
}

impl Member {
    /// Returns the memory that this process may hold if it wants room.
    pub(crate) fn share(&self, limit: u64) -> Share {
        self.tree.share(self.slot.load(Relaxed), limit, milliseconds())
    }

    /// Publishes that this process found no room.
    pub(crate) fn note_wanted(&self) {
        if let Some(slot) = self.slot() {
            slot.wanted.store(milliseconds(), Relaxed);
        }
    }
}
