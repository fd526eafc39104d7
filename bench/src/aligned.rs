//! A buffer for O_DIRECT, whose first byte lies on a page boundary.

use std::ops::{Deref, DerefMut};

/// The alignment in bytes of a buffer's first byte. This alignment suffices for any block device.
pub const ALIGNMENT: usize = 4096;

/// Zeroed bytes of a fixed length, aligned to [`ALIGNMENT`].
#[derive(Debug)]
pub struct AlignedBuf {
    // The vector has `ALIGNMENT` bytes more than the buffer, and never grows. So the start of the
    // buffer stays aligned.
    room: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    /// Returns a buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> AlignedBuf {
        let room = vec![0; len + ALIGNMENT];
        let start = room.as_ptr().addr().next_multiple_of(ALIGNMENT) - room.as_ptr().addr();
        AlignedBuf { room, start, len }
    }

    /// Shortens a buffer that is longer than `len` bytes to `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.room[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_is_aligned() {
        for len in [0, 1, 4096, 1 << 20] {
            let mut buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_ptr().addr() % ALIGNMENT, 0);
            buf.fill(7);
            buf.truncate(len / 2);
            assert_eq!(buf.len(), len / 2);
        }
    }
}
