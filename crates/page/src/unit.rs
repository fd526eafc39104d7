//! Units: 64 MiB of a space's offsets each, with the map from page to extent and the bitmap of used pages.
//!
//! ```text
//!   segment (one mapping, 1 MiB to 1 GiB)
//!   | unit u                 | unit u + 1             | ...
//!     meta of a unit (a mapping of its own, kept for the space's life):
//!     | map: u32 per page, extent index + 1, 0 = none | used: one bit per page |
//! ```
//!
//! # Safety
//! The meta mapping is made once per unit, before `pages` is raised from 0 with release order, and stays
//! to the end of the space, so a reader with a stale offset finds zeros or another extent, never a fault.
#![allow(unsafe_code)]

use crate::mapping::Mapping;
use crate::supply::Supply;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};
use crate::{Error, page_shift, page_size};
use std::ops::Range;
use std::ptr::NonNull;

/// Binary logarithm of the bytes of a unit.
pub(crate) const UNIT_SHIFT: u32 = 26;
pub(crate) const UNIT_BYTES: usize = 1 << UNIT_SHIFT;

/// Pages in a full unit: 16384 of 4 KiB.
pub(crate) fn unit_pages() -> u32 {
    1 << (UNIT_SHIFT - page_shift())
}

/// One unit. `base` and `pages` change only under the space's lock; everyone may read them.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    base: AtomicPtr<u8>,
    /// Pages of address space behind the unit: 0 while it has none, fewer than a full unit in a small segment.
    pages: AtomicU32,
    meta: AtomicPtr<u8>,
    free: AtomicU32,
    /// No page below this one is free.
    hint: AtomicU32,
    /// One above the highest page ever used: how much of the map was touched.
    touched: AtomicU32,
}

impl Unit {
    fn meta_bytes() -> usize {
        (unit_pages() as usize * 4 + unit_pages() as usize / 8).next_multiple_of(page_size())
    }

    /// Gives the unit `pages` pages at `base`.
    pub(crate) fn attach(
        &self,
        base: NonNull<u8>,
        pages: u32,
        supply: Option<&dyn Supply>,
    ) -> Result<(), Error> {
        debug_assert!(self.pages() == 0 && pages <= unit_pages());
        if self.meta.load(Relaxed).is_null() {
            let meta = Mapping::reserve(Self::meta_bytes(), page_size(), supply)?;
            self.meta.store(meta.base().as_ptr(), Relaxed);
            std::mem::forget(meta); // `Unit::destroy` unmaps it
        }
        self.base.store(base.as_ptr(), Relaxed);
        self.free.store(pages, Relaxed);
        self.hint.store(0, Relaxed);
        self.pages.store(pages, Ordering::Release);
        Ok(())
    }

    /// Takes the address space away again; no page is in use.
    pub(crate) fn detach(&self) {
        debug_assert_eq!(self.free(), self.pages());
        self.pages.store(0, Ordering::Release);
        self.free.store(0, Relaxed);
        self.base.store(std::ptr::null_mut(), Relaxed);
    }

    /// Unmaps the meta data.
    ///
    /// # Safety
    /// No one uses the unit again.
    pub(crate) unsafe fn destroy(&self) {
        if let Some(meta) = NonNull::new(self.meta.swap(std::ptr::null_mut(), Relaxed)) {
            // SAFETY: `attach` forgot exactly this mapping, of this length, and the caller says that
            // it is in use no more.
            drop(unsafe { Mapping::adopt(meta, Self::meta_bytes()) });
        }
    }

    pub(crate) fn pages(&self) -> u32 {
        self.pages.load(Ordering::Acquire)
    }

    pub(crate) fn free(&self) -> u32 {
        self.free.load(Relaxed)
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.load(Relaxed)
    }

    /// Bytes from the unit's base to `address`, if that lies in the unit.
    pub(crate) fn place_of(&self, address: usize) -> Option<usize> {
        let pages = self.pages() as usize;
        let at = address.wrapping_sub(self.base().addr());
        (at < pages << page_shift()).then_some(at)
    }

    /// Whether `address` lies in the unit's address space.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.place_of(address).is_some()
    }

    /// Bytes of the meta data that were touched.
    pub(crate) fn bytes(&self) -> usize {
        let touched = self.touched.load(Relaxed) as usize;
        let used = if touched > 0 { page_size() } else { 0 };
        (touched * 4).next_multiple_of(page_size()) + used
    }

    /// The map entries: for each page its extent's index + 1.
    pub(crate) fn map(&self) -> &[AtomicU32] {
        let pages = self.pages() as usize;
        let meta = self.meta.load(Relaxed);
        if pages == 0 || meta.is_null() {
            return &[];
        }
        // SAFETY: `attach` mapped unit_pages() * 4 bytes of zeros (valid AtomicU32) at `meta` before it
        // raised `pages`, which was read with acquire order, and they stay as long as the space.
        unsafe { std::slice::from_raw_parts(meta.cast(), pages) }
    }

    fn used(&self) -> &[AtomicU64] {
        let pages = self.pages() as usize;
        let meta = self.meta.load(Relaxed);
        if pages == 0 || meta.is_null() {
            return &[];
        }
        // SAFETY: as for `map`; the bitmap follows the unit_pages() entries of the map, and
        // unit_pages() * 4 is a multiple of 8.
        unsafe {
            let words = meta.add(unit_pages() as usize * 4);
            std::slice::from_raw_parts(words.cast(), pages.div_ceil(64))
        }
    }

    /// Marks the lowest run of `count` unused pages as used by extent entry `entry`; its first page.
    pub(crate) fn take(&self, count: u32, entry: u32) -> Option<u32> {
        if self.free() < count {
            return None;
        }
        let start = self.find_run(count)?;
        self.mark(start..start + count, entry);
        self.free.fetch_sub(count, Relaxed);
        if start <= self.hint.load(Relaxed) {
            self.hint.store(start + count, Relaxed);
        }
        self.touched.fetch_max(start + count, Relaxed);
        Some(start)
    }

    /// Marks `range` as unused.
    pub(crate) fn give(&self, range: Range<u32>) {
        self.hint.fetch_min(range.start, Relaxed);
        self.free.fetch_add(range.end - range.start, Relaxed);
        self.mark(range, 0);
    }

    fn mark(&self, range: Range<u32>, entry: u32) {
        for page in range {
            self.map()[page as usize].store(entry, Relaxed);
            let bit = 1 << (page % 64);
            let word = &self.used()[page as usize / 64];
            if entry == 0 {
                word.fetch_and(!bit, Relaxed)
            } else {
                word.fetch_or(bit, Relaxed)
            };
        }
    }

    /// First page of the lowest run of `count` unused pages.
    fn find_run(&self, count: u32) -> Option<u32> {
        let pages = self.pages();
        let mut page = self.hint.load(Relaxed);
        let mut run = 0;
        while page < pages {
            let word = self.used()[page as usize / 64].load(Relaxed) >> (page % 64);
            let left = 64 - page % 64;
            let free = word.trailing_zeros().min(left);
            run += free;
            if run >= count {
                let start = page + free - run;
                return (start + count <= pages).then_some(start);
            }
            page += free;
            if free < left {
                run = 0;
                page += (word >> free).trailing_ones();
            }
        }
        None
    }

    /// Whether bitmap, free count and map agree.
    pub(crate) fn check(&self) {
        let pages = self.pages();
        let hint = self.hint.load(Relaxed);
        let mut free = 0;
        for page in 0..pages {
            let used = self.used()[page as usize / 64].load(Relaxed) >> (page % 64) & 1 == 1;
            assert_eq!(used, self.map()[page as usize].load(Relaxed) != 0, "page {page}");
            assert!(used || page >= hint, "page {page} is free below the hint {hint}");
            free += u32::from(!used);
        }
        assert_eq!(free, self.free(), "free pages of a unit");
    }
}
