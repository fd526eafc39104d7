//! What a slot can be, and how its entry in the pool says so. Here alone, and below, the length of
//! an object, the flags beside it and the payload of an entry that has none mean something.
//!
//! ```text
//!   an object of 4096 bytes    the slot itself
//!   an object of 8             one pattern of 8 bytes over and over, which no payload can be
//!   an object of other bytes   the slot compressed, by the algorithm of the flags' priority
//!   a payload                  nothing, or a pattern, or where in the backing store it lies
//! ```
//! The entry of a block has the same flags and, outside memory, the same payload; of its object
//! [`block`](crate::block) knows.

mod flags;
mod pattern;
mod payload;
#[cfg(test)]
mod tests;

pub(crate) use flags::Flags;
pub(crate) use pattern::{fill, same_pattern};
pub(crate) use payload::{BACKING_BYTES_MAX, BACKING_GRAIN, BackingPlace, Payload};

use crate::algorithms::Codecs;
use crate::policy;
use crate::stats::Weight;
use crate::{Error, SLOT_BYTES};
use zsmalloc::{Content, Old};

/// Bytes of an object that is a pattern.
const PATTERN_BYTES: usize = 8;

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
            Content::Inline(payload) => return Payload::from_bits(payload).decode(),
            Content::Object { bytes, flags } => (bytes, flags),
        };
        let compressed = Slot::Compressed { bytes, priority: Flags::from_bits(flags).priority() };
        match SlotKind::of_len(bytes.len()) {
            SlotKind::Raw => bytes.try_into().map_or(compressed, Slot::Raw),
            SlotKind::Same => {
                bytes.try_into().map_or(compressed, |word| Slot::Same(u64::from_ne_bytes(word)))
            }
            _ => compressed,
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
            Slot::Same(pattern) => match Payload::of_pattern(pattern) {
                Some(payload) => Coded::Payload(payload),
                None => Coded::Pattern(pattern.to_ne_bytes()),
            },
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
            Old::Inline(payload) => Payload::from_bits(payload).decode().kind(),
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

/// Whether an entry, a slot's or a block's, holds nothing.
#[inline]
pub(crate) fn is_empty(content: Content<&[u8]>) -> bool {
    content == Content::Inline(Payload::EMPTY.bits())
}

/// Whether an object of `len` bytes will mostly have gone to the place of what its entry held.
pub(crate) fn is_same_place(old: Old, len: usize) -> bool {
    match old {
        Old::Object { bytes: old, .. } => policy::is_same_place(old, len),
        Old::Inline(_) => false,
    }
}

/// Whether a slot's object in a saved file may have so many bytes.
pub(crate) fn is_object_len(len: usize) -> bool {
    (1..=SLOT_BYTES).contains(&len) && SlotKind::of_len(len) != SlotKind::Same
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
