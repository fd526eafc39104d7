//! What an entry holds that has no object: nothing, a pattern, or where in the backing store its
//! object lies.
//!
//! ```text
//!   58 57   56   55 54      53 .. 50    49 .. 34     33 .. 0
//!   | 0 0 |                      0                        |   empty: as its block has it
//!   | 0 1 |                    value                      |   the pattern is it, its sign extended
//!   | 1 0 |                    value                      |   the pattern is its low half, twice
//!   | 1 1 | 0  |                 0                        |   a hole
//!   | 1 1 | 1  | priority | slots - 1 | length - 1 | grain |  outside memory, at that place
//! ```

use super::Slot;
use crate::stats::Weight;
use zsmalloc::Content;

const KIND_SHIFT: u32 = 57;
const SIGNED: u64 = 1;
const TWICE: u64 = 2;
const NO_PATTERN: u64 = 3;
/// What payloads have that are a place in the backing store.
const BACKED: u64 = 7 << (KIND_SHIFT - 1);

/// Objects in the backing store begin at multiples of this.
pub(crate) const BACKING_GRAIN: usize = 32;
pub(super) const GRAIN_BITS: u32 = 34;
const LEN_SHIFT: u32 = GRAIN_BITS;
const SLOTS_SHIFT: u32 = 50;
const PRIORITY_SHIFT: u32 = 54;
/// Bytes of a backing store that can be named.
pub(crate) const BACKING_BYTES_MAX: u64 = (BACKING_GRAIN as u64) << GRAIN_BITS;

/// What an entry holds that has no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload(u64);

/// Where in the backing store an object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackingPlace {
    /// In units of [`BACKING_GRAIN`].
    pub(crate) grain: u64,
    /// Bytes of the object.
    pub(crate) len: usize,
    /// Slots that it has: 1, of a slot.
    pub(crate) slots: u32,
    /// Of the algorithm that made it.
    pub(crate) priority: u8,
}

impl Payload {
    pub(crate) const EMPTY: Self = Payload(0);
    pub(crate) const HOLE: Self = Payload(NO_PATTERN << KIND_SHIFT);

    /// Of a slot that is one pattern, if that has one.
    pub(crate) fn of_pattern(pattern: u64) -> Option<Self> {
        let low = pattern & ((1 << KIND_SHIFT) - 1);
        if extend(low) == pattern {
            Some(Payload(SIGNED << KIND_SHIFT | low))
        } else if pattern >> 32 == pattern & 0xffff_ffff {
            Some(Payload(TWICE << KIND_SHIFT | pattern >> 32))
        } else {
            None
        }
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Payload(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Returns what it adds to the counters, a slot's.
    pub(crate) fn weight(self) -> Weight {
        self.decode().kind().weight()
    }

    #[inline]
    pub(super) fn decode(self) -> Slot<'static> {
        let value = self.0 & ((1 << KIND_SHIFT) - 1);
        match self.0 >> KIND_SHIFT {
            SIGNED => Slot::Same(extend(value)),
            TWICE => Slot::Same(value << 32 | value),
            NO_PATTERN => BackingPlace::of_payload(self.0).map_or(Slot::Hole, Slot::Backed),
            _ => Slot::Empty,
        }
    }
}

impl From<BackingPlace> for Payload {
    fn from(place: BackingPlace) -> Self {
        debug_assert!(place.grain >> GRAIN_BITS == 0 && (1..=1 << 16).contains(&place.len));
        Payload(
            BACKED
                | u64::from(place.priority) << PRIORITY_SHIFT
                | u64::from(place.slots - 1) << SLOTS_SHIFT
                | (place.len as u64 - 1) << LEN_SHIFT
                | place.grain,
        )
    }
}

impl BackingPlace {
    fn of_payload(payload: u64) -> Option<Self> {
        (payload & BACKED == BACKED).then_some(BackingPlace {
            grain: payload & ((1 << GRAIN_BITS) - 1),
            len: (payload >> LEN_SHIFT & 0xffff) as usize + 1,
            slots: (payload >> SLOTS_SHIFT & 0xf) as u32 + 1,
            priority: (payload >> PRIORITY_SHIFT & 3) as u8,
        })
    }

    /// That of what an entry holds, a slot's or a block's.
    #[inline]
    pub(crate) fn of<B>(content: Content<B>) -> Option<Self> {
        match content {
            Content::Inline(payload) => Self::of_payload(payload),
            Content::Object { .. } => None,
        }
    }

    /// First byte in the store.
    pub(crate) fn offset(self) -> u64 {
        self.grain * BACKING_GRAIN as u64
    }
}

/// Returns a number of as many bits as a payload has for one, its sign extended.
fn extend(value: u64) -> u64 {
    ((value << (64 - KIND_SHIFT)) as i64 >> (64 - KIND_SHIFT)) as u64
}
