//! A space: segments of address space, and the extents in them.
//!
//! Lock order: the space's lock is taken after all other locks. A thread that holds the space's
//! lock calls only the supply and the system. `charge`, `release` and look-ups take no lock. The
//! owner of an extent serialises the calls for this extent, and records which of its pages are
//! committed. The budget counts the committed pages of all extents.
//!
//! # Safety
//! The functions that give access to memory are unsafe, and state what their caller must guarantee.
//! An offset is resolved through a section, whose base points into a mapping. `state.segments` owns
//! the mapping until the space is dropped, or until no extent lies in the mapping.
#![allow(unsafe_code)]

use crate::budget::{Request, Supply};
use crate::config::{Config, SECTION_BYTES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, section_pages};
use crate::extent::{Extent, ExtentId, ExtentTable};
use crate::fork::Step;
use crate::free_runs::FreeRuns;
use crate::heap::reserve;
use crate::mapping::{IoRange, Mapping, populate_all_at, release_all_at, release_at};
use crate::max_tree::MaxTree;
use crate::policy::RELEASE_RANGES_MAX;
use crate::sections::Sections;
use crate::sync::{AtomicUsize, Mutex, Ordering::Relaxed};
use crate::zeroed::Zeroed;
use crate::{Budget, EXTENT_PAGES_MAX, Error, PageSet, page_shift};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// One mapping, and the sections that it backs.
#[derive(Debug)]
struct Segment {
    mapping: Mapping,
    sections: Range<u32>,
    /// The number of the segment's sections that have a used granule.
    used: u32,
}

/// The data that the space's lock guards.
#[derive(Debug)]
struct State {
    /// The segments in the order of their sections.
    segments: Vec<Segment>,
    /// The number of segments without a used granule.
    unused: usize,
    /// The length in bytes of the next segment to reserve.
    segment_bytes: usize,
    /// The free address space.
    free_runs: FreeRuns,
    /// The words of the extent table's bitmap that have a clear bit, that is, a spare descriptor.
    spare: MaxTree,
}

impl State {
    fn new() -> Self {
        State {
            segments: Vec::new(),
            unused: 0,
            segment_bytes: SECTION_BYTES,
            free_runs: FreeRuns::default(),
            spare: MaxTree::default(),
        }
    }

    /// Returns the size of these tables in bytes.
    fn bytes(&self) -> usize {
        let segments = self.segments.capacity() * size_of::<Segment>();
        segments + self.free_runs.bytes() + self.spare.bytes()
    }

    /// Returns the index of the segment that contains section `number`.
    fn segment_of(&self, number: u32) -> usize {
        self.segments.partition_point(|segment| segment.sections.end <= number)
    }
}

/// Address space in segments, which is allocated as extents of consecutive pages. Each extent's
/// descriptor contains a `D`, which belongs to the extent's owner.
///
/// A new extent is only address space. Its pages are committed and released one by one.
pub struct Space<D> {
    budget: Budget,
    supply: Option<Arc<dyn Supply>>,
    in_dumps: bool,
    in_children: bool,
    sections: Sections,
    extents: ExtentTable<D>,
    state: Mutex<State>,
    /// The size in bytes of the tables in `state`, readable without the lock.
    state_bytes: AtomicUsize,
}

impl<D> fmt::Debug for Space<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl<D: Zeroed> Space<D> {
    /// Returns a space without segments. The first allocation reserves a segment.
    ///
    /// # Panics
    /// Panics if the configured granule is not a power of two, or is above 256.
    pub fn new(config: Config) -> Result<Self, Error> {
        Ok(Space {
            budget: Budget::new(config.limit),
            sections: Sections::new(&config)?,
            supply: config.supply,
            in_dumps: config.in_dumps,
            in_children: config.in_children,
            extents: ExtentTable::new(),
            state: Mutex::new(State::new()),
            state_bytes: AtomicUsize::new(0),
        })
    }

    /// Returns the count of committed pages, with its limit.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns the bytes of the space's metadata, which are maps, bitmaps and descriptors.
    pub fn metadata_bytes(&self) -> usize {
        self.sections.bytes() + self.extents.bytes() + self.state_bytes.load(Relaxed)
    }

    /// Returns the supply, which can refuse requests before they reach the system.
    pub fn supply(&self) -> Option<&dyn Supply> {
        self.supply.as_deref()
    }

    /// Allocates an extent of `pages` uncommitted pages at the lowest offset with enough free
    /// pages. The extent gets the lowest free number. `tag` is a value for the owner.
    pub fn alloc(&self, pages: u32, tag: u32) -> Result<ExtentId, Error> {
        if pages == 0 || pages > EXTENT_PAGES_MAX.min(section_pages()) {
            return Err(Error::ExtentLength { pages });
        }
        let mut state = self.state.lock();
        let made = self.alloc_in(&mut state, pages, tag);
        self.state_bytes.store(state.bytes(), Relaxed);
        made
    }

    fn alloc_in(&self, state: &mut State, pages: u32, tag: u32) -> Result<ExtentId, Error> {
        let id = self.extents.spare(&mut state.spare, self.supply())?;
        let placed = match self.sections.alloc_run(&mut state.free_runs, pages, id.to_raw()) {
            Some(placed) => placed,
            None => {
                self.grow(state, pages)?;
                let placed = self.sections.alloc_run(&mut state.free_runs, pages, id.to_raw());
                placed.ok_or(Error::Exhausted)?
            }
        };
        if let Some(number) = placed.new_section {
            let segment = state.segment_of(number);
            let segment = &mut state.segments[segment];
            state.unused -= usize::from(segment.used == 0);
            segment.used += 1;
        }
        self.extent(id).begin(placed.first, pages, tag);
        // `begin` precedes `claim`, so `live` returns no extent with an incomplete descriptor.
        self.extents.claim(&mut state.spare, id);
        Ok(id)
    }

    /// Frees an extent whose pages were all released.
    ///
    /// # Safety
    /// The extent belongs to the caller, and no thread uses its addresses any more.
    pub unsafe fn free(&self, id: ExtentId) {
        let state = &mut *self.state.lock();
        let (first, pages) = self.extent(id).end();
        // SAFETY: this is the extent's range, and the caller guarantees that no thread uses it.
        let unused = unsafe { self.sections.free_run(&mut state.free_runs, first, pages) };
        unused.into_iter().for_each(|section| self.shrink(state, section));
        // SAFETY: no thread uses the extent, as above, and this thread holds the space's lock.
        unsafe { self.extents.release(&mut state.spare, id) };
    }

    /// Reserves a further segment that has space for an extent of `pages` pages. If the system
    /// refuses the segment, requests smaller segments.
    fn grow(&self, state: &mut State, pages: u32) -> Result<(), Error> {
        let segments = state.segments.len();
        reserve(&mut state.segments, segments + 1, self.supply())?;
        let extent = self.sections.granules(pages) as usize * self.sections.granule_bytes();
        let least = SEGMENT_BYTES_MIN.max(extent.next_power_of_two());
        let mut bytes = state.segment_bytes.max(least);
        let mapping = loop {
            match Mapping::reserve(bytes, bytes.min(SECTION_BYTES), self.supply()) {
                Ok(mapping) => break mapping,
                Err(error) if bytes <= least => return Err(error),
                Err(_) => bytes /= 2,
            }
        };
        if !self.in_dumps {
            mapping.keep_from_dumps()?;
        }
        if !self.in_children {
            mapping.keep_from_children()?;
        }
        // SAFETY: the mapping moves into `state.segments`. The mapping is removed only when the
        // space is dropped, or when `shrink` has detached its sections, which have no used granule.
        let sections =
            unsafe { self.sections.attach(&mut state.free_runs, &mapping, self.supply()) }?;
        state.segment_bytes = (bytes * 2).clamp(SECTION_BYTES, SEGMENT_BYTES_MAX);
        let at = state.segment_of(sections.start);
        state.segments.insert(at, Segment { mapping, sections, used: 0 });
        state.unused += 1;
        Ok(())
    }

    /// Records that section `number` has no used granule any more. If the section's segment and
    /// another segment have no used granule, unmaps the section's segment. One unused segment is
    /// kept, so that repeated allocations and frees of one extent do not map and unmap a segment
    /// each time. If the system refuses to unmap a segment, the segment is used again or unmapped
    /// later.
    fn shrink(&self, state: &mut State, number: u32) {
        let at = state.segment_of(number);
        state.segments[at].used -= 1;
        if state.segments[at].used > 0 {
            return;
        }
        state.unused += 1;
        if state.unused > 1 {
            let Segment { mapping, sections, used } = state.segments.remove(at);
            let bytes = mapping.len();
            match mapping.unmap() {
                Ok(()) => {
                    state.unused -= 1;
                    // SAFETY: no section of the segment has a used granule.
                    unsafe { self.sections.detach(&mut state.free_runs, sections) };
                    state.segment_bytes = state.segment_bytes.min(bytes);
                }
                Err(mapping) => state.segments.insert(at, Segment { mapping, sections, used }),
            }
        }
    }

    /// Returns the descriptor of `id`.
    ///
    /// # Panics
    /// Panics if this space has no descriptor with the number `id`.
    pub fn extent(&self, id: ExtentId) -> &Extent<D> {
        match self.extents.get(id) {
            Some(extent) => extent,
            None => panic!("{id:?} is not of this space"),
        }
    }

    /// Returns the extents, lowest number first. Each extent is looked up when the iterator reaches
    /// it. Another thread can free or replace an extent before the caller reads the descriptor.
    pub fn live(&self) -> impl Iterator<Item = ExtentId> {
        self.extents.live()
    }

    /// Returns the extent whose granules contain `offset`. The last granule can extend beyond the
    /// extent's pages. If it is possible that no live extent contains the offset, the caller must
    /// compare the offset with [`Extent::start`] and [`Extent::pages`].
    pub fn find(&self, offset: u64) -> Option<ExtentId> {
        self.sections.extent_id_at(offset).and_then(ExtentId::from_raw)
    }

    /// Returns the offset of `address`, if `address` lies in this space and the space is
    /// [`by_address`](Config::by_address).
    pub fn offset_of(&self, address: usize) -> Option<u64> {
        self.sections.offset_of(address)
    }

    /// Returns the extent whose granules contain `address`. If `address` is outside of all extents,
    /// the result can be any extent. If it is possible that no live extent contains the address,
    /// the caller must compare the address with the extent's addresses.
    #[inline]
    pub fn extent_at(&self, address: usize) -> Option<(ExtentId, &Extent<D>)> {
        let id = ExtentId::from_raw(self.sections.extent_id_at_address(address)?)?;
        Some((id, self.extents.get(id)?))
    }

    /// Returns the address of `offset`, if `offset` lies in a segment. Unless a live extent
    /// contains `offset`, the segment may be unmapped before this function returns.
    #[inline]
    pub fn try_address(&self, offset: u64) -> Option<NonNull<u8>> {
        self.sections.try_address(offset)
    }

    /// Returns the address of `offset`, which lies in a live extent.
    ///
    /// # Panics
    /// Panics if no segment contains `offset`.
    pub fn address(&self, offset: u64) -> NonNull<u8> {
        match self.sections.try_address(offset) {
            Some(address) => address,
            None => panic!("offset {offset:#x} is outside the space"),
        }
    }

    /// Returns `len` bytes at `offset`.
    ///
    /// # Safety
    /// The bytes lie in one live extent. While the slice exists, the extent is not freed, and no
    /// thread writes or releases the bytes.
    pub unsafe fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        debug_assert!(len as u64 <= SECTION_BYTES as u64 - (offset & (SECTION_BYTES as u64 - 1)));
        // SAFETY: the caller guarantees that the bytes lie in a live extent, and that no thread
        // changes them. An extent is contiguous memory of a segment. The memory of an extent is
        // always initialised, because it is zero or was written.
        unsafe { std::slice::from_raw_parts(self.address(offset).as_ptr(), len) }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Safety
    /// The bytes at `offset` lie in committed pages of one live extent. No other thread reads,
    /// writes or releases the bytes at the same time.
    pub unsafe fn write(&self, offset: u64, bytes: &[u8]) {
        // SAFETY: the caller guarantees that the bytes at `offset` are committed, and that no other
        // thread uses them. So the shared slice `bytes` can't overlap them.
        unsafe {
            self.address(offset).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// Counts `pages` more pages as committed. On an error, counts no page. Before a thread touches
    /// the pages, the owner records which pages are committed.
    pub fn charge(&self, pages: u32) -> Result<(), Error> {
        let wanted = pages as usize;
        if wanted == 0 {
            return Ok(());
        }
        // Counts the pages first, so one of two concurrent requests sees the pages of both
        // requests.
        let charge = self.budget.try_charge(wanted)?;
        // If the supply, which is foreign code, panics, the drop of `charge` uncharges the pages.
        if self.supply().is_some_and(|supply| !supply.grant(Request::Commit { pages: wanted })) {
            return Err(Error::Refused { pages: wanted });
        }
        charge.keep();
        Ok(())
    }

    /// Releases committed pages of an extent to the system, and uncharges them. Returns the pages
    /// that were released. Pages that are not released, such as locked pages, stay committed.
    ///
    /// # Safety
    /// No thread depends on the contents of these pages. Until the call returns, no thread commits
    /// or touches these pages.
    pub unsafe fn release<const W: usize>(&self, id: ExtentId, pages: &PageSet<W>) -> PageSet<W> {
        let going = pages.clone();
        // SAFETY: the caller guarantees that no thread uses the pages or depends on their contents.
        unsafe { self.release_all(std::iter::once((id, &going))) };
        going
    }

    /// Releases committed pages of many extents, as [`release`](Self::release) does. After the
    /// call, each set contains the pages that were released.
    ///
    /// # Safety
    /// Each extent and its pages meet the requirements of [`release`](Self::release).
    pub unsafe fn release_all<'b, const W: usize>(
        &self,
        batch: impl Iterator<Item = (ExtentId, &'b PageSet<W>)> + Clone,
    ) {
        let mut have_gone = true;
        self.for_each_range(batch.clone(), |ranges| {
            // SAFETY: the pages are committed, so they lie in live extents, whose segments are
            // mapped. The caller guarantees that no thread depends on their bytes.
            have_gone &= unsafe { release_all_at(ranges) };
        });
        for (id, pages) in batch.clone().filter(|_| !have_gone) {
            let stays = |run: &Range<u32>| {
                let (start, len) = self.locate(id, run);
                // SAFETY: as above. A second release of the same range changes nothing.
                unsafe { !release_at(start, len) }
            };
            pages.runs().filter(stays).for_each(|run| _ = pages.unset(run));
        }
        self.budget.uncharge(batch.map(|(_, pages)| pages.len() as usize).sum());
    }

    /// Asks the system to populate committed pages of extents, so that a later touch does not
    /// fault. No byte changes. If some of the pages are not committed, the call only wastes memory.
    pub fn populate<'b, const W: usize>(
        &self,
        batch: impl Iterator<Item = (ExtentId, &'b PageSet<W>)>,
    ) {
        self.for_each_range(batch, populate_all_at);
    }

    /// Calls `work` with the address ranges of the pages, several ranges per call.
    fn for_each_range<'b, const W: usize>(
        &self,
        batch: impl Iterator<Item = (ExtentId, &'b PageSet<W>)>,
        mut work: impl FnMut(&[IoRange]),
    ) {
        let runs = batch.flat_map(|(id, pages)| pages.runs().map(move |run| (id, run)));
        let mut places = runs.map(|(id, run)| self.locate(id, &run));
        let mut ranges = [IoRange::NONE; RELEASE_RANGES_MAX];
        loop {
            let filled = ranges.iter_mut().zip(&mut places);
            let filled =
                filled.map(|(range, (start, len))| *range = IoRange::new(start, len)).count();
            if filled == 0 {
                return;
            }
            work(&ranges[..filled]);
        }
    }

    /// Returns the address of a run of an extent's pages, and the length of the run in bytes.
    fn locate(&self, id: ExtentId, run: &Range<u32>) -> (NonNull<u8>, usize) {
        let extent = self.extent(id);
        debug_assert!(run.end <= extent.pages());
        let start = self.address(extent.start() + ((run.start as u64) << page_shift()));
        (start, run.len() << page_shift())
    }

    /// Locks the space before a fork, or unlocks it after the fork.
    pub fn at_fork(&self, step: Step) {
        self.state.at_fork(step);
    }

    /// Returns whether the child of a fork inherits the pages.
    pub fn is_in_children(&self) -> bool {
        self.in_children
    }

    /// Sets the number of committed pages to the owners' count, in a child of fork. A thread that
    /// the child lacks may have updated only the owner's count, or only the budget.
    pub fn recount(&self, committed: usize) {
        self.budget.recount(committed);
    }

    /// Asserts every relation between sections and extents. The owners assert that the budget
    /// equals the number of pages that they have committed.
    pub fn check(&self) {
        let state = self.state.lock();
        let mut taken = 0;
        for id in self.live() {
            taken += self.sections.granules(self.extent(id).pages());
            self.check_extent(id);
        }
        let segments = &state.segments;
        assert!(segments.is_sorted_by(|a, b| a.sections.end <= b.sections.start), "order");
        let unused = segments.iter().filter(|segment| segment.used == 0).count();
        assert_eq!(state.unused, unused, "segments in which nothing is used");
        for Segment { sections, used, .. } in segments {
            assert_eq!(self.sections.count_used(sections.clone()), *used, "used of {sections:?}");
        }
        let sections = segments.iter().flat_map(|segment| segment.sections.clone());
        assert_eq!(self.sections.check(&state.free_runs, sections), taken, "granules in use");
        self.extents.check(&state.spare);
        assert_eq!(self.state_bytes.load(Relaxed), state.bytes(), "bytes of tables");
    }

    fn check_extent(&self, id: ExtentId) {
        let extent = self.extent(id);
        for page in 0..extent.pages() as u64 {
            assert_eq!(self.find(extent.start() + (page << page_shift())), Some(id));
        }
        let address = self.address(extent.start()).addr().get();
        let by_address = self.sections.finds_addresses().then_some(extent.start());
        assert_eq!(self.offset_of(address), by_address, "{id:?} by its address");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A supply that refuses segments above a size.
    #[derive(Debug)]
    struct Refuse(usize);

    impl Supply for Refuse {
        fn grant(&self, request: Request) -> bool {
            !matches!(request, Request::Map { bytes } if bytes > self.0)
        }
    }

    /// If a segment too small for the extent were reserved, it would remain, and each further
    /// attempt would add a segment.
    #[test]
    fn no_segment_is_made_that_is_too_small_for_the_extent() {
        for granule in [1, 16] {
            let supply: Arc<dyn Supply> = Arc::new(Refuse(1 << 17));
            let config = Config { supply: Some(supply), granule, ..Config::default() };
            let space = Space::<()>::new(config).unwrap();
            let fits = (1 << 17) / crate::page_size() as u32;
            let segments = || space.state.lock().segments.len();
            for _ in 0..10 {
                let refused = space.alloc(fits + 1, 0).unwrap_err();
                assert_eq!(refused, Error::Refused { pages: (1 << 18) / crate::page_size() });
                assert_eq!(segments(), 0);
            }
            let id = space.alloc(fits, 0).unwrap();
            assert_eq!(segments(), 1);
            assert!(space.alloc(fits + 1, 0).is_err());
            assert_eq!(segments(), 1);
            // SAFETY: no thread uses the extent.
            unsafe { space.free(id) };
            space.check();
        }
    }

    #[test]
    fn a_supply_that_panics_takes_nothing() {
        #[derive(Debug)]
        struct Panics;
        impl Supply for Panics {
            fn grant(&self, request: Request) -> bool {
                assert!(!matches!(request, Request::Commit { pages: 3 }), "three");
                true
            }
        }
        let config = Config { supply: Some(Arc::new(Panics)), ..Config::default() };
        let space = Space::<()>::new(config).unwrap();
        let charge = |pages| {
            let charge = std::panic::AssertUnwindSafe(|| space.charge(pages));
            std::panic::catch_unwind(charge).is_ok()
        };
        assert_eq!((charge(2), charge(3), charge(1)), (true, false, true));
        assert_eq!(space.budget().used(), 3);
    }
}
