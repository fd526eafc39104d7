//! Numbered slots, one for each piece of each value, and the order in which values were used.
//!
//! ```text
//!   value of three pieces:  | First, key, len | -> | More | -> | More |      slots: `next`
//!   by age:     oldest <--- | First | ---> | First | ---> youngest           `older`, `younger`
//! ```
//! The number of a slot is also the number of the pool's entry that holds the slot's piece.

mod chunks;
mod list;

pub use chunks::{NONE, Use};

use crate::policy::{CHUNK, SPARSE};
use chunks::{Chunks, Slot};
use list::List;
use std::ops::{Index, IndexMut};

/// The id of a value. Unlike the number of a slot, an id is reused only after 2^32 pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    index: u32,
    generation: u32,
}

/// All slots.
#[derive(Debug)]
pub struct Slots<K> {
    slots: Chunks<K>,
    /// The first slots of values, the least recently used first.
    order: List,
    free: List,
    /// The number of slots in use.
    used: usize,
    /// The number of slots taken so far, from which ids are derived.
    taken: u32,
}

impl<K> Index<u32> for Slots<K> {
    type Output = Slot<K>;

    #[inline]
    fn index(&self, index: u32) -> &Slot<K> {
        &self.slots[index]
    }
}

impl<K> IndexMut<u32> for Slots<K> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Slot<K> {
        &mut self.slots[index]
    }
}

impl<K> Slots<K> {
    /// Returns an empty set of slots.
    pub fn new() -> Self {
        let (order, free) = (List::default(), List::default());
        Slots { slots: Chunks::default(), order, free, used: 0, taken: 0 }
    }

    /// Returns the number of bytes of memory that all slots use.
    pub fn bytes(&self) -> usize {
        self.slots.bytes()
    }

    /// Returns the number of bytes of memory that a set of `count` slots uses.
    pub fn bytes_of(count: usize) -> usize {
        let chunks = count.div_ceil(CHUNK);
        Chunks::<K>::bytes_of(chunks, 4 + 2 * chunks)
    }

    /// Returns the number of bytes that [`take`](Self::take) would allocate for `count` slots.
    pub fn bytes_to_take(&self, count: usize) -> usize {
        self.slots.bytes_to_grow(self.used + count)
    }

    /// Returns the id of the value whose first slot is `index`.
    pub fn id(&self, index: u32) -> Id {
        Id { index, generation: self[index].generation }
    }

    /// Returns the first slot of a value, if the value still exists.
    pub fn by_id(&self, id: Id) -> Option<u32> {
        let is_there = id.index < self.count()
            && self[id.index].used_as == Use::First
            && self.id(id.index) == id;
        is_there.then_some(id.index)
    }

    /// Returns the number of all slots, used or free.
    pub fn count(&self) -> u32 {
        self.slots.count()
    }

    /// Takes a free slot. Returns `None` if the maximum number of slots is in use.
    pub fn take(&mut self, used_as: Use) -> Option<u32> {
        if self.free.youngest == NONE {
            let first = self.count();
            self.slots.grow()?;
            (first..self.count()).rev().for_each(|index| self.free.push(&mut self.slots, index));
        }
        let index = self.free.youngest;
        self.free.remove(&mut self.slots, index);
        self.taken = self.taken.wrapping_add(1);
        let slot = &mut self.slots[index];
        (slot.used_as, slot.generation, slot.next) = (used_as, self.taken, NONE);
        self.used += 1;
        Some(index)
    }

    /// Makes the piece in `slot` the successor of the piece in `before`.
    pub fn chain(&mut self, before: u32, slot: u32) {
        self[before].next = slot;
        self[slot].older = before;
    }

    /// Frees a slot that is not in `order`. Returns the key of the slot and the slot of the next
    /// piece.
    pub fn give_back(&mut self, index: u32) -> (Option<K>, u32) {
        let slot = &mut self.slots[index];
        debug_assert!(slot.used_as != Use::Free, "slot {index} is given back twice");
        slot.used_as = Use::Free;
        let of_value = (slot.key.take(), slot.next);
        self.free.push(&mut self.slots, index);
        self.used -= 1;
        of_value
    }

    /// Releases the memory of all slots. No slot is in use.
    pub fn renew(&mut self) {
        debug_assert_eq!(self.used, 0);
        *self = Slots { taken: self.taken, ..Slots::new() };
    }

    /// Returns the first slots of all values, the least recently used value first.
    pub fn by_age(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.iter(&self.slots)
    }

    /// Returns the slots of a value, beginning with `first`.
    pub fn pieces(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |&index: &u32| Some(self[index].next).filter(|&next| next != NONE);
        std::iter::successors(Some(first), next)
    }

    /// Returns the first slot of the least recently used value.
    pub fn oldest(&self) -> Option<u32> {
        self.by_age().next()
    }

    /// Returns the first slot of the most recently used value.
    pub fn youngest(&self) -> Option<u32> {
        Some(self.order.youngest).filter(|&index| index != NONE)
    }

    /// Inserts the first slot of a value into `order`, as the most recently used.
    pub fn push_youngest(&mut self, index: u32) {
        self.order.push(&mut self.slots, index);
    }

    /// Removes the first slot of a value from `order`.
    pub fn unlink(&mut self, index: u32) {
        self.order.remove(&mut self.slots, index);
    }

    /// Makes a value the most recently used.
    #[inline]
    pub fn touch(&mut self, index: u32) {
        if self.order.youngest != index {
            self.unlink(index);
            self.push_youngest(index);
        }
    }

    /// Returns true if the number of slots is much larger than the number in use.
    pub fn is_sparse(&self) -> bool {
        self.count() as usize > CHUNK.max(self.used * SPARSE)
    }

    /// Moves the contents of the last slots of a sparse set to free slots, and releases the last
    /// slots. Returns the old and the new number of each moved slot.
    pub fn vacate_last(&mut self) -> Vec<(u32, u32)> {
        debug_assert!(self.is_sparse());
        let last = self.count() - CHUNK as u32..self.count();
        for index in last.clone() {
            if self[index].used_as == Use::Free {
                self.free.remove(&mut self.slots, index);
            }
        }
        let mut moved = Vec::new();
        for from in last {
            // A free lower slot exists, because most of the lower slots are free.
            let to = self.free.youngest;
            if self[from].used_as != Use::Free && to != NONE {
                self.free.remove(&mut self.slots, to);
                self.relocate(from, to);
                moved.push((from, to));
            }
        }
        self.slots.pop();
        moved
    }

    /// Moves the contents of slot `from` to slot `to`, which is in no list.
    fn relocate(&mut self, from: u32, to: u32) {
        let Slot { used_as, older, next, .. } = self[from];
        match used_as {
            Use::First => self.order.replace(&mut self.slots, from, to),
            _ => self[older].next = to,
        }
        if next != NONE {
            self[next].older = to;
        }
        self[to] = std::mem::take(&mut self[from]);
    }

    /// Returns the first slot of the value to which the slot `index` belongs, or `None` if the slot
    /// is free.
    pub fn first_of(&self, mut index: u32) -> Option<u32> {
        while self[index].used_as == Use::More {
            index = self[index].older;
        }
        (self[index].used_as == Use::First).then_some(index)
    }

    /// Asserts that each slot is exactly one of these: a member of the order, a later piece of one
    /// value, or free.
    pub fn check(&self) {
        let mut seen = vec![false; self.count() as usize];
        let mut mark = |index: u32, used_as: Use, older: u32| {
            let slot = &self[index];
            assert_eq!((slot.used_as, slot.older), (used_as, older), "slot {index}");
            assert_eq!(slot.key.is_some(), used_as == Use::First, "the key of slot {index}");
            assert!(!std::mem::replace(&mut seen[index as usize], true), "slot {index} used twice");
            index
        };
        let mut used = 0;
        let youngest = self.by_age().fold(NONE, |older, first| {
            mark(first, Use::First, older);
            let more = self.pieces(first).skip(1);
            used += 1 + more.fold((first, 0), |(b, n), i| (mark(i, Use::More, b), n + 1)).1;
            first
        });
        let free = self.free.iter(&self.slots);
        let free = free.fold(NONE, |older, index| mark(index, Use::Free, older));
        assert_eq!((youngest, free, used), (self.order.youngest, self.free.youngest, self.used));
        assert!(seen.iter().all(|&is_seen| is_seen), "a slot is in no list");
    }
}
