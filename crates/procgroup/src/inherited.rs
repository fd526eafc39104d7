//! Memory that a child shares with its parent and that counts for the parent alone: pages of the
//! pool (zm-L15), and closed blocks, whose accesses fault (zm-L16).
//!
//! ```text
//!   fork:        parent  | 100 pages          |    holds 100
//!                child   | the same 100 pages |    holds 0, shares 100
//!   after one of the two has written to 10 of these pages, or has freed them: 90 are shared
//!
//!   whole     = pool: its pages - WEIGHT * the room in them; blocks: the closed blocks
//!   changed   = pool: WEIGHT * bytes of objects that were freed or moved; blocks: those that were
//!               touched or freed; begins at a number far from those of earlier users of the slot
//!   inherited = `whole` + the parent's `changed`, both at the fork - own changes since the fork
//!   shared    = inherited - the parent's `changed` now; at most the memory that the parent holds
//! ```
//! A parent that has ended or is about to execute a program holds nothing, so nothing is shared
//! with it. A page of the pool changes if an object is stored in free room of the page. A page
//! whose objects are all freed is released.

use crate::layout::{Part, Slot};
use crate::policy::{LIFE, WEIGHT};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The numbers of bytes that a child shares with its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) pool: u64,
    pub(crate) blocks: u64,
}

impl Shares {
    /// Returns the numbers of shared bytes, computed from the words of both processes' slots.
    pub(crate) fn of(child: &Slot<'_, u64>, parent: &Slot<'_, u64>) -> Self {
        let shared = |of: &Part<'_, u64>, with: &Part<'_, u64>| {
            match of.inherited.wrapping_sub(*with.changed) {
                shared if shared < LIFE => shared.min(*parent.held),
                // All shared memory has changed, or another process uses the parent's slot.
                _ => 0,
            }
        };
        Shares {
            pool: shared(&child.pool(), &parent.pool()),
            blocks: shared(&child.blocks(), &parent.blocks()),
        }
    }

    /// Returns the number of bytes that count for a process that has `all` bytes, and how many of
    /// these could be evicted. `evictable` of the `all` bytes could be evicted, including shared
    /// blocks. The pool can't be evicted.
    pub(crate) fn counted(self, all: u64, evictable: u64) -> (u64, u64) {
        let stays = all.saturating_sub(evictable).saturating_sub(self.pool);
        let held = all.saturating_sub(self.pool + self.blocks);
        (held, held.saturating_sub(stays))
    }
}

/// Publishes in `slot` that its process inherited memory from the process in slot `parent`.
/// `inherited` contains the words `inherited` of the pool and of the blocks.
pub(crate) fn set_parent(slot: &Slot<'_>, parent: usize, inherited: [u64; 2]) {
    slot.pool_inherited.store(inherited[0], Relaxed);
    slot.blocks_inherited.store(inherited[1], Relaxed);
    slot.parent.store(parent as u64 + 1, Relaxed);
}

/// This process's numbers for one kind of memory (pool or blocks), part of which a child would
/// share.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) whole: AtomicU64,
    /// The bytes that have changed since the process began.
    pub(crate) changed: AtomicU64,
    /// The difference between the slot's number `changed` and the field `changed` above.
    pub(crate) life: AtomicU64,
}

/// The counts of inherited memory: of the compressed pool, and of resident blocks.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    pub(crate) pool: Said,
    pub(crate) blocks: Said,
}

impl Said {
    /// Returns the word `inherited` of a child that is forked now. In a process that was just
    /// forked, returns the word of this process.
    fn inherited(&self) -> u64 {
        let said = self.life.load(Relaxed).wrapping_add(self.changed.load(Relaxed));
        self.whole.load(Relaxed).wrapping_add(said)
    }

    fn begin(&self, part: &Part<'_>) {
        let changed = part.changed.fetch_add(LIFE, Relaxed).wrapping_add(LIFE);
        self.life.store(changed.wrapping_sub(self.changed.load(Relaxed)), Relaxed);
    }
}

/// Publishes that `bytes` bytes of the memory that the process shares with its parent or children
/// have changed.
fn change(part: &Part<'_>, bytes: u64) {
    part.changed.fetch_add(bytes, Relaxed);
    part.inherited.fetch_sub(bytes, Relaxed);
}

impl Sharing {
    /// Prepares the words of `slot` for this process, so that it shares no memory with relatives of
    /// the slot's previous process.
    pub(crate) fn begin(&self, slot: &Slot<'_>) {
        slot.parent.store(0, Relaxed);
        self.pool.begin(&slot.pool());
        self.blocks.begin(&slot.blocks());
    }

    /// Records that the pool's pages have `pages` bytes, that no object uses `room` of these bytes,
    /// and that objects of `gone` bytes were freed or moved until now. Publishes the change in
    /// `slot`.
    pub(crate) fn note_pool(&self, slot: Option<Slot<'_>>, pages: u64, room: u64, gone: u64) {
        self.pool.whole.store(pages.saturating_sub(WEIGHT * room), Relaxed);
        let changed = gone.saturating_mul(WEIGHT);
        // Another thread may have recorded a larger number.
        let more = changed.saturating_sub(self.pool.changed.fetch_max(changed, Relaxed));
        slot.inspect(|slot| change(&slot.pool(), more));
    }

    /// Records that blocks of `bytes` bytes were closed, so that the next fork will share them.
    pub(crate) fn add_blocks(&self, bytes: u64) {
        self.blocks.whole.fetch_add(bytes, Relaxed);
    }

    /// Records that blocks of `bytes` bytes are no longer shared.
    pub(crate) fn leave_blocks(&self, slot: Option<Slot<'_>>, bytes: u64) {
        self.blocks.whole.fetch_sub(bytes, Relaxed);
        self.blocks.changed.fetch_add(bytes, Relaxed);
        slot.inspect(|slot| change(&slot.blocks(), bytes));
    }

    /// Returns the words `inherited` (pool, blocks) of a child that is forked now. In a process
    /// that was just forked, returns the words of this process.
    pub(crate) fn inherited(&self) -> [u64; 2] {
        [self.pool.inherited(), self.blocks.inherited()]
    }
}
