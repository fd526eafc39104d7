//! The share of the limit: the memory that each process of a group may hold if all processes that
//! need more get the same (zm-L6).
//!
//! ```text
//!   limit: | a | b | c: share      | d: share      |    a and b hold less, and need no more
//! ```

use crate::group::ProcessGroup;
use crate::member::GroupMember;
use std::sync::atomic::Ordering::Relaxed;
use zmem::milliseconds;

/// A process that found no room counts as needing room for this time, in milliseconds.
const WANT_TIME: u64 = 200;
/// The maximum number of steps to compute a share. After them, the share may be inexact.
const STEPS: usize = 8;

/// The memory that a process may hold while it needs room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) bytes: u64,
    /// Whether another process holds more than `bytes`.
    pub(crate) is_passed: bool,
}

impl ProcessGroup {
    /// Returns the share of the process in slot `own`, which needs room. Processes that hold less
    /// than the share and need no room keep their memory. The other processes divide the rest of
    /// the limit. `now` is in milliseconds.
    fn share(&self, own: usize, limit: u64, now: u64) -> Share {
        let mut share = Share::default();
        for _ in 0..STEPS {
            let next = self.next_share(own, limit, now, share.bytes);
            // A larger share never lowers the number of processes that hold less than the share.
            let is_found = next.bytes <= share.bytes;
            share = next;
            if is_found {
                break;
            }
        }
        share
    }

    /// Returns whether the process in slot `nth` found no room less than `WANT_TIME` ago.
    pub(crate) fn wants(&self, nth: usize, now: u64) -> bool {
        let wanted = self.slot(nth).wanted.load(Relaxed);
        wanted <= now && now - wanted < WANT_TIME
    }

    /// Divides the limit, minus the memory of processes that hold at most `bytes` and need no room,
    /// by the number of the other processes.
    fn next_share(&self, own: usize, limit: u64, now: u64, bytes: u64) -> Share {
        let (mut rest, mut sharers, mut is_passed) = (limit, 1, false);
        for nth in self.in_use().filter(|nth| *nth != own) {
            // A free slot records no memory held and no room needed.
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

impl GroupMember {
    /// Returns the memory that this process may hold while it needs room.
    pub(crate) fn share(&self, limit: u64) -> Share {
        self.group.share(self.slot.load(Relaxed), limit, milliseconds())
    }

    /// Publishes that this process found no room.
    pub(crate) fn note_wanted(&self) {
        if let Some(slot) = self.slot() {
            slot.wanted.store(milliseconds(), Relaxed);
        }
    }
}
