//! Rewrites blocks without their dead members: slots that were overwritten or freed.

use super::{Request, SLOTS_MAX};
use crate::Error;
use crate::block::{DEVICE_PRIORITY, Members};
use crate::layout::Item;
use crate::policy;
use crate::slot::{BackingPlace, Flags, Payload, Slot};
use crate::table::{BlockUpdate, Table, block_object, decoded, live_members_locked, lock_slots};
use zsmalloc::{EntryWriteGuard, Old};

/// The condition under which a block is rewritten without its dead members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rewrite {
    /// The rewrite frees enough memory to justify the work.
    IfWorth,
    /// The block has dead members.
    IfDead,
}

/// Replaces the object of a locked block by an object that contains only `members`. `patch`
/// replaces the data of one of these members. Only a rewrite with a patch counts as an access.
pub(super) fn rewrite_block(
    request: &mut Request<'_>,
    block: u32,
    entry: EntryWriteGuard<'_>,
    members: Members,
    patch: Option<(u32, &[u8])>,
) -> Result<(), Error> {
    let table = request.table;
    table.verify(table.layout.block_entry(block), entry.content(), Some(entry.row()))?;
    let Some(stored) = block_object(table, block, entry.content())? else { return Ok(()) };
    if members.iter().any(|nth| !stored.members.has(nth)) {
        return Err(table.damaged(block));
    }
    let (decoded, packer) = decoded(table, request.workspace.blocks(), block, &stored)?;
    let slot = |nth| match patch {
        Some((patched, bytes)) if patched == nth => bytes,
        _ => decoded.slot(nth).unwrap_or_default(),
    };
    // The algorithm of the old object, which may be an algorithm for recompression, also compresses
    // the new object. But if `patch` contains new data, the device's own algorithm compresses the
    // new object.
    let priority = if patch.is_some() { DEVICE_PRIORITY } else { stored.priority };
    let object = packer.pack(members, priority, slot)?;
    let first = request.table.layout.first_slot(block);
    let room = entry.reserve(object).map_err(|error| table.out_of_memory(first, error))?;
    let flags = Flags::of_priority(priority);
    let flags = match patch {
        Some(_) => {
            entry.row().set_access_time(request.now_seconds);
            flags
        }
        None if Flags::of(entry.content()).has(Flags::IDLE) => flags.with(Flags::IDLE),
        None => flags,
    };
    let new = Some((room, object, flags));
    BlockUpdate { block: (block, entry), slots: [], new, live: [0; 2] }.apply(table, request.shard);
    request.shard.block_io.rewrites.add(1);
    Ok(())
}

/// Frees the object of a locked block if none of its members is live. Otherwise, rewrites the block
/// without the dead members if the condition `when` is met. If memory does not suffice for the new
/// object, the dead members remain.
pub(super) fn drop_dead_members(
    request: &mut Request<'_>,
    block: u32,
    entry: EntryWriteGuard<'_>,
    when: Rewrite,
) {
    let table = request.table;
    let live = live_members_locked(table, block, &entry);
    let is_away = BackingPlace::of(entry.content()).is_some();
    let stored = block_object(table, block, entry.content());
    if live == Members::default() && (is_away || matches!(stored, Ok(Some(_)))) {
        free_block(request, (block, entry), live, Members::default());
        return;
    }
    // A block in the backing store keeps its dead members until all of its members are dead.
    let Ok(Some(stored)) = stored else { return };
    let (count, dead) = (stored.members.count(), stored.members.count() - live.count());
    let is_worth = || {
        let (all, all_dead) = table.counters.in_objects();
        policy::should_rewrite(dead, count, all_dead, all)
    };
    if dead > 0 && (when == Rewrite::IfDead || is_worth()) {
        let _ = rewrite_block(request, block, entry, live, None);
    }
}

/// Frees the object of a locked block whose live members are `live`. Empties the entries of `slots`
/// and of all holes.
pub(super) fn free_block(
    request: &Request<'_>,
    (block, entry): (u32, EntryWriteGuard<'_>),
    live: Members,
    slots: Members,
) {
    let (table, layout) = (request.table, request.table.layout);
    let first = layout.first_slot(block);
    let entries = lock_slots(table, block, Members::all(layout.slots()));
    let entries = entries.filter_map(|(slot, entry)| {
        let is_hole = Slot::of(entry.content()) == Slot::Hole;
        (is_hole || slots.has(slot - first)).then_some((entry, Payload::EMPTY))
    });
    // All entries are locked before any entry is changed. The locked entries are in an array,
    // because requests do not allocate heap memory.
    let mut locked = [const { None }; SLOTS_MAX];
    locked.iter_mut().zip(entries).for_each(|(place, of)| *place = Some(of));
    let entries = locked.into_iter().flatten();
    let live = [live.count(), 0];
    BlockUpdate { block: (block, entry), slots: entries, new: None, live }
        .apply(table, request.shard);
}

/// Rewrites all blocks that have dead members.
pub(crate) fn rewrite_all(table: &Table) {
    let layout = table.layout;
    let (_, dead) = table.counters.in_objects();
    let mut next = Some(0).filter(|_| dead > 0);
    let mut blocks = Vec::new();
    while let Some(from) = next {
        next = table.pool.look_at_some(from, |entry, held, _| {
            if let (Item::Block(block), Old::Object { .. }) = (layout.item_of(entry), held) {
                blocks.push(block);
            }
        });
        for block in blocks.drain(..) {
            let mut request = Request::begin(table);
            if let Some(entry) = table.pool.lock_existing(layout.block_entry(block)) {
                drop_dead_members(&mut request, block, entry, Rewrite::IfDead);
            }
        }
    }
}
