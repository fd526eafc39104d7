//! Long matches of one repeated byte or word get the offset that decodes fastest.
//!
//! In noise the library's encoder tests every second position for a match, then every third, and so
//! on. A run that follows is found at that distance, which becomes the match's offset: 7 for zeros
//! after 1.6 KB of noise. The library's decoder copies offsets 1, 2 and 4 from a register and 8 by
//! whole words. At other small offsets each load waits for the stores before it, because no single
//! store wrote its bytes.

/// The offsets that decode fast, in order of preference.
const FAST_OFFSETS: [usize; 4] = [1, 2, 4, 8];

/// At this offset or a larger one, no load waits.
const FAR_OFFSET: usize = 64;

/// A match of at most this length takes little time at any offset.
const SHORT_BYTES: usize = 64;

/// The distance of the places that [`repeats`] reads.
const STRIDE: usize = 128;

const WORD_BYTES: usize = size_of::<u64>();

/// The minimum length of a match.
const MATCH_BYTES_MIN: usize = 4;

/// Returns true if `block`, which `plain` was compressed to, may have a match that
/// [`shorten_offsets`] changes. In pages it finds every such match of 274 bytes or more.
pub(super) fn has_slow_run(plain: &[u8], block: &[u8]) -> bool {
    repeats(plain) && has_slow_offset(block)
}

/// Returns true if at two neighbouring places, [`STRIDE`] bytes apart, a word equals the next one,
/// as in a run that repeats one, two, four or eight bytes. In pages it finds every such run of 271
/// bytes.
fn repeats(plain: &[u8]) -> bool {
    let mut last = false;
    plain.chunks_exact(STRIDE).any(|chunk| {
        let repeats = chunk[..WORD_BYTES] == chunk[WORD_BYTES..2 * WORD_BYTES];
        std::mem::replace(&mut last, repeats) && repeats
    })
}

/// Returns true if three bytes may be a slow offset and the first byte of a length of 274 or more.
/// They may also be literals.
fn has_slow_offset(block: &[u8]) -> bool {
    memchr::memchr_iter(255, block).any(|length_at| {
        let offset = block[..length_at].last_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        offset.is_some_and(|offset| (3..FAR_OFFSET).contains(&usize::from(offset)))
    })
}

/// Sets the offset of each long match in `block` to a fast one if the match then copies the same
/// bytes of `plain`, which `block` decompresses to. The block's length does not change.
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
            // The offset is at most 8.
            block[found.offset_at..found.offset_at + 2].copy_from_slice(&[*offset as u8, 0]);
        }
    }
}

/// A match of a block.
pub(super) struct Match {
    /// The position in the block of the offset's two bytes.
    pub(super) offset_at: usize,
    offset: usize,
    /// The position in the decompressed bytes, and the length there.
    pub(super) start: usize,
    pub(super) bytes: usize,
}

impl Match {
    pub(super) fn is_slow(&self) -> bool {
        let is_near = self.offset < FAR_OFFSET && !FAST_OFFSETS.contains(&self.offset);
        is_near && self.bytes > SHORT_BYTES
    }
}

/// The end of the sequences read so far.
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

    /// Reads a length that begins with half of a token. A length is below 255 times the block's, so
    /// no sum overflows.
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
