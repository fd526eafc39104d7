//! A process in its tree: the numbers that it publishes, and those that it reads of others.

use super::inherited::{Shares, Sharing};
use super::unevictable::UnevictableWords;
use super::{NONE, Slot, Sum, Tree};
use crate::figures::Figures;
use crate::process::thread_name;
use crate::stats::raise;
use crate::times::milliseconds;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};

/// Faults between two samples of the process's memory.
const SAMPLE: usize = 256;
/// Faults between two samples if blocks are open that were not written.
const SAMPLE_OPENED: usize = 4;
/// A process in its tree.
#[derive(Debug)]
pub(crate) struct Member {
    pub(super) tree: Tree,
    pub(super) process: AtomicU64,
    /// `NONE` if none was left.
    pub(super) slot: AtomicUsize,
    /// The bytes that this process has beyond those that its pager counts. Negative if the pager
    /// counts more than the process has.
    beside: AtomicI64,
    samples: AtomicUsize,
    /// The time when the process last published its figures, in milliseconds.
    shown: AtomicU64,
    /// Whether it is about to execute a program.
    is_hushed: AtomicBool,
    /// What this process did before it executed its program.
    before: Figures,
    /// Whether it is in another PID namespace than the tree.
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

    /// Takes a slot for a child, which begins with its parent's. A child in another PID namespace
    /// takes none, nor do its children, because its number names another process there.
    pub(crate) fn begin_child(&self) {
        // The parent may have set this in another thread that is about to execute a program.
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

    /// Frees the slot. If the process could not report its figures, they remain in the row.
    pub(crate) fn leave(&self, is_reported: bool) {
        // Another thread may free it at the same time.
        let nth = self.own_slot().map_or(NONE, |_| self.slot.swap(NONE, Relaxed));
        if nth != NONE {
            self.tree.leave(nth, self.process.load(Relaxed), is_reported);
        }
    }

    /// Publishes that this process holds nothing, because it is about to execute a program, though
    /// other threads may run until then. Also publishes `done`, its figures, for that program.
    /// `None` ends this after the call failed.
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

    /// Returns what this process did before it executed its program. A child has done nothing.
    pub(crate) fn before(&self) -> Option<&Figures> {
        let is_own = self.is_in() && self.before.process == self.process.load(Relaxed);
        is_own.then_some(&self.before)
    }

    pub(super) fn slot(&self) -> Option<Slot<'_>> {
        let nth = self.slot.load(Relaxed);
        (nth != NONE).then(|| self.tree.slot(nth))
    }

    /// Returns the slot, unless it belongs to a process whose memory this one shares.
    pub(super) fn own_slot(&self) -> Option<Slot<'_>> {
        self.slot().filter(|_| self.process.load(Relaxed) == own_number())
    }

    /// Returns the slot, unless other processes freed it because this process seemed to have ended.
    /// A process whose first thread has ended looks like that.
    pub(super) fn kept_slot(&self) -> Option<Slot<'_>> {
        self.slot().filter(|slot| slot.process.load(Relaxed) == self.process.load(Relaxed))
    }

    /// Returns whether this process has a slot.
    pub(crate) fn is_in(&self) -> bool {
        self.slot.load(Relaxed) != NONE
    }

    /// Returns the bytes that this process has, if its pager counts `counted`.
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

    /// Publishes the bytes that this process holds, and how many could be evicted.
    pub(crate) fn publish(&self, counted: u64, may_go: u64) {
        let Some(slot) = self.kept_slot() else { return self.slot.store(NONE, Relaxed) };
        if !self.is_hushed.load(Relaxed) {
            slot.held.store(self.all(counted), Relaxed);
            slot.may_go.store(may_go.min(self.all(counted)), Relaxed);
        }
    }

    /// Returns whether the kernel's coarse clock has advanced since a thread last called this.
    pub(crate) fn is_show_due(&self) -> bool {
        let now = milliseconds();
        self.shown.load(Relaxed) != now && self.shown.swap(now, Relaxed) != now
    }

    /// Publishes what this process has done.
    pub(crate) fn show(&self, figures: &Figures) {
        let (nth, process) = (self.slot.load(Relaxed), self.process.load(Relaxed));
        if self.kept_slot().is_some() {
            self.tree.show(nth, &Figures { process, ..figures.clone() });
        }
    }

    /// Returns the sum of all processes, if this one's pager counts `counted`. A process is large
    /// if it holds at least `much`; this one always counts as large.
    pub(crate) fn sum(&self, counted: u64, may_go: u64, much: u64) -> Sum {
        let mut sum = self.tree.sum_but(self.slot.load(Relaxed), much);
        let (held, may_go) = self.shares().counted(self.all(counted), may_go);
        sum.held += held + self.shared_bytes();
        sum.may_go += may_go;
        sum.large += 1;
        raise(self.tree.head().peak, sum.held);
        sum
    }

    /// Returns whether it is time for a sample. Blocks that were opened ahead are written without a
    /// fault, so memory that the kernel did not count at the last sample may soon be counted.
    pub(crate) fn is_sample_due(&self) -> bool {
        let every = if self.beside.load(Relaxed) < 0 { SAMPLE_OPENED } else { SAMPLE };
        self.samples.fetch_add(1, Relaxed).is_multiple_of(every)
    }

    /// Records `all`, the anonymous memory of this process. Its pager counts `counted` bytes, of
    /// which `all` includes all except `tables`.
    pub(crate) fn note_all(&self, all: u64, counted: u64, tables: u64) {
        self.beside.store((all + tables) as i64 - counted as i64, Relaxed);
    }

    /// Publishes whether the processes hold more than the limit allows. If so, frees the slots of
    /// processes that have ended, and pokes one that waits with more than its share. Returns
    /// whether it did that.
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
