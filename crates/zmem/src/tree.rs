//! What several processes hold together: shared memory in which each says what it holds.
//!
//! ```text
//!   words: | magic, most held, used, is short, looked at, space, is told, - | slot | slot | ...
//!   slot:  | process | held | may go | waits |     process: 0 free, `CLEARED` while it becomes so
//!   waits: the thread that waits, and may be poked; 0: none; with `POKING` while one is
//! ```
//! zm-L4: the truth is the slots. Each has one writer, the process that it names; there is no sum
//! that a killed process could leave wrong. Who looks adds them up, as far as they were ever used.

use crate::alive::is_gone;
use crate::poke::poke;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};

const MAGIC: u64 = u64::from_le_bytes(*b"uzramtr1");
const HEAD: usize = 8;
const SLOT: usize = 4;
/// Between two looks for processes that are gone lies so much time, in milliseconds.
const LOOK_TIME: u64 = 20;
const CLEARED: u64 = u64::MAX;
const NONE: usize = usize::MAX;
const POKING: u64 = 1 << 32;
/// Looks in vain after which who pokes counts as killed.
const POKE_LOOKS: usize = 100_000;

/// Shared memory by which processes keep one limit together. Each of them maps it, and makes its
/// regions or arenas with it (one, as a rule); a child of `fork` has a place of its own.
#[derive(Clone, Copy, Debug)]
pub struct Tree(&'static [AtomicU64]);

/// What processes hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) held: u64,
    /// What of it could be evicted.
    pub(crate) may_go: u64,
    /// Processes that hold much.
    pub(crate) large: u64,
}

impl Tree {
    /// Returns the tree of shared memory, which was zeros before the first process called this.
    /// `space` names the space of numbers that this process's is of. `None`: the memory is too
    /// small, or not a tree's, or that of processes in another space.
    pub fn of(words: &'static [AtomicU64], space: u64) -> Option<Self> {
        let is = |word: &AtomicU64, value: u64| {
            let before = word.compare_exchange(0, value, AcqRel, Acquire);
            before.is_ok() || before == Err(value)
        };
        let is_whole = words.len() >= HEAD + SLOT;
        (is_whole && is(&words[0], MAGIC) && is(&words[5], space)).then_some(Tree(words))
    }

    /// Returns the most that was seen to be held at a time, by all processes together.
    pub fn held_max(&self) -> u64 {
        self.peak().load(Relaxed)
    }

    /// Returns whether more is held than the limit has room for, as some process has found.
    pub fn is_short(&self) -> bool {
        self.short().load(Relaxed) != 0
    }

    fn peak(&self) -> &AtomicU64 {
        &self.0[1]
    }

    /// How many slots were ever used, from the first on.
    fn used(&self) -> &AtomicU64 {
        &self.0[2]
    }

    fn short(&self) -> &AtomicU64 {
        &self.0[3]
    }

    fn slots(&self) -> usize {
        (self.0.len() - HEAD) / SLOT
    }

    fn slot(&self, nth: usize) -> &[AtomicU64] {
        &self.0[HEAD + nth * SLOT..][..SLOT]
    }

    fn in_use(&self) -> Range<usize> {
        0..(self.used().load(Acquire) as usize).min(self.slots())
    }

    /// Returns what all processes hold but that of one slot. `much` is what a large one holds.
    fn sum_but(&self, own: usize, much: u64) -> Sum {
        let mut sum = Sum::default();
        for slot in self.in_use().filter(|nth| *nth != own).map(|nth| self.slot(nth)) {
            if !matches!(slot[0].load(Relaxed), 0 | CLEARED) {
                let held = slot[1].load(Relaxed);
                sum.held += held;
                sum.may_go += slot[2].load(Relaxed);
                sum.large += u64::from(held >= much);
            }
        }
        sum
    }

    /// Finds a slot for a process: its own, if it has executed a program, else one that is free.
    fn take(&self, process: u64) -> Option<usize> {
        let own = |nth: &usize| self.slot(*nth)[0].load(Acquire) == process;
        let free = |nth: &usize| {
            self.slot(*nth)[0].compare_exchange(0, process, AcqRel, Acquire).is_ok()
        };
        let taken = self.in_use().find(own).or_else(|| (0..self.slots()).find(free));
        let nth = taken.or_else(|| {
            self.clear_gone();
            (0..self.slots()).find(free)
        })?;
        self.used().fetch_max(nth as u64 + 1, AcqRel);
        Some(nth)
    }

    /// Frees a slot that names a process.
    fn clear(&self, nth: usize, process: u64) {
        let slot = self.slot(nth);
        // Not at once: who comes late must not clear what the next process says there.
        if slot[0].compare_exchange(process, CLEARED, AcqRel, Acquire).is_ok() {
            slot[1..].iter().for_each(|word| word.store(0, Relaxed));
            slot[0].store(0, Release);
        }
    }

    /// Frees the slots of processes that are gone.
    fn clear_gone(&self) {
        for nth in self.in_use() {
            let process = self.slot(nth)[0].load(Acquire);
            if !matches!(process, 0 | CLEARED) && is_gone(process as i32) {
                self.clear(nth, process);
            }
        }
    }

    /// Pokes the process that waits for another one and holds most above `share`.
    fn poke_idle(&self, share: u64) {
        let held = |nth: usize| {
            let slot = self.slot(nth);
            let may_be = slot[3].load(Relaxed) != 0 && slot[2].load(Relaxed) > 0;
            Some(slot[1].load(Relaxed)).filter(|held| may_be && *held > share)
        };
        let most = self.in_use().filter_map(|nth| Some((held(nth)?, nth))).max();
        let Some((_, nth)) = most else { return };
        let (process, waits) = (self.slot(nth)[0].load(Acquire), &self.slot(nth)[3]);
        let thread = waits.load(Relaxed);
        let is_free = thread != 0 && thread & POKING == 0;
        // It does not go on before the signal is with it: see `Member::waited`.
        if is_free && waits.compare_exchange(thread, thread | POKING, AcqRel, Acquire).is_ok() {
            poke(process as i32, thread as i32);
            let _gone = waits.compare_exchange(thread | POKING, thread, AcqRel, Acquire);
        }
    }

    /// Does so unless it was done a moment ago. `now` is in milliseconds; whether it did.
    fn clear_gone_at(&self, now: u64) -> bool {
        let looked = &self.0[4];
        let before = looked.load(Relaxed);
        let is_due = before.saturating_add(LOOK_TIME) <= now || now < before;
        let is_ours = is_due && looked.compare_exchange(before, now, Relaxed, Relaxed).is_ok();
        if is_ours {
            self.clear_gone();
        }
        is_ours
    }
}

/// A process in its tree.
#[derive(Debug)]
pub(crate) struct Member {
    tree: Tree,
    process: AtomicU64,
    /// `NONE`: there was none left.
    slot: AtomicUsize,
    /// What this process has beyond what its pager counts; below 0 where that counts too much.
    beside: AtomicI64,
    samples: AtomicUsize,
    /// Whether nothing is left that could go, and the limit is passed.
    is_lost: AtomicBool,
    /// Whether it is to be told that this is so.
    is_told: AtomicBool,
}

/// So often something comes between two samples.
const SAMPLE: usize = 256;

impl Member {
    pub(crate) fn new(tree: Tree) -> Self {
        let member = Member {
            tree,
            process: 0.into(),
            slot: NONE.into(),
            beside: 0.into(),
            samples: 0.into(),
            is_lost: false.into(),
            is_told: false.into(),
        };
        member.begin();
        member
    }

    /// Takes a slot: for a process that begins, or for a child, which has its parent's.
    pub(crate) fn begin(&self) {
        let process = own_number();
        self.process.store(process, Relaxed);
        self.slot.store(self.tree.take(process).unwrap_or(NONE), Relaxed);
    }

    /// Gives the slot back, if it is this process's, and not that of one whose memory it shares.
    pub(crate) fn end(&self) {
        let process = self.process.load(Relaxed);
        if process == own_number() && self.is_in() {
            self.tree.clear(self.slot.swap(NONE, Relaxed), process);
        }
    }

    /// Says that this process holds nothing, as it is about to execute a program of which nothing
    /// is known yet.
    pub(crate) fn hush(&self) {
        let (nth, process) = (self.slot.load(Relaxed), self.process.load(Relaxed));
        if nth != NONE && process == own_number() {
            self.tree.slot(nth)[1..].iter().for_each(|word| word.store(0, Relaxed));
        }
    }

    /// Returns whether this process has a slot.
    pub(crate) fn is_in(&self) -> bool {
        self.slot.load(Relaxed) != NONE
    }

    /// Returns what this process holds, where its pager counts `counted`.
    pub(crate) fn held(&self, counted: u64) -> u64 {
        counted.saturating_add_signed(self.beside.load(Relaxed))
    }

    /// Says what this process holds.
    pub(crate) fn publish(&self, counted: u64, may_go: u64) {
        let nth = self.slot.load(Relaxed);
        if nth == NONE {
            return;
        }
        let slot = self.tree.slot(nth);
        if slot[0].load(Relaxed) != self.process.load(Relaxed) {
            // Others took it to be gone, as one is seen whose first thread has ended.
            return self.slot.store(NONE, Relaxed);
        }
        slot[1].store(self.held(counted), Relaxed);
        slot[2].store(may_go, Relaxed);
    }

    /// Returns what all hold, where this process's pager counts `counted`. A process is a large one
    /// if it holds `much`, and this one is in any case.
    pub(crate) fn sum(&self, counted: u64, may_go: u64, much: u64) -> Sum {
        let mut sum = self.tree.sum_but(self.slot.load(Relaxed), much);
        sum.held += self.held(counted);
        sum.may_go += may_go;
        sum.large += 1;
        if sum.held > self.tree.peak().load(Relaxed) {
            self.tree.peak().fetch_max(sum.held, Relaxed);
        }
        sum
    }

    /// Returns whether it is time for a sample.
    pub(crate) fn is_sample_due(&self) -> bool {
        self.samples.fetch_add(1, Relaxed) % SAMPLE == 0
    }

    /// Takes note of all anonymous memory that this process has, where its pager counts `counted`,
    /// of which the system counts all but `tables`.
    pub(crate) fn note_all(&self, all: u64, counted: u64, tables: u64) {
        self.beside.store((all + tables) as i64 - counted as i64, Relaxed);
    }

    /// Says whether there is less than the limit has room for. Where there is, processes that are
    /// gone are looked for, and one that waits with more than its share is poked; whether that was
    /// done.
    pub(crate) fn note_short(&self, is_short: bool, share: u64) -> bool {
        let word = self.tree.short();
        if word.load(Relaxed) != u64::from(is_short) {
            word.store(is_short.into(), Relaxed);
        }
        let has_looked = is_short && self.tree.clear_gone_at(milliseconds());
        if has_looked {
            self.tree.poke_idle(share);
        }
        has_looked
    }

    /// Says whether this thread is about to wait for a process, and may be poked.
    pub(crate) fn waits(&self) {
        let (nth, process) = (self.slot.load(Relaxed), self.process.load(Relaxed));
        if nth != NONE && process == own_number() {
            let thread = rustix::thread::gettid().as_raw_nonzero().get() as u64;
            let waits = &self.tree.slot(nth)[3];
            let _other = waits.compare_exchange(0, thread, AcqRel, Acquire);
        }
    }

    /// Ends what [`waits`](Self::waits) has begun: a signal that was sent has come by then.
    pub(crate) fn waited(&self) {
        let nth = self.slot.load(Relaxed);
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        if nth == NONE || self.tree.slot(nth)[3].load(Relaxed) & !POKING != thread {
            return;
        }
        let waits = &self.tree.slot(nth)[3];
        for _ in 0..POKE_LOOKS {
            if waits.compare_exchange(thread, 0, AcqRel, Acquire) != Err(thread | POKING) {
                break;
            }
            std::thread::yield_now();
        }
        let _killed = waits.compare_exchange(thread | POKING, 0, AcqRel, Acquire);
        // It comes at the end of a system call.
        std::thread::yield_now();
    }

    /// Says whether the limit can't be kept.
    pub(crate) fn note_lost(&self, is_lost: bool) {
        if self.is_lost.load(Relaxed) != is_lost {
            self.is_lost.store(is_lost, Relaxed);
            self.is_told.fetch_or(is_lost, Relaxed);
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Relaxed)
    }

    /// Returns whether it was found, since this was last asked, that the limit can't be kept, and
    /// no other process has said so.
    pub(crate) fn take_lost(&self) -> bool {
        self.is_told.load(Relaxed)
            && self.is_told.swap(false, Relaxed)
            && self.tree.0[6].swap(1, Relaxed) == 0
    }
}

fn own_number() -> u64 {
    rustix::process::getpid().as_raw_nonzero().get() as u64
}

fn milliseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
