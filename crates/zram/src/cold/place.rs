//! Where in the backing store an object lies, in the payload of the word that it is of.
//!
//! ```text
//!   58 57   56   55 54      53 .. 50    49 .. 34     33 .. 0
//!   | 1 1 | 1  | priority | slots - 1 | length - 1 | unit |
//! ```

use crate::fill::{AWAY, HOLE};
use zsmalloc::{Content, Old};

/// Objects begin at multiples of this.
pub(crate) const UNIT: usize = 32;
const UNIT_BITS: u32 = 34;
const LEN_SHIFT: u32 = UNIT_BITS;
const SLOTS_SHIFT: u32 = 50;
const PRIORITY_SHIFT: u32 = 54;
/// Bytes of a store that have a number.
pub(crate) const BYTES_MAX: u64 = (UNIT as u64) << UNIT_BITS;

/// A place in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) unit: u64,
    /// Bytes of the object.
    pub(crate) len: usize,
    /// Slots that it has: 1, of a slot.
    pub(crate) slots: u32,
    /// Of the algorithm that made it.
    pub(crate) priority: u8,
}

impl Place {
    pub(crate) fn to_payload(self) -> u64 {
        debug_assert!(self.unit >> UNIT_BITS == 0 && (1..=1 << 16).contains(&self.len));
        AWAY | u64::from(self.priority) << PRIORITY_SHIFT
            | u64::from(self.slots - 1) << SLOTS_SHIFT
            | (self.len as u64 - 1) << LEN_SHIFT
            | self.unit
    }

    pub(crate) fn from_payload(payload: u64) -> Option<Self> {
        (payload & AWAY == AWAY).then_some(Place {
            unit: payload & ((1 << UNIT_BITS) - 1),
            len: (payload >> LEN_SHIFT & 0xffff) as usize + 1,
            slots: (payload >> SLOTS_SHIFT & 0xf) as u32 + 1,
            priority: (payload >> PRIORITY_SHIFT & 3) as u8,
        })
    }

    /// That of what a word held.
    pub(crate) fn of(old: Old) -> Option<Self> {
        match old {
            Old::Inline(payload) => Self::from_payload(payload),
            Old::Object { .. } => None,
        }
    }

    /// That of what a word holds.
    pub(crate) fn of_content(content: Content<'_>) -> Option<Self> {
        match content {
            Content::Inline(payload) => Self::from_payload(payload),
            Content::Object { .. } => None,
        }
    }

    /// First byte in the store.
    pub(crate) fn offset(self) -> u64 {
        self.unit * UNIT as u64
    }
}

const _: () = assert!(HOLE & AWAY != AWAY);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill;

    #[test]
    fn places_are_nothing_else() {
        for unit in [0, 1, (1 << UNIT_BITS) - 1] {
            for (len, slots, priority) in [(1, 1, 0), (4096, 1, 3), (65536, 16, 1)] {
                let place = Place { unit, len, slots, priority };
                let payload = place.to_payload();
                assert_eq!(Place::from_payload(payload), Some(place));
                assert!(payload >> 59 == 0 && fill::from_payload(payload).is_none());
            }
        }
        for payload in [0, HOLE].into_iter().chain(fill::to_payload(u64::MAX)) {
            assert_eq!(Place::from_payload(payload), None);
        }
    }
}
