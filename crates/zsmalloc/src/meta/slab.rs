//! The descriptor of a slab: the `data` of its extent's descriptor.
//!
//! ```text
//!   |  0  left         4  right                      |  slabs of the cache by offset, as raw ids
//!   |  8  active      10  summary  11  below         |  objects in use; summary of this and below
//!   | 12  busy                                       |  whether pages are being released
//!   | 16  residency: committed, retained             |  two bits per page
//!   | 32  used: 512 bits                             |  bit n: object n is in use
//! ```
//! While a thread releases pages without holding the lock, no object is allocated on retained pages
//! of the slab. A release of any of these pages may be under way.
//!
//! All fields change only under the cache's lock. The fields are atomic, so that a stale reader of
//! a descriptor reads old values without a data race.
//!
//! # Safety
//! A new descriptor consists of zeros, and all its fields are atomic integers. The descriptor
//! determines which objects are allocated and which pages are released. So functions that change a
//! descriptor are unsafe, and the caller must hold the lock of the slab's cache.
#![allow(unsafe_code)]

use super::sync::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Relaxed};
use page::{ExtentId, PageSet, Residency, SlotGrid, bits};
use std::ops::Range;

/// The maximum number of objects in a slab, because the slab's descriptor has one bit per object.
pub(crate) const OBJECTS_MAX: usize = 512;
/// The size of a slab's descriptor in bytes, including the extent's own fields.
pub(crate) const DESCRIPTOR_BYTES: usize = size_of::<page::Extent<Slab>>();

/// The flag of a slab that has a free object.
pub(crate) const HAS_ROOM: u8 = 1;
/// The flag of a slab that has a free object on committed pages.
pub(crate) const HAS_COMMITTED_ROOM: u8 = 2;
/// The flag of a slab that has retained pages and is not busy.
pub(crate) const HAS_RETAINED: u8 = 4;

/// The descriptor of a slab.
#[derive(Debug)]
pub(crate) struct Slab {
    left: AtomicU32,
    right: AtomicU32,
    active: AtomicU16,
    /// The flags of this slab at the last update. This field and `summary_below` are only hints for
    /// searches.
    pub(crate) summary: AtomicU8,
    /// The union of the summaries of this slab and of all slabs below it in the tree.
    pub(crate) summary_below: AtomicU8,
    busy: AtomicBool,
    residency: Residency<1>,
    used: [AtomicU64; OBJECTS_MAX / 64],
}

// The sizes are those of the diagram above.
const _: () = assert!(size_of::<Slab>() == 96 && DESCRIPTOR_BYTES == 112);

// SAFETY: all fields of `Slab` are atomic integers.
unsafe impl page::Zeroed for Slab {}

impl Slab {
    /// Initializes the descriptor for a slab without objects or committed pages, outside any tree.
    ///
    /// # Safety
    /// The slab is new and in no tree, and the caller has locked its cache.
    pub(crate) unsafe fn reset(&self) {
        // SAFETY: the caller has locked the slab's cache, and no children are set.
        unsafe { self.set_children(None, None) };
        self.summary.store(0, Relaxed);
        self.active.store(0, Relaxed);
        self.busy.store(false, Relaxed);
        self.residency.clear();
        self.used.iter().for_each(|word| word.store(0, Relaxed));
    }

    pub(crate) fn left(&self) -> Option<ExtentId> {
        ExtentId::from_raw(self.left.load(Relaxed))
    }

    pub(crate) fn right(&self) -> Option<ExtentId> {
        ExtentId::from_raw(self.right.load(Relaxed))
    }

    /// Sets the children of the slab in the tree.
    ///
    /// # Safety
    /// The children belong to the cache of this slab, which is locked.
    pub(crate) unsafe fn set_children(&self, left: Option<ExtentId>, right: Option<ExtentId>) {
        self.left.store(left.map_or(0, ExtentId::to_raw), Relaxed);
        self.right.store(right.map_or(0, ExtentId::to_raw), Relaxed);
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Relaxed) as usize
    }

    /// Returns whether pages of the slab are being released.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Relaxed)
    }

    pub(crate) fn committed(&self) -> &PageSet<1> {
        self.residency.committed()
    }

    /// Returns the committed pages on which no object lies.
    pub(crate) fn retained(&self) -> &PageSet<1> {
        self.residency.retained()
    }

    /// Returns whether the slab has neither objects nor committed pages.
    pub(crate) fn is_unused(&self) -> bool {
        self.active() == 0 && self.committed().is_empty()
    }

    pub(crate) fn lowest_free(&self, grid: SlotGrid) -> Option<u32> {
        match self.is_busy() {
            false => self.lowest_from(0, grid),
            true => self.lowest_on(grid, |page| !self.retained().contains(page)),
        }
    }

    /// Returns the lowest free object on committed pages.
    pub(crate) fn lowest_committed(&self, grid: SlotGrid) -> Option<u32> {
        let busy = self.is_busy();
        let is_kept = |page| !busy || !self.retained().contains(page);
        self.lowest_on(grid, |page| self.committed().contains(page) && is_kept(page))
    }

    /// Returns the lowest free object for which `may` returns true for all of the object's pages.
    fn lowest_on(&self, grid: SlotGrid, may: impl Fn(u32) -> bool) -> Option<u32> {
        let mut from = 0;
        loop {
            let index = self.lowest_from(from, grid)?;
            match grid.pages_of(index).rev().find(|&page| !may(page)) {
                None => return Some(index),
                Some(page) => from = grid.first_slot_from(page + 1),
            }
        }
    }

    /// Returns the lowest free object at or above `from`.
    fn lowest_from(&self, from: u32, grid: SlotGrid) -> Option<u32> {
        bits::first(&self.used, from, false).filter(|&index| index < grid.slots)
    }

    fn word(&self, index: u32) -> (&AtomicU64, u64) {
        (&self.used[index as usize / 64], 1 << (index % 64))
    }

    /// Returns whether an object in use overlaps `pages`.
    fn is_live(&self, grid: SlotGrid, pages: Range<u32>) -> bool {
        bits::any(&self.used, grid.slots_of(pages))
    }

    /// Returns the number of pages that must be committed before object `index` is taken.
    pub(crate) fn missing(&self, grid: SlotGrid, index: u32) -> u32 {
        self.residency.missing(grid.pages_of(index))
    }

    /// Marks the free object `index` as used, and its pages as committed. Returns the number of
    /// these pages that were retained.
    ///
    /// # Safety
    /// The slab belongs to the caller's cache, which is locked, and has the layout `grid`.
    /// `lowest_free` or `lowest_committed` found the object under this lock, and the pages that are
    /// [`missing`](Self::missing) were charged.
    pub(crate) unsafe fn set_used(&self, grid: SlotGrid, index: u32) -> u32 {
        let (word, bit) = self.word(index);
        let before = word.fetch_or(bit, Relaxed);
        debug_assert!(before & bit == 0, "object {index} is taken twice");
        self.active.fetch_add(1, Relaxed);
        self.residency.enter(grid.pages_of(index))
    }

    /// Frees object `index`. Returns the number of pages that become retained, or `None` if the
    /// object was not in use.
    ///
    /// # Safety
    /// The slab belongs to the caller's cache, which is locked, and has the layout `grid`. No
    /// thread uses the object again.
    pub(crate) unsafe fn clear_used(&self, grid: SlotGrid, index: u32) -> Option<u32> {
        let (word, bit) = self.word(index);
        if word.fetch_and(!bit, Relaxed) & bit == 0 {
            return None;
        }
        self.active.fetch_sub(1, Relaxed);
        let emptied = grid.pages_of(index).filter(|&page| !self.is_live(grid, page..page + 1));
        Some(emptied.filter(|&page| self.residency.leave(page)).count() as u32)
    }

    /// Begins to release at most `most` retained pages, the highest ones. Returns these pages.
    ///
    /// # Panics
    /// Panics if a release is already under way. The release that ends first would also end the
    /// other release.
    ///
    /// # Safety
    /// The slab belongs to the caller's cache, which is locked.
    pub(crate) unsafe fn begin_release(&self, most: usize) -> PageSet<1> {
        assert!(!self.is_busy(), "two threads give pages of a slab back");
        self.busy.store(true, Relaxed);
        self.residency.releasable(u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// Ends a release in which the pages `gone` were released.
    ///
    /// # Safety
    /// `begin_release` returned the pages `gone` to the caller or to a lost thread, and the slab's
    /// cache is locked.
    pub(crate) unsafe fn end_release(&self, gone: &PageSet<1>) {
        self.residency.released(gone);
        self.busy.store(false, Relaxed);
    }

    pub(crate) fn summarise(&self, grid: SlotGrid) -> u8 {
        let flag = |flag, is_found| if is_found { flag } else { 0 };
        let is_busy = self.is_busy();
        let has_room = match is_busy {
            false => self.active() < grid.slots as usize,
            true => self.lowest_free(grid).is_some(),
        };
        // Most slabs are full, so `has_room` is checked first to avoid the search.
        let has_committed = has_room && self.lowest_committed(grid).is_some();
        let has_retained = !is_busy && !self.retained().is_empty();
        flag(HAS_ROOM, has_room)
            | flag(HAS_COMMITTED_ROOM, has_committed)
            | flag(HAS_RETAINED, has_retained)
    }

    /// Asserts that the bits agree with each other, and with `active`.
    pub(crate) fn check(&self, grid: SlotGrid) {
        let is_used = |&index: &u32| bits::any(&self.used, index..index + 1);
        let used = (0..OBJECTS_MAX as u32).filter(is_used);
        assert_eq!(used.clone().count(), self.active(), "used bits of a slab");
        assert!(used.max() < Some(grid.slots), "used bits beyond the last object");
        // I5: a committed page has an object or is retained.
        self.residency.check(|page| self.is_live(grid, page..page + 1));
        assert_eq!(self.summary.load(Relaxed), self.summarise(grid), "summary of a slab");
    }
}
