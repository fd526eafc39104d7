//! The shared memory in which each process of a group publishes its figures; see `layout`.
//!
//! ```text
//!   slot:  | process | held | evictable | parent | pool, blocks: see `inherited` | waits | ... |
//!   process: 0 if the slot is free, `CLEARED` while the slot is being freed
//! ```
//! The slots are authoritative (zm-L4). Only the process whose number is in a slot publishes the
//! memory that it holds there. No sum is stored, because a killed process could leave the sum
//! wrong. Readers add up all slots that were ever used.

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
/// the group by a [`GroupMember`](crate::GroupMember). A child of `fork` has its own slot.
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
    /// another namespace.
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

    /// Returns the maximum number of bytes that all processes together held when a process added
    /// them up.
    pub fn held_max(&self) -> u64 {
        self.head().peak.load(Relaxed)
    }

    /// Returns whether the last process that checked found that the processes hold more than the
    /// limit minus its reserve.
    pub fn is_short(&self) -> bool {
        self.head().is_short.load(Relaxed) != 0
    }

    /// Returns the word that is 0 while [`is_short`](Self::is_short) returns false.
    pub fn short_word(&self) -> &'static AtomicU64 {
        self.head().is_short
    }

    /// Asks a process to fill no block in place. Returns whether the process has agreed, or `None`
    /// if the group has no process `process` that accepts requests.
    pub fn ask_peer(&self, process: u64) -> Option<bool> {
        self.peers_of(process)?.ask_to_agree()
    }

    /// Returns which part of its memory a process keeps resident at a debugger's request, or `None`
    /// if the process accepts no requests, is outside the group, or is confined.
    pub fn kept(&self, process: u64) -> Option<Kept> {
        self.peers_of(process)?.kept()
    }

    /// Ensures that [`kept`](Self::kept) does not return [`Kept::All`] until the process has acted
    /// on the next [`Request::Stay`].
    pub fn begin_keeping(&self, process: u64) {
        self.peers_of(process).inspect(|peers| peers.set(WHOLE, false));
    }

    /// Sends a request to a thread of a process by a signal, if the process accepts requests and no
    /// other process is sending a request.
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

    /// Returns the numbers of the slots that were ever used.
    pub(crate) fn in_use(&self) -> Range<usize> {
        0..(self.head().used.load(Acquire) as usize).min(self.slots.len())
    }

    /// Returns the number of each process's slot, and the number of the process.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (usize, u64)> {
        let numbered = self.in_use().map(|nth| (nth, self.slot(nth).process.load(Acquire)));
        numbered.filter(|(_, process)| !matches!(*process, 0 | CLEARED))
    }

    /// Returns the number of the slot of a process.
    pub(crate) fn find(&self, process: u64) -> Option<usize> {
        self.in_use().find(|nth| self.slot(*nth).process.load(Acquire) == process)
    }

    /// Publishes the statistics of the process in slot `nth`, in the slot's row.
    pub(crate) fn show(&self, nth: usize, figures: &Figures) {
        let row = &self.rows[nth];
        let words = row.iter().zip(figures.words()).skip(1);
        words.for_each(|(word, value)| word.store(value, Relaxed));
        row[0].store(figures.process, Release);
    }

    /// Returns the last statistics in the row of slot `nth`, or zeros if none were published.
    pub(crate) fn said(&self, nth: usize) -> Figures {
        Figures::of_words(&self.rows[nth].each_ref().map(|word| word.load(Acquire)))
    }

    /// Returns the number of bytes that count for the process in slot `nth`. Bytes that count for
    /// its parent are excluded.
    pub(crate) fn held(&self, nth: usize) -> u64 {
        self.counted(nth).0
    }

    /// Returns the number of bytes that count for the process in slot `nth`, and how many of these
    /// bytes could be evicted.
    pub(crate) fn counted(&self, nth: usize) -> (u64, u64) {
        let Slot { held, evictable, shared, .. } = self.slot(nth);
        let (held, evictable) =
            self.shares(nth).counted(held.load(Relaxed), evictable.load(Relaxed));
        (held + shared_bytes(shared.load(Relaxed)), evictable)
    }

    /// Returns the numbers of bytes that the process in slot `nth` shares with its parent, and that
    /// count for the parent.
    pub(crate) fn shares(&self, nth: usize) -> Shares {
        let parent = (self.slot(nth).parent.load(Relaxed) as usize).wrapping_sub(1);
        if parent >= self.slots.len() {
            return Shares::default();
        }
        let words =
            [nth, parent].map(|nth| self.slots[nth].each_ref().map(|word| word.load(Relaxed)));
        Shares::of(&Slot::of(&words[0]), &Slot::of(&words[1]))
    }

    /// Returns the number of the parent's slot plus 1 if the process in slot `nth` shares memory
    /// with its parent, or else 0.
    pub(crate) fn parent(&self, nth: usize) -> u64 {
        let Slot { process, parent, .. } = self.slot(nth);
        if process.load(Relaxed) == 0 { 0 } else { parent.load(Relaxed) }
    }

    /// Takes a slot for a process, and returns the number of the slot. This is the slot that the
    /// process used before it executed its program, or a free slot, preferably one without figures
    /// of an ended process.
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

    /// Frees the slot of a process that ends by itself. The figures remain in the row unless the
    /// process has reported them.
    pub(crate) fn leave(&self, nth: usize, process: u64, is_reported: bool) {
        if !is_reported {
            self.slot(nth).end.store(UNREPORTED, Relaxed);
        }
        self.free(nth, process, is_reported);
    }

    /// Frees the slot of a process. The figures remain in the row unless the process has reported
    /// them.
    pub(crate) fn free(&self, nth: usize, process: u64, is_reported: bool) {
        let slot = self.slot(nth);
        // The slot is first marked as `CLEARED`, because a late caller must not clear words that
        // the next process has written.
        if slot.process.compare_exchange(process, CLEARED, AcqRel, Acquire).is_ok() {
            slot.hush();
            slot.shared.store(0, Relaxed);
            if is_reported {
                self.rows[nth][0].store(0, Relaxed);
            }
            slot.process.store(0, Release);
        }
    }

    /// Frees the slots of processes that have ended without a report. Their figures remain.
    pub(crate) fn clear_gone(&self) {
        for (nth, process) in self.processes().filter(|(_, process)| is_gone(*process)) {
            self.free(nth, process, false);
        }
    }

    /// Frees the slots of processes that have ended, unless a process of the group did so less than
    /// `LOOK_TIME` ago. `now` is in milliseconds. Returns whether this call checked the slots.
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
