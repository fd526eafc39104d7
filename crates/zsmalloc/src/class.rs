//! A size class: its shape, its arithmetic, and the lists of its zspages. The class's lock guards
//! these lists.

use crate::geometry::ClassShape;
use crate::sync::{AtomicU32, Mutex, Ordering::Relaxed};
use page::{ListHead, SlotGrid, page_shift, page_size};
use std::ops::Range;

/// The number of fullness groups. Zspages of group 0 are empty, those of groups 1 to 10 are "10%"
/// to "99%" full, and those of group 11 are full.
pub(crate) const GROUPS: usize = 12;
pub(crate) const FULL: usize = GROUPS - 1;

/// A size class. Only `population`, `min_len` and `state` change.
#[derive(Debug)]
pub(crate) struct Class {
    /// The class's position in the pool's table of classes. This number is also the tag of the
    /// class's extents.
    pub(crate) position: u32,
    /// The number of live objects for which this is the smallest class. Some of these objects may
    /// be stored in another class.
    pub(crate) population: AtomicU32,
    /// The size of the smallest object that the plan assigns to this class. An overwriting thread
    /// reads this field instead of the plan.
    min_len: std::sync::atomic::AtomicU32,
    /// The distance between the starts of adjacent slots, in bytes.
    size: u32,
    /// The size of the largest object, in bytes.
    capacity: u32,
    /// The number of slots in a zspage, and the number of its pages.
    objects: u16,
    pages: u16,
    /// True if zspages are committed whole, as in the kernel, instead of page by page.
    pub(crate) commits_whole: bool,
    pub(crate) state: Mutex<ClassState>,
}

/// The state that the class's lock guards, in addition to the headers of its zspages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassState {
    /// The zspages of each fullness group except the group of full zspages.
    pub(crate) by_fullness: [ListHead; FULL],
    pub(crate) offering: ListHead,
    /// A bit per fullness group. The bit is set if the group contains a zspage.
    pub(crate) groups: u32,
    pub(crate) zspages: u32,
    pub(crate) committed: u32,
    /// The number of committed pages that no live object touches.
    pub(crate) retained: u32,
    pub(crate) inuse: u32,
}

impl Class {
    pub(crate) fn new(position: u32, shape: ClassShape, commits_whole: bool) -> Self {
        Class {
            position,
            population: AtomicU32::new(0),
            min_len: u32::MAX.into(),
            size: shape.size as u32,
            capacity: shape.capacity as u32,
            objects: shape.objects as u16,
            pages: shape.pages as u16,
            commits_whole,
            state: Mutex::default(),
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Records that the class stores new objects of at least `least` bytes. If `least` is above the
    /// capacity, the class stores no new objects.
    pub(crate) fn set_min_len(&self, least: usize) {
        self.min_len.store(least as u32, Relaxed);
    }

    /// Returns whether a new object of `len` bytes is stored in this class.
    pub(crate) fn takes(&self, len: usize) -> bool {
        (self.min_len.load(Relaxed) as usize..=self.capacity()).contains(&len)
    }

    pub(crate) fn objects(&self) -> u32 {
        self.objects.into()
    }

    pub(crate) fn pages(&self) -> u32 {
        self.pages.into()
    }

    /// Returns the number of pages that `inuse` objects need if all their zspages except one are
    /// full.
    pub(crate) fn packed_pages(&self, inuse: u32) -> u32 {
        let objects = self.objects();
        let pages = |objects: u32| (objects as usize * self.size()).div_ceil(page_size()) as u32;
        inuse / objects * pages(objects) + pages(inuse % objects)
    }

    /// Returns the number of pages that compaction could free. If zspages are committed whole, only
    /// pages of zspages that would become empty count, as in the kernel.
    pub(crate) fn gain(&self, state: &ClassState) -> u32 {
        if self.commits_whole {
            let needed = state.inuse.div_ceil(self.objects());
            return (state.zspages.saturating_sub(needed) * self.pages()).min(state.committed);
        }
        (state.committed - state.retained).saturating_sub(self.packed_pages(state.inuse))
    }

    /// Counts a new object for which this is the smallest class.
    pub(crate) fn grow_population(&self) {
        self.population.fetch_add(1, Relaxed);
    }

    pub(crate) fn shrink_population(&self) {
        self.population.fetch_sub(1, Relaxed);
    }

    /// Returns the layout of the slots of a zspage.
    #[inline]
    pub(crate) fn grid(&self) -> SlotGrid {
        SlotGrid { stride: self.size, slots: self.objects.into() }
    }

    /// Returns the pages that must be committed while `slot` is taken.
    pub(crate) fn pages_for(&self, slot: u32) -> Range<u32> {
        if self.commits_whole { 0..self.pages() } else { self.grid().pages_of(slot) }
    }

    /// Returns the last page on which the slot after `slot` lies. Returns `None` if `slot` is the
    /// last slot, or if zspages are committed whole.
    pub(crate) fn next_page(&self, slot: u32) -> Option<u32> {
        let is_there = slot + 1 < self.objects() && !self.commits_whole;
        is_there.then(|| self.grid().pages_of(slot + 1).end - 1)
    }

    /// Returns the slots before and after `slot`; each is `None` if no part of it is on `page`.
    pub(crate) fn neighbours(&self, slot: u32, page: u32) -> (Option<u32>, Option<u32>) {
        let Range { start, end } = self.grid().bytes_of(slot);
        let before = start > page << page_shift();
        let after = end < (page + 1) << page_shift() && slot + 1 < self.objects();
        (before.then(|| slot - 1), after.then_some(slot + 1))
    }

    /// Returns the fullness group of a zspage with `inuse` objects.
    pub(crate) fn group(&self, inuse: u32) -> usize {
        match inuse {
            0 => 0,
            all if all == self.objects() => FULL,
            some => (10 * some / self.objects()) as usize + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;

    #[test]
    fn slots_on_a_page_are_neighbours() {
        for &shape in Geometry::default().table().unwrap().classes() {
            let class = Class::new(0, shape, false);
            for slot in 0..shape.objects as u32 {
                assert!(class.grid().pages_of(slot).end as usize <= shape.pages);
                for page in class.grid().pages_of(slot) {
                    let slots = class.grid().slots_of(page..page + 1);
                    let beside = [slot.checked_sub(1), Some(slot + 1)];
                    let beside = beside.map(|other| other.filter(|other| slots.contains(other)));
                    assert_eq!(class.neighbours(slot, page), beside.into());
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
        // A zspage that is exactly 10% full belongs to group 2, "20%".
        assert_eq!(with(10).group(1), 2);
    }
}
