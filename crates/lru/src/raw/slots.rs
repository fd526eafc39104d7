//! Numbered slots, one for each piece of each value, and the order in which values were used.
//!
//! ```text
//!   value of three pieces:  | First, key, len | -> | More | -> | More |      slots: `next`
//!   by age:     oldest <--- | First | ---> | First | ---> youngest           `older`, `younger`
//! ```
//! The number of a slot is also the number of the pool's entry that holds the slot's piece.

mod check;
mod order;
mod shrink;

/// The number that means that no slot exists.
pub const NONE: u32 = u32::MAX;

/// The number of slots that are allocated at a time: small enough for a small cache. A large cache
/// does not copy its slots when their number grows.
const CHUNK: usize = 64;

/// The unique id of a value: numbers of slots are reused, but ids are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    index: u32,
    generation: u32,
}

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Unused; `next` is the next free slot.
    Free,
    /// The first piece of a value.
    First,
    /// A later piece of a value.
    More,
}

/// A piece of a value; fields that describe the whole value are set in its first slot.
#[derive(Debug)]
pub struct Slot<K> {
    /// The key of the value, in its first slot.
    pub key: Option<K>,
    /// The hash of the key.
    pub hash: u32,
    /// The bytes of memory that the key uses.
    pub key_bytes: u32,
    /// The length in bytes before compression: in the first slot, of the whole value; in other
    /// slots, of the piece.
    pub len: u32,
    /// The slot of the next piece.
    pub next: u32,
    /// The use of the slot.
    pub used_as: Use,
    generation: u32,
    /// In the first slot of a value, the value used before it; in a later slot, the previous piece;
    /// in a free slot, the previous free slot.
    older: u32,
    younger: u32,
}

impl<K> Slot<K> {
    fn free(before: u32, next: u32) -> Self {
        Slot {
            key: None,
            hash: 0,
            key_bytes: 0,
            len: 0,
            next,
            used_as: Use::Free,
            generation: 0,
            older: before,
            younger: NONE,
        }
    }
}

/// All slots.
#[derive(Debug)]
pub struct Slots<K> {
    chunks: Vec<Box<[Slot<K>]>>,
    free: u32,
    oldest: u32,
    youngest: u32,
    /// The number of slots in use.
    used: usize,
    /// The number of slots taken so far, from which ids are derived.
    taken: u32,
}

impl<K> Slots<K> {
    /// Returns an empty set of slots.
    pub fn new() -> Self {
        Slots { chunks: Vec::new(), free: NONE, oldest: NONE, youngest: NONE, used: 0, taken: 0 }
    }

    /// Returns the number of bytes of memory that all slots use.
    pub fn bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Box<[Slot<K>]>>()
            + self.chunks.len() * CHUNK * size_of::<Slot<K>>()
    }

    /// Returns the number of bytes of memory that a set of `count` slots uses.
    pub fn bytes_of(count: usize) -> usize {
        let chunks = count.div_ceil(CHUNK);
        chunks * CHUNK * size_of::<Slot<K>>() + (4 + 2 * chunks) * size_of::<Box<[Slot<K>]>>()
    }

    /// Returns the number of bytes that [`take`](Self::take) would allocate for `count` slots.
    pub fn bytes_to_take(&self, count: usize) -> usize {
        let missing = (self.used + count).saturating_sub(self.chunks.len() * CHUNK);
        let chunks = missing.div_ceil(CHUNK);
        let room = self.chunks.capacity() - self.chunks.len();
        let list = if chunks > room { self.chunks.capacity().max(4 + chunks) } else { 0 };
        chunks * CHUNK * size_of::<Slot<K>>() + list * size_of::<Box<[Slot<K>]>>()
    }

    /// Returns a slot.
    ///
    /// # Panics
    /// If no slot has this number.
    #[inline]
    pub fn get(&self, index: u32) -> &Slot<K> {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    /// Returns a mutable reference to a slot.
    ///
    /// # Panics
    /// If no slot has this number.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> &mut Slot<K> {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    /// Returns the id of the value whose first slot is `index`.
    pub fn id(&self, index: u32) -> Id {
        Id { index, generation: self.get(index).generation }
    }

    /// Returns the first slot of a value, if it still exists.
    pub fn by_id(&self, id: Id) -> Option<u32> {
        let is_there = id.index < self.count()
            && self.get(id.index).used_as == Use::First
            && self.id(id.index) == id;
        is_there.then_some(id.index)
    }

    /// Returns the number of slots, in use or not.
    pub fn count(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// Takes a free slot into use. Returns `None` if the maximum number of slots is in use.
    pub fn take(&mut self, used_as: Use) -> Option<u32> {
        if self.free == NONE {
            self.grow()?;
        }
        let index = self.free;
        self.taken = self.taken.wrapping_add(1);
        let generation = self.taken;
        self.take_from_free(index);
        let slot = self.get_mut(index);
        (slot.used_as, slot.generation) = (used_as, generation);
        self.used += 1;
        Some(index)
    }

    fn grow(&mut self) -> Option<()> {
        let first = self.count();
        // The number NONE belongs to no slot.
        let last = first.checked_add(CHUNK as u32).filter(|&last| last < NONE)?;
        let free = |index| {
            let before = if index > first { index - 1 } else { NONE };
            Slot::free(before, if index + 1 < last { index + 1 } else { NONE })
        };
        self.chunks.push((first..last).map(free).collect());
        self.free = first;
        Some(())
    }

    /// Makes the piece in `slot` the successor of the piece in `before`.
    pub fn chain(&mut self, before: u32, slot: u32) {
        self.get_mut(before).next = slot;
        self.get_mut(slot).older = before;
    }

    /// Frees a slot that is in no order. Returns the key of the slot and the slot of the next
    /// piece.
    pub fn give_back(&mut self, index: u32) -> (Option<K>, u32) {
        let free = self.free;
        let slot = self.get_mut(index);
        debug_assert!(slot.used_as != Use::Free, "slot {index} is given back twice");
        (slot.used_as, slot.older) = (Use::Free, NONE);
        let next = std::mem::replace(&mut slot.next, free);
        let key = slot.key.take();
        if free != NONE {
            self.get_mut(free).older = index;
        }
        self.free = index;
        self.used -= 1;
        (key, next)
    }

    /// Releases the memory of all slots, none of which may be in use.
    pub fn renew(&mut self) {
        debug_assert_eq!(self.used, 0);
        *self = Slots { taken: self.taken, ..Slots::new() };
    }
}
