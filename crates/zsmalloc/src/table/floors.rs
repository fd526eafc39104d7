//! The data of each leaf of handle slots. The data are kept even after the leaf's slots were
//! removed from the table.
//!
//! Free handle slots can be removed from the table. If a removed slot is created again, its
//! generation begins with the *floor* of its leaf. The floor is above the generations of all
//! earlier handles of removed slots, so a stale handle never matches a live object.

use super::chunks::Chunks;
use super::layout::LEAF;
use super::policy::FLOOR_LIFT_MAX;
use crate::Error;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use page::Supply;

/// The maximum generation. The minimum generation is 1. A handle has 20 bits for the generation.
pub(crate) const GENERATION_MAX: u32 = (1 << 20) - 1;

/// The data of a leaf of handle slots.
#[derive(Debug)]
pub(crate) struct HandleLeaf {
    /// The initial generation of slots that are created in the leaf, for the first time or again.
    floor: AtomicU32,
    /// The number of handle slots that are in use or worn out.
    pub(crate) used: AtomicU32,
}

impl HandleLeaf {
    pub(crate) fn floor(&self) -> u32 {
        self.floor.load(Relaxed)
    }
}

/// The floors of a table of handle slots.
#[derive(Debug)]
pub(super) struct Floors {
    /// The data of each leaf. The data of a leaf exist after an entry was created in this leaf, or
    /// in another leaf of the same chunk.
    pub(super) leaves: Chunks<HandleLeaf>,
    /// The initial floor of each leaf.
    first: u32,
}

impl Floors {
    pub(super) fn new(first: u32) -> Self {
        Floors { leaves: Chunks::new(), first }
    }

    /// Allocates the data of a leaf before an entry of the leaf is created.
    pub(super) fn make(&self, leaf: u64, supply: Option<&dyn Supply>) -> Result<(), Error> {
        let made = || HandleLeaf { floor: AtomicU32::new(self.first), used: AtomicU32::new(0) };
        self.leaves.get_or_make(leaf, supply, made).map(|_| ())
    }

    /// Returns the data of the leaf of an entry that exists or is about to be created.
    fn of(&self, index: u32) -> &HandleLeaf {
        match self.leaves.get(index as u64 / LEAF as u64) {
            Some(leaf) => leaf,
            None => unreachable!("handle slot {index} was made before the floor of its leaf"),
        }
    }

    /// Returns the initial generation of a slot that is created, for the first time or again.
    pub(super) fn fresh(&self, index: u32) -> u32 {
        self.of(index).floor()
    }

    /// Returns whether a free slot must be kept in the table.
    pub(super) fn stays(&self, index: u32, generation: u32) -> bool {
        is_worn_out(generation) || generation > self.of(index).floor() + FLOOR_LIFT_MAX
    }

    /// Raises the floor for a free slot that is removed from the table.
    pub(super) fn dropped(&self, index: u32, generation: u32) {
        self.of(index).floor.fetch_max(generation, Relaxed);
    }
}

/// Returns whether a slot with this generation is never used again.
pub(crate) fn is_worn_out(generation: u32) -> bool {
    generation > GENERATION_MAX
}
