//! Floors: what is kept of a leaf of handle slots, also of those that went from the table.
//!
//! A free handle slot may go: the floor of its leaf is the generation that all begin with that come
//! anew, above all that were given out before. So a stale handle is never taken for a live one.

use super::chunks::Chunks;
use super::layout::LEAF;
use crate::Error;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use page::Supply;

/// Generations are 1 to this: 20 bits of a handle.
pub(crate) const GENERATION_MAX: u32 = (1 << 20) - 1;
/// How far a handle slot that goes may lift its leaf's floor: for one that is used much, the others
/// would age too.
pub(crate) const LIFT: u32 = 256;

/// What is kept of a leaf.
#[derive(Debug)]
pub(crate) struct HandleLeaf {
    /// The generation of slots that come anew.
    floor: AtomicU32,
    /// Handle slots that are given out, or worn out.
    pub(crate) used: AtomicU32,
}

impl HandleLeaf {
    pub(crate) fn floor(&self) -> u32 {
        self.floor.load(Relaxed)
    }
}

/// The leaves of a table of handle slots.
#[derive(Debug)]
pub(super) struct Floors {
    /// What is kept of a leaf, once an entry of it or of one nearby was made.
    pub(super) leaves: Chunks<HandleLeaf>,
    /// The generation that all slots begin with.
    first: u32,
}

impl Floors {
    pub(super) fn new(first: u32) -> Self {
        Floors { leaves: Chunks::new(), first }
    }

    /// Has something kept of a leaf, an entry of which is about to be made.
    pub(super) fn make(&self, leaf: u64, supply: Option<&dyn Supply>) -> Result<(), Error> {
        let made = || HandleLeaf { floor: AtomicU32::new(self.first), used: AtomicU32::new(0) };
        self.leaves.get_or_make(leaf, supply, made).map(|_| ())
    }

    /// The leaf of an entry that there is, or is about to be.
    fn of(&self, index: u32) -> &HandleLeaf {
        match self.leaves.get(index as u64 / LEAF as u64) {
            Some(leaf) => leaf,
            None => unreachable!("handle slot {index} was made before the floor of its leaf"),
        }
    }

    /// Returns the generation of a slot that is made anew.
    pub(super) fn fresh(&self, index: u32) -> u32 {
        self.of(index).floor()
    }

    /// Returns whether a slot stays in the table when it is free.
    pub(super) fn stays(&self, index: u32, generation: u32) -> bool {
        is_worn_out(generation) || generation > self.of(index).floor() + LIFT
    }

    /// A free slot goes from the table.
    pub(super) fn dropped(&self, index: u32, generation: u32) {
        self.of(index).floor.fetch_max(generation, Relaxed);
    }
}

/// Returns whether a slot with this generation is never given out again.
pub(crate) fn is_worn_out(generation: u32) -> bool {
    generation > GENERATION_MAX
}
