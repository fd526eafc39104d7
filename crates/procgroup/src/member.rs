//! A process in its group: the numbers that the process publishes, and the numbers of other
//! processes that it reads.

use crate::figures::Figures;
use crate::group::{NONE, ProcessGroup, Slot};
use crate::inherited::{Shares, Sharing};
use crate::process::{own_number, thread_name};
use crate::unevictable::UnevictableWords;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use zmem::{SharedLimit, milliseconds};

/// A process in its group, as that process sees itself.
#[derive(Debug)]
pub struct GroupMember {
    pub(crate) group: ProcessGroup,
    pub(crate) process: AtomicU64,
    /// The number of the process's slot, or `NONE` if all slots were in use.
    pub(crate) slot: AtomicUsize,
    /// The bytes of the process's memory minus the bytes that its pager counts.
    pub(crate) beside: AtomicI64,
    pub(crate) samples: AtomicUsize,
    /// The time when the process last published its figures, in milliseconds.
    pub(crate) shown: AtomicU64,
    /// Whether the process is about to execute a program.
    pub(crate) is_executing: AtomicBool,
    /// The figures of this process from before it executed its program.
    pub(crate) before: Figures,
    /// Whether the process is in another PID namespace than the group.
    pub(crate) is_foreign: AtomicBool,
    pub(crate) sharing: Sharing,
    /// The bytes by which unevictable memory exceeds the limit, divided by `large`.
    pub(crate) excess: AtomicU64,
    /// The number of large processes when `excess` was set.
    pub(crate) large: AtomicU64,
    /// Whether this process has mapped shared memory.
    pub(crate) maps_shared: AtomicBool,
    pub(crate) kept: UnevictableWords,
}

impl GroupMember {
    /// Takes a slot of the group for this process. If no slot is free, the process counts the
    /// memory of the others, and the others don't count its memory.
    pub fn new(group: ProcessGroup) -> Self {
        let mut member = GroupMember::without_slot(group);
        member.begin();
        if member.is_in() {
            member.before = group.said(member.slot.load(Relaxed));
        }
        member
    }

    pub(crate) fn without_slot(group: ProcessGroup) -> Self {
        GroupMember {
            group,
            process: 0.into(),
            slot: NONE.into(),
            beside: 0.into(),
            samples: 0.into(),
            shown: 0.into(),
            is_executing: false.into(),
            before: Figures::default(),
            is_foreign: false.into(),
            sharing: Sharing::default(),
            excess: 0.into(),
            large: 0.into(),
            maps_shared: false.into(),
            kept: UnevictableWords::default(),
        }
    }

    /// Returns the group.
    pub fn group(&self) -> &ProcessGroup {
        &self.group
    }

    /// Takes a slot for a process that begins.
    pub(crate) fn begin(&self) {
        let process = own_number();
        self.process.store(process, Relaxed);
        let nth = self.group.take(process);
        nth.inspect(|nth| self.sharing.begin(self.group.renew(*nth)));
        nth.inspect(|nth| self.group.begin(*nth, thread_name()));
        self.slot.store(nth.unwrap_or(NONE), Relaxed);
    }

    /// Frees the slot. If the process could not report its figures, they remain in the slot's row.
    pub fn leave(&self, is_reported: bool) {
        // Another thread may free the slot at the same time.
        let nth = self.own_slot().map_or(NONE, |_| self.slot.swap(NONE, Relaxed));
        if nth != NONE {
            self.group.leave(nth, self.process.load(Relaxed), is_reported);
        }
    }

    pub(crate) fn slot(&self) -> Option<Slot<'_>> {
        let nth = self.slot.load(Relaxed);
        (nth != NONE).then(|| self.group.slot(nth))
    }

    /// Returns the slot, unless the slot belongs to a process whose memory this process shares.
    pub(crate) fn own_slot(&self) -> Option<Slot<'_>> {
        self.slot().filter(|_| self.process.load(Relaxed) == own_number())
    }

    /// Returns the slot, unless another process freed it because this process seemed to have ended.
    /// A process seems to have ended if its first thread has ended.
    pub(crate) fn kept_slot(&self) -> Option<Slot<'_>> {
        self.slot().filter(|slot| slot.process.load(Relaxed) == self.process.load(Relaxed))
    }

    /// Returns whether this process has a slot.
    pub(crate) fn is_in(&self) -> bool {
        self.slot.load(Relaxed) != NONE
    }

    /// Returns the bytes that this process shares with its parent, which count for the parent.
    pub(crate) fn shares(&self) -> Shares {
        let nth = self.slot.load(Relaxed);
        if nth == NONE { Shares::default() } else { self.group.shares(nth) }
    }

    /// Returns the bytes that count for this process, without those that count for its parent.
    pub(crate) fn held(&self, counted: u64) -> u64 {
        self.shares().counted(self.process_bytes(counted), 0).0 + self.shared_bytes()
    }

    /// Records `all`, the bytes of anonymous memory of this process. The pager counts `counted`
    /// bytes; `all` includes them, except `tables` bytes.
    pub(crate) fn note_all(&self, all: u64, counted: u64, tables: u64) {
        self.beside.store((all + tables) as i64 - counted as i64, Relaxed);
    }

    /// Publishes whether the processes hold more than the limit allows. If they do, frees the slots
    /// of processes that have ended, and pokes one waiting process that holds more than its share.
    /// Returns whether slots were checked.
    pub(crate) fn note_short(&self, is_short: bool, limit: u64) -> bool {
        let word = self.group.head().is_short;
        if word.load(Relaxed) != u64::from(is_short) {
            word.store(is_short.into(), Relaxed);
        }
        let has_looked = is_short && self.group.clear_gone_at(milliseconds());
        if has_looked {
            self.group.poke_idle(self.share(limit).bytes);
        }
        has_looked
    }

    /// Returns the bytes of private memory that the process's pager does not count.
    pub(crate) fn beside_bytes(&self) -> u64 {
        self.beside.load(Relaxed).max(0) as u64
    }
}

impl Drop for GroupMember {
    fn drop(&mut self) {
        self.leave(true);
    }
}
