//! Blocks that end in one long match: a page that ends in a run.
//!
//! ```text
//!   sequences to the match's literals | offset 2 | 255 ... 255 | rest 1 | token 0x50 | literals 5
//! ```
//!
//! Within 64 bytes of the output's end the library's decoder copies a match by 8 bytes, from its
//! beginning on. At small offsets each of these copies waits for those before it. So the library
//! gets the block with a match of [`SHORT_BYTES`], and the rest of the match is copied here. That
//! shorter block lies at the output's end, where the match will be. If it is longer than the match
//! but has few sequences, these are walked, and the library decodes the block up to the match.

use super::runs::Cursor;

/// The last bytes of a block, which the format requires to be literals. An encoder that finds a
/// match up to there leaves just these.
const LITERALS: usize = 5;

/// The token of a sequence of literals alone.
const TOKEN: u8 = (LITERALS << 4) as u8;

/// The length of a match if its token has 15 and one byte follows, which is 0.
const SHORT_BYTES: usize = 19;

/// The most sequences that are walked. More take longer than the library takes for their match.
const WALKED_MAX: usize = 32;

/// The last match of a block, and the literals after it.
#[derive(Debug)]
pub(super) struct Tail<'b> {
    /// The block up to the match's length.
    head: &'b [u8],
    offset: usize,
    /// The position of the match in the decompressed bytes.
    pub(super) start: usize,
    /// The length of the match.
    bytes: usize,
    literals: [u8; LITERALS],
}

impl<'b> Tail<'b> {
    /// Returns the tail that the last bytes of `block` appear to be, of a match of 274 bytes or
    /// more. They may be something else.
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

    /// Returns the length that the block decompresses to with a match of [`SHORT_BYTES`].
    pub(super) fn short_bytes(&self) -> usize {
        self.start + SHORT_BYTES + LITERALS
    }

    /// Writes the block with a match of [`SHORT_BYTES`] to `room`, and returns it. Returns `None`
    /// if there is not enough room.
    ///
    /// If it decompresses to another length than [`short_bytes`](Self::short_bytes), the last bytes
    /// of the block are no such tail. If to that one, they are, because only a length gives 255
    /// bytes of output for each byte left out. A damaged block may be an exception; then other
    /// bytes come back, as of any damaged block that still has the right length.
    pub(super) fn shortened<'r>(&self, room: &'r mut [u8]) -> Option<&'r [u8]> {
        let (head, end) = room.split_at_mut_checked(self.head.len())?;
        let (end, _) = end.split_first_chunk_mut()?;
        head.copy_from_slice(self.head);
        let [a, b, c, d, e] = self.literals;
        *end = [0, TOKEN, a, b, c, d, e];
        let bytes = self.head.len() + end.len();
        Some(&room[..bytes])
    }

    /// Returns true if few sequences of `block` lead to the tail, which then is one.
    pub(super) fn is_reached(&self, block: &[u8]) -> bool {
        let mut cursor = Cursor::default();
        let mut walked = (0..WALKED_MAX).map_while(|_| cursor.next_match(block));
        walked.any(|found| {
            let is_last = found.offset_at + size_of::<u16>() == self.head.len();
            is_last && (found.start, found.bytes) == (self.start, self.bytes)
        })
    }

    /// Writes the match and the literals to `plain`, which holds the bytes before them.
    pub(super) fn complete(&self, plain: &mut [u8]) {
        let (from, end) = (self.start - self.offset, plain.len() - LITERALS);
        let mut done = self.start;
        while done < end {
            // All from `from` on repeats at the offset, and each copy doubles its length.
            let bytes = (done - from).min(end - done);
            plain.copy_within(from..from + bytes, done);
            done += bytes;
        }
        plain[end..].copy_from_slice(&self.literals);
    }
}
