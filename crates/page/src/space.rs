//! A space: segments of address space, and the extents in them.
//!
//! Lock order: the space's lock is the last of all; nothing is called with it held but the system.
//! `charge`, `release` and look-ups take no lock: whoever owns an extent orders its own calls, and
//! keeps the set of the extent's pages that are committed. Over all extents its pages are what the
//! budget counts.
//!
//! # Safety
//! The functions that open memory are unsafe and say what their caller must hold. Offsets are
//! resolved through sections, whose bases point into mappings that `state.segments` owns to the end
//! of the space, or until no extent lies in them.
#![allow(unsafe_code)]

use crate::extent_table::ExtentTable;
use crate::mapping::{IoRange, Mapping, populate_all_at, release_all_at, release_at};
use crate::max_tree::{MaxTree, reserve};
use crate::section::{SECTION_BYTES, section_pages};
use crate::sections::{FreeRuns, Sections};
use crate::supply::{Request, Supply};
use crate::sync::{AtomicUsize, Mutex, Ordering::Relaxed};
use crate::zeroed::Zeroed;
use crate::{Budget, EXTENT_PAGES_MAX, Error, Extent, ExtentId, PageSet, page_shift};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Offsets of a space are below 2 to this power: 4 TiB.
pub const OFFSET_BITS: u32 = 42;

/// The smallest segment that is tried when the system refuses larger ones, where the extent needs
/// no larger one. (In tests here it is small beside the longest extent, as it is where pages are
/// larger.)
const SEGMENT_BYTES_MIN: usize = if cfg!(test) { 1 << 16 } else { 1 << 20 };
/// The largest segment: fewer mappings (65,530 are allowed), less to ask for at a time.
const SEGMENT_BYTES_MAX: usize = 1 << 30;

/// Ranges of addresses that are given back by one call.
const RANGES_MAX: usize = 64;

/// How a space is made.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most pages to commit; `None` is no limit.
    pub limit: Option<usize>,
    /// Who may refuse requests before they reach the system; `None` grants all.
    pub supply: Option<Arc<dyn Supply>>,
    /// Pages per entry of the map from page to extent: a power of two up to 256. An extent takes
    /// whole granules of address space; coarse ones make the map small.
    pub granule: u32,
    /// Whether [`Space::offset_of`] and [`Space::extent_at`] are to find addresses, which costs a
    /// table of 8 KiB, and more from 1,024 sections on.
    pub by_address: bool,
    /// Whether segments are part of core dumps.
    pub in_dumps: bool,
    /// Whether children have the pages too, after a fork. If not they have zeros there, and whoever
    /// needs what was stored is to be refused: see [`fork::generation`](crate::fork::generation).
    pub in_children: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            limit: None,
            supply: None,
            granule: 1,
            by_address: false,
            in_dumps: true,
            in_children: true,
        }
    }
}

/// One mapping and the sections it fills.
#[derive(Debug)]
struct Segment {
    mapping: Mapping,
    sections: Range<u32>,
    /// How many of its sections are used.
    used: u32,
}

#[derive(Debug)]
struct State {
    /// By their sections, lowest first.
    segments: Vec<Segment>,
    /// How many of them have no section that is used.
    unused: usize,
    /// Bytes of the next segment to ask for.
    segment_bytes: usize,
    /// Where there is room for extents, and which words have a spare descriptor.
    free_runs: FreeRuns,
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

    /// Bytes of memory that the tables here take.
    fn bytes(&self) -> usize {
        let segments = self.segments.capacity() * size_of::<Segment>();
        segments + self.free_runs.bytes() + self.spare.bytes()
    }

    /// The segment of the section `number`, which has one.
    fn segment_of(&self, number: u32) -> usize {
        self.segments.partition_point(|segment| segment.sections.end <= number)
    }
}

/// Address space in segments, handed out as extents of consecutive pages with a `D` each.
///
/// Extents cost address space only; pages of them are committed and released one by one.
pub struct Space<D> {
    budget: Budget,
    supply: Option<Arc<dyn Supply>>,
    in_dumps: bool,
    in_children: bool,
    sections: Sections,
    extents: ExtentTable<D>,
    state: Mutex<State>,
    /// Bytes of memory of the tables in `state`.
    state_bytes: AtomicUsize,
}

impl<D> fmt::Debug for Space<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl<D: Zeroed> Space<D> {
    /// A space without segments; the first is reserved with the first extent.
    ///
    /// # Panics
    /// When the granule is none of those that are possible.
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

    /// The count of committed pages and its limit.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Bytes of memory the space itself uses: maps, bitmaps and descriptors, not the pages.
    pub fn metadata_bytes(&self) -> usize {
        self.sections.bytes() + self.extents.bytes() + self.state_bytes.load(Relaxed)
    }

    /// Who may refuse requests before they reach the system.
    pub fn supply(&self) -> Option<&dyn Supply> {
        self.supply.as_deref()
    }

    /// Makes an extent of `pages` pages, none of them committed, with the lowest number and at the
    /// lowest offset there is; `tag` is the owner's to read.
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
        // After that: who finds it among the live ones reads what it is.
        self.extents.claim(&mut state.spare, id);
        Ok(id)
    }

    /// Gives an extent back; all its pages were released.
    pub fn free(&self, id: ExtentId) {
        let state = &mut *self.state.lock();
        let (first, pages) = self.extent(id).end();
        if let Some(unused) = self.sections.free_run(&mut state.free_runs, first, pages) {
            self.shrink(state, unused);
        }
        self.extents.release(&mut state.spare, id);
    }

    /// Reserves one more segment, in which an extent of `pages` pages has room; smaller ones after
    /// a refusal.
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
        let sections = self.sections.attach(&mut state.free_runs, &mapping, self.supply())?;
        state.segment_bytes = (bytes * 2).clamp(SECTION_BYTES, SEGMENT_BYTES_MAX);
        let at = state.segment_of(sections.start);
        state.segments.insert(at, Segment { mapping, sections, used: 0 });
        state.unused += 1;
        Ok(())
    }

    /// Takes note that nothing is used in the section `number` any more. Unmaps its segment if that
    /// is all unused and another one is too, so that a pool at the edge of a segment does not map
    /// and unmap it over and over. Where the system refuses that, the segment stays as it was, and
    /// is used again or unmapped later.
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
                    self.sections.detach(&mut state.free_runs, sections);
                    state.segment_bytes = state.segment_bytes.min(bytes);
                }
                Err(mapping) => state.segments.insert(at, Segment { mapping, sections, used }),
            }
        }
    }

    /// The descriptor `id`.
    ///
    /// # Panics
    /// When `id` is of another space and beyond this one's descriptors.
    pub fn extent(&self, id: ExtentId) -> &Extent<D> {
        match self.extents.get(id) {
            Some(extent) => extent,
            None => panic!("{id:?} is not of this space"),
        }
    }

    /// The extents there are, lowest number first. Each is what it is said to be when it is come
    /// to; where others make and free extents, it may be gone, or another one, when it is looked
    /// at.
    pub fn live(&self) -> impl Iterator<Item = ExtentId> {
        self.extents.live()
    }

    /// The extent whose granules `offset` lies in, if there is one. Its last granule may reach
    /// beyond its pages: whoever got the offset from elsewhere compares it with [`Extent::start`]
    /// and [`Extent::pages`].
    pub fn find(&self, offset: u64) -> Option<ExtentId> {
        self.sections.extent_id_at(offset).and_then(ExtentId::from_raw)
    }

    /// The offset of `address`, if it lies in this space, and the space is
    /// [`by_address`](Config::by_address).
    pub fn offset_of(&self, address: usize) -> Option<u64> {
        self.sections.offset_of(address)
    }

    /// The extent whose granules `address` lies in, if it lies in one. If not, it may be any:
    /// whoever did not get the address from a live extent compares it with where that lies.
    #[inline]
    pub fn extent_at(&self, address: usize) -> Option<(ExtentId, &Extent<D>)> {
        let id = ExtentId::from_raw(self.sections.extent_id_at_address(address)?)?;
        Some((id, self.extents.get(id)?))
    }

    /// The address of `offset`, if it lies in a segment at the moment: it may be gone when this
    /// returns.
    #[inline]
    pub fn try_address(&self, offset: u64) -> Option<NonNull<u8>> {
        self.sections.try_address(offset)
    }

    /// The address of `offset`, which lies in a live extent.
    ///
    /// # Panics
    /// When no segment lies there.
    pub fn address(&self, offset: u64) -> NonNull<u8> {
        match self.sections.try_address(offset) {
            Some(address) => address,
            None => panic!("offset {offset:#x} is outside the space"),
        }
    }

    /// The `len` bytes at `offset`.
    ///
    /// # Safety
    /// They lie in one live extent which stays, and no one writes to or releases them while the
    /// slice lives.
    pub unsafe fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        debug_assert!(len as u64 <= SECTION_BYTES as u64 - (offset & (SECTION_BYTES as u64 - 1)));
        // SAFETY: `address` checked the start; the caller vouches for the rest, and an extent is
        // consecutive memory. Memory of a segment is zero or what was written: always initialised.
        unsafe { std::slice::from_raw_parts(self.address(offset).as_ptr(), len) }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Safety
    /// The place lies in committed pages of one live extent, and no one else reads, writes or
    /// releases it meanwhile.
    pub unsafe fn write(&self, offset: u64, bytes: &[u8]) {
        // SAFETY: as the caller vouches; `bytes` is a shared slice, so it can't overlap a place
        // that no one else reads.
        unsafe {
            self.address(offset).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// Counts `pages` more pages as committed, all or none of them. It only counts: the owner notes
    /// which they are, before anything touches them.
    pub fn charge(&self, pages: u32) -> Result<(), Error> {
        let wanted = pages as usize;
        if wanted == 0 {
            return Ok(());
        }
        // Counted first: of two who ask at once, one at least sees the other's pages.
        let charge = self.budget.try_charge(wanted)?;
        // It is others' code: if it panics, what was taken goes back.
        if self.supply().is_some_and(|supply| !supply.grant(Request::Commit { pages: wanted })) {
            return Err(Error::Refused { pages: wanted });
        }
        charge.keep();
        Ok(())
    }

    /// Gives `pages` of an extent, which are committed, back to the system, and counts them so;
    /// those that went. The rest (locked memory) stays committed.
    ///
    /// # Safety
    /// No one needs what these pages hold, or commits or touches them, until the call returns.
    pub unsafe fn release(&self, id: ExtentId, pages: &PageSet) -> PageSet {
        let going = PageSet::default();
        going.copy_from(pages);
        // SAFETY: as the caller says.
        unsafe { self.release_all(std::iter::once((id, &going))) };
        going
    }

    /// As [`release`](Self::release), for pages of many extents at once. Each set is left with
    /// those that went.
    ///
    /// # Safety
    /// As for `release`, of each.
    pub unsafe fn release_all<'b>(
        &self,
        batch: impl Iterator<Item = (ExtentId, &'b PageSet)> + Clone,
    ) {
        let mut have_gone = true;
        self.for_each_range(batch.clone(), |ranges| {
            // SAFETY: the ranges lie in live extents (their owner's sets), and so in live segments;
            // the caller says that no one needs their bytes.
            have_gone &= unsafe { release_all_at(ranges) };
        });
        for (id, pages) in batch.clone().filter(|_| !have_gone) {
            let stays = |run: &Range<u32>| {
                let (start, len) = self.locate(id, run);
                // SAFETY: as above. What had gone goes once more, which changes nothing.
                unsafe { !release_at(start, len) }
            };
            pages.runs().filter(stays).for_each(|run| _ = pages.remove(run));
        }
        self.budget.uncharge(batch.map(|(_, pages)| pages.len() as usize).sum());
    }

    /// Has memory found for pages of extents, which are committed: who touches them then does not
    /// wait for it.
    pub fn populate<'b>(&self, batch: impl Iterator<Item = (ExtentId, &'b PageSet)>) {
        // SAFETY: as in `release_all`, and it changes nothing of what they hold.
        self.for_each_range(batch, |ranges| unsafe { populate_all_at(ranges) });
    }

    /// Calls `work` with where the pages lie, some runs at a time.
    fn for_each_range<'b>(
        &self,
        batch: impl Iterator<Item = (ExtentId, &'b PageSet)>,
        mut work: impl FnMut(&[IoRange]),
    ) {
        let runs = batch.flat_map(|(id, pages)| pages.runs().map(move |run| (id, run)));
        let mut places = runs.map(|(id, run)| self.locate(id, &run));
        let mut ranges = [IoRange::NONE; RANGES_MAX];
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

    /// Where a run of an extent's pages lies, and its bytes.
    fn locate(&self, id: ExtentId, run: &Range<u32>) -> (NonNull<u8>, usize) {
        let extent = self.extent(id);
        debug_assert!(run.end <= extent.pages());
        let start = self.address(extent.start() + ((run.start as u64) << page_shift()));
        (start, run.len() << page_shift())
    }

    /// Locks the space over a fork, until [`unlock_after_fork`](Self::unlock_after_fork).
    pub fn lock_for_fork(&self) {
        self.state.lock_for_fork();
        self.budget.lock_for_fork();
    }

    /// Releases what [`lock_for_fork`](Self::lock_for_fork) took.
    pub fn unlock_after_fork(&self) {
        self.budget.unlock_after_fork();
        self.state.unlock_after_fork();
    }

    /// Whether children have the pages too, after a fork.
    pub fn is_in_children(&self) -> bool {
        self.in_children
    }

    /// Makes the count of committed pages what the owners found: in a child, a lost thread may have
    /// died between its count and the budget's.
    pub fn recount(&self, committed: usize) {
        self.budget.recount(committed);
    }

    /// Asserts every relation between sections and extents. That the budget counts the pages which
    /// the owners have as committed is theirs to assert.
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

    /// Refuses segments above a size.
    #[derive(Debug)]
    struct Refuse(usize);

    impl Supply for Refuse {
        fn grant(&self, request: Request) -> bool {
            !matches!(request, Request::Map { bytes } if bytes > self.0)
        }
    }

    /// A segment that is granted though the extent has no room in it would stay, one more for each
    /// attempt.
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
                assert_eq!(refused, Error::Mapping { bytes: 1 << 18 });
                assert_eq!(segments(), 0);
            }
            let id = space.alloc(fits, 0).unwrap();
            assert_eq!(segments(), 1);
            assert!(space.alloc(fits + 1, 0).is_err());
            assert_eq!(segments(), 1);
            space.free(id);
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
