//! Pages that a child shares with its parent, which count for the parent alone: those of the pool
//! (zm-L15), and blocks that tell when they are touched (zm-L16).
//!
//! ```text
//!   fork:        parent  | 100 pages     |       100 held
//!                child   | the same ones |         0 held: 100 are shared
//!   then 10 of them are written to in one of the two, or are gone from it: 90 are shared
//!
//!   whole     = of the pool: pages - WEIGHT * room in them; blocks that are closed
//!   changed   = of the pool: WEIGHT * bytes of objects that were freed, or moved; blocks that were
//!               touched, or went; from a number on that is far from other lives of the slot's
//!   inherited = whole at the fork + the parent's changed then - own change since
//!   shared    = inherited - the parent's changed; what the parent holds at most
//! ```
//! So nothing is shared with a parent that has ended, or is about to execute a program: it holds
//! nothing. A page of the pool changes if an object is stored where there was room at the fork, or
//! where one is gone; or it is gone itself, as all that was on it is.

use super::layout::{Part, Slot as SlotOf};
use super::{NONE, Slot, Tree};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// More than any process has bytes: so far is each life of a slot from the one before.
const LIFE: u64 = 1 << 40;
/// So many bytes of pages change for one that is stored in room between others, about: an object of
/// 1.5 KiB lies on 1.4 pages of 4 KiB, and one that is smaller counts as a quarter of a page.
const WEIGHT: u64 = 4;

/// The bytes that a child shares with its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) pool: u64,
    pub(super) blocks: u64,
}

impl Shares {
    /// Returns what two processes have said that they share.
    pub(super) fn of(child: &SlotOf<'_, u64>, parent: &SlotOf<'_, u64>) -> Self {
        let shared = |of: &Part<'_, u64>, with: &Part<'_, u64>| {
            match of.inherited.wrapping_sub(*with.changed) {
                shared if shared < LIFE => shared.min(*parent.held),
                // All has changed, or it is another life of the parent's slot.
                _ => 0,
            }
        };
        Shares {
            pool: shared(&child.pool, &parent.pool),
            blocks: shared(&child.blocks, &parent.blocks),
        }
    }

    /// Returns what counts for a process that has so much in `all`, of which so much could be
    /// evicted, shared blocks too; and what may go of that. A pool can't.
    pub(super) fn counted(self, all: u64, may_go: u64) -> (u64, u64) {
        let stays = all.saturating_sub(may_go).saturating_sub(self.pool);
        let held = all.saturating_sub(self.pool + self.blocks);
        (held, held.saturating_sub(stays))
    }
}

impl Tree {
    /// Begins another life of a slot: it shares no pages, and nobody shares those of the one
    /// before. Returns what its pool, and its blocks, have `changed`.
    pub(super) fn renew(&self, nth: usize) -> [u64; 2] {
        let slot = self.slot(nth);
        slot.parent.store(0, Relaxed);
        let next =
            |part: Part<'_, AtomicU64>| part.changed.fetch_add(LIFE, Relaxed).wrapping_add(LIFE);
        [next(slot.pool), next(slot.blocks)]
    }

    /// Says that the process of a slot has inherited so much of its parent, which has another one.
    pub(super) fn set_parent(&self, nth: usize, parent: usize, inherited: [u64; 2]) {
        if nth != NONE && parent != NONE {
            let slot = self.slot(nth);
            slot.pool.inherited.store(inherited[0], Relaxed);
            slot.blocks.inherited.store(inherited[1], Relaxed);
            slot.parent.store(parent as u64 + 1, Relaxed);
        }
    }

    /// Returns 1 more than the slot of the parent that the process of a slot shares with; 0: none.
    pub(super) fn parent(&self, nth: usize) -> u64 {
        let Slot { process, parent, .. } = self.slot(nth);
        if process.load(Relaxed) == 0 { 0 } else { parent.load(Relaxed) }
    }

    /// Returns what the process of a slot holds that its parent does not.
    pub(super) fn held(&self, nth: usize) -> u64 {
        self.counted(nth).0
    }

    /// Returns that, and what of it may go.
    pub(super) fn counted(&self, nth: usize) -> (u64, u64) {
        let Slot { held, may_go, .. } = self.slot(nth);
        let (held, may_go) = self.shares(nth).counted(held.load(Relaxed), may_go.load(Relaxed));
        (held + self.shared(nth), may_go)
    }

    /// Returns what it shares with its parent, for which that counts.
    pub(super) fn shares(&self, nth: usize) -> Shares {
        let parent = (self.slot(nth).parent.load(Relaxed) as usize).wrapping_sub(1);
        if parent >= self.slots.len() {
            return Shares::default();
        }
        let words =
            [nth, parent].map(|nth| self.slots[nth].each_ref().map(|word| word.load(Relaxed)));
        Shares::of(&SlotOf::of(&words[0]), &SlotOf::of(&words[1]))
    }
}

/// What a process has said of one kind of what a child would share.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) whole: AtomicU64,
    /// What has changed since the process began.
    pub(super) changed: AtomicU64,
    /// What this has to be added to for what its slot says.
    pub(super) life: AtomicU64,
}

/// What it has said of all.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    pub(super) pool: Said,
    pub(super) blocks: Said,
}

impl Said {
    /// Returns what a child inherits that is made now, or was.
    fn inherited(&self) -> u64 {
        let said = self.life.load(Relaxed).wrapping_add(self.changed.load(Relaxed));
        self.whole.load(Relaxed).wrapping_add(said)
    }

    fn begin(&self, changed: u64) {
        self.life.store(changed.wrapping_sub(self.changed.load(Relaxed)), Relaxed);
    }
}

impl Part<'_, AtomicU64> {
    /// Says that so much of what the process shares, with its parent or with children, changed.
    fn change(&self, bytes: u64) {
        self.changed.fetch_add(bytes, Relaxed);
        self.inherited.fetch_sub(bytes, Relaxed);
    }
}

impl Sharing {
    /// Begins with a slot whose parts have `changed` as much.
    pub(super) fn begin(&self, changed: [u64; 2]) {
        self.pool.begin(changed[0]);
        self.blocks.begin(changed[1]);
    }

    /// Takes note of bytes of the pool's pages, of what no object takes of them, and of those
    /// that objects took which were freed or moved by now; says in the process's slot what changed.
    pub(super) fn note_pool(&self, slot: Option<Slot<'_>>, pages: u64, room: u64, gone: u64) {
        self.pool.whole.store(pages.saturating_sub(WEIGHT * room), Relaxed);
        let changed = gone.saturating_mul(WEIGHT);
        // Another thread may have seen more.
        let more = changed.saturating_sub(self.pool.changed.fetch_max(changed, Relaxed));
        slot.inspect(|slot| slot.pool.change(more));
    }

    /// Takes note of bytes of blocks that are shared from the next fork on.
    pub(super) fn add_blocks(&self, bytes: u64) {
        self.blocks.whole.fetch_add(bytes, Relaxed);
    }

    /// Takes note that they are so no more.
    pub(super) fn leave_blocks(&self, slot: Option<Slot<'_>>, bytes: u64) {
        self.blocks.whole.fetch_sub(bytes, Relaxed);
        self.blocks.changed.fetch_add(bytes, Relaxed);
        slot.inspect(|slot| slot.blocks.change(bytes));
    }

    /// Returns what a child inherits of the pool, and of blocks, that is made now, or was.
    pub(super) fn inherited(&self) -> [u64; 2] {
        [self.pool.inherited(), self.blocks.inherited()]
    }
}
