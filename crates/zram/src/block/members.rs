//! The members of a block: the slots whose data are in the block's object.

use crate::SLOT_BYTES;

/// A set of slots of a block, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members(u16);

impl Members {
    pub(crate) fn of(bits: u16) -> Self {
        Members(bits)
    }

    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// Returns the set of the first `slots` slots of a block.
    pub(crate) fn all(slots: u32) -> Self {
        Members((u32::MAX >> (u32::BITS - slots)) as u16)
    }

    pub(crate) fn with(self, nth: u32) -> Self {
        Members(self.0 | 1 << nth)
    }

    pub(crate) fn within(self, other: Self) -> Self {
        Members(self.0 & other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Members(self.0 & !other.0)
    }

    pub(crate) fn has(self, nth: u32) -> bool {
        self.0 & 1 << nth != 0
    }

    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns the number of members before slot `nth`.
    pub(crate) fn before(self, nth: u32) -> usize {
        (self.0 & ((1 << nth) - 1)).count_ones() as usize
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u32> {
        (0..u16::BITS).filter(move |&nth| self.has(nth))
    }

    pub(crate) fn bytes(self) -> usize {
        self.count() as usize * SLOT_BYTES
    }
}
