//! The blocks that hold something, in their order, whichever entries say so; and where the data of
//! their slots are.

use super::change::is_unstored;
use super::{Table, is_slot_empty};
use crate::hook::hook;
use crate::slot;
use zsmalloc::EntryReadGuard;

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

/// Blocks from `block` on.
pub(crate) fn blocks_from(table: &Table, block: u64) -> BlockWalk<'_> {
    BlockWalk { table, from: block, own: None, of_slot: None }
}

impl BlockWalk<'_> {
    /// Returns the first block from `block` on that has an entry.
    fn next_own(&self, block: u64) -> Option<u32> {
        let layout = self.table.layout;
        let first = Some(layout.all_slots() + block).filter(|_| layout.has_blocks())?;
        Some((self.table.pool.first_made(first)? - layout.all_slots()) as u32)
    }

    /// Returns the first one that has a slot with an entry.
    fn next_of_slot(&self, block: u64) -> Option<u32> {
        let layout = self.table.layout;
        let slot = self.table.pool.first_made(block << layout.order())?;
        (slot < layout.all_slots()).then(|| layout.block_of(slot as u32))
    }

    /// Returns the next block, found now. Slots that become a block, or are it no more, while they
    /// are passed have entries on one side and then on the other, and those on the first may be
    /// gone by then (`tidy`): in the order of `is_unstored` that is known by the versions, and then
    /// the next block is looked at by itself.
    fn find(&mut self) -> Option<u32> {
        let (layout, versions) = (self.table.layout, &self.table.versions);
        let before = versions.sum();
        self.own = self.next_own(self.from);
        hook("walk");
        self.of_slot = self.next_of_slot(self.from);
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
            self.own = self.next_own(self.from);
        }
        if self.of_slot == Some(next) {
            self.of_slot = self.next_of_slot(self.from);
        }
        Some(next)
    }
}

/// Where the data of a slot are.
#[derive(Debug)]
pub(crate) enum Origin<O, B> {
    /// In an entry of its own.
    Own(O),
    /// In its block's object.
    Block(B),
    /// There are none.
    Nothing,
    /// That is unknown: its block had no entry that could be pinned, and was made since. The caller
    /// begins again with the block.
    Changed,
}

/// Tells where the data of `slot` are by what its block's entry holds, if that holds anything, and
/// then its own. `is_unpinned` says that the block's entry was to be pinned, and was not there.
pub(crate) fn origin<O, B>(
    table: &Table,
    slot: u32,
    is_unpinned: bool,
    block: Option<B>,
    own: Option<O>,
) -> Origin<O, B> {
    match (own, block) {
        (Some(own), _) => Origin::Own(own),
        (None, _) if is_unpinned && !is_unstored(table, slot) => Origin::Changed,
        (None, Some(block)) => Origin::Block(block),
        (None, None) => Origin::Nothing,
    }
}

/// Pins the entry of a slot, if that holds something. Most of a block's slots have nothing of their
/// own: no pin for those.
pub(crate) fn own_entry(table: &Table, slot: u32) -> Option<EntryReadGuard<'_>> {
    let pin = (!is_slot_empty(table, slot)).then(|| table.pool.read(slot));
    pin.filter(|pin| !slot::is_empty(pin.content()))
}

/// Returns whether no entry holds anything.
pub(crate) fn is_unused(table: &Table) -> bool {
    let (mut next, mut is_unused) = (Some(0), true);
    while let Some(from) = next.filter(|_| is_unused) {
        next = table.pool.look_at_some(from, |_, _, _| is_unused = false);
    }
    is_unused
}
