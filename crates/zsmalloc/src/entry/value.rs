//! The value of an entry: an object's place, or a payload that the user chose.

use crate::geometry::{GRAIN, OBJECT_MAX};

pub(super) const FLAGS_SHIFT: u32 = 4;
const LEN_SHIFT: u32 = 8;
const OFFSET_SHIFT: u32 = 24;
pub(super) const OBJECT: u64 = 1 << 63;

/// The number of bits of the user's payload, in an entry without an object.
const PAYLOAD_BITS: u32 = 59;

const _: () = assert!(page::OFFSET_BITS == 63 - OFFSET_SHIFT + GRAIN.trailing_zeros());
const _: () = assert!(OBJECT_MAX == 1 << (OFFSET_SHIFT - LEN_SHIFT));

/// The value of an entry, without its lock bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value(pub(super) u64);

/// An object's location, as its entry encodes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The offset in the pool's space, in bytes. The offset is a multiple of 8.
    pub(crate) offset: u64,
    /// The length of the object in bytes, 1 to 65536.
    pub(crate) len: usize,
    /// The object's flags: four bits for the user.
    pub(crate) flags: u8,
}

impl Location {
    pub(crate) fn with_flags(self, flags: u8) -> Self {
        Location { flags, ..self }
    }
}

impl Value {
    pub(crate) const EMPTY: Value = Value(0);

    /// Returns the value of an entry that holds `payload` instead of an object.
    ///
    /// # Panics
    /// Panics if `payload` has more than 59 bits, because the value would then represent an object.
    pub(crate) fn inline(payload: u64) -> Value {
        assert!(payload >> PAYLOAD_BITS == 0, "payload {payload:#x} has more than 59 bits");
        Value(payload << FLAGS_SHIFT)
    }

    pub(crate) fn object(place: Location) -> Value {
        // Flags with more than 4 bits would change the encoded length.
        assert!(place.flags < 16, "flags {:#x} have more than 4 bits", place.flags);
        debug_assert!((1..=OBJECT_MAX).contains(&place.len));
        debug_assert!(place.offset.is_multiple_of(GRAIN as u64));
        let offset = (place.offset / GRAIN as u64) << OFFSET_SHIFT;
        let len = (place.len as u64 - 1) << LEN_SHIFT;
        Value(OBJECT | offset | len | (place.flags as u64) << FLAGS_SHIFT)
    }

    /// Returns the location of the entry's object, or the entry's payload as an error.
    #[inline]
    pub(crate) fn decode(self) -> Result<Location, u64> {
        if self.0 & OBJECT == 0 {
            return Err(self.0 >> FLAGS_SHIFT);
        }
        Ok(Location {
            offset: ((self.0 & !OBJECT) >> OFFSET_SHIFT) * GRAIN as u64,
            len: ((self.0 >> LEN_SHIFT) & 0xffff) as usize + 1,
            flags: (self.0 >> FLAGS_SHIFT) as u8 & 0xf,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_word() {
        for offset in [0, 8, (1u64 << 42) - 8] {
            for len in [1, 4096, 65536] {
                for flags in [0, 15] {
                    let place = Location { offset, len, flags };
                    assert_eq!(Value::object(place).decode(), Ok(place));
                }
            }
        }
        for payload in [0, 1, (1 << PAYLOAD_BITS) - 1] {
            assert_eq!(Value::inline(payload).decode(), Err(payload));
        }
        assert_eq!(Value::EMPTY, Value::inline(0));
    }
}
