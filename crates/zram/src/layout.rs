//! Which word of the pool is whose.
//!
//! ```text
//!   blocks of one slot:    | slot 0 | slot 1 | slot 2 | ...
//!   larger ones, here 4:   | block 0 | slot 0 | slot 1 | slot 2 | slot 3 | block 1 | slot 4 | ...
//! ```
//! A block's word comes before those of its slots, so that all lie in a line of memory or two.

use crate::parts::cut;
use crate::{BLOCK, Error};
use std::ops::Range;
use zsmalloc::ORDER_MAX;

/// The words of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    order: u32,
}

/// Whose a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Slot(u32),
    Block(u32),
}

/// The part of a request that lies in one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) block: u32,
    /// Bytes within the block.
    pub(crate) within: Range<usize>,
    /// Bytes within the request.
    pub(crate) request: Range<usize>,
}

impl Layout {
    /// For blocks of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Result<Self, Error> {
        let order = (bytes / BLOCK).checked_ilog2().unwrap_or(0);
        let layout = Layout { order };
        let is_one = order <= ORDER_MAX && layout.block_bytes() == bytes;
        if is_one { Ok(layout) } else { Err(Error::Block { bytes }) }
    }

    pub(crate) fn order(self) -> u32 {
        self.order
    }

    /// Whether blocks are more than slots, and so have words of their own.
    pub(crate) fn has_blocks(self) -> bool {
        self.order > 0
    }

    /// Slots of a block.
    pub(crate) fn slots(self) -> u32 {
        1 << self.order
    }

    pub(crate) fn block_bytes(self) -> usize {
        BLOCK << self.order
    }

    /// Words for so many slots.
    pub(crate) fn words(self, slots: u64) -> u64 {
        let blocks = if self.has_blocks() { slots.div_ceil(self.slots().into()) } else { 0 };
        slots + blocks
    }

    /// The first slot of a block.
    pub(crate) fn first_slot(self, block: u32) -> u32 {
        block << self.order
    }

    /// The block of a slot.
    pub(crate) fn block_of(self, slot: u32) -> u32 {
        slot >> self.order
    }

    /// The word of a block.
    pub(crate) fn block_word(self, block: u32) -> u32 {
        (block << self.order) + block
    }

    /// The first word of a block: its own, or its only slot's.
    pub(crate) fn first_word(self, block: u32) -> u32 {
        if self.has_blocks() { self.block_word(block) } else { block }
    }

    /// The word of a slot.
    #[inline]
    pub(crate) fn word(self, slot: u32) -> u32 {
        if self.has_blocks() { slot + self.block_of(slot) + 1 } else { slot }
    }

    pub(crate) fn whose(self, word: u32) -> Whose {
        if !self.has_blocks() {
            return Whose::Slot(word);
        }
        let stride = self.slots() + 1;
        match (word / stride, word % stride) {
            (block, 0) => Whose::Block(block),
            (block, nth) => Whose::Slot(self.first_slot(block) + nth - 1),
        }
    }

    /// The slot of a word, the first one of a block's.
    pub(crate) fn slot_of(self, word: u32) -> u32 {
        match self.whose(word) {
            Whose::Slot(slot) => slot,
            Whose::Block(block) => self.first_slot(block),
        }
    }

    /// The blocks that `len` bytes at `offset` touch.
    pub(crate) fn pieces(self, offset: u64, len: usize) -> impl Iterator<Item = Piece> {
        let pieces = cut(offset, len, self.block_bytes());
        pieces.map(|(block, within, request)| Piece { block, within, request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_someones() {
        for order in 0..=ORDER_MAX {
            let layout = Layout::new(BLOCK << order).unwrap();
            let mut words = Vec::new();
            for slot in 0..100 {
                if layout.has_blocks() && slot % layout.slots() == 0 {
                    let block = layout.block_of(slot);
                    words.push((layout.block_word(block), Whose::Block(block)));
                }
                words.push((layout.word(slot), Whose::Slot(slot)));
            }
            for (nth, &(word, whose)) in words.iter().enumerate() {
                assert_eq!((word as usize, layout.whose(word)), (nth, whose), "order {order}");
            }
            assert_eq!(layout.words(100), words.len() as u64);
        }
        for bytes in [0, 1, 4095, 4097, 12288, 1 << 17] {
            assert_eq!(Layout::new(bytes).unwrap_err(), Error::Block { bytes });
        }
    }

    #[test]
    fn requests_are_cut_at_blocks() {
        let layout = Layout::new(4 * BLOCK).unwrap();
        let found: Vec<_> = layout.pieces(3 * 4096 + 5, 5 * 4096).collect();
        let expected = [
            Piece { block: 0, within: 3 * 4096 + 5..4 * 4096, request: 0..4091 },
            Piece { block: 1, within: 0..4 * 4096, request: 4091..4091 + 4 * 4096 },
            Piece { block: 2, within: 0..5, request: 4091 + 4 * 4096..5 * 4096 },
        ];
        assert_eq!(found, expected);
        assert_eq!(layout.pieces(77, 0).count(), 0);
    }
}
