//! A size class: its shape, its arithmetic, and under its lock the lists of its zspages.

use crate::geometry::ClassShape;
use crate::sync::Mutex;
use page::{page_shift, page_size};
use std::ops::Range;

/// Fullness groups: 0 is empty, 1 to 10 are "10%" to "99%", 11 is full.
pub(crate) const GROUPS: usize = 12;
pub(crate) const FULL: usize = GROUPS - 1;

/// A class. All but `state` is fixed.
#[derive(Debug)]
pub(crate) struct Class {
    /// Position in the pool's table, and tag of the class's extents.
    pub(crate) position: u32,
    pub(crate) shape: ClassShape,
    /// Whether zspages are committed whole, as the kernel's, or page by page.
    pub(crate) whole: bool,
    pub(crate) state: Mutex<ClassState>,
}

/// What the class's lock guards, besides the descriptors and bodies of its zspages.
#[derive(Debug, Default)]
pub(crate) struct ClassState {
    /// First zspage of each fullness group, as a raw extent id; 0 is none.
    pub(crate) heads: [u32; GROUPS],
    /// Zspages in each group.
    pub(crate) counts: [u32; GROUPS],
    /// Objects in use.
    pub(crate) inuse: u64,
    /// Pages committed.
    pub(crate) committed: u64,
    /// Of them, those that no live object touches.
    pub(crate) ready: u64,
}

impl Class {
    pub(crate) fn new(position: u32, shape: ClassShape, whole: bool) -> Self {
        Class { position, shape, whole, state: Mutex::default() }
    }

    /// The slot that begins `at` bytes into its zspage.
    pub(crate) fn slot_at(&self, at: u64) -> u32 {
        debug_assert!(at.is_multiple_of(self.shape.size as u64));
        at as u32 / self.shape.size as u32
    }

    /// Bytes from the zspage's start to slot `slot`.
    pub(crate) fn offset(&self, slot: u32) -> u64 {
        slot as u64 * self.shape.size as u64
    }

    /// The pages that slot `slot` lies in.
    pub(crate) fn pages_of(&self, slot: u32) -> Range<u32> {
        let start = slot as usize * self.shape.size;
        let last = start + self.shape.size - 1;
        (start >> page_shift()) as u32..(last >> page_shift()) as u32 + 1
    }

    /// The pages that must be committed while slot `slot` is taken.
    pub(crate) fn pages_for(&self, slot: u32) -> Range<u32> {
        if self.whole { 0..self.shape.pages as u32 } else { self.pages_of(slot) }
    }

    /// The slots that lie in `pages`, whole or in part.
    pub(crate) fn slots_of(&self, pages: Range<u32>) -> Range<u32> {
        let start = pages.start as usize * page_size() / self.shape.size;
        let end = (pages.end as usize * page_size()).div_ceil(self.shape.size);
        start as u32..(end.min(self.shape.objects)) as u32
    }

    /// The fullness group of a zspage with `inuse` objects.
    pub(crate) fn group(&self, inuse: u32) -> usize {
        match inuse as usize {
            0 => 0,
            all if all == self.shape.objects => FULL,
            some => 10 * some / self.shape.objects + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;

    #[test]
    fn slots_and_pages_agree() {
        for &shape in Geometry::default().table().unwrap().classes() {
            let class = Class::new(0, shape, false);
            for slot in 0..shape.objects as u32 {
                assert_eq!(class.slot_at(class.offset(slot)), slot);
                assert!(class.pages_of(slot).end as usize <= shape.pages);
                for page in class.pages_of(slot) {
                    assert!(class.slots_of(page..page + 1).contains(&slot));
                }
            }
            for page in 0..shape.pages as u32 {
                for slot in class.slots_of(page..page + 1) {
                    assert!(class.pages_of(slot).contains(&page), "{shape:?} {page} {slot}");
                }
            }
        }
    }

    #[test]
    fn groups_are_the_kernels() {
        let with = |objects| {
            let shape = Geometry::default().table().unwrap().classes()[0];
            Class::new(0, ClassShape { objects, ..shape }, false)
        };
        let class = with(127);
        let groups = [(0, 0), (1, 1), (12, 1), (13, 2), (126, 10), (127, 11)];
        for (inuse, group) in groups {
            assert_eq!(class.group(inuse), group, "{inuse} of 127");
        }
        // Exactly 10% belongs to the column of 20%.
        assert_eq!(with(10).group(1), 2);
    }
}
