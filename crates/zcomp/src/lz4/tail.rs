//! Blocks that end in one long match, such as compressed pages that end in a run.
//!
//! ```text
//!   sequences to the match's literals | offset 2 | 255 ... 255 | rest 1 | token 0x50 | literals 5
//! ```
//!
//! If a match ends within 64 bytes of the output's end, the library's decoder copies the whole
//! match 8 bytes at a time. At small offsets, each of these copies waits for the previous copies.
//! To avoid this, the library decompresses a shorter block, whose match has only [`SHORT_BYTES`]
//! bytes. This module then copies the rest of the match. The shorter block is stored at the end of
//! the output, where the match will be. If the shorter block is longer than the match, it does not
//! fit there. If the original block has few sequences, this module then walks them, and the library
//! decodes the block up to the match.

use super::runs::Cursor;
use crate::policy::TAIL_WALKED_MAX;

/// The number of literals that the format requires at the end of a block. After a match that
/// extends to the required literals, an encoder writes exactly this number.
const LITERALS: usize = 5;

/// The token of a sequence of [`LITERALS`] literals without a match.
const TOKEN: u8 = (LITERALS << 4) as u8;

/// The length in bytes of a match whose token holds the length 15 and is followed by a single
/// length byte, 0.
const SHORT_BYTES: usize = 19;

/// The last match of a block, and the literals after it.
#[derive(Debug)]
pub(super) struct Tail<'b> {
    /// The bytes of the block before the first byte of the match's length.
    head: &'b [u8],
    offset: usize,
    /// The position of the match in the decompressed bytes.
    pub(super) start: usize,
    /// The length of the match in bytes.
    bytes: usize,
    literals: [u8; LITERALS],
}

impl<'b> Tail<'b> {
    /// Returns the tail that the last bytes of `block` appear to encode, with a match of 274 bytes
    /// or more. The bytes may be literals or another sequence instead.
    #[inline]
    pub(super) fn of(block: &'b [u8], plain_bytes: usize) -> Option<Self> {
        let (rest, literals) = block.split_last_chunk()?;
        let (rest, &[last_full, remainder, token]) = rest.split_last_chunk()?;
        if token != TOKEN || last_full != 255 || remainder == 255 {
            return None;
        }
        let more = rest.iter().rev().take_while(|byte| **byte == 255).count();
        let head = &rest[..rest.len() - more];
        let (_, offset) = head.split_last_chunk()?;
        let offset = usize::from(u16::from_le_bytes(*offset));
        let bytes = SHORT_BYTES + 255 * (more + 1) + usize::from(remainder);
        let start = plain_bytes.checked_sub(bytes + LITERALS)?;
        let tail = Tail { head, offset, start, bytes, literals: *literals };
        (1..=start).contains(&offset).then_some(tail)
    }

    /// Returns the decompressed length of the shorter block, whose match has [`SHORT_BYTES`] bytes.
    pub(super) fn short_bytes(&self) -> usize {
        self.start + SHORT_BYTES + LITERALS
    }

    /// Writes the shorter block, whose match has [`SHORT_BYTES`] bytes, to `room`, and returns it.
    /// Returns `None` if `room` is too short.
    ///
    /// If the shorter block does not decompress to [`short_bytes`](Self::short_bytes) bytes, the
    /// original block does not end in this tail. If the length is equal and the block is valid, the
    /// original block ends in this tail, because the removed bytes give this length only as bytes
    /// of a length. A damaged block can decompress to wrong bytes of the right length.
    pub(super) fn shortened<'r>(&self, room: &'r mut [u8]) -> Option<&'r [u8]> {
        let (head, end) = room.split_at_mut_checked(self.head.len())?;
        let (end, _) = end.split_first_chunk_mut()?;
        head.copy_from_slice(self.head);
        let [a, b, c, d, e] = self.literals;
        *end = [0, TOKEN, a, b, c, d, e];
        let bytes = self.head.len() + end.len();
        Some(&room[..bytes])
    }

    /// Returns true if `block` has few sequences, and a walk over the sequences reaches the tail.
    /// The block then really ends in this tail.
    pub(super) fn is_reached(&self, block: &[u8]) -> bool {
        let mut cursor = Cursor::default();
        let mut walked = (0..TAIL_WALKED_MAX).map_while(|_| cursor.next_match(block));
        walked.any(|found| {
            let is_last = found.offset_at + size_of::<u16>() == self.head.len();
            is_last && (found.start, found.bytes) == (self.start, self.bytes)
        })
    }

    /// Writes the match and the literals to `plain`, which already contains the bytes before the
    /// match.
    pub(super) fn complete(&self, plain: &mut [u8]) {
        let (from, end) = (self.start - self.offset, plain.len() - LITERALS);
        let mut done = self.start;
        while done < end {
            // The bytes from `from` on are periodic with the offset, so each copy can double the
            // length of the copied part.
            let bytes = (done - from).min(end - done);
            plain.copy_within(from..from + bytes, done);
            done += bytes;
        }
        plain[end..].copy_from_slice(&self.literals);
    }
}
