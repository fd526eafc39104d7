//! The slot of this process in its group.

use crate::group::ProcessGroup;
use crate::inherited::{Shares, Sharing};
use crate::layout::{Slot, shared_bytes};
use crate::process::{own_number, thread_name};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The value that replaces the index of a slot if a process has no slot.
pub(crate) const NONE: usize = usize::MAX;

#[derive(Debug)]
pub(crate) struct OwnSlot {
    pub(crate) group: ProcessGroup,
    pub(crate) process: AtomicU64,
    /// The index of the slot, or `NONE` if the process has no slot.
    pub(crate) nth: AtomicUsize,
}

impl OwnSlot {
    /// Returns the `OwnSlot` of a process that has not taken a slot yet.
    pub(crate) fn none(group: ProcessGroup) -> Self {
        OwnSlot { group, process: 0.into(), nth: NONE.into() }
    }

    /// Takes a slot for this process, and prepares the words of `sharing` in the slot.
    pub(crate) fn take(&self, sharing: &Sharing) {
        let process = own_number();
        self.process.store(process, Relaxed);
        let nth = self.group.take(process);
        if let Some(slot) = nth.map(|nth| self.group.slot(nth)) {
            sharing.begin(&slot);
            slot.begin(thread_name());
        }
        self.nth.store(nth.unwrap_or(NONE), Relaxed);
    }

    /// Frees the slot. If `is_reported` is false, keeps the figures of the process in the slot's
    /// row.
    pub(crate) fn leave(&self, is_reported: bool) {
        // Another thread can free the slot at the same time.
        let nth = self.own().map_or(NONE, |_| self.nth.swap(NONE, Relaxed));
        if nth != NONE {
            self.group.leave(nth, self.process.load(Relaxed), is_reported);
        }
    }

    /// Returns the index of the slot, or `NONE` if the process has no slot.
    pub(crate) fn nth(&self) -> usize {
        self.nth.load(Relaxed)
    }

    /// Returns whether this process has a slot.
    pub(crate) fn is_taken(&self) -> bool {
        self.nth() != NONE
    }

    pub(crate) fn any(&self) -> Option<Slot<'_>> {
        let nth = self.nth();
        (nth != NONE).then(|| self.group.slot(nth))
    }

    /// Returns the slot if it belongs to the calling process. Returns `None` in another process
    /// that shares this memory, such as a child of `vfork`.
    pub(crate) fn own(&self) -> Option<Slot<'_>> {
        self.any().filter(|_| self.process.load(Relaxed) == own_number())
    }

    /// Returns the slot, or `None` if another process has freed it. If the first thread of this
    /// process has ended, other processes free the slot, although other threads may still run.
    pub(crate) fn kept(&self) -> Option<Slot<'_>> {
        self.any().filter(|slot| slot.process.load(Relaxed) == self.process.load(Relaxed))
    }

    /// Returns the numbers of bytes that this process shares with its parent. Shared bytes are
    /// charged to the parent.
    pub(crate) fn shares(&self) -> Shares {
        let nth = self.nth();
        if nth == NONE { Shares::default() } else { self.group.shares(nth) }
    }

    /// Returns the number of bytes of shared memory that are charged to this process.
    pub(crate) fn shared_bytes(&self) -> u64 {
        self.any().map_or(0, |slot| shared_bytes(slot.shared.load(Relaxed)))
    }
}
