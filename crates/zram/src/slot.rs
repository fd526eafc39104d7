//! A slot's data: what lies in its entry and its object, and back.

use crate::cold::BackingPlace;
use crate::fill;
use crate::stats::Held;
use crate::streams::Workspace;
use crate::{Error, SLOT_BYTES};
use zsmalloc::{Content, Old};

/// Bytes of an object that is a fill pattern. One of `SLOT_BYTES` bytes is the block itself; all
/// others are compressed.
const PATTERN_BYTES: usize = 8;

/// Marks beside an object in its entry. Those of a slot that was just written are [`ACCESSED`].
///
/// How often the slot was recompressed: which of the algorithms it is compressed with.
pub(crate) const PRIORITY: u8 = 0b0011;
/// Not accessed since it was marked.
pub(crate) const IDLE: u8 = 0b0100;
/// No algorithm makes it smaller.
pub(crate) const INCOMPRESSIBLE: u8 = 0b1000;
pub(crate) const ACCESSED: u8 = 0;

/// Bytes by which lengths may differ that are mostly of one size class.
const SAME_PLACE_SLACK: usize = 16;

/// A block as it is to be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Encoded<'a> {
    /// In the entry.
    Inline(u64),
    /// As an object.
    Object(&'a [u8]),
}

/// What a block is stored as: raw if it compresses to `huge_size` bytes or more. `scratch` holds
/// the bytes of a compressed object.
pub(crate) fn encode<'a>(
    block: &'a [u8],
    codec: &mut dyn zcomp::Stream,
    scratch: &'a mut [u8],
    huge_size: usize,
) -> Result<Encoded<'a>, Error> {
    if let Some(pattern) = fill::same_pattern(block) {
        return Ok(match fill::to_payload(pattern) {
            Some(payload) => Encoded::Inline(payload),
            None => Encoded::Object(&block[..PATTERN_BYTES]),
        });
    }
    match codec.compress(block, scratch)? {
        Some(len) if len < huge_size && len != PATTERN_BYTES => {
            Ok(Encoded::Object(&scratch[..len]))
        }
        _ => Ok(Encoded::Object(block)),
    }
}

/// Whether an object of `len` bytes will mostly have gone to the place of what its entry held.
pub(crate) fn is_same_place(old: Old, len: usize) -> bool {
    match old {
        Old::Object { len: old, .. } => old.abs_diff(len) <= SAME_PLACE_SLACK,
        Old::Inline(_) => false,
    }
}

/// Writes the slot's bytes from `at` on into `buf`. `slot` is its number, for the error.
pub(crate) fn decode(
    content: Content<'_>,
    at: usize,
    buf: &mut [u8],
    workspace: &mut Workspace,
    slot: u32,
) -> Result<(), Error> {
    match content {
        Content::Object { bytes, .. } if bytes.len() == SLOT_BYTES => {
            buf.copy_from_slice(&bytes[at..at + buf.len()]);
        }
        Content::Object { bytes, .. } if bytes.len() == PATTERN_BYTES => {
            fill::fill(buf, pattern(content).unwrap_or(0), at);
        }
        Content::Inline(_) => fill::fill(buf, pattern(content).unwrap_or(0), at),
        Content::Object { bytes, flags } => {
            let codec = workspace.codecs.of(flags & PRIORITY);
            let corrupt = |source| Error::Corrupt { slot: slot.into(), source };
            if buf.len() == SLOT_BYTES {
                codec.decompress(bytes, buf).map_err(corrupt)?;
            } else {
                codec.decompress(bytes, &mut *workspace.block).map_err(corrupt)?;
                buf.copy_from_slice(&workspace.block[at..at + buf.len()]);
            }
        }
    }
    Ok(())
}

/// The pattern of a slot that consists of one.
pub(crate) fn pattern(content: Content<'_>) -> Option<u64> {
    match content {
        Content::Inline(payload) => fill::from_payload(payload),
        Content::Object { bytes, .. } if bytes.len() == PATTERN_BYTES => {
            bytes.first_chunk().map(|word| u64::from_ne_bytes(*word))
        }
        Content::Object { .. } => None,
    }
}

/// What an object of so many bytes is.
pub(crate) fn held(len: usize) -> Held {
    match len {
        SLOT_BYTES => Held::Raw,
        PATTERN_BYTES => Held::Same,
        _ => Held::Compressed(len),
    }
}

pub(crate) fn held_inline(payload: u64) -> Held {
    match BackingPlace::from_payload(payload) {
        Some(_) => Held::Away,
        None if fill::from_payload(payload).is_some() => Held::Same,
        None => Held::Nothing,
    }
}

impl Encoded<'_> {
    /// Bytes of the object, if it is one.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Encoded::Inline(_) => None,
            Encoded::Object(bytes) => Some(bytes.len()),
        }
    }

    pub(crate) fn held(&self) -> Held {
        match *self {
            Encoded::Inline(payload) => held_inline(payload),
            Encoded::Object(bytes) => held(bytes.len()),
        }
    }
}

/// What a slot held when it was looked at, or before it was changed.
pub(crate) fn held_before(old: Old) -> Held {
    match old {
        Old::Inline(payload) => held_inline(payload),
        Old::Object { len, .. } => held(len),
    }
}

/// The flags of what a slot held when it was looked at.
pub(crate) fn flags_before(old: Old) -> u8 {
    match old {
        Old::Object { flags, .. } => flags,
        Old::Inline(_) => ACCESSED,
    }
}

/// The flags of what a slot holds; none, where that is no object.
pub(crate) fn flags_of(content: Content<'_>) -> u8 {
    match content {
        Content::Object { flags, .. } => flags,
        Content::Inline(_) => ACCESSED,
    }
}

/// What a slot holds now.
pub(crate) fn held_now(content: Content<'_>) -> Held {
    match content {
        Content::Inline(payload) => held_inline(payload),
        Content::Object { bytes, .. } => held(bytes.len()),
    }
}
