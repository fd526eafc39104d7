//! What happens to parts of a block: slots of it are overwritten or freed, and it is stored anew
//! without them.

use super::{BlockUpdate, DEVICE_PRIORITY, Members, decoded};
use crate::cold::BackingPlace;
use crate::layout::Item;
use crate::parts::SlotRange;
use crate::request::{Request, store_slot};
use crate::slot::{self, ACCESSED, IDLE};
use crate::stop::Blocked;
use crate::streams::Workspace;
use crate::table::Table;
use crate::{Error, SLOT_BYTES, fill};
use std::ops::Range;
use zsmalloc::{Content, EntryWriteGuard, Old};

/// Blocks that a discard looks at before it gives its stream back.
const BLOCKS: usize = 1 << 14;
/// A block is stored anew without its dead slots when they are this share of it, or of all there
/// are on the device too many are dead.
const DEAD_SHARE: u32 = 2;
const DEAD_SHARE_OF_ALL: u64 = 32;

/// When a block is stored anew without its dead slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewrite {
    /// When it is worth it.
    IfWorth,
    /// If it has any.
    IfDead,
}

impl Request<'_> {
    /// Writes to a slot that is in its block, zeros without `data`; false if it no longer is.
    pub(crate) fn write_member(
        &mut self,
        range: &SlotRange,
        data: Option<&[u8]>,
    ) -> Result<bool, Blocked> {
        let (table, layout) = (self.table, self.layout());
        let block = layout.block_of(range.slot);
        let block_entry = layout.block_entry(block);
        let entry = table.pool.lock_existing(block_entry);
        let Some(entry) = entry.filter(|entry| entry.content() != Content::Inline(0)) else {
            return Ok(false);
        };
        // Where none can be made, the slot is in its block, and stays so.
        let slot_entry = table.lock(range.slot, self.now_seconds);
        if slot_entry.as_ref().is_ok_and(|entry| entry.content() != Content::Inline(0)) {
            return Ok(false);
        }
        let nth = range.slot - layout.first_slot(block);
        let mut slot = [0; SLOT_BYTES];
        if !range.is_whole() {
            let content = self.resolve(block_entry, entry.content(), Some(entry.row()))?;
            let Some(stored) = table.block_object(block, content)? else { return Ok(false) };
            let decoded = decoded(table, self.workspace.blocks(), block, &stored)?.0;
            slot.copy_from_slice(decoded.slot(nth).ok_or_else(|| table.damaged(block))?);
        }
        range.change(&mut slot, data);
        let Workspace { codecs, scratch, .. } = &mut *self.workspace;
        let encoded = slot::encode(&slot, codecs.own(), &mut **scratch, table.shared.huge_size)?;
        self.shard.block_io.count_write(false);
        let put = |entry| store_slot(table, self.shard, (range.slot, entry), encoded, ACCESSED);
        match slot_entry.and_then(put) {
            Ok(_) => {
                self.shard.changed_live([1, 0]);
                self.drop_dead_members(block, entry, Rewrite::IfWorth);
                Ok(true)
            }
            // No room beside the block, or no entry to say so: it is stored anew with the slot, at
            // its own place if it fits (I6).
            Err(refused) => {
                if BackingPlace::of_content(entry.content()).is_some() {
                    return Err(refused.into());
                }
                let members = table.live_members(block);
                let stored_anew = self.rewrite_block(block, entry, members, Some((nth, &slot)));
                stored_anew.map(|()| true).map_err(|_| refused.into())
            }
        }
    }

    /// Stores a block that is locked anew: of what it has, `members` alone, one of them changed if
    /// there is a `patch`. Only then is it an access.
    fn rewrite_block(
        &mut self,
        block: u32,
        entry: EntryWriteGuard<'_>,
        members: Members,
        patch: Option<(u32, &[u8])>,
    ) -> Result<(), Error> {
        let table = self.table;
        table.verify(table.shared.layout.block_entry(block), entry.content(), Some(entry.row()))?;
        let Some(stored) = table.block_object(block, entry.content())? else { return Ok(()) };
        if members.iter().any(|nth| !stored.members.has(nth)) {
            return Err(table.damaged(block));
        }
        let (decoded, packer) = decoded(table, self.workspace.blocks(), block, &stored)?;
        let slot = |nth| match patch {
            Some((patched, bytes)) if patched == nth => bytes,
            _ => decoded.slot(nth).unwrap_or_default(),
        };
        // Not by another algorithm than it was found worth; but what is written, by the device's
        // own.
        let priority = if patch.is_some() { DEVICE_PRIORITY } else { stored.priority };
        let object = packer.pack(members, priority, slot)?;
        let first = self.table.shared.layout.first_slot(block);
        let room =
            entry.reserve(object).map_err(|error| table.shared.out_of_memory(first, error))?;
        let access = match patch {
            Some(_) => {
                entry.row().set_access_time(self.now_seconds);
                ACCESSED
            }
            None => slot::flags_of(entry.content()) & IDLE,
        };
        let new = Some((room, object, priority | access));
        BlockUpdate { block: (block, entry), slots: [], new, live: [0; 2] }
            .apply(table, self.shard);
        self.shard.block_io.rewrites.add(1);
        Ok(())
    }

    /// Frees the object of a block that is locked, if none of its slots is in it any more, or
    /// stores it anew without the dead ones. Where there is no room for that they stay.
    fn drop_dead_members(&mut self, block: u32, entry: EntryWriteGuard<'_>, when: Rewrite) {
        let table = self.table;
        let live = table.live_members_locked(block, &entry);
        let is_away = BackingPlace::of_content(entry.content()).is_some();
        let stored = table.block_object(block, entry.content());
        if live == Members::default() && (is_away || matches!(stored, Ok(Some(_)))) {
            self.free_block((block, entry), live, Members::default());
            return;
        }
        // What is away keeps its dead slots until all are.
        let Ok(Some(stored)) = stored else { return };
        let (count, dead) = (stored.members.count(), stored.members.count() - live.count());
        let is_worth = || {
            let (all, all_dead) = table.shared.counters.in_objects();
            dead * DEAD_SHARE >= count || all_dead * DEAD_SHARE_OF_ALL > all
        };
        if dead > 0 && (when == Rewrite::IfDead || is_worth()) {
            let _ = self.rewrite_block(block, entry, live, None);
        }
    }

    /// Frees the object of a block that is locked, and `slots` of it: with those that are in it,
    /// `live`. There are no holes then.
    fn free_block(
        &self,
        (block, entry): (u32, EntryWriteGuard<'_>),
        live: Members,
        slots: Members,
    ) {
        let (table, layout) = (self.table, self.layout());
        let first = layout.first_slot(block);
        let entries = table.lock_slots(block, Members::all(layout.slots()));
        let entries = entries.filter_map(|(slot, entry)| {
            let is_hole = entry.content() == Content::Inline(fill::HOLE);
            (is_hole || slots.has(slot - first)).then_some((entry, 0))
        });
        let entries: Vec<_> = entries.collect();
        let live = [live.count(), 0];
        BlockUpdate { block: (block, entry), slots: entries, new: None, live }
            .apply(table, self.shard);
    }

    /// Frees the first of some slots; from where to go on. An error is noted, and the others go on.
    pub(crate) fn free_blocks(&mut self, slots: Range<u64>, done: &mut Result<(), Error>) -> u64 {
        let layout = self.layout();
        let mut next = slots.start;
        let mut blocks = self.table.blocks_from(next / u64::from(layout.slots()));
        for _ in 0..BLOCKS {
            let block =
                blocks.next().filter(|&block| u64::from(layout.first_slot(block)) < slots.end);
            let Some(block) = block else {
                next = slots.end;
                break;
            };
            let Range { start, end } = layout.slots_of(block);
            let of_it = u64::from(start).max(slots.start)..u64::from(end).min(slots.end);
            next = of_it.end;
            let of_it = of_it.start as u32..of_it.end as u32;
            let mut freed = std::iter::repeat_with(|| self.free_members(block, of_it.clone()));
            if let Some(Err(error)) = freed.find(|freed| *freed != Ok(false)) {
                *done = Err(error);
            }
        }
        self.shard.notify_free.add((next - slots.start) as i64);
        next
    }

    /// Frees some slots of a block; false if it was made meanwhile. An error leaves the slots alone
    /// that it is of.
    fn free_members(&mut self, block: u32, slots: Range<u32>) -> Result<bool, Error> {
        let (table, layout) = (self.table, self.layout());
        let first = layout.first_slot(block);
        let some = slots.map(|slot| slot - first).fold(Members::default(), Members::with);
        let block_entry = table.pool.lock_existing(layout.block_entry(block));
        let Some(entry) = block_entry.filter(|entry| entry.content() != Content::Inline(0)) else {
            for (slot, entry) in table.lock_slots(block, some) {
                if table.is_block_active(slot) {
                    return Ok(false);
                }
                table.set_slot(self.shard, entry, 0);
            }
            return Ok(true);
        };
        let live = table.live_members_locked(block, &entry);
        if live.without(some) == Members::default() {
            self.free_block((block, entry), live, some);
            return Ok(true);
        }
        let mut done = Ok(true);
        for nth in some.iter() {
            // One that is in the block needs an entry, to say that it no longer is. Others have
            // theirs.
            match table.lock(first + nth, self.now_seconds) {
                Ok(slot) => {
                    table.set_slot(self.shard, slot, fill::HOLE);
                    self.shard.changed_live([live.has(nth).into(), 0]);
                }
                Err(error) => done = Err(error),
            }
        }
        self.drop_dead_members(block, entry, Rewrite::IfWorth);
        done
    }
}

impl Table {
    /// Stores all blocks anew that have dead slots.
    pub(crate) fn rewrite_all(&self) {
        let layout = self.shared.layout;
        let (_, dead) = self.shared.counters.in_objects();
        let mut next = Some(0).filter(|_| dead > 0);
        let mut blocks = Vec::new();
        while let Some(from) = next {
            next = self.pool.look_at_some(from, |entry, held, _| {
                if let (Item::Block(block), Old::Object { .. }) = (layout.item_of(entry), held) {
                    blocks.push(block);
                }
            });
            for block in blocks.drain(..) {
                let mut request = Request::begin(self);
                if let Some(entry) = self.pool.lock_existing(layout.block_entry(block)) {
                    request.drop_dead_members(block, entry, Rewrite::IfDead);
                }
            }
        }
    }
}
