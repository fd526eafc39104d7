//! Writes of whole blocks.

use super::{Request, SLOTS_MAX};
use crate::block::{DEVICE_PRIORITY, Members};
use crate::slot::{self, Flags, Payload};
use crate::table::{BlockUpdate, live_members_locked, lock_slots};
use crate::{Error, SLOT_BYTES};

/// The new contents of a block that is written whole.
struct NewBlock {
    /// The slots in the new object. The slots' own entries must be empty.
    members: Members,
    payloads: [Payload; SLOTS_MAX],
}

impl NewBlock {
    fn new(block: &[u8]) -> Self {
        let mut sorted = NewBlock { members: Members::default(), payloads: [Payload::EMPTY; _] };
        for (nth, slot) in block.chunks_exact(SLOT_BYTES).enumerate() {
            match slot::same_pattern(slot).and_then(Payload::of_pattern) {
                Some(payload) => sorted.payloads[nth] = payload,
                None => sorted.members = sorted.members.with(nth as u32),
            }
        }
        sorted
    }
}

/// Writes a whole block as one object. If memory does not suffice for the object or for the entries
/// that the block needs, changes nothing and returns false.
pub(super) fn write_block(
    request: &mut Request<'_>,
    block: u32,
    data: &[u8],
) -> Result<bool, Error> {
    let (table, layout) = (request.table, request.table.layout);
    let sorted = NewBlock::new(data);
    if request.workspace.expects_same_place {
        table.pool.prefetch(layout.block_entry(block));
    }
    let packer = &mut request.workspace.blocks().packer;
    let slot = |nth: u32| &data[nth as usize * SLOT_BYTES..][..SLOT_BYTES];
    let object = match sorted.members {
        none if none == Members::default() => None,
        all if all == Members::all(layout.slots()) => Some(packer.pack_whole(data)?),
        some => Some(packer.pack(some, DEVICE_PRIORITY, slot)?),
    };
    let object_len = object.map(<[u8]>::len);
    let entry = table.lock(layout.block_entry(block), request.now_seconds)?;
    let room = match object.map(|object| entry.reserve(object)) {
        Some(Err(_)) => return Ok(false),
        room => room.and_then(Result::ok),
    };
    let live = [live_members_locked(table, block, &entry).count(), sorted.members.count()];
    // Same-filled slots need entries for their patterns. The other slots' existing entries must
    // become empty.
    let mut entries = [const { None }; SLOTS_MAX];
    for (slot, payload) in
        layout.slots_of(block).zip(sorted.payloads).filter(|of| of.1 != Payload::EMPTY)
    {
        let Ok(entry) = table.lock(slot, request.now_seconds) else { return Ok(false) };
        entries[(slot - layout.first_slot(block)) as usize] = Some((entry, payload));
    }
    for (slot, entry) in lock_slots(table, block, sorted.members) {
        entries[(slot - layout.first_slot(block)) as usize] = Some((entry, Payload::EMPTY));
    }
    // None of the following steps can fail.
    let new = room.zip(object).map(|(room, object)| (room, object, Flags::NONE));
    let entries = entries.into_iter().flatten();
    let old = BlockUpdate { block: (block, entry), slots: entries, new, live }
        .apply(table, request.shard);
    request.workspace.expects_same_place =
        object_len.is_some_and(|len| slot::is_same_place(old, len));
    request.shard.block_io.count_write(true);
    Ok(true)
}
