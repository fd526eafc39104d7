//! Iterates over the blocks that may hold data, in order, and determines where the data of their
//! slots are.

use super::change::is_unstored;
use super::{Table, is_slot_empty};
use crate::hook::hook;
use crate::slot;
use zsmalloc::EntryReadGuard;

/// An iterator over the blocks that may hold data. A block that the iterator skips holds no data at
/// the moment when it is skipped. On a device without blocks of several slots, a block is a slot.
pub(crate) struct BlockWalk<'t> {
    table: &'t Table,
    /// The first block that the iterator has not passed yet.
    from: u64,
    /// The next block that has an entry, according to the last search. Other threads can change the
    /// entry after the search.
    own: Option<u32>,
    /// The next block with a slot that has an entry, also according to the last search.
    of_slot: Option<u32>,
}

/// Returns an iterator over the blocks from `block` on.
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

    /// Returns the first block from `block` on that has a slot with an entry.
    fn next_of_slot(&self, block: u64) -> Option<u32> {
        let layout = self.table.layout;
        let slot = self.table.pool.first_made(block << layout.order())?;
        (slot < layout.all_slots()).then(|| layout.block_of(slot as u32))
    }

    /// Searches for the next block, first by the entries of blocks, then by the entries of slots.
    /// If slots become a block during the search, or a block becomes slots, their data move between
    /// these entries. Both searches can miss data that move. As in `is_unstored`, a change of the
    /// versions reveals such a move, and the result is the block after the last returned block.
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

/// The place where the data of a slot are.
#[derive(Debug)]
pub(crate) enum Origin<O, B> {
    /// The data are in the slot's own entry.
    Own(O),
    /// The slot's data are in its block's object.
    Block(B),
    /// The slot has no data.
    Nothing,
    /// The place is unknown, because the block had no entry to pin, and has been stored since then.
    /// The caller must begin again with the block.
    Changed,
}

/// Returns where the data of `slot` are. The arguments are the contents of the block's entry and of
/// the slot's own entry, `None` if empty. `is_unpinned` is true if the block had no entry to pin.
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

/// Pins the entry of a slot, if the entry is not empty. Most slots of a block have empty entries,
/// which are not pinned.
pub(crate) fn own_entry(table: &Table, slot: u32) -> Option<EntryReadGuard<'_>> {
    let pin = (!is_slot_empty(table, slot)).then(|| table.pool.read(slot));
    pin.filter(|pin| !slot::is_empty(pin.content()))
}

/// Returns true if all entries are empty.
pub(crate) fn is_unused(table: &Table) -> bool {
    let (mut next, mut is_unused) = (Some(0), true);
    while let Some(from) = next.filter(|_| is_unused) {
        next = table.pool.look_at_some(from, |_, _, _| is_unused = false);
    }
    is_unused
}
