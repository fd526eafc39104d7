//! Changes the offset of a long match that repeats 1, 2, 4 or 8 bytes to an offset that decodes
//! fast.
//!
//! In noise the library's encoder tests every second position for a match, later only every third
//! position, and so on. If a run follows the noise, the encoder finds a match between two tested
//! positions. The offset of this match is the distance between the two positions, for example 7
//! bytes after 1.6 KB of noise. The library's decoder copies offsets 1, 2 and 4 from a register,
//! and offset 8 by words of 8 bytes. At other small offsets, each load overlaps several earlier
//! stores, and must wait for them.

use crate::policy::{RUN_FAR_OFFSET, RUN_SHORT_BYTES, RUN_STRIDE};

/// The offsets that decode fast, in order of preference.
const FAST_OFFSETS: [usize; 4] = [1, 2, 4, 8];

const WORD_BYTES: usize = size_of::<u64>();

/// The minimum length of a match, in bytes.
const MATCH_BYTES_MIN: usize = 4;

/// Returns true if `block`, the compressed form of `plain`, may contain a match that
/// [`shorten_offsets`] changes. In the blocks of pages, this function detects every such match of
/// 274 bytes or more.
pub(super) fn has_slow_run(plain: &[u8], block: &[u8]) -> bool {
    repeats(plain) && has_slow_offset(block)
}

/// Returns true if at two positions, [`RUN_STRIDE`] bytes apart, an 8-byte word equals the word
/// after it. Words are equal in a run that repeats one, two, four or eight bytes. In whole pages,
/// this function detects every such run of 271 bytes.
fn repeats(plain: &[u8]) -> bool {
    let mut last = false;
    plain.chunks_exact(RUN_STRIDE).any(|chunk| {
        let repeats = chunk[..WORD_BYTES] == chunk[WORD_BYTES..2 * WORD_BYTES];
        std::mem::replace(&mut last, repeats) && repeats
    })
}

/// Returns true if `block` contains three bytes that may be a slow offset and the first byte of a
/// length of 274 or more. The three bytes may be literals instead.
fn has_slow_offset(block: &[u8]) -> bool {
    memchr::memchr_iter(255, block).any(|length_at| {
        let offset = block[..length_at].last_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        offset.is_some_and(|offset| (3..RUN_FAR_OFFSET).contains(&usize::from(offset)))
    })
}

/// Changes the offset of each long match in `block` to a fast offset, if the match then still
/// copies the same bytes. `plain` is the decompressed form of `block`. The block's length does not
/// change.
pub(super) fn shorten_offsets(plain: &[u8], block: &mut [u8]) {
    let mut cursor = Cursor::default();
    while let Some(found) = cursor.next_match(block) {
        let Some(copied) = plain.get(found.start..found.start + found.bytes) else { return };
        if !found.is_slow() {
            continue;
        }
        let is_same = |offset: &&usize| {
            let from = found.start.checked_sub(**offset);
            from.is_some_and(|from| plain[from..from + found.bytes] == *copied)
        };
        if let Some(offset) = FAST_OFFSETS.iter().find(is_same) {
            // A fast offset is at most 8, so it fits in a byte.
            block[found.offset_at..found.offset_at + 2].copy_from_slice(&[*offset as u8, 0]);
        }
    }
}

/// A match of a block.
pub(super) struct Match {
    /// The position of the offset's two bytes in the block.
    pub(super) offset_at: usize,
    offset: usize,
    /// The range of the match in the decompressed bytes.
    pub(super) start: usize,
    pub(super) bytes: usize,
}

impl Match {
    pub(super) fn is_slow(&self) -> bool {
        let is_near = self.offset < RUN_FAR_OFFSET && !FAST_OFFSETS.contains(&self.offset);
        is_near && self.bytes > RUN_SHORT_BYTES
    }
}

/// The position after the sequences that were read so far.
#[derive(Default)]
pub(super) struct Cursor {
    /// The position in the block.
    at: usize,
    /// The position in the decompressed bytes.
    start: usize,
}

impl Cursor {
    /// Reads the next sequence. Returns `None` at the block's end.
    pub(super) fn next_match(&mut self, block: &[u8]) -> Option<Match> {
        let token = self.byte(block)?;
        let literals = self.length(block, token >> 4)?;
        let offset_at = self.at + literals;
        let offset = block.get(offset_at..offset_at + 2)?.first_chunk()?;
        self.at = offset_at + 2;
        let start = self.start + literals;
        let bytes = self.length(block, token & 15)? + MATCH_BYTES_MIN;
        self.start = start + bytes;
        let offset = usize::from(u16::from_le_bytes(*offset));
        Some(Match { offset_at, offset, start, bytes })
    }

    /// Reads a length; `half` is the half of a token with which the length begins. A length is less
    /// than 255 times the length of the block, so no sum overflows.
    fn length(&mut self, block: &[u8], half: u8) -> Option<usize> {
        let mut length = usize::from(half);
        let mut continues = half == 15;
        while continues {
            let byte = self.byte(block)?;
            length += usize::from(byte);
            continues = byte == 255;
        }
        Some(length)
    }

    fn byte(&mut self, block: &[u8]) -> Option<u8> {
        let byte = *block.get(self.at)?;
        self.at += 1;
        Some(byte)
    }
}
