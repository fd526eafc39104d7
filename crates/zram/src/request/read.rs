//! Reads of blocks of several slots, whole or in part.

use super::Request;
use crate::block::{BlockObject, Members};
use crate::layout::{Part, split_slots};
use crate::table::{Blocked, Origin, block_object, decoded, live_members, origin, own_entry};
use zsmalloc::{Content, EntryReadGuard};

/// Reads blocks. If a block had no entry to pin, and is stored during the read, the read stops. The
/// request then releases all pins, because pins must be taken in ascending order, and another read
/// begins at that block.
pub(super) fn read_blocks(
    request: &mut Request<'_>,
    offset: u64,
    buf: &mut [u8],
) -> Result<(), Blocked> {
    let layout = request.table.layout;
    let ranges = layout.split_blocks(offset, buf.len());
    let entries = layout.split_blocks(offset, buf.len()).map(|range| layout.block_entry(range.nth));
    for (range, pin) in ranges.zip(request.table.pool.read_ahead(entries)) {
        read_block_range(request, &pin, &range, &mut buf[range.request.clone()])?;
        request.done += range.request.len();
        if !matches!(pin.content(), Content::Inline(_)) {
            request.touch(&pin);
        }
    }
    Ok(())
}

/// Reads a part of one block. Returns `Blocked::Changed` if the block had no entry to pin, and has
/// been stored since then.
fn read_block_range(
    request: &mut Request<'_>,
    pin: &EntryReadGuard<'_>,
    range: &Part,
    buf: &mut [u8],
) -> Result<(), Blocked> {
    let (layout, entry) = (request.table.layout, request.table.layout.block_entry(range.nth));
    let content = request.table.resolve(entry, pin.content(), pin.row(), request.read_back)?;
    let stored = block_object(request.table, range.nth, content)?;
    let is_whole = range.within.len() == layout.block_bytes();
    if is_whole
        && let Some(stored) = &stored
        && stored.members == Members::all(layout.slots())
        && live_members(request.table, range.nth) == stored.members
    {
        let codecs = &mut request.workspace.blocks().packer.codecs;
        let read = stored.decode(codecs, buf);
        read.map_err(|source| request.table.corrupt(range.nth, source))?;
        request.shard.block_io.count_read(true);
        return Ok(());
    }
    if stored.is_some() {
        request.shard.block_io.count_read(is_whole);
    }
    let first = layout.first_slot(range.nth);
    let mut parts = split_slots(range.within.start as u64, range.within.len()).peekable();
    while let Some(part) = parts.next() {
        // If the next slot has its own entry, its object is fetched into the cache while this slot
        // is decompressed.
        let next = parts.peek().map(|next| first + next.nth);
        next.inspect(|&next| request.table.pool.prefetch(next));
        let slot = first + part.nth;
        let part = Part { nth: slot, ..part };
        let buf = &mut buf[part.request.clone()];
        let own = own_entry(request.table, slot);
        match origin(request.table, slot, pin.row().is_none(), stored.as_ref(), own) {
            Origin::Own(own) => request.read_slot(&own, &part, buf)?,
            Origin::Block(stored) => read_member(request, range.nth, stored, &part, buf)?,
            Origin::Nothing => {
                buf.fill(0);
                request.shard.slot_io.count_read(part.is_whole_slot());
            }
            Origin::Changed => return Err(Blocked::Changed),
        }
    }
    Ok(())
}

/// Reads from a slot that is a live member of its block. The caller has the block's entry pinned.
fn read_member(
    request: &mut Request<'_>,
    block: u32,
    stored: &BlockObject<'_>,
    part: &Part,
    buf: &mut [u8],
) -> Result<(), Blocked> {
    let nth = part.nth - request.table.layout.first_slot(block);
    let bytes = match stored.raw_slot(nth) {
        Some(bytes) => bytes,
        None => {
            let decoded = decoded(request.table, request.workspace.blocks(), block, stored)?.0;
            decoded.slot(nth).ok_or_else(|| request.table.damaged(block))?
        }
    };
    buf.copy_from_slice(&bytes[part.within.clone()]);
    Ok(())
}
