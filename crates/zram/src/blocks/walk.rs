//! The blocks that hold something, in their order, whichever words say so.

use crate::table::Table;
use zsmalloc::BesideSlot;

/// Blocks that may hold something; those that are left out hold nothing when they are passed. A block is a slot where
/// blocks are no more than that.
pub(crate) struct Blocks<'t, E: BesideSlot> {
    table: &'t Table<E>,
    /// The next one that has a word of its own, and the next that has a slot with one.
    own: Option<u32>,
    of_slot: Option<u32>,
}

impl<E: BesideSlot> Table<E> {
    /// Blocks from `block` on.
    pub(crate) fn blocks_from(&self, block: u64) -> Blocks<'_, E> {
        let (own, of_slot) = (self.next_own(block), self.next_of_slot(block));
        Blocks { table: self, own, of_slot }
    }

    /// The first block from `block` on that has a word.
    fn next_own(&self, block: u64) -> Option<u32> {
        let layout = self.shared.layout;
        let first = Some(layout.all_slots() + block).filter(|_| layout.has_blocks())?;
        Some((self.pool.first_made(first)? - layout.all_slots()) as u32)
    }

    /// The first one that has a slot with a word.
    fn next_of_slot(&self, block: u64) -> Option<u32> {
        let layout = self.shared.layout;
        let slot = self.pool.first_made(block << layout.order())?;
        (slot < layout.all_slots()).then(|| layout.block_of(slot as u32))
    }
}

impl<E: BesideSlot> Iterator for Blocks<'_, E> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let next = self.own.into_iter().chain(self.of_slot).min()?;
        let after = u64::from(next) + 1;
        if self.own == Some(next) {
            self.own = self.table.next_own(after);
        }
        if self.of_slot == Some(next) {
            self.of_slot = self.table.next_of_slot(after);
        }
        Some(next)
    }
}
