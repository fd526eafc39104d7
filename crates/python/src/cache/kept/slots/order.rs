//! The order in which values were used.

use super::{NONE, Slots};

impl<K> Slots<K> {
    /// Returns the value that was not used for the longest time.
    pub fn oldest(&self) -> Option<u32> {
        Some(self.oldest).filter(|&index| index != NONE)
    }

    /// Returns the value that was used last.
    pub fn youngest(&self) -> Option<u32> {
        Some(self.youngest).filter(|&index| index != NONE)
    }

    /// Returns the value that was used next after this one.
    pub fn younger(&self, index: u32) -> Option<u32> {
        Some(self.get(index).younger).filter(|&index| index != NONE)
    }

    /// Puts a value, which is in no order, behind the youngest.
    pub fn push_youngest(&mut self, index: u32) {
        let older = std::mem::replace(&mut self.youngest, index);
        let slot = self.get_mut(index);
        (slot.older, slot.younger) = (older, NONE);
        match older {
            NONE => self.oldest = index,
            older => self.get_mut(older).younger = index,
        }
    }

    /// Takes a value out of the order.
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

    /// Makes a value the youngest.
    #[inline]
    pub fn touch(&mut self, index: u32) {
        if self.youngest != index {
            self.unlink(index);
            self.push_youngest(index);
        }
    }

    /// Returns the values, the oldest first.
    pub fn by_age(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.oldest(), |&index| self.younger(index))
    }
}
