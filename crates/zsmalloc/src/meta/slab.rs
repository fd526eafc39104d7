//! What manages a slab: the `data` of its extent's descriptor.
//!
//! ```text
//!   |  0  left         4  right                       |  slabs of the cache by offset, as raw extent ids
//!   |  8  active      10  summary  11  summary below |  objects in use; what is to be found here (slab_tree.rs)
//!   | 12  committed   14  retained  16  releasing    |  a bit per page
//!   | 20  used: 512 bits                              |  bit n: object n is in use
//! ```
//! A page is *committed* if an object that is in use lies on it, or it is *retained* for the next,
//! or *releasing*: being given back. No object is given out on a page that is being released.
//!
//! Everything here changes under the cache's lock only; the fields are atomics so that a stale
//! reader of a descriptor reads old numbers, not a data race.
//!
//! # Safety
//! A descriptor begins as zeros: all its fields are atomic integers.
#![allow(unsafe_code)]

use super::geometry::{Geometry, OBJECTS_MAX, Pages};
use super::sync::{AtomicU8, AtomicU16, AtomicU32, Relaxed};
use page::ExtentId;
use std::ops::Range;

const WORDS: usize = OBJECTS_MAX / 32;

/// There is a free object.
pub(crate) const HAS_ROOM: u8 = 1;
/// There is a free object on pages that are committed.
pub(crate) const HAS_COMMITTED_ROOM: u8 = 2;
/// There are retained pages.
pub(crate) const HAS_RETAINED: u8 = 4;

/// A slab's management.
#[derive(Debug)]
pub(crate) struct Slab {
    left: AtomicU32,
    right: AtomicU32,
    active: AtomicU16,
    pub(crate) summary: AtomicU8,
    /// The summaries of this slab and of all that hang below it.
    pub(crate) summary_below: AtomicU8,
    committed: AtomicU16,
    retained: AtomicU16,
    releasing: AtomicU16,
    used: [AtomicU32; WORDS],
}

// As drawn above, and 96 bytes with what is the extent's.
const _: () = assert!(size_of::<Slab>() == 84 && size_of::<page::Extent<Slab>>() == 96);

// SAFETY: all its fields are atomic integers.
unsafe impl page::Zeroed for Slab {}

impl Slab {
    /// Makes a descriptor that of a slab without objects or committed pages, apart from all others.
    pub(crate) fn reset(&self) {
        self.set_children(None, None);
        self.summary.store(0, Relaxed);
        self.active.store(0, Relaxed);
        for pages in [&self.committed, &self.retained, &self.releasing] {
            pages.store(0, Relaxed);
        }
        for bits in &self.used {
            bits.store(0, Relaxed);
        }
    }

    pub(crate) fn left(&self) -> Option<ExtentId> {
        ExtentId::from_raw(self.left.load(Relaxed))
    }

    pub(crate) fn right(&self) -> Option<ExtentId> {
        ExtentId::from_raw(self.right.load(Relaxed))
    }

    pub(crate) fn set_children(&self, left: Option<ExtentId>, right: Option<ExtentId>) {
        self.left.store(left.map_or(0, ExtentId::to_raw), Relaxed);
        self.right.store(right.map_or(0, ExtentId::to_raw), Relaxed);
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Relaxed) as usize
    }

    pub(crate) fn committed(&self) -> Pages {
        self.committed.load(Relaxed)
    }

    pub(crate) fn retained(&self) -> Pages {
        self.retained.load(Relaxed)
    }

    pub(crate) fn releasing(&self) -> Pages {
        self.releasing.load(Relaxed)
    }

    /// Whether nothing is left of the slab but its address space.
    pub(crate) fn is_unused(&self) -> bool {
        self.active() == 0 && self.committed() == 0
    }

    /// The lowest free object.
    pub(crate) fn lowest_free(&self, geometry: &Geometry) -> Option<usize> {
        match self.releasing() {
            0 => self.lowest(0..geometry.objects, false),
            releasing => self.lowest_within(geometry, !releasing),
        }
    }

    /// The lowest free object on pages that are committed.
    pub(crate) fn lowest_committed(&self, geometry: &Geometry) -> Option<usize> {
        self.lowest_within(geometry, self.committed() & !self.releasing())
    }

    /// The lowest free object that lies on `pages` alone.
    fn lowest_within(&self, geometry: &Geometry, pages: Pages) -> Option<usize> {
        runs(pages).find_map(|run| self.lowest(geometry.objects_within(run), false))
    }

    /// The first of `objects` that is in use, or that is not.
    fn lowest(&self, objects: Range<usize>, used: bool) -> Option<usize> {
        let flip = if used { 0 } else { u32::MAX };
        let mut ignored = (1 << (objects.start % 32)) - 1;
        for word in objects.start / 32..objects.end.div_ceil(32) {
            let found = (self.used[word].load(Relaxed) ^ flip) & !ignored;
            ignored = 0;
            if found != 0 {
                let index = word * 32 + found.trailing_zeros() as usize;
                return Some(index).filter(|&index| index < objects.end);
            }
        }
        None
    }

    fn is_used(&self, index: usize) -> bool {
        self.used[index / 32].load(Relaxed) >> (index % 32) & 1 == 1
    }

    /// Whether an object in use lies on `page`.
    fn is_live(&self, geometry: &Geometry, page: u32) -> bool {
        self.lowest(geometry.objects_on(page), true).is_some()
    }

    /// Takes the free object `index`, whose pages are committed from now on; which of them were
    /// retained.
    pub(crate) fn set_used(&self, geometry: &Geometry, index: usize) -> Pages {
        debug_assert!(!self.is_used(index), "object {index} is taken twice");
        self.used[index / 32].fetch_or(1 << (index % 32), Relaxed);
        self.active.fetch_add(1, Relaxed);
        let pages = geometry.pages_of(index);
        self.committed.fetch_or(pages, Relaxed);
        self.retained.fetch_and(!pages, Relaxed) & pages
    }

    /// Gives object `index` back: the pages that are retained now. `None` where it was not in use.
    pub(crate) fn clear_used(&self, geometry: &Geometry, index: usize) -> Option<Pages> {
        let bit = 1 << (index % 32);
        if self.used[index / 32].fetch_and(!bit, Relaxed) & bit == 0 {
            return None;
        }
        self.active.fetch_sub(1, Relaxed);
        let pages = runs(geometry.pages_of(index)).flatten();
        let emptied = pages.filter(|&page| !self.is_live(geometry, page));
        let emptied = emptied.fold(0, |pages, page| pages | 1 << page);
        self.retained.fetch_or(emptied, Relaxed);
        Some(emptied)
    }

    /// Begins to release the highest of the retained pages, `most` at most: they are *releasing*.
    pub(crate) fn begin_release(&self, most: usize) -> Pages {
        let mut stay = self.retained();
        let mut releasing = 0;
        while stay != 0 && (releasing as Pages).count_ones() < most.min(Pages::BITS as usize) as u32
        {
            let highest = 1 << stay.ilog2();
            stay ^= highest;
            releasing |= highest;
        }
        self.retained.store(stay, Relaxed);
        self.releasing.fetch_or(releasing, Relaxed);
        releasing
    }

    /// Takes note that of the pages `releasing` those in `released` went; the others are retained
    /// again.
    pub(crate) fn end_release(&self, releasing: Pages, released: Pages) {
        self.releasing.fetch_and(!releasing, Relaxed);
        self.committed.fetch_and(!released, Relaxed);
        self.retained.fetch_or(releasing & !released, Relaxed);
    }

    /// What is to be found here.
    pub(crate) fn summarise(&self, geometry: &Geometry) -> u8 {
        let flag = |flag, is_found| if is_found { flag } else { 0 };
        let stays = self.committed() & !self.releasing();
        let has_room = match self.releasing() {
            0 => self.active() < geometry.objects,
            releasing => self.lowest_within(geometry, !releasing).is_some(),
        };
        // Most slabs are full, or committed whole: no need to search them.
        let is_whole = stays.count_ones() as usize == geometry.pages;
        let is_committed = has_room && (is_whole || self.lowest_within(geometry, stays).is_some());
        flag(HAS_ROOM, has_room)
            | flag(HAS_COMMITTED_ROOM, is_committed)
            | flag(HAS_RETAINED, self.retained() != 0)
    }

    /// Asserts that the bits agree with each other, and with `active`.
    pub(crate) fn check(&self, geometry: &Geometry) {
        let used = (0..OBJECTS_MAX).filter(|&index| self.is_used(index));
        assert_eq!(used.clone().count(), self.active(), "used bits of a slab");
        assert!(used.max() < Some(geometry.objects), "used bits beyond the last object");
        let live = (0..geometry.pages as u32).filter(|&page| self.is_live(geometry, page));
        let live = live.fold(0, |pages, page| pages | 1 << page);
        let (retained, releasing) = (self.retained(), self.releasing());
        // I5: committed for an object, or retained, or about to be neither.
        assert_eq!(
            live & retained | live & releasing | retained & releasing,
            0,
            "{live:b} {retained:b} {releasing:b}"
        );
        assert_eq!(self.committed(), live | retained | releasing, "committed pages");
        assert_eq!(self.summary.load(Relaxed), self.summarise(geometry), "summary of a slab");
    }
}

/// The maximal runs of consecutive pages, lowest first.
fn runs(pages: Pages) -> impl Iterator<Item = Range<u32>> {
    // One bit more, which is clear, ends the last run.
    let mut left = pages as u32;
    std::iter::from_fn(move || {
        let start = (left != 0).then(|| left.trailing_zeros())?;
        let end = start + (left >> start).trailing_ones();
        left &= u32::MAX << end;
        Some(start..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_pages() {
        let listed = |pages| runs(pages).collect::<Vec<_>>();
        assert_eq!(listed(0), []);
        assert_eq!(listed(0b1011_0110), [1..3, 4..6, 7..8]);
        assert_eq!(listed(Pages::MAX).first(), Some(&(0..16)));
    }
}
