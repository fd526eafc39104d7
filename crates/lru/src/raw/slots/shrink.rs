//! Releases the last slots after their contents were moved to free slots.

use super::{CHUNK, NONE, Slot, Slots, Use};

/// A set of slots is sparse if their number exceeds SPARSE times the number of slots in use.
const SPARSE: usize = 4;

impl<K> Slots<K> {
    /// Returns true if the number of slots is much larger than the number in use.
    pub fn is_sparse(&self) -> bool {
        self.chunks.len() > 1 && self.used * SPARSE < self.chunks.len() * CHUNK
    }

    /// Releases the last slots of a sparse set. Returns the old and the new numbers of the slots
    /// whose contents were moved.
    pub fn vacate_last(&mut self) -> Vec<(u32, u32)> {
        debug_assert!(self.is_sparse());
        let end = self.count();
        let last = end - CHUNK as u32..end;
        let mut moved = Vec::new();
        for index in last.clone() {
            if self.get(index).used_as == Use::Free {
                self.take_from_free(index);
            }
        }
        for from in last {
            // A free lower slot exists, because most of the lower slots are free.
            let to = self.free;
            if self.get(from).used_as != Use::Free && to != NONE {
                self.take_from_free(to);
                self.relocate(from, to);
                moved.push((from, to));
            }
        }
        self.chunks.pop();
        if self.chunks.capacity() > SPARSE * self.chunks.len() {
            self.chunks.shrink_to(2 * self.chunks.len());
        }
        moved
    }

    /// Returns the first slot of the value to which the slot `index` belongs, or `NONE` if the slot
    /// is free.
    pub fn first_of(&self, mut index: u32) -> u32 {
        loop {
            match self.get(index).used_as {
                Use::Free => return NONE,
                Use::First => return index,
                Use::More => index = self.get(index).older,
            }
        }
    }

    /// Removes a slot from the list of free slots.
    pub(super) fn take_from_free(&mut self, index: u32) {
        let slot = self.get_mut(index);
        let next = std::mem::replace(&mut slot.next, NONE);
        let before = std::mem::replace(&mut slot.older, NONE);
        match before {
            NONE => self.free = next,
            before => self.get_mut(before).next = next,
        }
        if next != NONE {
            self.get_mut(next).older = before;
        }
    }

    /// Moves the contents of a slot to another slot, which is in no list.
    fn relocate(&mut self, from: u32, to: u32) {
        let slot = std::mem::replace(self.get_mut(from), Slot::free(NONE, NONE));
        match (slot.used_as, slot.older) {
            (Use::More, before) => self.get_mut(before).next = to,
            (_, NONE) => self.oldest = to,
            (_, older) => self.get_mut(older).younger = to,
        }
        if slot.used_as == Use::First {
            match slot.younger {
                NONE => self.youngest = to,
                younger => self.get_mut(younger).older = to,
            }
        }
        if slot.next != NONE {
            self.get_mut(slot.next).older = to;
        }
        *self.get_mut(to) = slot;
    }
}
