//! A slot's data: what lies in its word and its object, and back.

use crate::fill;
use crate::stat::Held;
use crate::streams::Workspace;
use crate::{BLOCK, Error};
use zsmalloc::{Content, Old};

/// Marks beside an object in its word.
const COMPRESSED: u8 = 0;
/// The object is the block itself.
const RAW: u8 = 1;
/// The object is a fill pattern of 8 bytes.
const SAME: u8 = 2;

/// A block as it is to be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Encoded<'a> {
    /// In the word.
    Inline(u64),
    /// As an object with a mark.
    Object(&'a [u8], u8),
}

/// What a block is stored as: raw if it compresses to `huge_size` bytes or more. `scratch` holds the bytes
/// of a compressed object.
pub(crate) fn encode<'a>(
    block: &'a [u8],
    codec: &mut dyn zcomp::Stream,
    scratch: &'a mut [u8],
    huge_size: usize,
) -> Result<Encoded<'a>, Error> {
    if let Some(pattern) = fill::pattern_of(block) {
        return Ok(match fill::to_payload(pattern) {
            Some(payload) => Encoded::Inline(payload),
            None => Encoded::Object(&block[..8], SAME),
        });
    }
    match codec.compress(block, scratch)? {
        Some(len) if len < huge_size => Ok(Encoded::Object(&scratch[..len], COMPRESSED)),
        _ => Ok(Encoded::Object(block, RAW)),
    }
}

/// Writes the slot's bytes from `at` on into `buf`. `slot` is its number, for the error.
pub(crate) fn decode(
    content: Content<'_>,
    at: usize,
    buf: &mut [u8],
    workspace: &mut Workspace,
    slot: u64,
) -> Result<(), Error> {
    match content {
        Content::Inline(payload) => fill::fill(buf, fill::from_payload(payload).unwrap_or(0), at),
        Content::Object { bytes, mark: RAW } => buf.copy_from_slice(&bytes[at..at + buf.len()]),
        Content::Object { bytes, mark: SAME } => {
            let pattern = bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
            fill::fill(buf, pattern, at);
        }
        Content::Object { bytes, .. } => {
            let corrupt = |source| Error::Corrupt { slot, source };
            if buf.len() == BLOCK {
                workspace.codec.decompress(bytes, buf).map_err(corrupt)?;
            } else {
                workspace.codec.decompress(bytes, &mut *workspace.block).map_err(corrupt)?;
                buf.copy_from_slice(&workspace.block[at..at + buf.len()]);
            }
        }
    }
    Ok(())
}

fn held(mark: u8, len: usize) -> Held {
    match mark {
        RAW => Held::Raw,
        SAME => Held::Same,
        _ => Held::Compressed(len),
    }
}

fn held_inline(payload: u64) -> Held {
    if fill::from_payload(payload).is_some() { Held::Same } else { Held::Nothing }
}

impl Encoded<'_> {
    pub(crate) fn held(&self) -> Held {
        match *self {
            Encoded::Inline(payload) => held_inline(payload),
            Encoded::Object(bytes, mark) => held(mark, bytes.len()),
        }
    }
}

/// What a slot held before it was changed.
pub(crate) fn held_before(old: Old) -> Held {
    match old {
        Old::Inline(payload) => held_inline(payload),
        Old::Object { len, mark } => held(mark, len),
    }
}

/// What a slot holds now.
pub(crate) fn held_now(content: Content<'_>) -> Held {
    match content {
        Content::Inline(payload) => held_inline(payload),
        Content::Object { bytes, mark } => held(mark, bytes.len()),
    }
}
