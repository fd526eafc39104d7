//! Requests on a device whose blocks are several slots.
//!
//! ```text
//!   block's entry  | object: slots 0, 1, 3 |           a block written whole is one object
//!   slots' entries | -      | -      | 7777... | - |   only same-filled slots have entries
//!                  | -      | object | 7777... | hole |   then 1 was written, and 3 discarded
//! ```
//! A slot's entry says where its data are; an empty one, as one that was never made, says *as the
//! block has it*. While a block has an object, all its slots with empty entries are in that; those
//! that hold nothing are holes. While it has none, they hold nothing (zr-B2).
//!
//! A slot's entry becomes empty, or is empty no more, with its block's entry locked exclusively; or
//! with its own lock alone, if with that the block's entry was seen to be vacant (zr-B1). A thread
//! that locks a block to give it an object then locks the entries of its slots that there are: so
//! of the two, one sees the other. The block's entry is locked before those of its slots, and a
//! thread that has a slot's locked waits for no block's (zr-B3). So a thread that has a block's
//! entry pinned finds in its object what has an empty entry. A reader that could not pin it, as
//! there was none, asks [`is_unstored`] for empty entries, and begins again if a block was
//! made meanwhile.
//!
//! Slots that were overwritten or discarded stay in the object, dead, until it is stored anew
//! without them.

use super::{Table, is_slot_empty};
use crate::Error;
use crate::block::{BlockKind, BlockObject, BlockStream, CachedBlock, Members, Packer};
use crate::counters::{Shard, Weight};
use crate::layout::Item;
use crate::slot::{self, Flags, Payload, Slot};
use std::sync::atomic::{Ordering::SeqCst, fence};
use zsmalloc::{Content, EntryWriteGuard, Old, Reservation};

/// Returns the slots that are in a block which has an object: for as long as its entry is pinned or
/// locked, else at this moment.
pub(crate) fn live_members(table: &Table, block: u32) -> Members {
    let slots = (0..).zip(table.layout.slots_of(block));
    let live = slots.filter(|&(_, slot)| is_slot_empty(table, slot));
    live.fold(Members::default(), |live, (nth, _)| live.with(nth))
}

/// Returns whether a slot whose entry was found empty holds nothing, though its block's entry could
/// not be pinned. If not, it has a block by now.
pub(crate) fn is_unstored(table: &Table, slot: u32) -> bool {
    let (layout, versions) = (table.layout, &table.versions);
    let block = layout.block_of(slot);
    let version = versions.now(block);
    // A thread that emptied the slot's entry for a block has made and locked the block's entry,
    // then raised the version (zr-B4). If the version was read after that, the block's entry is
    // seen; else the versions differ.
    let has_entry = table.pool.look_at(layout.block_entry(block), |_, _| ()).is_some();
    !has_entry && is_slot_empty(table, slot) && versions.now(block) == version
}

/// Returns the slots that are in a block whose entry is locked.
pub(crate) fn live_members_locked(
    table: &Table,
    block: u32,
    entry: &EntryWriteGuard<'_>,
) -> Members {
    match slot::is_empty(entry.content()) {
        true => Members::default(),
        false => live_members(table, block),
    }
}

/// Locks the entries that there are of some slots of a block, whose own is locked.
pub(crate) fn lock_slots(
    table: &Table,
    block: u32,
    some: Members,
) -> impl Iterator<Item = (u32, EntryWriteGuard<'_>)> {
    // This comes after the block's entry was locked: it waits for a thread that has a slot's entry
    // locked and found the block's vacant, and a thread that locks one later finds the block's
    // locked (zr-B1).
    fence(SeqCst);
    let first = table.layout.first_slot(block);
    let slots = some.iter().map(move |nth| first + nth);
    slots.filter_map(|slot| Some((slot, table.pool.lock_existing(slot)?)))
}

/// The object of a block, if it has one.
pub(crate) fn block_object<'o>(
    table: &Table,
    block: u32,
    content: Content<&'o [u8]>,
) -> Result<Option<BlockObject<'o>>, Error> {
    let Content::Object { bytes, flags } = content else { return Ok(None) };
    let stored = BlockObject::new(bytes, Flags::from_bits(flags), table.layout.slots());
    stored.map(Some).ok_or_else(|| table.damaged(block))
}

/// Returns a block's slots decompressed, and what to make an object of them with. Its entry is
/// pinned or locked.
pub(crate) fn decoded<'b>(
    table: &Table,
    blocks: &'b mut BlockStream,
    block: u32,
    stored: &BlockObject<'_>,
) -> Result<(&'b CachedBlock, &'b mut Packer), Error> {
    let BlockStream { packer, cache } = blocks;
    let version = table.versions.now(block);
    let decoded = cache.get(block, version, |buf| {
        let decoded = stored.decode(&mut packer.codecs, buf);
        decoded.map(|()| stored.members).map_err(|source| table.corrupt(block, source))
    })?;
    Ok((decoded, packer))
}

/// What is to be changed of a block whose entry is locked.
pub(crate) struct BlockUpdate<'t, 'b, W> {
    pub(crate) block: (u32, EntryWriteGuard<'t>),
    /// Entries of its slots, and what they are to hold.
    pub(crate) slots: W,
    /// The object, and its flags; none, where nothing is to be in it.
    pub(crate) new: Option<(Reservation<'t>, &'b [u8], Flags)>,
    /// How many slots are in it, before and afterwards.
    pub(crate) live: [u32; 2],
}

impl<'t, W: IntoIterator<Item = (EntryWriteGuard<'t>, Payload)>> BlockUpdate<'t, '_, W> {
    /// Changes it, and counts that; what the block's entry held.
    pub(crate) fn apply(self, table: &'t Table, shard: &Shard) -> Old {
        let (slots, (block, entry)) = (table.layout.slots(), self.block);
        table.versions.raise(block);
        for (entry, payload) in self.slots {
            table.set_slot(shard, entry, payload);
        }
        let before = BlockKind::of(entry.content(), slots);
        let (old, now) = match self.new {
            Some((room, bytes, flags)) => {
                let now = BlockKind::of(Content::Object { bytes, flags: flags.bits() }, slots);
                (table.commit(entry, room, bytes, flags), now)
            }
            None => (entry.set_payload(Payload::EMPTY.bits()), BlockKind::Empty),
        };
        shard.changed(before.weight(), now.weight());
        shard.changed_live(self.live);
        table.release_backing(old);
        old
    }
}

/// What an entry adds to the counters by what it holds.
pub(crate) fn weight_of(table: &Table, item: Item, content: Content<&[u8]>) -> Weight {
    match item {
        Item::Slot(_) => Slot::of(content).kind().weight(),
        Item::Block(_) => BlockKind::of(content, table.layout.slots()).weight(),
    }
}
