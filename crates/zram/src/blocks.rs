//! Requests on a device whose blocks are several slots.
//!
//! ```text
//!   block's entry  | object: slots 0, 1, 3 |           a block written whole is one object
//!   slots' entries | -      | -      | 7777... | - |   same-filled ones are not in it; the others' entries are empty, or not there
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
//! there was none, asks [`Table::is_unstored`] for empty entries, and begins again if a block was
//! made meanwhile.
//!
//! Slots that were overwritten or discarded stay in the object, dead, until it is stored anew
//! without them.

mod cache;
mod object;
mod part;
mod walk;
mod whole;

pub(crate) use cache::{BlockCache, BlockVersions};
pub(crate) use object::{BlockObject, DEVICE_PRIORITY, Members, Packer};

use crate::Error;
use crate::cold::BackingPlace;
use crate::stats::{Held, Shard};
use crate::streams::BlockStream;
use crate::table::Table;
use cache::CachedBlock;
use std::sync::atomic::{Ordering::SeqCst, fence};
use zsmalloc::{Content, EntryWriteGuard, Old, Reservation};

impl Table {
    /// Whether a slot's entry is empty at this moment, or not there.
    pub(crate) fn is_slot_empty(&self, slot: u32) -> bool {
        self.pool.look_at(slot, |held, _| held).is_none_or(|held| held == Old::Inline(0))
    }

    /// The slots that are in a block which has an object: for as long as its entry is pinned or
    /// locked, else at this moment.
    pub(crate) fn live_members(&self, block: u32) -> Members {
        let slots = (0..).zip(self.shared.layout.slots_of(block));
        let live = slots.filter(|&(_, slot)| self.is_slot_empty(slot));
        live.fold(Members::default(), |live, (nth, _)| live.with(nth))
    }

    /// Whether a slot's block has something to say of it, or someone is about to give it that:
    /// where the slot's entry is locked and this says no, it stays so until that is unlocked
    /// (zr-B1).
    pub(crate) fn is_block_active(&self, slot: u32) -> bool {
        let layout = self.shared.layout;
        if !layout.has_blocks() {
            return false;
        }
        // After the slot's entry was locked: see `lock_slots`.
        fence(SeqCst);
        !self.pool.is_vacant(layout.block_entry(layout.block_of(slot)))
    }

    /// Whether a slot whose entry was found empty holds nothing, though its block's entry could not
    /// be pinned. If not, it has a block by now.
    pub(crate) fn is_unstored(&self, slot: u32) -> bool {
        let (layout, versions) = (self.shared.layout, &self.shared.versions);
        let block = layout.block_of(slot);
        let version = versions.now(block);
        // Who emptied the slot's entry to make a block has made and locked the block's, then raised
        // the version (zr-B4): the first is seen if the version was read after that, else the
        // second.
        let has_entry = self.pool.look_at(layout.block_entry(block), |_, _| ()).is_some();
        !has_entry && self.is_slot_empty(slot) && versions.now(block) == version
    }

    /// The slots that are in a block whose entry is locked.
    pub(crate) fn live_members_locked(&self, block: u32, entry: &EntryWriteGuard<'_>) -> Members {
        match entry.content() {
            Content::Inline(0) => Members::default(),
            _ => self.live_members(block),
        }
    }

    /// Locks the entries that there are of some slots of a block, whose own is locked.
    pub(crate) fn lock_slots(
        &self,
        block: u32,
        some: Members,
    ) -> impl Iterator<Item = (u32, EntryWriteGuard<'_>)> {
        // After the block's entry was locked: who has a slot's locked by now, and found the block's
        // vacant, is waited for; who locks one later finds the block's locked.
        fence(SeqCst);
        let first = self.shared.layout.first_slot(block);
        let slots = some.iter().map(move |nth| first + nth);
        slots.filter_map(|slot| Some((slot, self.pool.lock_existing(slot)?)))
    }

    pub(crate) fn lock_block(
        &self,
        block: u32,
        seconds: u32,
    ) -> Result<EntryWriteGuard<'_>, Error> {
        self.lock_entry(self.shared.layout.block_entry(block), seconds)
    }

    /// The object of a block, if it has one.
    pub(crate) fn block_object<'o>(
        &self,
        block: u32,
        content: Content<'o>,
    ) -> Result<Option<BlockObject<'o>>, Error> {
        let Content::Object { bytes, flags } = content else { return Ok(None) };
        let stored = BlockObject::new(bytes, flags, self.shared.layout.slots());
        stored.map(Some).ok_or_else(|| self.damaged(block))
    }

    pub(crate) fn corrupt(&self, block: u32, source: zcomp::Error) -> Error {
        Error::Corrupt { slot: self.shared.layout.first_slot(block).into(), source }
    }

    /// A block's object has not what it must have.
    pub(crate) fn damaged(&self, block: u32) -> Error {
        Error::Damaged { slot: self.shared.layout.first_slot(block).into() }
    }
}

/// A block's slots decompressed, and what to make an object of them with. Its entry is pinned or
/// locked.
fn decoded<'b>(
    table: &Table,
    blocks: &'b mut BlockStream,
    block: u32,
    stored: &BlockObject<'_>,
) -> Result<(&'b CachedBlock, &'b mut Packer), Error> {
    let BlockStream { packer, cache } = blocks;
    let version = table.shared.versions.now(block);
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
    pub(crate) new: Option<(Reservation<'t>, &'b [u8], u8)>,
    /// How many slots are in it, before and afterwards.
    pub(crate) live: [u32; 2],
}

impl<'t, W: IntoIterator<Item = (EntryWriteGuard<'t>, u64)>> BlockUpdate<'t, '_, W> {
    /// Changes it, and counts that; what the block's entry held.
    pub(crate) fn apply(self, table: &'t Table, shard: &Shard) -> Old {
        let (slots, (block, entry)) = (table.shared.layout.slots(), self.block);
        table.shared.versions.raise(block);
        for (entry, payload) in self.slots {
            table.set_slot(shard, entry, payload);
        }
        let held_before = held(entry.content(), slots);
        let (old, held_now) = match self.new {
            Some((room, bytes, flags)) => {
                let now = held(Content::Object { bytes, flags }, slots);
                (table.commit(entry, room, bytes, flags), now)
            }
            None => (entry.set_payload(0), Held::Nothing),
        };
        shard.changed(held_before, held_now);
        shard.changed_live(self.live);
        table.release_backing(old);
        old
    }
}

/// What a block's entry holds.
pub(crate) fn held(content: Content<'_>, slots: u32) -> Held {
    let Content::Object { bytes, flags } = content else {
        let away =
            BackingPlace::of_content(content).map(|place| Held::BlockAway { slots: place.slots });
        return away.unwrap_or(Held::Nothing);
    };
    let stored = BlockObject::new(bytes, flags, slots);
    let (slots, is_raw) = stored.map_or((0, false), |of| (of.members.count(), of.is_raw()));
    Held::Block { bytes: bytes.len(), slots, is_raw }
}
