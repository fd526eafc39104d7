//! A space: segments of address space, the extents in them, and what of them is committed.
//!
//! Lock order: the space's lock is the last of all; nothing is called with it held but the system.
//! `commit`, `release` and the page sets need no lock here: whoever owns an extent orders its own calls.
//!
//! # Safety
//! The functions that open memory are unsafe and say what their caller must hold. Offsets are resolved
//! through units, whose bases point into mappings that `state.segments` owns to the end of the space, or
//! until no extent lies in them.
#![allow(unsafe_code)]

use crate::mapping::{Mapping, release_at};
use crate::supply::{Request, Supply};
use crate::sync::{Mutex, Ordering::Relaxed};
use crate::table::Table;
use crate::unit::{UNIT_BYTES, UNIT_SHIFT, Unit, unit_pages};
use crate::windows::Windows;
use crate::{Budget, EXTENT_PAGES_MAX, Error, Extent, ExtentId, PageSet, page_shift};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Offsets of a space are below 2 to this power: 4 TiB.
pub const OFFSET_BITS: u32 = 42;

const UNITS_MAX: u32 = 1 << (OFFSET_BITS - UNIT_SHIFT);
/// The smallest segment that is tried when the system refuses larger ones.
const SEGMENT_BYTES_MIN: usize = 1 << 20;
/// The largest segment: fewer mappings (65,530 are allowed), less to ask for at a time.
const SEGMENT_BYTES_MAX: usize = 1 << 30;

/// Units that can be found by address, 64 GiB of them; those beyond are found by offset alone.
const WINDOWS: u32 = 1024;

/// How a space is made.
#[derive(Clone, Default)]
pub struct Config {
    /// Most pages to commit; `None` is no limit.
    pub limit: Option<usize>,
    /// Who may refuse requests before they reach the system; `None` grants all.
    pub supply: Option<Arc<dyn Supply>>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// One mapping and the units it fills.
#[derive(Debug)]
struct Segment {
    mapping: Mapping,
    units: Range<u32>,
}

#[derive(Debug)]
struct State {
    segments: Vec<Segment>,
    /// First free extent, as a raw [`ExtentId`]; 0 is none.
    free_extent: u32,
    /// Bytes of the next segment to ask for.
    segment_bytes: usize,
}

/// Address space in segments, handed out as extents of consecutive pages with a `D` each.
///
/// Extents cost address space only; pages of them are committed and released one by one.
pub struct Space<D> {
    budget: Budget,
    supply: Option<Arc<dyn Supply>>,
    units: Table<Unit>,
    windows: Windows,
    extents: Table<Extent<D>>,
    state: Mutex<State>,
}

impl<D> fmt::Debug for Space<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl<D: Default + Send + Sync> Space<D> {
    /// A space without segments; the first is reserved with the first extent.
    pub fn new(config: Config) -> Result<Self, Error> {
        Ok(Space {
            budget: Budget::new(config.limit),
            supply: config.supply,
            units: Table::new(),
            windows: Windows::new(WINDOWS)?,
            extents: Table::new(),
            state: Mutex::new(State {
                segments: Vec::new(),
                free_extent: 0,
                segment_bytes: UNIT_BYTES,
            }),
        })
    }

    /// The count of committed pages and its limit.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Bytes of memory the space itself uses: page maps, bitmaps and descriptors, not the pages.
    pub fn metadata_bytes(&self) -> usize {
        let maps: usize = self.units().map(Unit::bytes).sum();
        maps + self.units.bytes() + self.extents.bytes() + self.windows.bytes()
    }

    fn units(&self) -> impl Iterator<Item = &Unit> {
        (0..self.units.len()).filter_map(|unit| self.units.get(unit))
    }

    fn supply(&self) -> Option<&dyn Supply> {
        self.supply.as_deref()
    }

    /// Makes an extent of `pages` pages, none of them committed; `tag` is the owner's to read.
    pub fn alloc(&self, pages: u32, tag: u32) -> Result<ExtentId, Error> {
        if pages == 0 || pages > EXTENT_PAGES_MAX.min(unit_pages()) {
            return Err(Error::ExtentLength { pages });
        }
        let mut state = self.state.lock();
        let id = self.spare_extent(&mut state)?;
        let (number, page) = match self.take_pages(pages, id) {
            Some(place) => place,
            None => {
                self.grow(&mut state)?;
                self.take_pages(pages, id).ok_or(Error::Exhausted)?
            }
        };
        let extent = self.extent(id);
        state.free_extent = extent.next_free.load(Relaxed);
        extent.first.store((number << (UNIT_SHIFT - page_shift())) + page, Relaxed);
        extent.tag.store(tag, Relaxed);
        extent.pages.store(pages, Relaxed);
        Ok(id)
    }

    /// The extent that is next in the list of free ones; it stays there.
    fn spare_extent(&self, state: &mut State) -> Result<ExtentId, Error> {
        if let Some(id) = ExtentId::from_raw(state.free_extent) {
            return Ok(id);
        }
        let index = self.extents.push(self.supply())?;
        let id = ExtentId::from_index(index).ok_or(Error::Exhausted)?;
        state.free_extent = id.to_raw();
        Ok(id)
    }

    fn take_pages(&self, pages: u32, id: ExtentId) -> Option<(u32, u32)> {
        (0..self.units.len()).find_map(|number| {
            let page = self.units.get(number)?.take(pages, id.to_raw())?;
            Some((number, page))
        })
    }

    /// Gives an extent back; all its pages were released.
    pub fn free(&self, id: ExtentId) {
        let mut state = self.state.lock();
        let extent = self.extent(id);
        debug_assert!(extent.committed.is_empty(), "{id:?} is freed with committed pages");
        let pages = extent.pages.swap(0, Relaxed);
        let first = extent.first.load(Relaxed);
        let number = first >> (UNIT_SHIFT - page_shift());
        if let Some(unit) = self.units.get(number) {
            let page = first & (unit_pages() - 1);
            unit.give(page..page + pages);
            if unit.free() == unit.pages() {
                self.shrink(&mut state, number);
            }
        }
        extent.next_free.store(state.free_extent, Relaxed);
        state.free_extent = id.to_raw();
    }

    /// Reserves one more segment, smaller ones after a refusal.
    fn grow(&self, state: &mut State) -> Result<(), Error> {
        let mut bytes = state.segment_bytes;
        let mapping = loop {
            match Mapping::reserve(bytes, bytes.min(UNIT_BYTES), self.supply()) {
                Ok(mapping) => break mapping,
                Err(error) if bytes <= SEGMENT_BYTES_MIN => return Err(error),
                Err(_) => bytes /= 2,
            }
        };
        let wanted = bytes.div_ceil(UNIT_BYTES) as u32;
        let units = self.spare_units(wanted)?;
        for (nth, number) in units.clone().enumerate() {
            let attached = self.attach(number, &mapping, nth * UNIT_BYTES);
            if let Err(error) = attached {
                self.detach(units.start..number);
                return Err(error);
            }
        }
        state.segment_bytes = (bytes * 2).clamp(UNIT_BYTES, SEGMENT_BYTES_MAX);
        state.segments.push(Segment { mapping, units });
        Ok(())
    }

    fn attach(&self, number: u32, mapping: &Mapping, at: usize) -> Result<(), Error> {
        let unit = self.units.get(number).ok_or(Error::Exhausted)?;
        let pages = (mapping.len() - at).min(UNIT_BYTES) >> page_shift();
        // SAFETY: `at` is below the mapping's length: grow counted the units from that length.
        let base = unsafe { mapping.base().add(at) };
        unit.attach(base, pages as u32, self.supply())?;
        // A table that is full costs only `find_address` its answer for this unit.
        self.windows.insert(base.addr().get(), number);
        Ok(())
    }

    fn detach(&self, units: Range<u32>) {
        for number in units {
            if let Some(unit) = self.units.get(number) {
                self.windows.remove(unit.base().addr(), number);
                unit.detach();
            }
        }
    }

    /// The first of `wanted` consecutive units without address space.
    fn spare_units(&self, wanted: u32) -> Result<Range<u32>, Error> {
        let mut start = 0;
        for number in 0..UNITS_MAX {
            if number == self.units.len() {
                self.units.push(self.supply())?;
            }
            if self.units.get(number).is_none_or(|unit| unit.pages() > 0) {
                start = number + 1;
            } else if number + 1 - start == wanted {
                return Ok(start..number + 1);
            }
        }
        Err(Error::Exhausted)
    }

    /// Unmaps the segment of the unit `number` if it is all unused and another one is too, so that a
    /// pool at the edge of a segment does not map and unmap it over and over.
    fn shrink(&self, state: &mut State, number: u32) {
        let unused = |segment: &Segment| {
            let mut units = segment.units.clone().filter_map(|unit| self.units.get(unit));
            units.all(|unit| unit.free() == unit.pages())
        };
        let emptied = state.segments.iter().position(|segment| segment.units.contains(&number));
        let spare = state.segments.iter().filter(|segment| unused(segment)).count() > 1;
        if let Some(at) = emptied.filter(|&at| spare && unused(&state.segments[at])) {
            let segment = state.segments.swap_remove(at);
            self.detach(segment.units.clone());
            state.segment_bytes = state.segment_bytes.min(segment.mapping.len());
        }
    }

    /// The descriptor `id`.
    ///
    /// # Panics
    /// When `id` is of another space and beyond this one's descriptors.
    pub fn extent(&self, id: ExtentId) -> &Extent<D> {
        match self.extents.get(id.index()) {
            Some(extent) => extent,
            None => panic!("{id:?} is not of this space"),
        }
    }

    /// The extents there are, lowest number first.
    pub fn live(&self) -> impl Iterator<Item = ExtentId> {
        let ids = (0..self.extents.len()).filter_map(ExtentId::from_index);
        ids.filter(|&id| self.extent(id).pages() > 0)
    }

    /// The extent at `offset`, if one is there.
    pub fn find(&self, offset: u64) -> Option<ExtentId> {
        let unit = self.units.get(u32::try_from(offset >> UNIT_SHIFT).ok()?)?;
        let page = (offset & (UNIT_BYTES as u64 - 1)) >> page_shift();
        ExtentId::from_raw(unit.map().get(page as usize)?.load(Relaxed))
    }

    /// The offset of `address`, if it lies in this space.
    pub fn offset_of(&self, address: usize) -> Option<u64> {
        let contains = |number| self.units.get(number).is_some_and(|unit| unit.contains(address));
        let number = self.windows.find(address, contains)?;
        let at = self.units.get(number)?.place_of(address)?;
        Some(((number as u64) << UNIT_SHIFT) + at as u64)
    }

    /// The address of `offset`, which lies in a live extent.
    ///
    /// # Panics
    /// When no segment lies there.
    pub fn pointer(&self, offset: u64) -> NonNull<u8> {
        let unit = self.units.get((offset >> UNIT_SHIFT) as u32);
        let at = offset as usize & (UNIT_BYTES - 1);
        let unit = unit.filter(|unit| at >> page_shift() < unit.pages() as usize);
        // The base is read once: a segment that goes meanwhile leaves none.
        match unit.and_then(|unit| NonNull::new(unit.base())) {
            // SAFETY: a unit with a base has address space for `pages` pages from there, and `at` is below.
            Some(base) => unsafe { base.add(at) },
            None => panic!("offset {offset:#x} is outside the space"),
        }
    }

    /// The `len` bytes at `offset`.
    ///
    /// # Safety
    /// They lie in one live extent which stays, and no one writes to or releases them while the slice lives.
    pub unsafe fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        debug_assert!(len as u64 <= UNIT_BYTES as u64 - (offset & (UNIT_BYTES as u64 - 1)));
        // SAFETY: `pointer` checked the start; the caller vouches for the rest, and an extent is
        // consecutive memory. Memory of a segment is zero or what was written: always initialised.
        unsafe { std::slice::from_raw_parts(self.pointer(offset).as_ptr(), len) }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Safety
    /// The place lies in committed pages of one live extent, and no one else reads, writes or releases
    /// it meanwhile.
    pub unsafe fn write(&self, offset: u64, bytes: &[u8]) {
        // SAFETY: as the caller vouches; `bytes` is a shared slice, so it can't overlap a place that
        // no one else reads.
        unsafe {
            self.pointer(offset).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// Commits `pages` of an extent, those that are not yet. All or nothing; how many were new.
    ///
    /// Calls for one extent are serialised by its owner.
    pub fn commit(&self, id: ExtentId, pages: Range<u32>) -> Result<u32, Error> {
        let extent = self.extent(id);
        debug_assert!(pages.end <= extent.pages());
        let wanted = pages.len() - extent.committed.count(pages.clone()) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        if self.supply().is_some_and(|supply| !supply.grant(Request::Commit { pages: wanted })) {
            let limit = self.budget.limit().unwrap_or(usize::MAX);
            return Err(Error::Limit { limit, used: self.budget.used(), wanted });
        }
        self.budget.take(wanted)?;
        let new = extent.committed.insert(pages);
        debug_assert_eq!(new as usize, wanted);
        Ok(new)
    }

    /// Gives the committed pages of `pages` back to the system; how many it took. The rest (locked
    /// memory) stays committed.
    ///
    /// # Safety
    /// No one needs what these pages hold, or commits or touches them, until the call returns.
    pub unsafe fn release(&self, id: ExtentId, pages: &PageSet) -> u32 {
        let extent = self.extent(id);
        let mut released = 0;
        for run in pages.runs() {
            let start = self.pointer(extent.start() + ((run.start as u64) << page_shift()));
            // SAFETY: the run lies in the extent (its owner's set), which lies in a live segment; the
            // caller says that no one needs its bytes.
            if unsafe { release_at(start, run.len() << page_shift()) } {
                released += extent.committed.remove(run);
            }
        }
        self.budget.give(released as usize);
        released
    }

    /// Holds the space still over a fork: its lock is taken until [`let_go`](Self::let_go).
    pub fn hold(&self) {
        self.state.hold();
        self.budget.hold();
    }

    /// Releases what [`hold`](Self::hold) took.
    pub fn let_go(&self) {
        self.budget.let_go();
        self.state.let_go();
    }

    /// Counts the committed pages anew: a thread that a child lost may have died between the two counts.
    pub fn recount(&self) {
        let committed = self.live().map(|id| self.extent(id).committed.len() as usize);
        self.budget.recount(committed.sum());
    }

    /// Asserts every relation between units, extents and the budget; see the module's picture.
    pub fn check(&self) {
        let state = self.state.lock();
        let mut committed = 0;
        let mut mapped = 0;
        let mut live = 0;
        for index in 0..self.extents.len() {
            let Some(id) = ExtentId::from_index(index) else {
                break;
            };
            let extent = self.extent(id);
            if extent.pages() == 0 {
                assert!(extent.committed.is_empty(), "{id:?} is free, with committed pages");
                continue;
            }
            live += 1;
            mapped += extent.pages();
            committed += extent.committed.len();
            assert_eq!(extent.committed.count(extent.pages()..EXTENT_PAGES_MAX), 0);
            for page in 0..extent.pages() as u64 {
                assert_eq!(self.find(extent.start() + (page << page_shift())), Some(id));
            }
            let address = self.pointer(extent.start()).addr().get();
            assert_eq!(self.offset_of(address), Some(extent.start()));
        }
        let used = self.budget.used();
        assert!(committed as usize <= used, "{committed} pages are committed, {used} budgeted");
        let mut unused = 0;
        for segment in &state.segments {
            for unit in segment.units.clone().filter_map(|number| self.units.get(number)) {
                unit.check();
                assert!(unit.pages() > 0);
                unused += unit.pages() - unit.free();
            }
        }
        assert_eq!(unused, mapped, "pages in use");
        let mut free = 0;
        let mut next = ExtentId::from_raw(state.free_extent);
        while let Some(id) = next {
            free += 1;
            assert!(free <= self.extents.len(), "the list of free extents has a cycle");
            next = ExtentId::from_raw(self.extent(id).next_free.load(Relaxed));
        }
        assert_eq!(free + live, self.extents.len(), "every extent is live or in the free list");
    }
}

impl<D> Drop for Space<D> {
    fn drop(&mut self) {
        // Segments and tables unmap themselves; the units' meta data is freed by hand.
        for unit in (0..self.units.len()).filter_map(|number| self.units.get(number)) {
            // SAFETY: `&mut self`: no reference into the space is left.
            unsafe { unit.destroy() }
        }
    }
}
