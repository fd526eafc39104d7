//! The memory of the slots, which grows and shrinks by chunks of `CHUNK` slots.

use crate::policy::{CHUNK, SPARSE};
use std::ops::{Index, IndexMut};

/// A number that no slot has.
pub const NONE: u32 = u32::MAX;

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Unused.
    Free,
    /// The first piece of a value.
    First,
    /// A later piece of a value.
    More,
}

/// A slot for a piece of a value. Fields that describe the whole value are set only in the value's
/// first slot.
#[derive(Debug)]
pub struct Slot<K> {
    /// The key of the value, only in the value's first slot.
    pub key: Option<K>,
    /// The hash of the key.
    pub hash: u32,
    /// The bytes of memory that the key uses.
    pub key_bytes: u32,
    /// The length in bytes before compression. A first slot holds the length of the whole value.
    /// Another slot holds the length of its piece.
    pub len: u32,
    /// The slot of the next piece, or `NONE`.
    pub next: u32,
    /// The use of the slot.
    pub used_as: Use,
    pub(super) generation: u32,
    /// For a value's first slot: the first slot of the next older value. For another slot of a
    /// value: the slot of the previous piece. For a free slot: the previous free slot.
    pub(super) older: u32,
    /// For a value's first slot: the first slot of the next younger value. For a free slot: the
    /// next free slot.
    pub(super) younger: u32,
}

impl<K> Default for Slot<K> {
    fn default() -> Self {
        let (older, younger, next) = (NONE, NONE, NONE);
        let (key, used_as, generation) = (None, Use::Free, 0);
        Slot { key, hash: 0, key_bytes: 0, len: 0, next, used_as, generation, older, younger }
    }
}

/// The slots by their numbers.
#[derive(Debug)]
pub struct Chunks<K>(Vec<Box<[Slot<K>]>>);

impl<K> Default for Chunks<K> {
    fn default() -> Self {
        Chunks(Vec::new())
    }
}

impl<K> Index<u32> for Chunks<K> {
    type Output = Slot<K>;

    #[inline]
    fn index(&self, index: u32) -> &Slot<K> {
        &self.0[index as usize / CHUNK][index as usize % CHUNK]
    }
}

impl<K> IndexMut<u32> for Chunks<K> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Slot<K> {
        &mut self.0[index as usize / CHUNK][index as usize % CHUNK]
    }
}

impl<K> Chunks<K> {
    /// Returns the number of slots.
    pub fn count(&self) -> u32 {
        (self.0.len() * CHUNK) as u32
    }

    /// Returns the number of bytes of memory of `chunks` chunks and of a list with a capacity of
    /// `list` chunks.
    pub fn bytes_of(chunks: usize, list: usize) -> usize {
        chunks * CHUNK * size_of::<Slot<K>>() + list * size_of::<Box<[Slot<K>]>>()
    }

    /// Returns the number of bytes of memory that all slots use.
    pub fn bytes(&self) -> usize {
        Self::bytes_of(self.0.len(), self.0.capacity())
    }

    /// Returns the number of bytes that would be allocated to grow to `count` slots.
    pub fn bytes_to_grow(&self, count: usize) -> usize {
        let chunks = count.saturating_sub(self.0.len() * CHUNK).div_ceil(CHUNK);
        let has_room = chunks <= self.0.capacity() - self.0.len();
        Self::bytes_of(chunks, if has_room { 0 } else { self.0.capacity().max(4 + chunks) })
    }

    /// Adds a chunk. Returns `None` if the maximum number of slots exists.
    pub fn grow(&mut self) -> Option<()> {
        // The number NONE belongs to no slot.
        self.count().checked_add(CHUNK as u32).filter(|&end| end < NONE)?;
        self.0.push(std::iter::repeat_with(Slot::default).take(CHUNK).collect());
        Some(())
    }

    /// Removes the last chunk.
    pub fn pop(&mut self) {
        self.0.pop();
        if self.0.capacity() > SPARSE * self.0.len() {
            self.0.shrink_to(2 * self.0.len());
        }
    }
}
