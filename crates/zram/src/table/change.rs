//! Blocks of several slots: which slots are in a block, and changes of blocks.
//!
//! ```text
//!   block's entry  | object: slots 0, 1, 3 |           a block written whole is one object
//!   slots' entries | -      | -      | 7777... | - |   only same-filled slots have entries
//!                  | -      | object | 7777... | hole |   then 1 was written, and 3 discarded
//! ```
//! A slot's entry encodes where the slot's data are. If a slot's entry is empty or does not exist,
//! the block's entry decides. While a block has an object, that object contains the data of all the
//! block's slots with empty entries. A slot without data then has the entry of a hole. While the
//! block has no object, slots with empty entries have no data (zr-B2).
//!
//! A thread is allowed to make a slot's entry empty or non-empty only while it has the block's
//! entry locked exclusively. A thread that has only the slot's entry locked is allowed to change
//! that entry, too, if it then finds the block's entry vacant (zr-B1). A thread that stores a
//! block's object first locks the block's entry, and then the existing entries of the block's
//! slots. So if one thread changes a slot while another thread stores the slot's block, at least
//! one thread detects the conflict.
//!
//! A block's entry is locked before the entries of the block's slots. A thread that has a slot's
//! entry locked never waits for the entry of a block (zr-B3).
//!
//! While a reader has the block's entry pinned, the object contains every slot with an empty entry.
//! If the block had no entry to pin, the reader calls [`is_unstored`] for each empty entry of a
//! slot. If the block was stored during the read, the reader begins again.
//!
//! Slots that were overwritten or discarded remain in the object as dead members until the block is
//! rewritten without them.

use super::{Table, is_slot_empty};
use crate::Error;
use crate::block::{BlockKind, BlockObject, BlockStream, CachedBlock, Members, Packer};
use crate::counters::{Shard, Weight};
use crate::layout::Item;
use crate::slot::{self, Flags, Payload, Slot};
use std::sync::atomic::{Ordering::SeqCst, fence};
use zsmalloc::{Content, EntryWriteGuard, Old, Reservation};

/// Returns the live members of a block that has an object. While the block's entry is pinned or
/// locked, the result remains valid. Otherwise, it may be outdated at once.
pub(crate) fn live_members(table: &Table, block: u32) -> Members {
    let slots = (0..).zip(table.layout.slots_of(block));
    let live = slots.filter(|&(_, slot)| is_slot_empty(table, slot));
    live.fold(Members::default(), |live, (nth, _)| live.with(nth))
}

/// Returns true if a slot holds no data. The caller found the slot's entry empty, and could not pin
/// the block's entry. If the result is false, another request may have stored the block since.
pub(crate) fn is_unstored(table: &Table, slot: u32) -> bool {
    let (layout, versions) = (table.layout, &table.versions);
    let block = layout.block_of(slot);
    let version = versions.now(block);
    // A thread that stores the block locks the block's entry, raises the version, and then empties
    // the slot's entry (zr-B4). If `version` was read after the raise, the look-up below finds the
    // block's entry. If `version` was read before the raise, the versions differ.
    let has_entry = table.pool.look_at(layout.block_entry(block), |_, _| ()).is_some();
    !has_entry && is_slot_empty(table, slot) && versions.now(block) == version
}

/// Returns the live members of a block whose entry is locked.
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

/// Locks the existing entries of some slots of a block. The caller has the block's entry locked.
pub(crate) fn lock_slots(
    table: &Table,
    block: u32,
    some: Members,
) -> impl Iterator<Item = (u32, EntryWriteGuard<'_>)> {
    // The block's entry was locked before this fence. A thread that locked a slot's entry before
    // the fence may have found the block's entry vacant. The locks below wait for that thread. A
    // thread that locks a slot's entry after the fence finds the block's entry locked (zr-B1).
    fence(SeqCst);
    let first = table.layout.first_slot(block);
    let slots = some.iter().map(move |nth| first + nth);
    slots.filter_map(|slot| Some((slot, table.pool.lock_existing(slot)?)))
}

pub(crate) fn block_object<'o>(
    table: &Table,
    block: u32,
    content: Content<&'o [u8]>,
) -> Result<Option<BlockObject<'o>>, Error> {
    let Content::Object { bytes, flags } = content else { return Ok(None) };
    let stored = BlockObject::new(bytes, Flags::from_bits(flags), table.layout.slots());
    stored.map(Some).ok_or_else(|| table.damaged(block))
}

/// Returns a block's decompressed slots, and the packer that compresses them into a new object. The
/// caller has the block's entry pinned or locked.
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

/// A change of a block whose entry is locked.
pub(crate) struct BlockUpdate<'t, 'b, W> {
    pub(crate) block: (u32, EntryWriteGuard<'t>),
    /// The entries of the block's slots that change, and the new payloads of these entries.
    pub(crate) slots: W,
    /// The new object with its flags; `None` removes the object.
    pub(crate) new: Option<(Reservation<'t>, &'b [u8], Flags)>,
    /// The number of live members before and after the change.
    pub(crate) live: [u32; 2],
}

impl<'t, W: IntoIterator<Item = (EntryWriteGuard<'t>, Payload)>> BlockUpdate<'t, '_, W> {
    /// Applies and counts the change. Returns the previous content of the block's entry.
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

/// Returns the contribution of an entry with this content to the counters.
pub(crate) fn weight_of(table: &Table, item: Item, content: Content<&[u8]>) -> Weight {
    match item {
        Item::Slot(_) => Slot::of(content).kind().weight(),
        Item::Block(_) => BlockKind::of(content, table.layout.slots()).weight(),
    }
}
