//! The states of a slot, and their encoding in the slot's entry. Only this module interprets the
//! length of a slot's object, an entry's flags, and an entry's payload.
//!
//! ```text
//!   an object of 4096 bytes    the slot itself
//!   an object of 8             one repeated pattern of 8 bytes that does not fit a payload
//!   an object of other bytes   the slot compressed, by the algorithm of the flags' priority
//!   a payload                  nothing, or a pattern, or a place in the backing store
//!
//!   flags:  | incompressible | idle | priority: 2 |
//!
//!   payload:
//!   58 57   56   55 54      53 .. 50    49 .. 34     33 .. 0
//!   | 0 0 |                      0                        |   empty: the block decides
//!   | 0 1 |                    value                      |   a pattern: the sign-extended value
//!   | 1 0 |                    value                      |   a pattern: the low half, twice
//!   | 1 1 | 0  |                 0                        |   a hole
//!   | 1 1 | 1  | priority | slots - 1 | length - 1 | grain |  a place in the backing store
//! ```
//! A block's entry has the same flags as a slot's entry. The payload of a block's entry encodes a
//! place in the backing store. [`block`](crate::block) interprets the object of a block.

#[cfg(test)]
mod tests;

use crate::algorithms::Codecs;
use crate::counters::Weight;
use crate::policy::SAME_PLACE_WITHIN;
use crate::{Error, SLOT_BYTES};
use zsmalloc::{Content, Old};

/// The length in bytes of an object that is a pattern.
const PATTERN_BYTES: usize = 8;

const KIND_SHIFT: u32 = 57;
const SIGNED: u64 = 1;
const TWICE: u64 = 2;
const NO_PATTERN: u64 = 3;
/// The bits that mark a payload as a place in the backing store.
const BACKED: u64 = 7 << (KIND_SHIFT - 1);

/// The alignment of objects in the backing store, in bytes.
pub(crate) const BACKING_GRAIN: usize = 32;
const GRAIN_BITS: u32 = 34;
const LEN_SHIFT: u32 = GRAIN_BITS;
const SLOTS_SHIFT: u32 = 50;
const PRIORITY_SHIFT: u32 = 54;
/// The maximum size of a backing store in bytes, which is limited by the bits of a place.
pub(crate) const BACKING_BYTES_MAX: u64 = (BACKING_GRAIN as u64) << GRAIN_BITS;

/// The content of a slot. Its bytes are borrowed from the guard of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot<'a> {
    /// The entry is empty. If the block has an object, the slot is a live member of that object.
    /// Otherwise, the slot holds no data.
    Empty,
    /// The slot holds no data, although the block has an object (zr-B2).
    Hole,
    /// One repeated pattern.
    Same(u64),
    /// An object that was compressed with the algorithm of `priority` (zr-X3).
    Compressed {
        bytes: &'a [u8],
        priority: u8,
    },
    Raw(&'a [u8; SLOT_BYTES]),
    /// An object in the backing store.
    Backed(BackingPlace),
}

/// The state of a slot, as the slot's entry determines it without the object's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    Empty,
    Hole,
    Same,
    Compressed(usize),
    Raw,
    Backed(BackingPlace),
}

/// The content of a slot in encoded form, for the slot's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coded<'a> {
    Payload(Payload),
    Pattern([u8; PATTERN_BYTES]),
    Object(&'a [u8]),
}

/// The content of an entry without an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload(u64);

/// The place of an object in the backing store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackingPlace {
    /// The offset in the store, in units of [`BACKING_GRAIN`].
    pub(crate) grain: u64,
    pub(crate) len: usize,
    /// The number of slots in the object; 1 for a slot's object.
    pub(crate) slots: u32,
    /// The priority of the algorithm that compressed the object.
    pub(crate) priority: u8,
}

/// The flags of an object of a slot or a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u8);

impl Coded<'_> {
    /// Returns the bytes of the object, or the payload as `Err`.
    #[inline]
    pub(crate) fn object(&self) -> Result<&[u8], Payload> {
        match self {
            Coded::Payload(payload) => Err(*payload),
            Coded::Pattern(bytes) => Ok(bytes),
            Coded::Object(bytes) => Ok(bytes),
        }
    }
}

impl<'a> Slot<'a> {
    /// Decodes the content of an entry.
    #[inline]
    pub(crate) fn of(content: Content<&'a [u8]>) -> Self {
        let (bytes, flags) = match content {
            Content::Inline(payload) => return Payload(payload).decode(),
            Content::Object { bytes, flags } => (bytes, flags),
        };
        if let Ok(block) = bytes.try_into() {
            Slot::Raw(block)
        } else if let Ok(&word) = bytes.try_into() {
            Slot::Same(u64::from_ne_bytes(word))
        } else {
            Slot::Compressed { bytes, priority: Flags(flags).priority() }
        }
    }

    pub(crate) fn kind(&self) -> SlotKind {
        match *self {
            Slot::Empty => SlotKind::Empty,
            Slot::Hole => SlotKind::Hole,
            Slot::Same(_) => SlotKind::Same,
            Slot::Compressed { bytes, .. } => SlotKind::Compressed(bytes.len()),
            Slot::Raw(_) => SlotKind::Raw,
            Slot::Backed(place) => SlotKind::Backed(place),
        }
    }

    /// Returns the content and flags of an entry that encodes the slot.
    #[inline]
    pub(crate) fn coded(self) -> (Coded<'a>, Flags) {
        let coded = match self {
            Slot::Empty => Coded::Payload(Payload::EMPTY),
            Slot::Hole => Coded::Payload(Payload::HOLE),
            Slot::Same(pattern) => Payload::of_pattern(pattern)
                .map_or(Coded::Pattern(pattern.to_ne_bytes()), Coded::Payload),
            Slot::Compressed { bytes, priority } => {
                return (Coded::Object(bytes), Flags::of_priority(priority));
            }
            Slot::Raw(bytes) => Coded::Object(bytes),
            Slot::Backed(place) => Coded::Payload(place.into()),
        };
        (coded, Flags::NONE)
    }
}

impl SlotKind {
    /// Decodes the content that an entry had when it was read without a lock, or before a change.
    #[inline]
    pub(crate) fn of(old: Old) -> Self {
        match old {
            Old::Inline(payload) => Payload(payload).decode().kind(),
            Old::Object { bytes: len, .. } => Self::of_len(len),
        }
    }

    /// Returns the kind of an object of `len` bytes.
    #[inline]
    pub(crate) fn of_len(len: usize) -> Self {
        match len {
            SLOT_BYTES => SlotKind::Raw,
            PATTERN_BYTES => SlotKind::Same,
            _ => SlotKind::Compressed(len),
        }
    }

    /// Returns true if the slot's own entry contains the slot's data.
    pub(crate) fn is_stored(self) -> bool {
        !matches!(self, SlotKind::Empty | SlotKind::Hole)
    }

    /// Returns the length of the slot's object in bytes, or `None` if the slot has no object or is
    /// a pattern.
    pub(crate) fn object_len(self) -> Option<usize> {
        match self {
            SlotKind::Compressed(len) => Some(len),
            SlotKind::Raw => Some(SLOT_BYTES),
            _ => None,
        }
    }

    /// Returns the slot's contribution to the counters.
    #[inline]
    pub(crate) fn weight(self) -> Weight {
        Weight {
            slots: self.is_stored().into(),
            bytes: self.object_len().unwrap_or(0) as i64,
            same: (self == SlotKind::Same).into(),
            raw: (self == SlotKind::Raw).into(),
            in_objects: 0,
        }
    }
}

impl Payload {
    pub(crate) const EMPTY: Self = Payload(0);
    pub(crate) const HOLE: Self = Payload(NO_PATTERN << KIND_SHIFT);

    /// Returns the payload for a same-filled slot, or `None` if the pattern does not fit in a
    /// payload.
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

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    fn decode(self) -> Slot<'static> {
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

    /// Returns the place in the backing store, if the entry of a slot or a block encodes a place.
    #[inline]
    pub(crate) fn of<B>(content: Content<B>) -> Option<Self> {
        let Content::Inline(payload) = content else { return None };
        Self::of_payload(payload)
    }

    /// Returns the offset of the object in the store, in bytes.
    pub(crate) fn offset(self) -> u64 {
        self.grain * BACKING_GRAIN as u64
    }
}

/// Returns the number in the low 57 bits of `value`, sign-extended.
fn extend(value: u64) -> u64 {
    ((value << (64 - KIND_SHIFT)) as i64 >> (64 - KIND_SHIFT)) as u64
}

impl Flags {
    /// The flags of an object after a write.
    pub(crate) const NONE: Self = Flags(0);
    /// The flag of an object that has not been accessed since it was marked idle.
    pub(crate) const IDLE: Self = Flags(0b0100);
    /// The flag of an object for which a recompression with the last algorithm saved too little
    /// memory.
    pub(crate) const INCOMPRESSIBLE: Self = Flags(0b1000);
    const PRIORITY: u8 = 0b0011;

    pub(crate) fn of_priority(priority: u8) -> Self {
        Flags(priority & Self::PRIORITY)
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Flags(bits)
    }

    /// Returns the flags of an entry's object, or [`Flags::NONE`] if the entry has no object.
    pub(crate) fn of<B>(content: Content<B>) -> Self {
        match content {
            Content::Object { flags, .. } => Flags(flags),
            Content::Inline(_) => Flags::NONE,
        }
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// Returns the priority of the algorithm that compressed the object.
    pub(crate) fn priority(self) -> u8 {
        self.0 & Self::PRIORITY
    }

    pub(crate) fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub(crate) fn with(self, flag: Self) -> Self {
        Flags(self.0 | flag.0)
    }

    pub(crate) fn without(self, flag: Self) -> Self {
        Flags(self.0 & !flag.0)
    }
}

/// Returns true if the entry of a slot or a block is empty.
#[inline]
pub(crate) fn is_empty(content: Content<&[u8]>) -> bool {
    content == Content::Inline(Payload::EMPTY.bits())
}

/// Returns true if a new object of `len` bytes probably takes the place of the old object.
pub(crate) fn is_same_place(old: Old, len: usize) -> bool {
    matches!(old, Old::Object { bytes, .. } if bytes.abs_diff(len) <= SAME_PLACE_WITHIN)
}

/// Returns true if a slot's object in a saved file is allowed to have `len` bytes.
pub(crate) fn is_object_len(len: usize) -> bool {
    (1..=SLOT_BYTES).contains(&len) && SlotKind::of_len(len) != SlotKind::Same
}

/// Returns the pattern if `block` consists of one repeated pattern, else `None`.
pub(crate) fn same_pattern(block: &[u8]) -> Option<u64> {
    let (words, rest) = block.as_chunks::<PATTERN_BYTES>();
    let (&first, last) = (words.first()?, words.last());
    // In most blocks, words of the first cache line differ, so the last cache line is not loaded.
    // In most other blocks, the last word differs from the first word, so the other words are not
    // scanned.
    if words.iter().take(8).any(|&word| word != first) || last != Some(&first) || !rest.is_empty() {
        return None;
    }
    words.iter().all(|&word| word == first).then(|| u64::from_ne_bytes(first))
}

/// Fills `buf` with the pattern. `buf` is the part of the slot from byte `at` on.
pub(crate) fn fill(buf: &mut [u8], pattern: u64, at: usize) {
    let mut bytes = pattern.to_ne_bytes();
    bytes.rotate_left(at % PATTERN_BYTES);
    let (words, rest) = buf.as_chunks_mut::<PATTERN_BYTES>();
    words.fill(bytes);
    rest.copy_from_slice(&bytes[..rest.len()]);
}

/// Encodes `block` as a pattern or as compressed bytes. If the block compresses to `huge_size`
/// bytes or more, or exactly to the length of a pattern, encodes it raw. `scratch` receives the
/// compressed bytes.
pub(crate) fn encode<'a>(
    block: &'a [u8; SLOT_BYTES],
    codec: &mut dyn zcomp::Stream,
    scratch: &'a mut [u8],
    huge_size: usize,
) -> Result<Slot<'a>, Error> {
    if let Some(pattern) = same_pattern(block) {
        return Ok(Slot::Same(pattern));
    }
    match codec.compress(block, scratch)? {
        Some(len) if len < huge_size && len != PATTERN_BYTES => {
            Ok(Slot::Compressed { bytes: &scratch[..len], priority: 0 })
        }
        _ => Ok(Slot::Raw(block)),
    }
}

/// Writes the slot's bytes from byte `at` on into `buf`, or zeros if the slot holds no data in
/// memory. If `buf` is shorter than a slot, a compressed slot is decompressed into `spare` first.
pub(crate) fn decode(
    slot: Slot<'_>,
    at: usize,
    buf: &mut [u8],
    codecs: &mut Codecs,
    spare: &mut [u8; SLOT_BYTES],
) -> Result<(), zcomp::Error> {
    match slot {
        Slot::Compressed { bytes, priority } if buf.len() == SLOT_BYTES => {
            codecs.of(priority).decompress(bytes, buf)?;
        }
        Slot::Compressed { bytes, priority } => {
            codecs.of(priority).decompress(bytes, spare)?;
            buf.copy_from_slice(&spare[at..at + buf.len()]);
        }
        Slot::Raw(bytes) => buf.copy_from_slice(&bytes[at..at + buf.len()]),
        Slot::Same(pattern) => fill(buf, pattern, at),
        Slot::Empty | Slot::Hole | Slot::Backed(_) => buf.fill(0),
    }
    Ok(())
}
