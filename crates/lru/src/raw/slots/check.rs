//! Checks that the slots and the order are consistent.

use super::{NONE, Slots, Use};

impl<K> Slots<K> {
    /// Returns the slot of the piece that follows the piece in slot `index`.
    pub fn next_of(&self, index: u32) -> Option<u32> {
        Some(self.get(index).next).filter(|&next| next != NONE)
    }

    /// Asserts that each slot is exactly one of these: a member of the order, a later piece of one
    /// value, or free.
    pub fn check(&self) {
        let mut uses = vec![Use::Free; self.count() as usize];
        let mut mark = |index: u32, used_as: Use| {
            assert_eq!(self.get(index).used_as, used_as, "slot {index}");
            assert_eq!(uses[index as usize], Use::Free, "slot {index} is used twice");
            uses[index as usize] = used_as;
        };
        let mut older = NONE;
        for first in self.by_age() {
            mark(first, Use::First);
            assert!(self.get(first).key.is_some() && self.get(first).older == older);
            older = first;
            let (mut before, mut next) = (first, self.get(first).next);
            while next != NONE {
                mark(next, Use::More);
                assert!(self.get(next).key.is_none() && self.get(next).older == before);
                (before, next) = (next, self.get(next).next);
            }
        }
        assert_eq!(self.youngest, older);
        let used = uses.iter().filter(|&&used_as| used_as != Use::Free).count();
        assert_eq!(self.used, used);
        let free = |&index: &u32| Some(self.get(index).next).filter(|&next| next != NONE);
        let first = Some(self.free).filter(|&index| index != NONE);
        let free = std::iter::successors(first, free);
        let mut before = NONE;
        let free = free.inspect(|&index| {
            let slot = self.get(index);
            assert_eq!((slot.used_as, slot.older), (Use::Free, before));
            before = index;
        });
        let free = free.count();
        assert_eq!(free + used, uses.len());
    }
}
