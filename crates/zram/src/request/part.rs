//! Overwrites or frees some of the slots of a block.

use super::Request;
use super::rewrite::{Rewrite, drop_dead_members, free_block, rewrite_block};
use crate::block::Members;
use crate::layout::Part;
use crate::policy::DISCARD_BLOCKS_PER_STREAM;
use crate::slot::{self, BackingPlace, Payload};
use crate::streams::Workspace;
use crate::table::{
    Blocked, block_object, blocks_from, decoded, is_block_active, live_members,
    live_members_locked, lock_slots,
};
use crate::{Error, SLOT_BYTES};
use std::ops::Range;

/// Writes `data`, or zeros if `data` is `None`, to a slot that is a live member of its block.
/// Returns `Blocked::Changed` if the slot is no longer a live member.
pub(super) fn write_member(
    request: &mut Request<'_>,
    range: &Part,
    data: Option<&[u8]>,
) -> Result<(), Blocked> {
    let (table, layout) = (request.table, request.table.layout);
    let block = layout.block_of(range.nth);
    let block_entry = layout.block_entry(block);
    let entry = table.pool.lock_existing(block_entry);
    let entry = entry.filter(|entry| !slot::is_empty(entry.content())).ok_or(Blocked::Changed)?;
    // If `lock` fails, the slot has no entry, so the slot is still a member of its block.
    let slot_entry = table.lock(range.nth, request.now_seconds);
    if slot_entry.as_ref().is_ok_and(|entry| !slot::is_empty(entry.content())) {
        return Err(Blocked::Changed);
    }
    let nth = range.nth - layout.first_slot(block);
    let mut slot = [0; SLOT_BYTES];
    if !range.is_whole_slot() {
        let (content, row) = (entry.content(), Some(entry.row()));
        let content = table.resolve(block_entry, content, row, request.read_back)?;
        let stored = block_object(table, block, content)?.ok_or(Blocked::Changed)?;
        let decoded = decoded(table, request.workspace.blocks(), block, &stored)?.0;
        slot.copy_from_slice(decoded.slot(nth).ok_or_else(|| table.damaged(block))?);
    }
    range.change(&mut slot, data);
    let Workspace { codecs, scratch, .. } = &mut *request.workspace;
    let encoded = slot::encode(&slot, codecs.own(), &mut **scratch, table.huge_size)?;
    request.shard.block_io.count_write(false);
    let store = |entry| table.store(request.shard, (range.nth, entry), encoded);
    match slot_entry.and_then(store) {
        Ok(_) => {
            request.shard.changed_live([1, 0]);
            drop_dead_members(request, block, entry, Rewrite::IfWorth);
            Ok(())
        }
        // No memory is available for the slot's own object or entry, so the block is rewritten with
        // the new slot. If the new object fits, it takes the place of the old object (I6).
        Err(refused) => {
            if BackingPlace::of(entry.content()).is_some() {
                return Err(refused.into());
            }
            let members = live_members(table, block);
            let stored_anew = rewrite_block(request, block, entry, members, Some((nth, &slot)));
            stored_anew.map_err(|_| refused.into())
        }
    }
}

/// Frees the slots `slots` in a limited number of blocks. Returns the slot at which the next call
/// continues. If a block's slots can't be freed, stores the error in `done`, and continues with the
/// next block.
pub(super) fn free_blocks(
    request: &mut Request<'_>,
    slots: Range<u64>,
    done: &mut Result<(), Error>,
) -> u64 {
    let layout = request.table.layout;
    let mut next = slots.start;
    let mut blocks = blocks_from(request.table, next / u64::from(layout.slots()));
    for _ in 0..DISCARD_BLOCKS_PER_STREAM {
        let block = blocks.next().filter(|&block| u64::from(layout.first_slot(block)) < slots.end);
        let Some(block) = block else {
            next = slots.end;
            break;
        };
        let Range { start, end } = layout.slots_of(block);
        let of_it = u64::from(start).max(slots.start)..u64::from(end).min(slots.end);
        next = of_it.end;
        let of_it = of_it.start as u32..of_it.end as u32;
        let mut freed = std::iter::repeat_with(|| free_members(request, block, of_it.clone()));
        if let Some(Err(error)) = freed.find(|freed| *freed != Ok(false)) {
            *done = Err(error);
        }
    }
    request.shard.notify_free.add((next - slots.start) as i64);
    next
}

/// Frees the slots `slots` of a block. If another request stored the block during the call, returns
/// false, and the caller must repeat the call. An error leaves the affected slots unchanged.
fn free_members(request: &mut Request<'_>, block: u32, slots: Range<u32>) -> Result<bool, Error> {
    let (table, layout) = (request.table, request.table.layout);
    let first = layout.first_slot(block);
    let some = slots.map(|slot| slot - first).fold(Members::default(), Members::with);
    let block_entry = table.pool.lock_existing(layout.block_entry(block));
    let Some(entry) = block_entry.filter(|entry| !slot::is_empty(entry.content())) else {
        for (slot, entry) in lock_slots(table, block, some) {
            if is_block_active(table, slot) {
                return Ok(false);
            }
            table.set_slot(request.shard, entry, Payload::EMPTY);
        }
        return Ok(true);
    };
    let live = live_members_locked(table, block, &entry);
    if live.without(some) == Members::default() {
        free_block(request, (block, entry), live, some);
        return Ok(true);
    }
    let mut left = Members::default();
    for nth in some.iter() {
        // A live member becomes a hole, which needs an entry. Other slots that hold data have an
        // entry already.
        match table.lock(first + nth, request.now_seconds) {
            Ok(slot) => {
                table.set_slot(request.shard, slot, Payload::HOLE);
                request.shard.changed_live([live.has(nth).into(), 0]);
            }
            Err(_) if live.has(nth) => left = left.with(nth),
            Err(_) => {}
        }
    }
    drop_dead_members(request, block, entry, Rewrite::IfWorth);
    // No entry can be created for a hole, so the block is rewritten with zeros in place of the
    // slots (I6).
    let mut done = Ok(true);
    for nth in left.iter() {
        let slot = Part { nth: first + nth, within: 0..SLOT_BYTES, request: 0..SLOT_BYTES };
        match write_member(request, &slot, None) {
            Ok(()) => {}
            Err(Blocked::Failed(error)) => done = Err(error),
            Err(_) => done = done.and(Ok(false)),
        }
    }
    done
}
