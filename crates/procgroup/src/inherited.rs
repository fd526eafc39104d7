//! Memory that a child shares with its parent and that counts for the parent alone: pages of the
//! pool (zm-L15), and blocks whose touches fault (zm-L16).
//!
//! ```text
//!   fork:        parent  | 100 pages     |       100 held
//!                child   | the same ones |         0 held: 100 are shared
//!   then 10 of them are written to in, or freed by, one of the two: 90 are shared
//!
//!   whole     = of the pool: pages - WEIGHT * room in them; blocks that are closed
//!   changed   = of the pool: WEIGHT * bytes of objects that were freed, or moved; blocks that were
//!               touched, or freed; begins at a number far from those of earlier users of the slot
//!   inherited = whole at the fork + the parent's changed then - own change since
//!   shared    = inherited - the parent's changed; what the parent holds at most
//! ```
//! A parent that has ended or is about to execute a program holds nothing, so nothing is shared
//! with it. A page of the pool changes if an object is stored in free room of the page. A page
//! whose objects are all freed is released.

use crate::group::{NONE, ProcessGroup, Slot};
use crate::layout::{Part, Slot as SlotOf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The distance between the numbers of two processes that use a slot one after the other. No
/// process has 2^40 bytes.
const LIFE: u64 = 1 << 40;
/// The approximate number of bytes of pages that change for each byte that is stored between
/// objects. An object of 1.5 KiB overlaps 1.4 pages of 4 KiB on average; a smaller object counts as
/// less.
const WEIGHT: u64 = 4;

/// The bytes that a child shares with its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) pool: u64,
    pub(crate) blocks: u64,
}

impl Shares {
    /// Returns the bytes that the two processes have published as shared.
    pub(crate) fn of(child: &SlotOf<'_, u64>, parent: &SlotOf<'_, u64>) -> Self {
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

    /// Returns the bytes that count for a process that has `all` bytes, and how many of them could
    /// be evicted. `evictable` is the part of `all` that could be evicted, shared blocks included.
    /// The pool can't be evicted.
    pub(crate) fn counted(self, all: u64, evictable: u64) -> (u64, u64) {
        let stays = all.saturating_sub(evictable).saturating_sub(self.pool);
        let held = all.saturating_sub(self.pool + self.blocks);
        (held, held.saturating_sub(stays))
    }
}

impl ProcessGroup {
    /// Begins the use of a slot by another process, which shares no pages with relatives of the
    /// slot's previous process. Returns `changed` for the pool and for blocks.
    pub(crate) fn renew(&self, nth: usize) -> [u64; 2] {
        let slot = self.slot(nth);
        slot.parent.store(0, Relaxed);
        let next =
            |part: Part<'_, AtomicU64>| part.changed.fetch_add(LIFE, Relaxed).wrapping_add(LIFE);
        [next(slot.pool()), next(slot.blocks())]
    }

    /// Publishes that the process in slot `nth` inherited the bytes `inherited`, of the pool and of
    /// blocks, from the process in slot `parent`.
    pub(crate) fn set_parent(&self, nth: usize, parent: usize, inherited: [u64; 2]) {
        if nth != NONE && parent != NONE {
            let slot = self.slot(nth);
            slot.pool_inherited.store(inherited[0], Relaxed);
            slot.blocks_inherited.store(inherited[1], Relaxed);
            slot.parent.store(parent as u64 + 1, Relaxed);
        }
    }

    /// Returns 0, or 1 more than the slot of the parent with which the process in a slot shares
    /// memory.
    pub(crate) fn parent(&self, nth: usize) -> u64 {
        let Slot { process, parent, .. } = self.slot(nth);
        if process.load(Relaxed) == 0 { 0 } else { parent.load(Relaxed) }
    }

    /// Returns the bytes that count for the process of a slot, without those that count for its
    /// parent.
    pub(crate) fn held(&self, nth: usize) -> u64 {
        self.counted(nth).0
    }

    /// Returns the bytes that count for the process of a slot, and how many of them could be
    /// evicted.
    pub(crate) fn counted(&self, nth: usize) -> (u64, u64) {
        let Slot { held, evictable, .. } = self.slot(nth);
        let (held, evictable) =
            self.shares(nth).counted(held.load(Relaxed), evictable.load(Relaxed));
        (held + self.shared(nth), evictable)
    }

    /// Returns the bytes that the process of a slot shares with its parent, which count for the
    /// parent.
    pub(crate) fn shares(&self, nth: usize) -> Shares {
        let parent = (self.slot(nth).parent.load(Relaxed) as usize).wrapping_sub(1);
        if parent >= self.slots.len() {
            return Shares::default();
        }
        let words =
            [nth, parent].map(|nth| self.slots[nth].each_ref().map(|word| word.load(Relaxed)));
        Shares::of(&SlotOf::of(&words[0]), &SlotOf::of(&words[1]))
    }
}

/// The numbers of one kind of memory (pool or blocks) that a child would share.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) whole: AtomicU64,
    /// The bytes that have changed since the process began.
    pub(crate) changed: AtomicU64,
    /// The difference between the slot's number `changed` and the field `changed` above.
    pub(crate) life: AtomicU64,
}

/// The numbers for both kinds of memory.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    pub(crate) pool: Said,
    pub(crate) blocks: Said,
}

impl Said {
    /// Returns the number `inherited` of a child that is forked now, or of this process immediately
    /// after its fork.
    fn inherited(&self) -> u64 {
        let said = self.life.load(Relaxed).wrapping_add(self.changed.load(Relaxed));
        self.whole.load(Relaxed).wrapping_add(said)
    }

    fn begin(&self, changed: u64) {
        self.life.store(changed.wrapping_sub(self.changed.load(Relaxed)), Relaxed);
    }
}

impl Part<'_, AtomicU64> {
    /// Publishes that `bytes` of the memory that the process shares with its parent or children
    /// have changed.
    fn change(&self, bytes: u64) {
        self.changed.fetch_add(bytes, Relaxed);
        self.inherited.fetch_sub(bytes, Relaxed);
    }
}

impl Sharing {
    /// Begins to use a slot in which the numbers `changed` have these values.
    pub(crate) fn begin(&self, changed: [u64; 2]) {
        self.pool.begin(changed[0]);
        self.blocks.begin(changed[1]);
    }

    /// Records the bytes of the pool's pages, the bytes in these pages that no object uses, and the
    /// bytes of all objects that were freed or moved. Publishes the change in the process's slot.
    pub(crate) fn note_pool(&self, slot: Option<Slot<'_>>, pages: u64, room: u64, gone: u64) {
        self.pool.whole.store(pages.saturating_sub(WEIGHT * room), Relaxed);
        let changed = gone.saturating_mul(WEIGHT);
        // Another thread may have recorded a larger number.
        let more = changed.saturating_sub(self.pool.changed.fetch_max(changed, Relaxed));
        slot.inspect(|slot| slot.pool().change(more));
    }

    /// Records `bytes` of blocks that will be shared by the next fork.
    pub(crate) fn add_blocks(&self, bytes: u64) {
        self.blocks.whole.fetch_add(bytes, Relaxed);
    }

    /// Records that `bytes` of blocks are no longer shared.
    pub(crate) fn leave_blocks(&self, slot: Option<Slot<'_>>, bytes: u64) {
        self.blocks.whole.fetch_sub(bytes, Relaxed);
        self.blocks.changed.fetch_add(bytes, Relaxed);
        slot.inspect(|slot| slot.blocks().change(bytes));
    }

    /// Returns the bytes of the pool and of blocks that a child inherits if it is forked now. In a
    /// process that was just forked, returns the bytes that this process inherited.
    pub(crate) fn inherited(&self) -> [u64; 2] {
        [self.pool.inherited(), self.blocks.inherited()]
    }
}
