//! Lists of slots, linked by `older` and `younger`.

use super::chunks::{Chunks, NONE};

/// A list of slots, from the oldest slot to the youngest slot.
#[derive(Debug)]
pub struct List {
    pub oldest: u32,
    pub youngest: u32,
}

impl Default for List {
    fn default() -> Self {
        List { oldest: NONE, youngest: NONE }
    }
}

impl List {
    /// Makes two slots neighbours. `NONE` stands for an end of the list.
    fn link<K>(&mut self, slots: &mut Chunks<K>, older: u32, younger: u32) {
        match older {
            NONE => self.oldest = younger,
            older => slots[older].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => slots[younger].older = older,
        }
    }

    /// Inserts a slot, which is in no list, as the youngest.
    pub fn push<K>(&mut self, slots: &mut Chunks<K>, index: u32) {
        self.link(slots, self.youngest, index);
        self.link(slots, index, NONE);
    }

    /// Removes a slot from the list.
    pub fn remove<K>(&mut self, slots: &mut Chunks<K>, index: u32) {
        self.link(slots, slots[index].older, slots[index].younger);
    }

    /// Replaces the slot `from` in the list by the slot `to`, which is in no list.
    pub fn replace<K>(&mut self, slots: &mut Chunks<K>, from: u32, to: u32) {
        let (older, younger) = (slots[from].older, slots[from].younger);
        self.link(slots, older, to);
        self.link(slots, to, younger);
    }

    /// Returns the slots, the oldest first.
    pub fn iter<'s, K>(&self, slots: &'s Chunks<K>) -> impl Iterator<Item = u32> + use<'s, K> {
        let some = |index: u32| Some(index).filter(|&index| index != NONE);
        std::iter::successors(some(self.oldest), move |&index| some(slots[index].younger))
    }
}
