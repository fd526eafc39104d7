//! One section of a space: its address space, and the map from each granule to its extent.
//!
//! # Safety
//! A section's base points to `granules` granules of a live segment. The space unmaps the segment
//! only after it has detached the section. The map is created once per section, before `granules`
//! is raised from 0 with release order. When no granule of a page of the map is used, the page is
//! released but stays mapped. So a reader with a stale offset finds zeros or another extent, and
//! never reads unmapped memory.
#![allow(unsafe_code)]

use crate::budget::Supply;
use crate::free_runs::{runs, unused_pages};
use crate::mapping::{Mapping, release_at};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};
use crate::zeroed::Zeroed;
use crate::{Error, page_size};
use std::ops::Range;
use std::ptr::NonNull;

/// One section. `base` and `granules` change only under the space's lock. Any thread can read them.
#[derive(Debug)]
pub(crate) struct Section {
    base: AtomicPtr<u8>,
    map: AtomicPtr<AtomicU32>,
    /// The number of granules with address space. A section without a segment has 0 granules. A
    /// section in a small segment has fewer granules than a full section.
    granules: AtomicU32,
    free: AtomicU32,
    /// The number of a granule. No granule with a lower number is free.
    hint: AtomicU32,
}

// SAFETY: all fields of `Section` are AtomicPtr or AtomicU32.
unsafe impl Zeroed for Section {}

impl Section {
    /// Returns a section in the state of newly mapped memory.
    #[cfg(all(test, loom))]
    pub(crate) fn unused() -> Self {
        let (base, map) = (AtomicPtr::default(), AtomicPtr::default());
        let [granules, free, hint] = std::array::from_fn(|_| AtomicU32::new(0));
        Section { base, map, granules, free, hint }
    }

    /// Returns whether the section has a map. No loom model reads the map itself.
    #[cfg(all(test, loom))]
    pub(crate) fn has_map(&self) -> bool {
        !self.map.load(Relaxed).is_null()
    }

    /// Assigns `granules` granules at `base` to the section, and creates a map of `map_bytes` if
    /// the section has none.
    ///
    /// # Safety
    /// The granules lie in a mapping that exists as long as one of them is used. `map_bytes` is a
    /// whole number of pages, at least 4 bytes per granule, and the same in every call for this
    /// section.
    pub(crate) unsafe fn attach(
        &self,
        base: NonNull<u8>,
        granules: u32,
        map_bytes: usize,
        supply: Option<&dyn Supply>,
    ) -> Result<(), Error> {
        debug_assert!(self.granules() == 0 && granules as usize * 4 <= map_bytes);
        if self.map.load(Relaxed).is_null() {
            let map = Mapping::reserve(map_bytes, page_size(), supply)?;
            self.map.store(map.base().as_ptr().cast(), Relaxed);
            std::mem::forget(map); // `Section::destroy` unmaps it
        }
        self.base.store(base.as_ptr(), Relaxed);
        self.free.store(granules, Relaxed);
        self.hint.store(0, Relaxed);
        self.granules.store(granules, Ordering::Release);
        Ok(())
    }

    /// Removes the section's address space.
    ///
    /// # Safety
    /// No granule is in use.
    pub(crate) unsafe fn detach(&self) {
        debug_assert!(self.is_unused());
        self.granules.store(0, Ordering::Release);
        self.free.store(0, Relaxed);
        self.base.store(std::ptr::null_mut(), Relaxed);
    }

    /// Unmaps the section's map.
    ///
    /// # Safety
    /// No thread uses the section again, and `attach` created its map with this `map_bytes`.
    pub(crate) unsafe fn destroy(&self, map_bytes: usize) {
        if let Some(map) = NonNull::new(self.map.swap(std::ptr::null_mut(), Relaxed)) {
            // SAFETY: `attach` forgot exactly this mapping, of this length, and the caller
            // guarantees that no thread uses the section.
            drop(unsafe { Mapping::adopt(map.cast(), map_bytes) });
        }
    }

    #[inline]
    pub(crate) fn granules(&self) -> u32 {
        self.granules.load(Ordering::Acquire)
    }

    pub(crate) fn free(&self) -> u32 {
        self.free.load(Relaxed)
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.free() == self.granules()
    }

    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.load(Relaxed)
    }

    /// Returns the extent id of each granule, which is 0 if no extent uses the granule.
    #[inline]
    pub(crate) fn map(&self) -> &[AtomicU32] {
        let granules = self.granules() as usize;
        let map = self.map.load(Relaxed);
        if granules == 0 || map.is_null() {
            return &[];
        }
        // SAFETY: `attach` mapped at least 4 bytes per granule, initially zeros (valid AtomicU32),
        // before it raised `granules`, which was read with acquire order. The map exists as long as
        // the space.
        unsafe { std::slice::from_raw_parts(map, granules) }
    }

    /// Returns the granules that may be free: those from the hint on.
    pub(crate) fn free_range(&self) -> Range<u32> {
        self.hint.load(Relaxed)..self.granules()
    }

    /// Marks the lowest free run of `count` granules as used by the extent `extent_id`. Returns the
    /// run's first granule and the number of pages of the map that had no used granule before.
    pub(crate) fn alloc_run(
        &self,
        used: &[AtomicU64],
        count: u32,
        extent_id: u32,
    ) -> Option<(u32, usize)> {
        let mut runs = runs(used, self.free_range(), count);
        let run = runs.find(|run| run.len() as u32 == count)?;
        let fresh = unused_pages(used, run.clone()).count();
        self.mark(used, run.clone(), extent_id);
        self.free.fetch_sub(count, Relaxed);
        if run.start <= self.hint.load(Relaxed) {
            self.hint.store(run.end, Relaxed);
        }
        Some((run.start, fresh))
    }

    /// Marks `range` as free. Releases the pages of the map in which no granule is used any more,
    /// and returns their number.
    ///
    /// # Safety
    /// No thread uses the granules any more.
    pub(crate) unsafe fn free_run(&self, used: &[AtomicU64], range: Range<u32>) -> usize {
        self.hint.fetch_min(range.start, Relaxed);
        self.free.fetch_add(range.end - range.start, Relaxed);
        self.mark(used, range.clone(), 0);
        let Some(map) = NonNull::new(self.map.load(Relaxed)) else { return 0 };
        let pages = unused_pages(used, range).map(|page| {
            // SAFETY: `attach` mapped whole pages for all possible granules, so the page is mapped.
            // All its entries are zero already, and remain zero if the page is locked and not
            // released.
            unsafe { release_at(map.cast().byte_add(page * page_size()), page_size()) };
        });
        pages.count()
    }

    fn mark(&self, used: &[AtomicU64], range: Range<u32>, extent_id: u32) {
        for granule in range {
            self.map()[granule as usize].store(extent_id, Relaxed);
            let bit = 1 << (granule % 64);
            let word = &used[granule as usize / 64];
            if extent_id == 0 {
                word.fetch_and(!bit, Relaxed)
            } else {
                word.fetch_or(bit, Relaxed)
            };
        }
    }

    /// Asserts that the bitmap, the free count and the map agree. `longest` must be the length of
    /// the longest free run, but at most `enough`. Returns the number of pages of the map with a
    /// used granule.
    pub(crate) fn check(&self, used: &[AtomicU64], longest: u32, enough: u32) -> usize {
        let hint = self.hint.load(Relaxed);
        let (mut free, mut run, mut run_max) = (0, 0, 0);
        for granule in 0..self.granules() {
            let used = used[granule as usize / 64].load(Relaxed) >> (granule % 64) & 1 == 1;
            assert_eq!(used, self.map()[granule as usize].load(Relaxed) != 0, "granule {granule}");
            assert!(used || granule >= hint, "granule {granule} is free below the hint {hint}");
            free += u32::from(!used);
            run = if used { 0 } else { run + 1 };
            run_max = run.max(run_max);
        }
        assert_eq!(free, self.free(), "free granules of a section");
        assert_eq!(run_max.min(enough), longest, "longest free run of a section");
        let pages = (self.granules() as usize * 4).div_ceil(page_size());
        pages - unused_pages(used, 0..self.granules()).count()
    }
}
