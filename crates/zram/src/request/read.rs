//! Reads of blocks of several slots, whole or any part of them.

use super::Request;
use crate::block::{BlockObject, Members};
use crate::layout::{BlockRange, SlotRange, split_slots};
use crate::slot::Slot;
use crate::table::{Blocked, Origin, block_object, decoded, live_members, origin, own_entry};
use zsmalloc::{Content, EntryReadGuard};

/// Reads blocks.
pub(super) fn read_blocks(
    request: &mut Request<'_>,
    offset: u64,
    buf: &mut [u8],
) -> Result<(), Blocked> {
    let mut done = 0;
    while done < buf.len() {
        done += read_blocks_from(request, offset + done as u64, &mut buf[done..])?;
    }
    Ok(())
}

/// Reads from the start, and returns how many bytes it came to. It can't go on where a block was
/// made that had no entry to be pinned, and begins again there: with no other pin, as they are
/// waited for in ascending order.
fn read_blocks_from(
    request: &mut Request<'_>,
    offset: u64,
    buf: &mut [u8],
) -> Result<usize, Blocked> {
    let layout = request.table.layout;
    let ranges = layout.split_blocks(offset, buf.len());
    let entries =
        layout.split_blocks(offset, buf.len()).map(|range| layout.block_entry(range.block));
    let mut done = 0;
    for (range, pin) in ranges.zip(request.table.pool.read_ahead(entries)) {
        let read = read_block_range(request, &pin, &range, &mut buf[range.request.clone()]);
        if !read.inspect_err(|stop: &Blocked| stop.count_failure(&request.shard.failed_reads))? {
            break;
        }
        done = range.request.end;
        request.done += range.request.len();
        if !matches!(pin.content(), Content::Inline(_)) {
            request.touch(&pin);
        }
    }
    Ok(done)
}

/// Reads what lies in one block; false if it was made meanwhile, so what is pinned is not it.
fn read_block_range(
    request: &mut Request<'_>,
    pin: &EntryReadGuard<'_>,
    range: &BlockRange,
    buf: &mut [u8],
) -> Result<bool, Blocked> {
    let layout = request.table.layout;
    let content = request.resolve(layout.block_entry(range.block), pin.content(), pin.row())?;
    let stored = block_object(request.table, range.block, content)?;
    let is_whole = range.within.len() == layout.block_bytes();
    if is_whole
        && let Some(stored) = &stored
        && stored.members == Members::all(layout.slots())
        && live_members(request.table, range.block) == stored.members
    {
        let codecs = &mut request.workspace.blocks().packer.codecs;
        let read = stored.decode(codecs, buf);
        read.map_err(|source| request.table.corrupt(range.block, source))?;
        request.shard.block_io.count_read(true);
        return Ok(true);
    }
    if stored.is_some() {
        request.shard.block_io.count_read(is_whole);
    }
    let first = layout.first_slot(range.block);
    let mut parts = split_slots(range.within.start as u64, range.within.len()).peekable();
    while let Some(part) = parts.next() {
        // A slot that is not in the block comes from memory while the one before it is
        // decompressed.
        let next = parts.peek().map(|next| first + next.slot);
        next.inspect(|&next| request.table.pool.prefetch(next));
        let slot = first + part.slot;
        let part = SlotRange { slot, ..part };
        let buf = &mut buf[part.request.clone()];
        let own = own_entry(request.table, slot);
        match origin(request.table, slot, pin.row().is_none(), stored.as_ref(), own) {
            Origin::Own(own) => read_own(request, &own, &part, buf)?,
            Origin::Block(stored) => read_member(request, range.block, stored, &part, buf)?,
            Origin::Nothing => {
                buf.fill(0);
                request.shard.slot_io.count_read(part.is_whole());
            }
            Origin::Changed => return Ok(false),
        }
    }
    Ok(true)
}

/// Reads from a slot with an entry of its own, which is pinned.
fn read_own(
    request: &mut Request<'_>,
    pin: &EntryReadGuard<'_>,
    part: &SlotRange,
    buf: &mut [u8],
) -> Result<(), Blocked> {
    let content = request.resolve(part.slot, pin.content(), pin.row())?;
    request.workspace.decode(Slot::of(content), part.within.start, buf, part.slot)?;
    request.shard.slot_io.count_read(part.is_whole());
    request.touch(pin);
    Ok(())
}

/// Reads from a slot that is in its block, which is pinned.
fn read_member(
    request: &mut Request<'_>,
    block: u32,
    stored: &BlockObject<'_>,
    part: &SlotRange,
    buf: &mut [u8],
) -> Result<(), Blocked> {
    let nth = part.slot - request.table.layout.first_slot(block);
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
