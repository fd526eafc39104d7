//! The shared memory in which each process of a group publishes its figures. The module `layout`
//! defines the words of this memory.
//!
//! ```text
//!   slot:  | process | held | evictable | parent | pool, blocks: see `inherited` | waits | ... |
//!   process: 0 if the slot is free, `CLEARED` while the slot is being freed
//! ```
//! Each process publishes in its own slot how much memory it holds (zm-L4). No sum is stored,
//! because a killed process could leave the sum wrong. A reader adds up the values in all slots
//! that were ever used.

use crate::figures::Figures;
use crate::inherited::Shares;
use crate::layout::{
    CLEARED, GroupRow, HEAD, Head, MAGIC, Parts, SLOT, Slot, UNREPORTED, shared_bytes,
};
use crate::peers::{Kept, Peers, WHOLE};
use crate::policy::{KEPT, LOOK_TIME};
use crate::process::is_gone;
use crate::request::Request;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The shared memory of processes that share one limit. Each process maps this memory, and joins
/// the group when it creates a [`GroupMember`](crate::GroupMember). A child of `fork` has its own
/// slot.
#[derive(Clone, Copy, Debug)]
pub struct ProcessGroup {
    head: &'static [AtomicU64; HEAD],
    pub(crate) slots: &'static [[AtomicU64; SLOT]],
    pub(crate) rows: &'static [GroupRow<AtomicU64>],
}

impl ProcessGroup {
    /// Returns the group whose shared memory is `words`. The memory must contain zeros before the
    /// first process calls this function. `space` identifies the PID namespace of this process.
    /// Returns `None` if the memory is too small, holds no group, or belongs to processes of
    /// another PID namespace.
    pub fn of(words: &'static [AtomicU64], space: u64) -> Option<Self> {
        let is = |word: &AtomicU64, value: u64| {
            let before = word.compare_exchange(0, value, AcqRel, Acquire);
            before.is_ok() || before == Err(value)
        };
        let Parts { head, slots, rows } = Parts::of(words)?;
        let group = ProcessGroup { head, slots, rows };
        let (magic, own_space) = (group.head().magic, group.head().space);
        (is(magic, MAGIC) && is(own_space, space)).then_some(group)
    }

    /// Returns the maximum of the sums of held memory that the processes of the group have
    /// computed, in bytes.
    pub fn held_max(&self) -> u64 {
        self.head().peak.load(Relaxed)
    }

    /// Returns true if the processes held more than the limit minus its reserve when a process of
    /// the group last checked this.
    pub fn is_short(&self) -> bool {
        self.head().is_short.load(Relaxed) != 0
    }

    /// Returns the word that is 0 while [`is_short`](Self::is_short) returns false.
    pub fn short_word(&self) -> &'static AtomicU64 {
        self.head().is_short
    }

    /// Asks a process to fill no block in place (zm-L17). Returns whether the process has agreed.
    /// Returns `None` if `process` is not in the group or accepts no requests.
    pub fn ask_peer(&self, process: u64) -> Option<bool> {
        self.peers_of(process)?.ask_to_agree()
    }

    /// Returns which memory a process keeps resident at a debugger's request. Returns `None` if the
    /// process accepts no requests, is outside the group, or is confined by a seccomp filter
    /// (pl-28).
    pub fn kept(&self, process: u64) -> Option<Kept> {
        self.peers_of(process)?.kept()
    }

    /// Withdraws a [`Kept::All`] that a process has published. The function [`kept`](Self::kept)
    /// returns [`Kept::All`] again only after the process has acted on the next [`Request::Stay`].
    pub fn begin_keeping(&self, process: u64) {
        self.peers_of(process).inspect(|peers| peers.set(WHOLE, false));
    }

    /// Sends a request to a thread of a process by a signal. Does nothing if the process accepts no
    /// requests, or if another process is sending a request.
    pub fn ask(&self, process: u64, thread: u64, request: Request) {
        self.peers_of(process).inspect(|peers| peers.send(process, thread, request));
    }

    fn peers_of(&self, process: u64) -> Option<Peers<'_>> {
        Some(Peers::of(&self.slot(self.find(process)?)))
    }

    pub(crate) fn head(&self) -> Head<'static> {
        Head::of(self.head)
    }

    pub(crate) fn slot(&self, nth: usize) -> Slot<'static> {
        Slot::of(&self.slots[nth])
    }

    /// Returns the indexes of the slots that were ever used.
    pub(crate) fn in_use(&self) -> Range<usize> {
        0..(self.head().used.load(Acquire) as usize).min(self.slots.len())
    }

    /// Returns the index of each process's slot, and the process ID.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (usize, u64)> {
        let numbered = self.in_use().map(|nth| (nth, self.slot(nth).process.load(Acquire)));
        numbered.filter(|(_, process)| !matches!(*process, 0 | CLEARED))
    }

    /// Returns the index of the slot of a process.
    pub(crate) fn find(&self, process: u64) -> Option<usize> {
        self.in_use().find(|nth| self.slot(*nth).process.load(Acquire) == process)
    }

    /// Publishes the figures of the process in slot `nth` in the slot's row.
    pub(crate) fn show(&self, nth: usize, figures: &Figures) {
        let row = &self.rows[nth];
        let words = row.iter().zip(figures.words()).skip(1);
        words.for_each(|(word, value)| word.store(value, Relaxed));
        row[0].store(figures.process, Release);
    }

    /// Returns the last figures in the row of slot `nth`, or zeros if none were published.
    pub(crate) fn said(&self, nth: usize) -> Figures {
        Figures::of_words(&self.rows[nth].each_ref().map(|word| word.load(Acquire)))
    }

    /// Returns the number of bytes that are charged to the process in slot `nth`, without those
    /// that are charged to its parent.
    pub(crate) fn held(&self, nth: usize) -> u64 {
        self.counted(nth).0
    }

    /// Returns the number of bytes that are charged to the process in slot `nth`, and the number of
    /// evictable bytes among them.
    pub(crate) fn counted(&self, nth: usize) -> (u64, u64) {
        let Slot { held, evictable, shared, .. } = self.slot(nth);
        let (held, evictable) =
            self.shares(nth).counted(held.load(Relaxed), evictable.load(Relaxed));
        (held + shared_bytes(shared.load(Relaxed)), evictable)
    }

    /// Returns the numbers of bytes that the process in slot `nth` shares with its parent. Shared
    /// bytes are charged to the parent.
    pub(crate) fn shares(&self, nth: usize) -> Shares {
        let parent = (self.slot(nth).parent.load(Relaxed) as usize).wrapping_sub(1);
        if parent >= self.slots.len() {
            return Shares::default();
        }
        let words =
            [nth, parent].map(|nth| self.slots[nth].each_ref().map(|word| word.load(Relaxed)));
        Shares::of(&Slot::of(&words[0]), &Slot::of(&words[1]))
    }

    /// Returns the index of the parent's slot plus 1 if the process in slot `nth` shares memory
    /// with its parent, else 0.
    pub(crate) fn parent(&self, nth: usize) -> u64 {
        let Slot { process, parent, .. } = self.slot(nth);
        if process.load(Relaxed) == 0 { 0 } else { parent.load(Relaxed) }
    }

    /// Takes a slot for a process, and returns the slot's index. If the process used a slot before
    /// it executed its program, takes that slot. Otherwise takes a free slot, preferably one
    /// without figures of an ended process.
    pub(crate) fn take(&self, process: u64) -> Option<usize> {
        let free = |nth: &usize| {
            let word = self.slot(*nth).process;
            word.compare_exchange(0, process, AcqRel, Acquire).is_ok()
        };
        let empty = |nth: &usize| self.rows[*nth][0].load(Acquire) == 0 && free(nth);
        let any = || {
            let (kept, all) = (0..self.slots.len().min(KEPT), 0..self.slots.len());
            let taken = { kept }.find(empty).or_else(|| { all }.find(free));
            taken.inspect(|nth| self.rows[*nth][0].store(0, Release))
        };
        let nth = self.find(process).or_else(any).or_else(|| {
            self.clear_gone();
            any()
        })?;
        self.head().used.fetch_max(nth as u64 + 1, AcqRel);
        Some(nth)
    }

    /// Frees the slot of a process that exits. Keeps the figures in the row if the process has not
    /// reported them.
    pub(crate) fn leave(&self, nth: usize, process: u64, is_reported: bool) {
        if !is_reported {
            self.slot(nth).end.store(UNREPORTED, Relaxed);
        }
        self.free(nth, process, is_reported);
    }

    /// Frees the slot of a process. Keeps the figures in the row if the process has not reported
    /// them.
    pub(crate) fn free(&self, nth: usize, process: u64, is_reported: bool) {
        let slot = self.slot(nth);
        // The slot is marked as `CLEARED` first. Otherwise a slow caller of this function could
        // clear words that the slot's next process has written.
        if slot.process.compare_exchange(process, CLEARED, AcqRel, Acquire).is_ok() {
            slot.hush();
            slot.shared.store(0, Relaxed);
            if is_reported {
                self.rows[nth][0].store(0, Relaxed);
            }
            slot.process.store(0, Release);
        }
    }

    /// Frees the slots of processes that have ended without a report, and keeps their figures.
    pub(crate) fn clear_gone(&self) {
        for (nth, process) in self.processes().filter(|(_, process)| is_gone(*process)) {
            self.free(nth, process, false);
        }
    }

    /// Frees the slots of ended processes, if no process of the group has searched for them within
    /// the last `LOOK_TIME`. `now` is in milliseconds. Returns whether this call searched for ended
    /// processes.
    pub(crate) fn clear_gone_at(&self, now: u64) -> bool {
        let before = self.head().looked.load(Relaxed);
        let is_due = before.saturating_add(LOOK_TIME) <= now || now < before;
        let look = || self.head().looked.compare_exchange(before, now, Relaxed, Relaxed);
        let is_ours = is_due && look().is_ok();
        if is_ours {
            self.clear_gone();
        }
        is_ours
    }
}
