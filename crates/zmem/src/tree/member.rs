//! A process in its tree: the numbers that the process publishes, and the numbers of other
//! processes that it reads.

use super::inherited::{Shares, Sharing};
use super::unevictable::UnevictableWords;
use super::{NONE, Slot, Sum, Tree};
use crate::figures::Figures;
use crate::process::thread_name;
use crate::stats::raise;
use crate::times::milliseconds;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};

/// The number of faults between two samples of the process's memory.
const SAMPLE: usize = 256;
/// The number of faults between two samples while some open blocks were not written yet.
const SAMPLE_OPENED: usize = 4;
/// A process in its tree, as that process sees itself.
#[derive(Debug)]
pub(crate) struct Member {
    pub(super) tree: Tree,
    pub(super) process: AtomicU64,
    /// The number of the process's slot, or `NONE` if all slots were in use.
    pub(super) slot: AtomicUsize,
    /// The bytes of the process's memory minus the bytes that its pager counts.
    beside: AtomicI64,
    samples: AtomicUsize,
    /// The time when the process last published its figures, in milliseconds.
    shown: AtomicU64,
    /// Whether the process is about to execute a program.
    is_hushed: AtomicBool,
    /// The figures of this process from before it executed its program.
    before: Figures,
    /// Whether the process is in another PID namespace than the tree.
    is_foreign: AtomicBool,
    pub(super) sharing: Sharing,
    /// Whether this process has mapped shared memory.
    pub(super) maps_shared: AtomicBool,
    pub(super) kept: UnevictableWords,
}

impl Member {
    pub(crate) fn new(tree: Tree) -> Self {
        let mut member = Member::without_slot(tree);
        member.begin();
        if member.is_in() {
            member.before = tree.said(member.slot.load(Relaxed));
        }
        member
    }

    pub(super) fn without_slot(tree: Tree) -> Self {
        Member {
            tree,
            process: 0.into(),
            slot: NONE.into(),
            beside: 0.into(),
            samples: 0.into(),
            shown: 0.into(),
            is_hushed: false.into(),
            before: Figures::default(),
            is_foreign: false.into(),
            sharing: Sharing::default(),
            maps_shared: false.into(),
            kept: UnevictableWords::default(),
        }
    }

    /// Takes a slot for a child, whose `Member` is a copy of its parent's. A child in another PID
    /// namespace, and its children, take no slot, because their numbers would be ambiguous.
    pub(crate) fn begin_child(&self) {
        // Another thread of the parent, about to execute a program, may have set this flag.
        self.is_hushed.store(false, Relaxed);
        let may_ask = self.is_in() && !page::is_confined();
        if may_ask && rustix::process::getppid().is_none() {
            self.is_foreign.store(true, Relaxed);
        }
        if self.is_foreign.load(Relaxed) {
            return self.slot.store(NONE, Relaxed);
        }
        let (parent, inherited) = (self.slot.load(Relaxed), self.sharing.inherited());
        self.begin();
        self.tree.set_parent(self.slot.load(Relaxed), parent, inherited);
        self.begin_shared();
    }

    /// Takes a slot for a process that begins.
    fn begin(&self) {
        let process = own_number();
        self.process.store(process, Relaxed);
        let nth = self.tree.take(process);
        nth.inspect(|nth| self.sharing.begin(self.tree.renew(*nth)));
        nth.inspect(|nth| self.tree.begin(*nth, thread_name()));
        self.slot.store(nth.unwrap_or(NONE), Relaxed);
    }

    /// Frees the slot. If the process could not report its figures, they remain in the slot's row.
    pub(crate) fn leave(&self, is_reported: bool) {
        // Another thread may free the slot at the same time.
        let nth = self.own_slot().map_or(NONE, |_| self.slot.swap(NONE, Relaxed));
        if nth != NONE {
            self.tree.leave(nth, self.process.load(Relaxed), is_reported);
        }
    }

    /// Publishes that this process holds no memory, because it is about to execute a program,
    /// although other threads may run until then. `done` are the figures to which the new program
    /// adds its own. `None` undoes the publication after `execve` failed.
    pub(crate) fn set_hushed(&self, done: Option<&Figures>) {
        if self.own_slot().is_some() {
            self.is_hushed.store(done.is_some(), Relaxed);
            self.tree.hush(self.slot.load(Relaxed));
            self.tree.set_executes(self.slot.load(Relaxed), done.is_some());
            if done.is_none() {
                self.begin_shared();
            }
            done.inspect(|done| self.show(&Figures::default().after(done)));
        }
    }

    /// Returns this process's figures from before it executed its program, or `None` in a child.
    pub(crate) fn before(&self) -> Option<&Figures> {
        let is_own = self.is_in() && self.before.process == self.process.load(Relaxed);
        is_own.then_some(&self.before)
    }

    pub(super) fn slot(&self) -> Option<Slot<'_>> {
        let nth = self.slot.load(Relaxed);
        (nth != NONE).then(|| self.tree.slot(nth))
    }

    /// Returns the slot, unless the slot belongs to a process whose memory this process shares.
    pub(super) fn own_slot(&self) -> Option<Slot<'_>> {
        self.slot().filter(|_| self.process.load(Relaxed) == own_number())
    }

    /// Returns the slot, unless another process freed it because this process seemed to have ended.
    /// A process seems to have ended if its first thread has ended.
    pub(super) fn kept_slot(&self) -> Option<Slot<'_>> {
        self.slot().filter(|slot| slot.process.load(Relaxed) == self.process.load(Relaxed))
    }

    /// Returns whether this process has a slot.
    pub(crate) fn is_in(&self) -> bool {
        self.slot.load(Relaxed) != NONE
    }

    /// Returns the bytes of this process's memory, if its pager counts `counted` bytes.
    pub(crate) fn all(&self, counted: u64) -> u64 {
        counted.saturating_add_signed(self.beside.load(Relaxed))
    }

    /// Returns the bytes that this process shares with its parent, which count for the parent.
    pub(super) fn shares(&self) -> Shares {
        let nth = self.slot.load(Relaxed);
        if nth == NONE { Shares::default() } else { self.tree.shares(nth) }
    }

    /// Returns the bytes that count for this process, without those that count for its parent.
    pub(crate) fn held(&self, counted: u64) -> u64 {
        self.shares().counted(self.all(counted), 0).0 + self.shared_bytes()
    }

    /// Publishes the bytes that this process holds, and how many of them could be evicted.
    pub(crate) fn publish(&self, counted: u64, may_go: u64) {
        let Some(slot) = self.kept_slot() else { return self.slot.store(NONE, Relaxed) };
        if !self.is_hushed.load(Relaxed) {
            slot.held.store(self.all(counted), Relaxed);
            slot.may_go.store(may_go.min(self.all(counted)), Relaxed);
        }
    }

    /// Returns whether the kernel's coarse clock has advanced since this function was last called.
    pub(crate) fn is_show_due(&self) -> bool {
        let now = milliseconds();
        self.shown.load(Relaxed) != now && self.shown.swap(now, Relaxed) != now
    }

    /// Publishes the statistics of this process.
    pub(crate) fn show(&self, figures: &Figures) {
        let (nth, process) = (self.slot.load(Relaxed), self.process.load(Relaxed));
        if self.kept_slot().is_some() {
            self.tree.show(nth, &Figures { process, ..figures.clone() });
        }
    }

    /// Returns the sums over all processes, if the pager of this process counts `counted` bytes. A
    /// process is large if it holds at least `much` bytes; this process always counts as large.
    pub(crate) fn sum(&self, counted: u64, may_go: u64, much: u64) -> Sum {
        let mut sum = self.tree.sum_but(self.slot.load(Relaxed), much);
        let (held, may_go) = self.shares().counted(self.all(counted), may_go);
        sum.held += held + self.shared_bytes();
        sum.may_go += may_go;
        sum.large += 1;
        raise(self.tree.head().peak, sum.held);
        sum
    }

    /// Returns whether a sample is due. Blocks that were opened ahead are written without a fault,
    /// so memory that the kernel did not count at the last sample may soon be counted.
    pub(crate) fn is_sample_due(&self) -> bool {
        let every = if self.beside.load(Relaxed) < 0 { SAMPLE_OPENED } else { SAMPLE };
        self.samples.fetch_add(1, Relaxed).is_multiple_of(every)
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
        let word = self.tree.head().is_short;
        if word.load(Relaxed) != u64::from(is_short) {
            word.store(is_short.into(), Relaxed);
        }
        let has_looked = is_short && self.tree.clear_gone_at(milliseconds());
        if has_looked {
            self.tree.poke_idle(self.share(limit).bytes);
        }
        has_looked
    }

    /// Returns the bytes of private memory that the process's pager does not count.
    pub(crate) fn beside_bytes(&self) -> u64 {
        self.beside.load(Relaxed).max(0) as u64
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave(true);
    }
}

pub(super) fn own_number() -> u64 {
    rustix::process::getpid().as_raw_nonzero().get() as u64
}
