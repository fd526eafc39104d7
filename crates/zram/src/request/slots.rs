//! Requests for single slots that are not in a block.
//!
//! A slot that is written whole is compressed before its entry is locked. A slot that is written in
//! part remains locked from the read of the old data to the store of the new data. So no concurrent
//! write of other bytes of the slot is lost.

use super::Request;
use crate::SLOT_BYTES;
use crate::layout::{Part, slots_touched, split_slots};
use crate::policy::{DISCARD_RUN_SLOTS, DISCARD_RUNS_PER_STREAM};
use crate::slot::{self, Payload, Slot};
use crate::streams::Workspace;
use crate::table::{Blocked, Table, is_block_active};
use std::ops::Range;
use zsmalloc::EntryWriteGuard;

/// Writes `data` to a slot, or zeros if `data` is `None`. Returns `Blocked::Changed` if the slot
/// has become part of a block.
pub(super) fn write(
    request: &mut Request<'_>,
    range: &Part,
    data: Option<&[u8]>,
) -> Result<(), Blocked> {
    match data.map(<[u8]>::first_chunk) {
        Some(Some(whole)) => write_whole_slot(request, range.nth, whole),
        Some(None) => {
            let entry = request.table.lock(range.nth, request.now_seconds)?;
            rewrite_slot(request, entry, range, data)
        }
        // A slot that holds no data reads as zeros already.
        None => match request.table.pool.lock_existing(range.nth) {
            Some(entry) if Slot::of(entry.content()).kind().is_stored() => {
                entry.row().set_access_time(request.now_seconds);
                rewrite_slot(request, entry, range, None)
            }
            _ => Ok(()),
        },
    }
}

/// Reads slots of a device whose blocks are single slots.
pub(super) fn read(request: &mut Request<'_>, offset: u64, buf: &mut [u8]) -> Result<(), Blocked> {
    // While a slot is decompressed, the object of the next slot is fetched into the cache.
    let pins = request.table.pool.read_ahead(slots_touched(offset, buf.len()));
    for (range, pin) in split_slots(offset, buf.len()).zip(pins) {
        request.read_slot(&pin, &range, &mut buf[range.request.clone()])?;
        request.done += range.request.len();
    }
    Ok(())
}

/// Frees a limited number of the slots `slots`. Returns the slot at which the next call continues.
pub(super) fn free_slots(request: &Request<'_>, slots: Range<u64>) -> u64 {
    let pool = &request.table.pool;
    let mut next = slots.start;
    for _ in 0..DISCARD_RUNS_PER_STREAM {
        let made = pool.first_made(next).unwrap_or(slots.end).min(slots.end);
        next = (made + DISCARD_RUN_SLOTS).min(slots.end);
        for slot in made..next {
            if let Some(entry) = pool.lock_existing(slot as u32) {
                request.table.set_slot(request.shard, entry, Payload::EMPTY);
            }
        }
        if next == slots.end {
            break;
        }
    }
    request.shard.notify_free.add((next - slots.start) as i64);
    next
}

/// Returns true if the slot of a locked entry has become part of a block.
fn is_in_block(table: &Table, slot: u32, entry: &EntryWriteGuard<'_>) -> bool {
    // `has_blocks` is checked first, because `content` takes time to locate the entry's object.
    table.layout.has_blocks() && slot::is_empty(entry.content()) && is_block_active(table, slot)
}

/// Writes a whole slot, whose entry is locked only after the compression.
fn write_whole_slot(
    request: &mut Request<'_>,
    slot: u32,
    data: &[u8; SLOT_BYTES],
) -> Result<(), Blocked> {
    let Workspace { codecs, scratch, expects_same_place, .. } = &mut *request.workspace;
    if *expects_same_place {
        // The new object will probably take the place of the old object, so the old object is
        // prefetched before the compression.
        request.table.pool.prefetch(slot);
    }
    let huge_size = request.table.huge_size;
    let encoded = slot::encode(data, codecs.own(), &mut **scratch, huge_size)?;
    let entry = request.table.lock(slot, request.now_seconds)?;
    if is_in_block(request.table, slot, &entry) {
        return Err(Blocked::Changed);
    }
    let len = encoded.kind().object_len();
    let old = request.table.store(request.shard, (slot, entry), encoded)?;
    request.shard.slot_io.count_write(true);
    *expects_same_place = len.is_some_and(|len| slot::is_same_place(old, len));
    Ok(())
}

/// Reads a slot, overwrites a part of the slot, and stores the slot. The new data are `data`, or
/// zeros if `data` is `None`. The slot's entry remains locked from the read to the store.
fn rewrite_slot(
    request: &mut Request<'_>,
    entry: EntryWriteGuard<'_>,
    range: &Part,
    data: Option<&[u8]>,
) -> Result<(), Blocked> {
    if is_in_block(request.table, range.nth, &entry) {
        return Err(Blocked::Changed);
    }
    let mut slot = [0; SLOT_BYTES];
    let (content, row) = (entry.content(), Some(entry.row()));
    let content = request.table.resolve(range.nth, content, row, request.read_back)?;
    request.workspace.decode(Slot::of(content), 0, &mut slot, range.nth)?;
    range.change(&mut slot, data);
    let Workspace { codecs, scratch, .. } = &mut *request.workspace;
    let huge_size = request.table.huge_size;
    let encoded = slot::encode(&slot, codecs.own(), &mut **scratch, huge_size)?;
    request.table.store(request.shard, (range.nth, entry), encoded)?;
    request.shard.slot_io.count_write(false);
    Ok(())
}
