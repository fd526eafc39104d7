//! The order in which values were used.

use super::{NONE, Slots};

impl<K> Slots<K> {
    /// Returns the least recently used value.
    pub fn oldest(&self) -> Option<u32> {
        Some(self.oldest).filter(|&index| index != NONE)
    }

    /// Returns the most recently used value.
    pub fn youngest(&self) -> Option<u32> {
        Some(self.youngest).filter(|&index| index != NONE)
    }

    /// Returns the value that was used next after the value in slot `index`.
    pub fn younger(&self, index: u32) -> Option<u32> {
        Some(self.get(index).younger).filter(|&index| index != NONE)
    }

    /// Inserts a value, which is not in the order, as the most recently used.
    pub fn push_youngest(&mut self, index: u32) {
        let older = std::mem::replace(&mut self.youngest, index);
        let slot = self.get_mut(index);
        (slot.older, slot.younger) = (older, NONE);
        match older {
            NONE => self.oldest = index,
            older => self.get_mut(older).younger = index,
        }
    }

    /// Removes a value from the order.
    pub fn unlink(&mut self, index: u32) {
        let slot = self.get_mut(index);
        let older = std::mem::replace(&mut slot.older, NONE);
        let younger = std::mem::replace(&mut slot.younger, NONE);
        match older {
            NONE => self.oldest = younger,
            older => self.get_mut(older).younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => self.get_mut(younger).older = older,
        }
    }

    /// Makes a value the most recently used.
    #[inline]
    pub fn touch(&mut self, index: u32) {
        if self.youngest != index {
            self.unlink(index);
            self.push_youngest(index);
        }
    }

    /// Returns the values, the least recently used first.
    pub fn by_age(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.oldest(), |&index| self.younger(index))
    }
}
