//! The blocks that hold something, in their order, whichever entries say so.

use crate::hook::hook;
use crate::table::Table;

/// Blocks that may hold something; those that are left out held nothing when they were passed. A
/// block is a slot where blocks are no more than that.
pub(crate) struct BlockWalk<'t> {
    table: &'t Table,
    /// The first that was not passed.
    from: u64,
    /// Where a block was found that has an entry of its own, and one that has a slot with an entry.
    /// What lies before may have changed since.
    own: Option<u32>,
    of_slot: Option<u32>,
}

impl Table {
    /// Blocks from `block` on.
    pub(crate) fn blocks_from(&self, block: u64) -> BlockWalk<'_> {
        BlockWalk { table: self, from: block, own: None, of_slot: None }
    }

    /// The first block from `block` on that has an entry.
    fn next_own(&self, block: u64) -> Option<u32> {
        let layout = self.shared.layout;
        let first = Some(layout.all_slots() + block).filter(|_| layout.has_blocks())?;
        Some((self.pool.first_made(first)? - layout.all_slots()) as u32)
    }

    /// The first one that has a slot with an entry.
    fn next_of_slot(&self, block: u64) -> Option<u32> {
        let layout = self.shared.layout;
        let slot = self.pool.first_made(block << layout.order())?;
        (slot < layout.all_slots()).then(|| layout.block_of(slot as u32))
    }
}

impl BlockWalk<'_> {
    /// The next block, found now. Slots that become a block, or are it no more, while they are
    /// passed have entries on one side and then on the other, and those on the first may be gone by
    /// then (`tidy`): in the order of `is_unstored` that is known by the versions, and then the
    /// next block is looked at by itself.
    fn find(&mut self) -> Option<u32> {
        let (layout, versions) = (self.table.shared.layout, &self.table.shared.versions);
        let before = versions.sum();
        self.own = self.table.next_own(self.from);
        hook("walk");
        self.of_slot = self.table.next_of_slot(self.from);
        let next = self.own.into_iter().chain(self.of_slot).min();
        if versions.sum() == before {
            return next;
        }
        let all = layout.all_slots().div_ceil(layout.slots().into());
        (self.from < all).then_some(self.from as u32)
    }
}

impl Iterator for BlockWalk<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let is_next = |found: Option<u32>| found.is_some_and(|of| u64::from(of) == self.from);
        let next = match is_next(self.own) || is_next(self.of_slot) {
            true => self.from as u32,
            false => self.find()?,
        };
        self.from = u64::from(next) + 1;
        if self.own == Some(next) {
            self.own = self.table.next_own(self.from);
        }
        if self.of_slot == Some(next) {
            self.of_slot = self.table.next_of_slot(self.from);
        }
        Some(next)
    }
}
