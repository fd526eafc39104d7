//! The entry numbers of slots and blocks, and the slots and blocks that the range of a request
//! overlaps.
//!
//! ```text
//!   | slot 0 | slot 1 | ... | last slot | block 0 | block 1 | ...   blocks: if of several slots
//! ```
//! An entry is created on first use, together with its neighbours. If all data are stored as whole
//! blocks, no slot has an entry. If all data are stored as single slots, no block has an entry.

use crate::Error;
use std::ops::Range;
use zsmalloc::ORDER_MAX;

/// The size of a slot in bytes, which does not depend on the system's page size.
pub const SLOT_BYTES: usize = 4096;

/// The numbering of a device's entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    order: u32,
    all_slots: u64,
}

/// The slot or block that an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Slot(u32),
    Block(u32),
}

/// The part of a request that lies in one slot, or in one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) nth: u32,
    /// The byte range within the slot or block.
    pub(crate) within: Range<usize>,
    /// The byte range within the request.
    pub(crate) request: Range<usize>,
}

impl Part {
    pub(crate) fn is_whole_slot(&self) -> bool {
        self.within.len() == SLOT_BYTES
    }

    /// Overwrites this part of `slot` with `data`, or with zeros if `data` is `None`.
    pub(crate) fn change(&self, slot: &mut [u8; SLOT_BYTES], data: Option<&[u8]>) {
        let here = &mut slot[self.within.clone()];
        match data {
            Some(data) => here.copy_from_slice(data),
            None => here.fill(0),
        }
    }
}

impl Layout {
    /// Returns the layout of a device of `all_slots` slots with blocks of `bytes` bytes.
    pub(crate) fn new(bytes: usize, all_slots: u64) -> Result<Self, Error> {
        let order = (bytes / SLOT_BYTES).checked_ilog2().unwrap_or(0);
        let layout = Layout { order, all_slots };
        let is_one = order <= ORDER_MAX && layout.block_bytes() == bytes;
        if is_one { Ok(layout) } else { Err(Error::Block { bytes }) }
    }

    pub(crate) fn order(self) -> u32 {
        self.order
    }

    /// Returns true if a block consists of several slots, and so has its own entry.
    pub(crate) fn has_blocks(self) -> bool {
        self.order > 0
    }

    /// Returns the number of slots of a block.
    pub(crate) fn slots(self) -> u32 {
        1 << self.order
    }

    pub(crate) fn block_bytes(self) -> usize {
        SLOT_BYTES << self.order
    }

    pub(crate) fn all_slots(self) -> u64 {
        self.all_slots
    }

    /// Returns the total number of entries of slots and blocks.
    pub(crate) fn entries(self) -> u64 {
        let slots = self.all_slots;
        let blocks = if self.has_blocks() { slots.div_ceil(self.slots().into()) } else { 0 };
        slots + blocks
    }

    pub(crate) fn first_slot(self, block: u32) -> u32 {
        block << self.order
    }

    pub(crate) fn block_of(self, slot: u32) -> u32 {
        slot >> self.order
    }

    /// Returns the slots of a block. The last block of the device can have fewer slots than the
    /// others.
    pub(crate) fn slots_of(self, block: u32) -> Range<u32> {
        let first = self.first_slot(block);
        first..(u64::from(first) + u64::from(self.slots())).min(self.all_slots) as u32
    }

    /// Returns the entry of a block. The entry of a slot has the number of the slot.
    pub(crate) fn block_entry(self, block: u32) -> u32 {
        self.all_slots as u32 + block
    }

    /// Returns the entry that a write to the block uses first. If blocks are single slots, this is
    /// the entry of the slot, else the entry of the block.
    pub(crate) fn first_entry(self, block: u32) -> u32 {
        if self.has_blocks() { self.block_entry(block) } else { block }
    }

    pub(crate) fn item_of(self, entry: u32) -> Item {
        match u64::from(entry).checked_sub(self.all_slots) {
            None => Item::Slot(entry),
            Some(block) => Item::Block(block as u32),
        }
    }

    /// Returns the slot of an entry. For the entry of a block, returns the block's first slot.
    pub(crate) fn slot_of(self, entry: u32) -> u32 {
        match self.item_of(entry) {
            Item::Slot(slot) => slot,
            Item::Block(block) => self.first_slot(block),
        }
    }

    /// Splits the range of `len` bytes at `offset` at block boundaries, and returns the parts.
    pub(crate) fn split_blocks(self, offset: u64, len: usize) -> impl Iterator<Item = Part> {
        split_range(offset, len, self.block_bytes())
    }
}

/// Splits the range of `len` bytes at `offset` at multiples of `unit` bytes, and returns the parts.
#[inline]
fn split_range(offset: u64, len: usize, unit: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let start = (at % unit as u64) as usize;
        let here = (unit - start).min(len - done);
        let request = done..done + here;
        done += here;
        let (nth, within) = ((at / unit as u64) as u32, start..start + here);
        (here > 0).then_some(Part { nth, within, request })
    })
}

/// Splits the range of `len` bytes at `offset` at slot boundaries, and returns the parts.
#[inline]
pub(crate) fn split_slots(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    split_range(offset, len, SLOT_BYTES)
}

/// Returns the slots that overlap the range of `len` bytes at `offset`.
pub(crate) fn slots_touched(offset: u64, len: usize) -> Range<u32> {
    let end = (offset + len as u64).div_ceil(SLOT_BYTES as u64);
    (offset / SLOT_BYTES as u64) as u32..end as u32
}

/// Returns the slots that lie completely in the range of `len` bytes at `offset`. The result may be
/// empty.
pub(crate) fn slots_covered(offset: u64, len: u64) -> Range<u64> {
    let first = offset.div_ceil(SLOT_BYTES as u64);
    first..((offset + len) / SLOT_BYTES as u64).max(first)
}

/// Returns the byte range of the slots `slots`.
pub(crate) fn byte_range(slots: &Range<u32>) -> Range<u64> {
    u64::from(slots.start) * SLOT_BYTES as u64..u64::from(slots.end) * SLOT_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_someones() {
        for order in 0..=ORDER_MAX {
            let layout = Layout::new(SLOT_BYTES << order, 100).unwrap();
            let mut owners: Vec<_> = (0..100).map(Item::Slot).collect();
            if layout.has_blocks() {
                owners.extend((0..100u32.div_ceil(1 << order)).map(Item::Block));
            }
            for (entry, &owner) in (0..).zip(&owners) {
                assert_eq!(layout.item_of(entry), owner, "order {order}");
                let (of_it, first) = match owner {
                    Item::Slot(slot) => (slot, slot),
                    Item::Block(block) => (layout.block_entry(block), layout.first_slot(block)),
                };
                assert_eq!((of_it, layout.slot_of(entry)), (entry, first));
            }
            assert_eq!(layout.entries(), owners.len() as u64);
            let last = layout.block_of(99);
            assert_eq!(layout.slots_of(last), layout.first_slot(last)..100);
        }
        for bytes in [0, 1, 4095, 4097, 12288, 1 << 17] {
            assert_eq!(Layout::new(bytes, 1).unwrap_err(), Error::Block { bytes });
        }
    }

    #[test]
    fn requests_are_cut_at_blocks() {
        let layout = Layout::new(4 * SLOT_BYTES, 100).unwrap();
        let found: Vec<_> = layout.split_blocks(3 * 4096 + 5, 5 * 4096).collect();
        let expected = [
            Part { nth: 0, within: 3 * 4096 + 5..4 * 4096, request: 0..4091 },
            Part { nth: 1, within: 0..4 * 4096, request: 4091..4091 + 4 * 4096 },
            Part { nth: 2, within: 0..5, request: 4091 + 4 * 4096..5 * 4096 },
        ];
        assert_eq!(found, expected);
        assert_eq!(layout.split_blocks(77, 0).count(), 0);
    }
}
