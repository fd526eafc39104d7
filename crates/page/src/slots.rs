//! Adjacent slots of equal length from an extent's first byte on, and the pages that contain the
//! slots.
//!
//! ```text
//!   pages: |         0         |         1         |         2         |
//!   slots: |     0     |     1     |     2     |     3     |  tail
//! ```

use crate::page_shift;
use std::ops::Range;

/// The slots of an extent. The slots have less than 2 to the power of 32 bytes in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotGrid {
    /// The distance in bytes from one slot to the next.
    pub stride: u32,
    /// The number of slots.
    pub slots: u32,
}

impl SlotGrid {
    /// Returns the byte range of `slot`, relative to the extent's first byte.
    #[inline]
    pub fn bytes_of(self, slot: u32) -> Range<u32> {
        slot * self.stride..(slot + 1) * self.stride
    }

    /// Returns the number of the slot that contains the byte `at`. If `at` is beyond the last slot,
    /// the result is not the number of a slot.
    #[inline]
    pub fn slot_at(self, at: u32) -> u32 {
        at / self.stride
    }

    /// Returns the pages that contain at least one byte of `slot`.
    #[inline]
    pub fn pages_of(self, slot: u32) -> Range<u32> {
        let bytes = self.bytes_of(slot);
        bytes.start >> page_shift()..((bytes.end - 1) >> page_shift()) + 1
    }

    /// Returns the slots that have at least one byte on `pages`.
    #[inline]
    pub fn slots_of(self, pages: Range<u32>) -> Range<u32> {
        let end = (pages.end << page_shift()).div_ceil(self.stride);
        (pages.start << page_shift()) / self.stride..end.min(self.slots)
    }

    /// Returns the slots that lie on `pages` and on no other page.
    #[inline]
    pub fn slots_within(self, pages: Range<u32>) -> Range<u32> {
        let end = (pages.end << page_shift()) / self.stride;
        self.first_slot_from(pages.start)..end.min(self.slots)
    }

    /// Returns the number of the first slot that begins on `page` or after it. If there is no such
    /// slot, the result is not the number of a slot.
    #[inline]
    pub fn first_slot_from(self, page: u32) -> u32 {
        (page << page_shift()).div_ceil(self.stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_size;

    #[test]
    fn slots_and_pages_agree() {
        let page = page_size() as u32;
        for stride in [1, 8, 48, 200, 1000, page * 3 / 4, page, page + 904, 5 * page - 8] {
            let grid = SlotGrid { stride, slots: (16 * page / stride).min(512) };
            let pages = (grid.slots * stride).div_ceil(page);
            for slot in 0..grid.slots {
                let bytes = grid.bytes_of(slot);
                assert_eq!((grid.slot_at(bytes.start), grid.slot_at(bytes.end - 1)), (slot, slot));
                for number in 0..pages {
                    let is_on = bytes.start < (number + 1) * page && bytes.end > number * page;
                    assert_eq!(grid.pages_of(slot).contains(&number), is_on);
                    assert_eq!(grid.slots_of(number..number + 1).contains(&slot), is_on);
                    let is_behind = bytes.start >= number * page;
                    assert_eq!(slot >= grid.first_slot_from(number), is_behind);
                }
                let own = grid.pages_of(slot);
                assert!(grid.slots_within(own.clone()).contains(&slot));
                assert!(!grid.slots_within(own.start..own.end - 1).contains(&slot));
                assert!(!grid.slots_within(own.start + 1..own.end).contains(&slot));
            }
            assert_eq!(grid.slots_of(0..pages), 0..grid.slots);
            assert_eq!(grid.slots_within(0..pages), 0..grid.slots);
        }
    }
}
