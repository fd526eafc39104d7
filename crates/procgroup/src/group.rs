//! The shared memory in which each process of a group publishes its figures; see `layout`.
//!
//! ```text
//!   slot:  | process | held | evictable | parent | pool, blocks: see `inherited` | waits | ... |
//!   process: 0 free, `CLEARED` while it becomes free
//!   waits: the waiting thread that may be poked, or 0; with `POKING` while it is being poked
//! ```
//! The slots are authoritative (zm-L4). Only the process whose number is in a slot writes the slot.
//! No sum is stored, because a killed process could leave it wrong; readers add up all slots ever
//! used.

use crate::figures::Figures;
use crate::layout::{
    self, CLEARED, EXECUTES, GroupRow, HEAD, MAGIC, NAME, Parts, SLOT, UNREPORTED,
};
use crate::process::is_gone;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use zmem::Sum;

/// The time between two searches for processes that have ended, in milliseconds.
pub(crate) const LOOK_TIME: u64 = 20;
/// Figures of ended processes are kept in at most this number of slots, the first ones, because a
/// sum of the memory held reads all slots up to the last that was ever used.
const KEPT: usize = 128;
/// The slot of a process without a slot.
pub(crate) const NONE: usize = usize::MAX;

/// Shared memory of processes that share one limit. Each process maps it, and joins the group by a
/// [`GroupMember`](crate::GroupMember). A child of `fork` has its own slot.
#[derive(Clone, Copy, Debug)]
pub struct ProcessGroup {
    head: &'static [AtomicU64; HEAD],
    pub(crate) slots: &'static [[AtomicU64; SLOT]],
    pub(crate) rows: &'static [GroupRow<AtomicU64>],
}

type Head<'a> = layout::Head<'a, AtomicU64>;
pub(crate) type Slot<'a> = layout::Slot<'a, AtomicU64>;

impl ProcessGroup {
    /// Returns the group in shared memory that contained zeros before the first process called
    /// this. `space` identifies the PID namespace of this process. Returns `None` if the memory is
    /// too small, holds no group, or belongs to processes of another namespace.
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

    /// Returns the maximum of the memory held by all processes together, as far as it was measured.
    pub fn held_max(&self) -> u64 {
        self.head().peak.load(Relaxed)
    }

    /// Returns whether a process found that the processes hold more than the limit allows.
    pub fn is_short(&self) -> bool {
        self.head().is_short.load(Relaxed) != 0
    }

    /// Returns the word that is 0 unless [`is_short`](Self::is_short).
    pub fn short_word(&self) -> &'static AtomicU64 {
        Head::of(self.head).is_short
    }

    pub(crate) fn head(&self) -> Head<'_> {
        Head::of(self.head)
    }

    pub(crate) fn slot(&self, nth: usize) -> Slot<'_> {
        Slot::of(&self.slots[nth])
    }

    /// Publishes the statistics of the process in a slot.
    pub(crate) fn show(&self, nth: usize, figures: &Figures) {
        let row = &self.rows[nth];
        let words = row.iter().zip(figures.words()).skip(1);
        words.for_each(|(word, value)| word.store(value, Relaxed));
        row[0].store(figures.process, Release);
    }

    /// Prepares the slot of a process that begins. `name` is the process's name, padded with zeros.
    pub(crate) fn begin(&self, nth: usize, name: [u8; 8 * NAME]) {
        self.forget_waits(nth);
        let slot = self.slot(nth);
        [slot.shared, slot.end].iter().for_each(|word| word.store(0, Relaxed));
        let words = name.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        slot.name().iter().zip(words).for_each(|(word, value)| word.store(value, Relaxed));
    }

    /// Records whether the process of a slot is about to execute a program. If so, shared memory
    /// that the process has mapped does not count.
    pub(crate) fn set_executes(&self, nth: usize, executes: bool) {
        let slot = self.slot(nth);
        slot.end.store(if executes { EXECUTES } else { 0 }, Relaxed);
        if executes {
            slot.shared.store(0, Relaxed);
        }
    }

    /// Frees the slot of a process that ends by itself. Figures that were not reported remain.
    pub(crate) fn leave(&self, nth: usize, process: u64, is_reported: bool) {
        if !is_reported {
            self.slot(nth).end.store(UNREPORTED, Relaxed);
        }
        self.free(nth, process, is_reported);
    }

    /// Returns the last published statistics of the process in a slot, or zeros.
    pub(crate) fn said(&self, nth: usize) -> Figures {
        Figures::of_words(&self.rows[nth].each_ref().map(|word| word.load(Acquire)))
    }

    pub(crate) fn in_use(&self) -> Range<usize> {
        0..(self.head().used.load(Acquire) as usize).min(self.slots.len())
    }

    /// Returns the slot of the process that holds the most bytes, and these bytes.
    pub(crate) fn largest_holder(&self) -> Option<(usize, u64)> {
        let held = |nth: usize| (nth, self.counted(nth).0);
        self.in_use().map(held).max_by_key(|(_, bytes)| *bytes)
    }

    /// Returns the process that holds the most bytes that can't be evicted, and these bytes.
    pub(crate) fn largest(&self) -> (u64, u64) {
        let stays = |nth: usize| {
            let (held, evictable) = self.counted(nth);
            (self.slot(nth).process.load(Relaxed), held.saturating_sub(evictable))
        };
        let named =
            self.in_use().map(stays).filter(|(process, _)| !matches!(process, &(0 | CLEARED)));
        named.max_by_key(|(_, bytes)| *bytes).unwrap_or_default()
    }

    /// Returns whether a process has a slot.
    pub(crate) fn has(&self, process: u64) -> bool {
        self.in_use().any(|nth| self.slot(nth).process.load(Relaxed) == process)
    }

    /// Returns the sum of all slots except `own`. A process with at least `much` bytes is large.
    pub(crate) fn sum_but(&self, own: usize, much: u64) -> Sum {
        let mut sum = Sum::default();
        for nth in self.in_use().filter(|nth| *nth != own) {
            let slot = self.slot(nth);
            if !matches!(slot.process.load(Relaxed), 0 | CLEARED) {
                let (held, evictable) = self.counted(nth);
                sum.held += held;
                sum.evictable += evictable;
                sum.large += u64::from(held >= much);
            }
        }
        sum
    }

    /// Finds a slot for a process: the slot that it used before it executed its program, or a free
    /// slot, preferably without figures of a process that ended.
    pub(crate) fn take(&self, process: u64) -> Option<usize> {
        let own = |nth: &usize| self.slot(*nth).process.load(Acquire) == process;
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
        let nth = self.in_use().find(own).or_else(any).or_else(|| {
            self.clear_gone();
            any()
        })?;
        self.head().used.fetch_max(nth as u64 + 1, AcqRel);
        Some(nth)
    }

    /// Frees the slot of a process. The figures remain unless the process has reported them.
    pub(crate) fn free(&self, nth: usize, process: u64, is_reported: bool) {
        let slot = self.slot(nth);
        // The slot is freed in two steps, because a late caller must not clear words that the next
        // process has written.
        if slot.process.compare_exchange(process, CLEARED, AcqRel, Acquire).is_ok() {
            self.hush(nth);
            slot.shared.store(0, Relaxed);
            if is_reported {
                self.rows[nth][0].store(0, Relaxed);
            }
            slot.process.store(0, Release);
        }
    }

    /// Publishes that the process of a slot holds nothing and does not wait.
    pub(crate) fn hush(&self, nth: usize) {
        let Slot { held, evictable, waits, wanted, peers, .. } = self.slot(nth);
        [held, evictable, waits, wanted, peers].iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Frees the slots of processes that have ended without a report. Their figures remain.
    pub(crate) fn clear_gone(&self) {
        for nth in self.in_use() {
            let process = self.slot(nth).process.load(Acquire);
            if !matches!(process, 0 | CLEARED) && is_gone(process as i32) {
                self.free(nth, process, false);
            }
        }
    }

    /// Frees the slots of processes that have ended, unless this was done less than `LOOK_TIME`
    /// ago. `now` is in milliseconds. Returns whether slots were checked.
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
