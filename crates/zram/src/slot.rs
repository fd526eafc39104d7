//! What a slot can be, and how its entry in the pool says so. Here alone the length of an object,
//! the flags beside it and the payload of an entry that has none mean something.
//!
//! ```text
//!   an object of 4096 bytes    the slot itself
//!   an object of 8             one pattern of 8 bytes over and over, which no payload can be
//!   an object of other bytes   the slot compressed, by the algorithm of the flags' priority
//!   a payload                  nothing, or a pattern, or where in the backing store it lies
//!
//!   flags:  | incompressible | idle | priority: 2 |
//!
//!   payload:
//!   58 57   56   55 54      53 .. 50    49 .. 34     33 .. 0
//!   | 0 0 |                      0                        |   empty: as its block has it
//!   | 0 1 |                    value                      |   the pattern is it, its sign extended
//!   | 1 0 |                    value                      |   the pattern is its low half, twice
//!   | 1 1 | 0  |                 0                        |   a hole
//!   | 1 1 | 1  | priority | slots - 1 | length - 1 | grain |  outside memory, at that place
//! ```
//! The entry of a block has the same flags and, outside memory, the same payload; of its object
//! [`block`](crate::block) knows.

#[cfg(test)]
mod tests;

use crate::algorithms::Codecs;
use crate::counters::Weight;
use crate::policy::SAME_PLACE_WITHIN;
use crate::{Error, SLOT_BYTES};
use zsmalloc::{Content, Old};

/// Bytes of an object that is a pattern.
const PATTERN_BYTES: usize = 8;

const KIND_SHIFT: u32 = 57;
const SIGNED: u64 = 1;
const TWICE: u64 = 2;
const NO_PATTERN: u64 = 3;
/// What payloads have that are a place in the backing store.
const BACKED: u64 = 7 << (KIND_SHIFT - 1);

/// Objects in the backing store begin at multiples of this.
pub(crate) const BACKING_GRAIN: usize = 32;
const GRAIN_BITS: u32 = 34;
const LEN_SHIFT: u32 = GRAIN_BITS;
const SLOTS_SHIFT: u32 = 50;
const PRIORITY_SHIFT: u32 = 54;
/// Bytes of a backing store that can be named.
pub(crate) const BACKING_BYTES_MAX: u64 = (BACKING_GRAIN as u64) << GRAIN_BITS;

/// What a slot can be. Bytes live as long as the guard that they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot<'a> {
    /// Nothing of its own: it is in its block's object, if the block has one, and else nothing.
    Empty,
    /// Nothing, though its block has an object (zr-B2).
    Hole,
    /// One pattern over and over.
    Same(u64),
    /// By the algorithm of that priority (zr-X3).
    Compressed {
        bytes: &'a [u8],
        priority: u8,
    },
    Raw(&'a [u8; SLOT_BYTES]),
    /// Outside memory.
    Backed(BackingPlace),
}

/// What an entry alone tells of a slot, without its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    Empty,
    Hole,
    Same,
    /// Bytes of the object.
    Compressed(usize),
    Raw,
    Backed(BackingPlace),
}

/// A slot as an entry is given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coded<'a> {
    Payload(Payload),
    /// An object that is a pattern.
    Pattern([u8; PATTERN_BYTES]),
    Object(&'a [u8]),
}

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

/// Those beside an object of a slot or a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u8);

impl Coded<'_> {
    /// The object, or else the payload.
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
    /// Decodes what an entry holds.
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

    /// What an entry is to hold, and the flags beside it, to be the slot.
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
    /// Decodes what an entry held when it was looked at, or before a change.
    #[inline]
    pub(crate) fn of(old: Old) -> Self {
        match old {
            Old::Inline(payload) => Payload(payload).decode().kind(),
            Old::Object { bytes: len, .. } => Self::of_len(len),
        }
    }

    /// What an object of so many bytes is.
    #[inline]
    pub(crate) fn of_len(len: usize) -> Self {
        match len {
            SLOT_BYTES => SlotKind::Raw,
            PATTERN_BYTES => SlotKind::Same,
            _ => SlotKind::Compressed(len),
        }
    }

    /// Whether the slot has data of its own.
    pub(crate) fn is_stored(self) -> bool {
        !matches!(self, SlotKind::Empty | SlotKind::Hole)
    }

    /// Bytes of its object, of a slot that has one and is more than a pattern.
    pub(crate) fn object_len(self) -> Option<usize> {
        match self {
            SlotKind::Compressed(len) => Some(len),
            SlotKind::Raw => Some(SLOT_BYTES),
            _ => None,
        }
    }

    /// What it adds to the counters.
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

    /// That of what an entry holds, a slot's or a block's.
    #[inline]
    pub(crate) fn of<B>(content: Content<B>) -> Option<Self> {
        let Content::Inline(payload) = content else { return None };
        Self::of_payload(payload)
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

impl Flags {
    /// Of what was just written.
    pub(crate) const NONE: Self = Flags(0);
    /// Not accessed since it was marked.
    pub(crate) const IDLE: Self = Flags(0b0100);
    /// No algorithm makes it smaller.
    pub(crate) const INCOMPRESSIBLE: Self = Flags(0b1000);
    const PRIORITY: u8 = 0b0011;

    pub(crate) fn of_priority(priority: u8) -> Self {
        Flags(priority & Self::PRIORITY)
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Flags(bits)
    }

    /// The flags beside what an entry holds; none, where that is no object.
    pub(crate) fn of<B>(content: Content<B>) -> Self {
        match content {
            Content::Object { flags, .. } => Flags(flags),
            Content::Inline(_) => Flags::NONE,
        }
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// How often the object was recompressed: which of the algorithms made it.
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

/// Whether an entry, a slot's or a block's, holds nothing.
#[inline]
pub(crate) fn is_empty(content: Content<&[u8]>) -> bool {
    content == Content::Inline(Payload::EMPTY.bits())
}

/// Whether an object of `len` bytes will mostly have gone to the place of what its entry held.
pub(crate) fn is_same_place(old: Old, len: usize) -> bool {
    matches!(old, Old::Object { bytes, .. } if bytes.abs_diff(len) <= SAME_PLACE_WITHIN)
}

/// Whether a slot's object in a saved file may have so many bytes.
pub(crate) fn is_object_len(len: usize) -> bool {
    (1..=SLOT_BYTES).contains(&len) && SlotKind::of_len(len) != SlotKind::Same
}

/// The pattern that `block` consists of, if it does.
pub(crate) fn same_pattern(block: &[u8]) -> Option<u64> {
    let (words, rest) = block.as_chunks::<PATTERN_BYTES>();
    let (&first, last) = (words.first()?, words.last());
    // Most blocks differ in their first line of memory, which spares the wait for the last one;
    // most others there, which spares the walk.
    if words.iter().take(8).any(|&word| word != first) || last != Some(&first) || !rest.is_empty() {
        return None;
    }
    words.iter().all(|&word| word == first).then(|| u64::from_ne_bytes(first))
}

/// Writes the pattern over `buf`, which begins `at` bytes into the slot.
pub(crate) fn fill(buf: &mut [u8], pattern: u64, at: usize) {
    let mut bytes = pattern.to_ne_bytes();
    bytes.rotate_left(at % PATTERN_BYTES);
    let (words, rest) = buf.as_chunks_mut::<PATTERN_BYTES>();
    words.fill(bytes);
    rest.copy_from_slice(&bytes[..rest.len()]);
}

/// Chooses what `block` is stored as: raw if it compresses to `huge_size` bytes or more, or to a
/// length that means something else. `scratch` gets the compressed bytes.
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

/// Writes the slot's bytes from `at` on into `buf`; zeros, where it holds none in memory. What is
/// decompressed in part goes by way of `spare`.
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
