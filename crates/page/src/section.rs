//! Sections: 64 MiB of a space's offsets each, with the map from granule to extent.
//!
//! ```text
//!   segment (one mapping, 1 MiB to 1 GiB)
//!   | section u                 | section u + 1             | ...
//!     map of a section (a mapping of its own, kept for the space's life):
//!     | u32 per granule: extent index + 1, 0 = none |      4 KiB where a granule is 16 pages of 4 KiB
//! ```
//! Beside it, in a table of the space's: one bit per granule, set where it is used.
//!
//! # Safety
//! The map is made once per section, before `granules` is raised from 0 with release order, and
//! stays mapped to the end of the space. A page of it is given back when none of its granules is
//! used, so a reader with a stale offset finds zeros or another extent, never a fault.
#![allow(unsafe_code)]

use crate::mapping::{Mapping, release_at};
use crate::supply::Supply;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};
use crate::{Error, bits, page_shift, page_size};
use std::ops::Range;
use std::ptr::NonNull;

/// Binary logarithm of the bytes of a section.
pub(crate) const SECTION_SHIFT: u32 = 26;
pub(crate) const SECTION_BYTES: usize = 1 << SECTION_SHIFT;

/// Pages in a full section: 16384 of 4 KiB.
pub(crate) fn section_pages() -> u32 {
    1 << (SECTION_SHIFT - page_shift())
}

/// One section. `base` and `granules` change only under the space's lock; everyone may read them.
#[derive(Debug)]
pub(crate) struct Section {
    base: AtomicPtr<u8>,
    map: AtomicPtr<AtomicU32>,
    /// Granules of address space behind the section: 0 while it has none, fewer than it could in a
    /// small segment.
    granules: AtomicU32,
    free: AtomicU32,
    /// No granule below this one is free.
    hint: AtomicU32,
}

/// Pages of maps in which no granule was used before, or none is any more.
pub(crate) type MapPages = usize;

impl Section {
    /// As a table's memory is, which is zeros.
    #[cfg(all(test, loom))]
    pub(crate) fn unused() -> Self {
        let (base, map) = (AtomicPtr::default(), AtomicPtr::default());
        let [granules, free, hint] = std::array::from_fn(|_| AtomicU32::new(0));
        Section { base, map, granules, free, hint }
    }

    /// Whether it has a map, which no model looks into.
    #[cfg(all(test, loom))]
    pub(crate) fn has_map(&self) -> bool {
        !self.map.load(Relaxed).is_null()
    }

    /// Gives the section `granules` granules at `base`, and a map of `map_bytes`, if it has none
    /// yet.
    pub(crate) fn attach(
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

    /// Takes the address space away again; no granule is in use.
    pub(crate) fn detach(&self) {
        debug_assert!(self.is_unused());
        self.granules.store(0, Ordering::Release);
        self.free.store(0, Relaxed);
        self.base.store(std::ptr::null_mut(), Relaxed);
    }

    /// Unmaps the map.
    ///
    /// # Safety
    /// No one uses the section again, and `attach` made its map with `map_bytes`.
    pub(crate) unsafe fn destroy(&self, map_bytes: usize) {
        if let Some(map) = NonNull::new(self.map.swap(std::ptr::null_mut(), Relaxed)) {
            // SAFETY: `attach` forgot exactly this mapping, of this length, and the caller says
            // that it is in use no more.
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

    /// For each granule its extent's index + 1.
    #[inline]
    pub(crate) fn map(&self) -> &[AtomicU32] {
        let granules = self.granules() as usize;
        let map = self.map.load(Relaxed);
        if granules == 0 || map.is_null() {
            return &[];
        }
        // SAFETY: `attach` mapped 4 bytes or more per granule, zeros at first (valid AtomicU32),
        // before it raised `granules`, which was read with acquire order, and they stay as long as
        // the space.
        unsafe { std::slice::from_raw_parts(map, granules) }
    }

    /// Marks the lowest run of `count` unused granules as those of the extent `extent_id`; its
    /// first granule.
    pub(crate) fn alloc_run(
        &self,
        used: &[AtomicU64],
        count: u32,
        extent_id: u32,
    ) -> Option<(u32, MapPages)> {
        let mut runs = self.runs(used, self.hint.load(Relaxed)..self.granules(), count);
        let run = runs.find(|run| run.len() as u32 == count)?;
        let fresh = unused_pages(used, run.clone()).count();
        self.mark(used, run.clone(), extent_id);
        self.free.fetch_sub(count, Relaxed);
        if run.start <= self.hint.load(Relaxed) {
            self.hint.store(run.end, Relaxed);
        }
        Some((run.start, fresh))
    }

    /// Marks `range` as unused, and gives those pages of the map back in which nothing is used any
    /// more.
    pub(crate) fn free_run(&self, used: &[AtomicU64], range: Range<u32>) -> MapPages {
        self.hint.fetch_min(range.start, Relaxed);
        self.free.fetch_add(range.end - range.start, Relaxed);
        self.mark(used, range.clone(), 0);
        let Some(map) = NonNull::new(self.map.load(Relaxed)) else { return 0 };
        let pages = unused_pages(used, range).map(|page| {
            // SAFETY: `attach` mapped whole pages for all granules there may be, so also the page
            // of these; all its entries are zero by now. (Where it is locked they stay so.)
            unsafe { release_at(map.cast().byte_add(page * page_size()), page_size()) };
        });
        pages.count()
    }

    /// The longest run of unused granules, `enough` at most, after the granules `taken` were taken:
    /// it was `before`.
    pub(crate) fn longest_after_alloc(
        &self,
        used: &[AtomicU64],
        taken: Range<u32>,
        before: u32,
    ) -> u32 {
        let behind = self.runs(used, taken.end..taken.start + before, before).next();
        let behind = behind.filter(|run| run.start == taken.end).map_or(0, |run| run.len() as u32);
        if taken.len() as u32 + behind < before {
            return before;
        }
        self.longest(used, self.hint.load(Relaxed)..self.granules(), before)
    }

    /// The same after the granules `given` were given back.
    pub(crate) fn longest_after_free(
        &self,
        used: &[AtomicU64],
        given: Range<u32>,
        before: u32,
        enough: u32,
    ) -> u32 {
        let around = given.start.saturating_sub(enough)..given.end + enough;
        self.longest(used, around, enough).max(before)
    }

    /// The longest run of unused granules in `range`, `enough` at most.
    fn longest(&self, used: &[AtomicU64], range: Range<u32>, enough: u32) -> u32 {
        let mut longest = 0;
        for run in self.runs(used, range, enough) {
            longest = longest.max(run.len() as u32);
            if longest == enough {
                break;
            }
        }
        longest
    }

    /// The runs of unused granules in `range`, lowest first; of longer ones than `most` parts of
    /// that length.
    fn runs(
        &self,
        used: &[AtomicU64],
        range: Range<u32>,
        most: u32,
    ) -> impl Iterator<Item = Range<u32>> {
        let last = range.end.min(self.granules());
        let mut at = range.start;
        std::iter::from_fn(move || {
            let start = bits::first(used, at, false).filter(|&start| start < last)?;
            let end = last.min(start + most);
            let words = (end as usize).div_ceil(64);
            at = bits::first(&used[..words], start, true).map_or(end, |next| next.min(end));
            Some(start..at)
        })
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

    /// Whether bitmap, free count and map agree, and `room` is the longest run, `enough` at most;
    /// pages of the map that are used.
    pub(crate) fn check(&self, used: &[AtomicU64], room: u32, enough: u32) -> MapPages {
        let hint = self.hint.load(Relaxed);
        let (mut free, mut run, mut longest) = (0, 0, 0);
        for granule in 0..self.granules() {
            let used = used[granule as usize / 64].load(Relaxed) >> (granule % 64) & 1 == 1;
            assert_eq!(used, self.map()[granule as usize].load(Relaxed) != 0, "granule {granule}");
            assert!(used || granule >= hint, "granule {granule} is free below the hint {hint}");
            free += u32::from(!used);
            run = if used { 0 } else { run + 1 };
            longest = run.max(longest);
        }
        assert_eq!(free, self.free(), "free granules of a section");
        assert_eq!(longest.min(enough), room, "room of a section");
        let pages = (self.granules() as usize * 4).div_ceil(page_size());
        pages - unused_pages(used, 0..self.granules()).count()
    }
}

/// The pages of the map in which `granules` lie and none is used.
fn unused_pages(used: &[AtomicU64], granules: Range<u32>) -> impl Iterator<Item = usize> {
    let words = page_size() / size_of::<AtomicU32>() / 64;
    let last = (granules.end as usize).div_ceil(64 * words);
    (granules.start as usize / 64 / words..last).filter(move |page| {
        let bits = used.iter().skip(page * words).take(words);
        bits.map(|bits| bits.load(Relaxed)).all(|bits| bits == 0)
    })
}
