//! Pages that a child shares with its parent, which count for the parent alone: those of the pool
//! (zm-L15), and blocks that tell when they are touched (zm-L16).
//!
//! ```text
//!   fork:        parent  | pool: 100 pages |       100 held
//!                child   | the same pages  |         0 held: 100 are shared
//!   then 10 of them are written to in one of the two, or are gone from it: 90 are shared
//!
//!   gone      = bytes of objects that were freed, or moved
//!   changed   = WEIGHT * gone + blocks that were touched, or went; from a number on that is far
//!               from those of other lives of the slot
//!   inherited = pages - WEIGHT * room in them + blocks, at the fork, + the parent's changed then
//!               - own change since
//!   shared    = inherited - the parent's changed; what the parent holds at most
//! ```
//! So nothing is shared with a parent that has ended, or is about to execute a program: it holds
//! nothing. A page changes if an object is stored where there was room at the fork, or where one is
//! gone; or it is gone itself, as all that was on it is.

use super::{NONE, Slot, Tree};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// More than any pool has bytes: so far is each life of a slot from the one before.
const LIFE: u64 = 1 << 40;
/// So many bytes of pages change for one that is stored in room between others, about: an object of
/// 1.5 KiB lies on 1.4 pages of 4 KiB, and one that is smaller counts as a quarter of a page.
const WEIGHT: u64 = 4;

/// Returns the bytes that a child still shares with a parent that holds so much.
pub(super) fn shared_bytes(inherited: u64, changed: u64, held: u64) -> u64 {
    match inherited.wrapping_sub(changed) {
        shared if shared < LIFE => shared.min(held),
        // All has changed, or it is another life of the parent's slot.
        _ => 0,
    }
}

impl Tree {
    /// Begins another life of a slot: it shares no pages, and nobody shares those of the one
    /// before. Returns its `changed`.
    pub(super) fn renew(&self, nth: usize) -> u64 {
        let slot = self.slot(nth);
        slot.parent.store(0, Relaxed);
        slot.changed.fetch_add(LIFE, Relaxed).wrapping_add(LIFE)
    }

    /// Says that the process of a slot has inherited so much of its parent, which has another one.
    pub(super) fn set_parent(&self, nth: usize, parent: usize, inherited: u64) {
        if nth != NONE && parent != NONE {
            let slot = self.slot(nth);
            slot.inherited.store(inherited, Relaxed);
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
        self.slot(nth).held.load(Relaxed).saturating_sub(self.shared(nth))
    }

    /// Returns what it shares with its parent, for which that counts.
    pub(super) fn shared(&self, nth: usize) -> u64 {
        let Slot { inherited, parent, .. } = self.slot(nth);
        let parent = self.slots.get((parent.load(Relaxed) as usize).wrapping_sub(1)).map(Slot::of);
        let shared_with = |Slot { changed, held, .. }: Slot<'_>| {
            shared_bytes(inherited.load(Relaxed), changed.load(Relaxed), held.load(Relaxed))
        };
        parent.map_or(0, shared_with)
    }
}

impl Slot<'_> {
    /// Says that so much of what the process shares, with its parent or with children, changed.
    fn change(&self, bytes: u64) {
        self.changed.fetch_add(bytes, Relaxed);
        self.inherited.fetch_sub(bytes, Relaxed);
    }
}

/// What a process has said of what a child would share.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// What it is of the pool.
    pub(super) pool: AtomicU64,
    /// What it is of resident blocks.
    pub(super) blocks: AtomicU64,
    /// What has changed of the pool since it was made.
    pub(super) changed: AtomicU64,
    /// What this has to be added to for what its slot says.
    pub(super) life: AtomicU64,
}

impl Sharing {
    /// Begins with a slot whose `changed` is this.
    pub(super) fn begin(&self, changed: u64) {
        self.life.store(changed.wrapping_sub(self.changed.load(Relaxed)), Relaxed);
    }

    /// Takes note of bytes of the pool's pages, of what no object takes of them, and of those
    /// that objects took which were freed or moved by now; says in the process's slot what changed.
    pub(super) fn note_pool(&self, slot: Option<Slot<'_>>, pages: u64, room: u64, gone: u64) {
        self.pool.store(pages.saturating_sub(WEIGHT * room), Relaxed);
        let changed = gone.saturating_mul(WEIGHT);
        // Another thread may have seen more.
        let more = changed.saturating_sub(self.changed.fetch_max(changed, Relaxed));
        slot.inspect(|slot| slot.change(more));
    }

    /// Takes note of bytes of blocks that are shared from the next fork on.
    pub(super) fn add_blocks(&self, bytes: u64) {
        self.blocks.fetch_add(bytes, Relaxed);
    }

    /// Takes note that they are so no more.
    pub(super) fn leave_blocks(&self, slot: Option<Slot<'_>>, bytes: u64) {
        self.blocks.fetch_sub(bytes, Relaxed);
        self.life.fetch_add(bytes, Relaxed);
        slot.inspect(|slot| slot.change(bytes));
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    /// Returns what a child inherits that is made now, or was.
    pub(super) fn inherited(&self) -> u64 {
        let said = self.life.load(Relaxed).wrapping_add(self.changed.load(Relaxed));
        (self.pool.load(Relaxed) + self.blocks()).wrapping_add(said)
    }
}
