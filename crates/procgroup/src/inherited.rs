//! Memory that a child shares with its parent, and that is charged only to the parent. The shared
//! memory consists of pages of the pool (zm-L15) and of closed blocks (zm-L16). An access to a
//! closed block faults.
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
//! A parent that has ended or is about to execute a program shares no memory. Free space in the
//! pool's pages is treated as changed, because storing an object there changes the page. Freed
//! objects are treated as changed, because a page without objects is released.

use crate::layout::{Part, Slot};
use crate::policy::{LIFE, WEIGHT};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The numbers of bytes in the pool and in blocks that a child shares with its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) pool: u64,
    pub(crate) blocks: u64,
}

impl Shares {
    /// Returns the numbers of shared bytes, computed from the slots of the child and the parent.
    pub(crate) fn of(child: &Slot<'_, u64>, parent: &Slot<'_, u64>) -> Self {
        let shared = |of: &Part<'_, u64>, with: &Part<'_, u64>| {
            match of.inherited.wrapping_sub(*with.changed) {
                shared if shared < LIFE => shared.min(*parent.held),
                // The difference is negative. Either more bytes have changed than were shared, or a
                // later process in the parent's slot has increased `changed` by `LIFE`.
                _ => 0,
            }
        };
        Shares {
            pool: shared(&child.pool(), &parent.pool()),
            blocks: shared(&child.blocks(), &parent.blocks()),
        }
    }

    /// Returns the number of bytes that are charged to a process, and the number of evictable bytes
    /// among them. The process has `all` bytes, and `evictable` of them are evictable, including
    /// shared blocks. The pool is not evictable.
    pub(crate) fn counted(self, all: u64, evictable: u64) -> (u64, u64) {
        let stays = all.saturating_sub(evictable).saturating_sub(self.pool);
        let held = all.saturating_sub(self.pool + self.blocks);
        (held, held.saturating_sub(stays))
    }
}

/// Publishes in `slot` that the slot's process inherited memory from the process in slot `parent`.
/// `inherited` contains the values of the words `pool_inherited` and `blocks_inherited`.
pub(crate) fn set_parent(slot: &Slot<'_>, parent: usize, inherited: [u64; 2]) {
    slot.pool_inherited.store(inherited[0], Relaxed);
    slot.blocks_inherited.store(inherited[1], Relaxed);
    slot.parent.store(parent as u64 + 1, Relaxed);
}

/// This process's counts of one kind of memory that children share: the pool or blocks.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) whole: AtomicU64,
    /// The number of bytes of this memory that have changed since the process began.
    pub(crate) changed: AtomicU64,
    /// The start value of the slot's word `changed`, which the field `changed` does not include.
    pub(crate) life: AtomicU64,
}

/// This process's counts of the memory that children share: those of the compressed pool, and those
/// of closed blocks.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    pub(crate) pool: Said,
    pub(crate) blocks: Said,
}

impl Said {
    /// Returns the value of the word `inherited` for a child that this process forks now. A new
    /// child calls this function on its copy of the counts, to get the value for its own slot.
    fn inherited(&self) -> u64 {
        let said = self.life.load(Relaxed).wrapping_add(self.changed.load(Relaxed));
        self.whole.load(Relaxed).wrapping_add(said)
    }

    fn begin(&self, part: &Part<'_>) {
        let changed = part.changed.fetch_add(LIFE, Relaxed).wrapping_add(LIFE);
        self.life.store(changed.wrapping_sub(self.changed.load(Relaxed)), Relaxed);
    }
}

/// Publishes that `bytes` bytes have changed in the memory that the process shares with its parent
/// or children.
fn change(part: &Part<'_>, bytes: u64) {
    part.changed.fetch_add(bytes, Relaxed);
    part.inherited.fetch_sub(bytes, Relaxed);
}

impl Sharing {
    /// Prepares the words of `slot` for this process. The process then shares no memory with the
    /// parent or children of the slot's previous process.
    pub(crate) fn begin(&self, slot: &Slot<'_>) {
        slot.parent.store(0, Relaxed);
        self.pool.begin(&slot.pool());
        self.blocks.begin(&slot.blocks());
    }

    /// Records the state of the pool: its pages have `pages` bytes, `room` of these bytes are free,
    /// and objects of `gone` bytes were freed or moved so far. Publishes in `slot` by how much
    /// `gone` has grown.
    pub(crate) fn note_pool(&self, slot: Option<Slot<'_>>, pages: u64, room: u64, gone: u64) {
        self.pool.whole.store(pages.saturating_sub(WEIGHT * room), Relaxed);
        let changed = gone.saturating_mul(WEIGHT);
        // Another thread may have recorded a larger number of changed bytes.
        let more = changed.saturating_sub(self.pool.changed.fetch_max(changed, Relaxed));
        slot.inspect(|slot| change(&slot.pool(), more));
    }

    /// Records that blocks of `bytes` bytes were closed, so that the next fork shares these blocks.
    pub(crate) fn add_blocks(&self, bytes: u64) {
        self.blocks.whole.fetch_add(bytes, Relaxed);
    }

    /// Records that blocks of `bytes` bytes are no longer shared.
    pub(crate) fn leave_blocks(&self, slot: Option<Slot<'_>>, bytes: u64) {
        self.blocks.whole.fetch_sub(bytes, Relaxed);
        self.blocks.changed.fetch_add(bytes, Relaxed);
        slot.inspect(|slot| change(&slot.blocks(), bytes));
    }

    /// Returns the values of the words `pool_inherited` and `blocks_inherited` for a child that
    /// this process forks now. A new child calls this function on its copy of the counts.
    pub(crate) fn inherited(&self) -> [u64; 2] {
        [self.pool.inherited(), self.blocks.inherited()]
    }
}
