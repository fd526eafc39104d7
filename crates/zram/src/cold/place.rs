//! Where in the backing store an object lies, in the payload of the entry that it is of.
//!
//! ```text
//!   58 57   56   55 54      53 .. 50    49 .. 34     33 .. 0
//!   | 1 1 | 1  | priority | slots - 1 | length - 1 | grain |
//! ```

use crate::fill::{BACKED, HOLE};
use zsmalloc::{Content, Old};

/// Objects begin at multiples of this.
pub(crate) const BACKING_GRAIN: usize = 32;
const GRAIN_BITS: u32 = 34;
const LEN_SHIFT: u32 = GRAIN_BITS;
const SLOTS_SHIFT: u32 = 50;
const PRIORITY_SHIFT: u32 = 54;
/// Bytes of a store that have a number.
pub(crate) const BYTES_MAX: u64 = (BACKING_GRAIN as u64) << GRAIN_BITS;

/// A place in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackingPlace {
    pub(crate) grain: u64,
    /// Bytes of the object.
    pub(crate) len: usize,
    /// Slots that it has: 1, of a slot.
    pub(crate) slots: u32,
    /// Of the algorithm that made it.
    pub(crate) priority: u8,
}

impl BackingPlace {
    pub(crate) fn to_payload(self) -> u64 {
        debug_assert!(self.grain >> GRAIN_BITS == 0 && (1..=1 << 16).contains(&self.len));
        BACKED
            | u64::from(self.priority) << PRIORITY_SHIFT
            | u64::from(self.slots - 1) << SLOTS_SHIFT
            | (self.len as u64 - 1) << LEN_SHIFT
            | self.grain
    }

    pub(crate) fn from_payload(payload: u64) -> Option<Self> {
        (payload & BACKED == BACKED).then_some(BackingPlace {
            grain: payload & ((1 << GRAIN_BITS) - 1),
            len: (payload >> LEN_SHIFT & 0xffff) as usize + 1,
            slots: (payload >> SLOTS_SHIFT & 0xf) as u32 + 1,
            priority: (payload >> PRIORITY_SHIFT & 3) as u8,
        })
    }

    /// That of what an entry held.
    pub(crate) fn of(old: Old) -> Option<Self> {
        match old {
            Old::Inline(payload) => Self::from_payload(payload),
            Old::Object { .. } => None,
        }
    }

    /// That of what an entry holds.
    pub(crate) fn of_content(content: Content<'_>) -> Option<Self> {
        match content {
            Content::Inline(payload) => Self::from_payload(payload),
            Content::Object { .. } => None,
        }
    }

    /// First byte in the store.
    pub(crate) fn offset(self) -> u64 {
        self.grain * BACKING_GRAIN as u64
    }
}

const _: () = assert!(HOLE & BACKED != BACKED);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill;

    #[test]
    fn places_are_nothing_else() {
        for grain in [0, 1, (1 << GRAIN_BITS) - 1] {
            for (len, slots, priority) in [(1, 1, 0), (4096, 1, 3), (65536, 16, 1)] {
                let place = BackingPlace { grain, len, slots, priority };
                let payload = place.to_payload();
                assert_eq!(BackingPlace::from_payload(payload), Some(place));
                assert!(payload >> 59 == 0 && fill::from_payload(payload).is_none());
            }
        }
        for payload in [0, HOLE].into_iter().chain(fill::to_payload(u64::MAX)) {
            assert_eq!(BackingPlace::from_payload(payload), None);
        }
    }
}
