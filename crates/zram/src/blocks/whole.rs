//! Requests that cover blocks whole, and reads of any part of them.

use super::{BlockObject, BlockUpdate, DEVICE_PRIORITY, Members, decoded};
use crate::layout::BlockRange;
use crate::parts::{SlotRange, split_slots};
use crate::request::Request;
use crate::slot::{self, ACCESSED};
use crate::stop::Blocked;
use crate::{Error, SLOT_BYTES, fill};
use zsmalloc::{Content, EntryReadGuard, ORDER_MAX};

/// Most slots of a block.
const SLOTS_MAX: usize = 1 << ORDER_MAX;

/// What the slots of a block that is written whole are to hold.
struct NewBlock {
    /// Those that its object is to have: their entries are to be empty.
    members: Members,
    payloads: [u64; SLOTS_MAX],
}

impl NewBlock {
    fn new(block: &[u8]) -> Self {
        let mut sorted = NewBlock { members: Members::default(), payloads: [0; _] };
        for (nth, slot) in block.chunks_exact(SLOT_BYTES).enumerate() {
            match fill::same_pattern(slot).and_then(fill::to_payload) {
                Some(payload) => sorted.payloads[nth] = payload,
                None => sorted.members = sorted.members.with(nth as u32),
            }
        }
        sorted
    }
}

impl Request<'_> {
    pub(crate) fn write_blocks(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Blocked> {
        for range in self.layout().split_blocks(offset, bytes.len()) {
            let at = offset + range.request.start as u64;
            let data = &bytes[range.request.clone()];
            if range.within.len() == self.layout().block_bytes() {
                let written = self.write_block(range.block, data);
                if written.inspect_err(|_| self.shard.failed_writes.add(1))? {
                    self.done += data.len();
                    continue;
                }
                self.shard.block_io.splits.add(1);
            }
            self.write_slots(at, data)?;
        }
        Ok(())
    }

    /// Writes a whole block as one object; false, and nothing is changed, if there is no room for
    /// that, or for the entries it needs.
    fn write_block(&mut self, block: u32, data: &[u8]) -> Result<bool, Error> {
        let (table, layout) = (self.table, self.layout());
        let sorted = NewBlock::new(data);
        if self.workspace.expects_same_place {
            table.pool.prefetch(layout.block_entry(block));
        }
        let packer = &mut self.workspace.blocks().packer;
        let slot = |nth: u32| &data[nth as usize * SLOT_BYTES..][..SLOT_BYTES];
        let object = match sorted.members {
            none if none == Members::default() => None,
            all if all == Members::all(layout.slots()) => Some(packer.pack_whole(data)?),
            some => Some(packer.pack(some, DEVICE_PRIORITY, slot)?),
        };
        let object_len = object.map(<[u8]>::len);
        let entry = table.lock_block(block, self.now_seconds)?;
        let room = match object.map(|object| entry.reserve(object)) {
            Some(Err(_)) => return Ok(false),
            room => room.and_then(Result::ok),
        };
        let live = [table.live_members_locked(block, &entry).count(), sorted.members.count()];
        // Patterns need entries; of the others those that there are have to be empty.
        let mut entries = [const { None }; SLOTS_MAX];
        for (slot, payload) in layout.slots_of(block).zip(sorted.payloads).filter(|of| of.1 != 0) {
            let Ok(entry) = table.lock(slot, self.now_seconds) else { return Ok(false) };
            entries[(slot - layout.first_slot(block)) as usize] = Some((entry, payload));
        }
        for (slot, entry) in table.lock_slots(block, sorted.members) {
            entries[(slot - layout.first_slot(block)) as usize] = Some((entry, 0));
        }
        // From here on nothing fails.
        let new = room.zip(object).map(|(room, object)| (room, object, ACCESSED));
        let entries = entries.into_iter().flatten();
        let old = BlockUpdate { block: (block, entry), slots: entries, new, live }
            .apply(table, self.shard);
        self.workspace.expects_same_place =
            object_len.is_some_and(|len| slot::is_same_place(old, len));
        self.shard.block_io.count_write(true);
        Ok(true)
    }

    pub(crate) fn read_blocks(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), Blocked> {
        let mut done = 0;
        while done < buf.len() {
            done += self.read_blocks_from(offset + done as u64, &mut buf[done..])?;
        }
        Ok(())
    }

    /// Reads from the start; how many bytes it came to. It can't go on where a block was made that
    /// had no entry to be pinned, and begins again there: with no other pin, as they are waited for
    /// in ascending order.
    fn read_blocks_from(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, Blocked> {
        let layout = self.layout();
        let ranges = layout.split_blocks(offset, buf.len());
        let entries =
            layout.split_blocks(offset, buf.len()).map(|range| layout.block_entry(range.block));
        let mut done = 0;
        for (range, pin) in ranges.zip(self.table.pool.read_ahead(entries)) {
            let read = self.read_block_range(&pin, &range, &mut buf[range.request.clone()]);
            if !read.inspect_err(|stop: &Blocked| stop.count_failure(&self.shard.failed_reads))? {
                break;
            }
            done = range.request.end;
            self.done += range.request.len();
            if !matches!(pin.content(), Content::Inline(_)) {
                self.touch(&pin);
            }
        }
        Ok(done)
    }

    /// Reads what lies in one block; false if it was made meanwhile, so what is pinned is not it.
    fn read_block_range(
        &mut self,
        pin: &EntryReadGuard<'_>,
        range: &BlockRange,
        buf: &mut [u8],
    ) -> Result<bool, Blocked> {
        let layout = self.layout();
        let content = self.resolve(layout.block_entry(range.block), pin.content(), pin.row())?;
        let stored = self.table.block_object(range.block, content)?;
        let is_whole = range.within.len() == layout.block_bytes();
        if is_whole
            && let Some(stored) = &stored
            && stored.members == Members::all(layout.slots())
            && self.table.live_members(range.block) == stored.members
        {
            let codecs = &mut self.workspace.blocks().packer.codecs;
            let read = stored.decode(codecs, buf);
            read.map_err(|source| self.table.corrupt(range.block, source))?;
            self.shard.block_io.count_read(true);
            return Ok(true);
        }
        if stored.is_some() {
            self.shard.block_io.count_read(is_whole);
        }
        let first = layout.first_slot(range.block);
        let mut parts = split_slots(range.within.start as u64, range.within.len()).peekable();
        while let Some(part) = parts.next() {
            // A slot that is not in the block comes from memory while the one before it is
            // decompressed.
            let next = parts.peek().map(|next| first + next.slot);
            next.inspect(|&next| self.table.pool.prefetch(next));
            let slot = first + part.slot;
            let part = SlotRange { slot, ..part };
            let buf = &mut buf[part.request.clone()];
            if !self.table.is_slot_empty(slot) {
                if !self.read_own(&part, buf)? {
                    return Ok(false);
                }
                continue;
            }
            match &stored {
                Some(stored) => self.read_member(range.block, stored, &part, buf)?,
                None if pin.row().is_none() && !self.table.is_unstored(slot) => {
                    return Ok(false);
                }
                None => {
                    fill::fill(buf, 0, 0);
                    self.shard.slot_io.count_read(part.is_whole());
                }
            }
        }
        Ok(true)
    }

    /// Reads from a slot with an entry of its own; false if that is empty by now.
    fn read_own(&mut self, part: &SlotRange, buf: &mut [u8]) -> Result<bool, Blocked> {
        let pin = self.table.pool.read(part.slot);
        if pin.content() == Content::Inline(0) {
            return Ok(false);
        }
        let content = self.resolve(part.slot, pin.content(), pin.row())?;
        slot::decode(content, part.within.start, buf, &mut self.workspace, part.slot)?;
        self.shard.slot_io.count_read(part.is_whole());
        self.touch(&pin);
        Ok(true)
    }

    /// Reads from a slot that is in its block, which is pinned.
    fn read_member(
        &mut self,
        block: u32,
        stored: &BlockObject<'_>,
        part: &SlotRange,
        buf: &mut [u8],
    ) -> Result<(), Blocked> {
        let nth = part.slot - self.layout().first_slot(block);
        let bytes = match stored.raw_slot(nth) {
            Some(bytes) => bytes,
            None => {
                let decoded = decoded(self.table, self.workspace.blocks(), block, stored)?.0;
                decoded.slot(nth).ok_or_else(|| self.table.damaged(block))?
            }
        };
        buf.copy_from_slice(&bytes[part.within.clone()]);
        Ok(())
    }
}
