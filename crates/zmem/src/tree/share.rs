//! What each process of a tree may hold so that all who want more may hold as much (zm-L6).
//!
//! ```text
//!   limit: | a | b | c: share      | d: share      |    a and b hold less, and want no more
//! ```

use super::{Member, Tree};
use crate::times::milliseconds;
use std::sync::atomic::Ordering::Relaxed;

/// A process that found no room wants some for so long, in milliseconds.
const WANT_TIME: u64 = 200;
/// A share is found after so many steps, or nearly so.
const STEPS: usize = 8;

/// What a process that wants room may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) bytes: u64,
    /// Whether another process holds more than that.
    pub(crate) is_passed: bool,
}

impl Tree {
    /// Returns the share of the process of a slot, which wants room: who holds less and wants no
    /// more keeps that, and the others divide what is left of the limit. `now` is in milliseconds.
    fn share(&self, own: usize, limit: u64, now: u64) -> Share {
        let mut share = Share::default();
        for _ in 0..STEPS {
            let next = self.next_share(own, limit, now, share.bytes);
            // Those that hold less than a share are no fewer for a larger one.
            let is_found = next.bytes <= share.bytes;
            share = next;
            if is_found {
                break;
            }
        }
        share
    }

    /// Returns whether the process of a slot has found no room a moment ago.
    pub(super) fn wants(&self, nth: usize, now: u64) -> bool {
        let wanted = self.slot(nth).wanted.load(Relaxed);
        wanted <= now && now - wanted < WANT_TIME
    }

    /// Divides what is left by those that hold at most `bytes` and want no more.
    fn next_share(&self, own: usize, limit: u64, now: u64, bytes: u64) -> Share {
        let (mut rest, mut sharers, mut is_passed) = (limit, 1, false);
        for nth in self.in_use().filter(|nth| *nth != own) {
            // A slot that is free holds nothing, and wants nothing.
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
    /// Returns what this process may hold if it wants room.
    pub(crate) fn share(&self, limit: u64) -> Share {
        self.tree.share(self.slot.load(Relaxed), limit, milliseconds())
    }

    /// Says that this process found no room.
    pub(crate) fn note_wanted(&self) {
        if let Some(slot) = self.slot() {
            slot.wanted.store(milliseconds(), Relaxed);
        }
    }
}
