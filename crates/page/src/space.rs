//! A space: segments of address space, and the extents in them.
//!
//! Lock order: the space's lock is the last of all; nothing is called with it held but the system.
//! `charge`, `release` and look-ups take no lock: whoever owns an extent orders its own calls, and keeps the
//! set of the extent's pages that are committed. Over all extents its pages are what the budget counts.
//!
//! # Safety
//! The functions that open memory are unsafe and say what their caller must hold. Offsets are resolved
//! through units, whose bases point into mappings that `state.segments` owns to the end of the space, or
//! until no extent lies in them.
#![allow(unsafe_code)]

use crate::descriptors::Descriptors;
use crate::mapping::{Mapping, Piece, populate_all_at, release_all_at, release_at};
use crate::supply::{Request, Supply};
use crate::sync::{Mutex, Ordering::Relaxed, Ordering::Release};
use crate::unit::{UNIT_BYTES, unit_pages};
use crate::units::Units;
use crate::zeroed::Zeroed;
use crate::{Budget, EXTENT_PAGES_MAX, Error, Extent, ExtentId, PageSet, page_shift};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Offsets of a space are below 2 to this power: 4 TiB.
pub const OFFSET_BITS: u32 = 42;

/// The smallest segment that is tried when the system refuses larger ones.
const SEGMENT_BYTES_MIN: usize = 1 << 20;
/// The largest segment: fewer mappings (65,530 are allowed), less to ask for at a time.
const SEGMENT_BYTES_MAX: usize = 1 << 30;

/// Runs of pages that are given back by one call.
const PIECES: usize = 64;

/// How a space is made.
#[derive(Clone)]
pub struct Config {
    /// Most pages to commit; `None` is no limit.
    pub limit: Option<usize>,
    /// Who may refuse requests before they reach the system; `None` grants all.
    pub supply: Option<Arc<dyn Supply>>,
    /// Pages per entry of the map from page to extent: a power of two up to 256. An extent takes whole
    /// granules of address space; coarse ones make the map small.
    pub granule: u32,
    /// Whether [`Space::offset_of`] and [`Space::extent_at`] are to find addresses, which costs a table of 8 KiB, and
    /// more from 1,024 units on.
    pub by_address: bool,
    /// Whether segments are part of core dumps.
    pub in_dumps: bool,
    /// Whether children have the segments too, after a fork; see [`Space::left_behind`].
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

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("limit", &self.limit)
            .field("granule", &self.granule)
            .field("by_address", &self.by_address)
            .field("in_dumps", &self.in_dumps)
            .field("in_children", &self.in_children)
            .finish_non_exhaustive()
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
    /// Bytes of the next segment to ask for.
    segment_bytes: usize,
}

/// Address space in segments, handed out as extents of consecutive pages with a `D` each.
///
/// Extents cost address space only; pages of them are committed and released one by one.
pub struct Space<D> {
    budget: Budget,
    supply: Option<Arc<dyn Supply>>,
    in_dumps: bool,
    in_children: bool,
    units: Units,
    extents: Descriptors<D>,
    state: Mutex<State>,
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
            units: Units::new(&config)?,
            supply: config.supply,
            in_dumps: config.in_dumps,
            in_children: config.in_children,
            extents: Descriptors::new(),
            state: Mutex::new(State { segments: Vec::new(), segment_bytes: UNIT_BYTES }),
        })
    }

    /// The count of committed pages and its limit.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Bytes of memory the space itself uses: maps, bitmaps and descriptors, not the pages.
    pub fn metadata_bytes(&self) -> usize {
        self.units.bytes() + self.extents.bytes()
    }

    /// Who may refuse requests before they reach the system.
    pub fn supply(&self) -> Option<&dyn Supply> {
        self.supply.as_deref()
    }

    /// Makes an extent of `pages` pages, none of them committed, with the lowest number and at the lowest offset
    /// there is; `tag` is the owner's to read.
    pub fn alloc(&self, pages: u32, tag: u32) -> Result<ExtentId, Error> {
        if pages == 0 || pages > EXTENT_PAGES_MAX.min(unit_pages()) {
            return Err(Error::ExtentLength { pages });
        }
        let mut state = self.state.lock();
        let id = self.extents.spare(self.supply())?;
        let first = match self.units.take(pages, id.to_raw()) {
            Some(first) => first,
            None => {
                self.grow(&mut state)?;
                self.units.take(pages, id.to_raw()).ok_or(Error::Exhausted)?
            }
        };
        self.extents.take(id);
        let extent = self.extent(id);
        extent.first.store(first, Relaxed);
        extent.tag.store(tag, Relaxed);
        extent.pages.store(pages, Release);
        Ok(id)
    }

    /// Gives an extent back; all its pages were released.
    pub fn free(&self, id: ExtentId) {
        let mut state = self.state.lock();
        let extent = self.extent(id);
        let pages = extent.pages.swap(0, Relaxed);
        if let Some(unused) = self.units.give(extent.first.load(Relaxed), pages) {
            self.shrink(&mut state, unused);
        }
        self.extents.give(id);
    }

    /// Reserves one more segment, smaller ones after a refusal.
    fn grow(&self, state: &mut State) -> Result<(), Error> {
        let least = SEGMENT_BYTES_MIN.max(self.units.granule_bytes());
        let mut bytes = state.segment_bytes;
        let mapping = loop {
            match Mapping::reserve(bytes, bytes.min(UNIT_BYTES), self.supply()) {
                Ok(mapping) => break mapping,
                Err(error) if bytes <= least => return Err(error),
                Err(_) => bytes /= 2,
            }
        };
        if !self.in_dumps {
            mapping.keep_from_dumps();
        }
        if !self.in_children {
            mapping.keep_from_children();
        }
        let units = self.units.attach(&mapping, self.supply())?;
        state.segment_bytes = (bytes * 2).clamp(UNIT_BYTES, SEGMENT_BYTES_MAX);
        state.segments.push(Segment { mapping, units });
        Ok(())
    }

    /// Unmaps the segment of the unit `number` if it is all unused and another one is too, so that a
    /// pool at the edge of a segment does not map and unmap it over and over.
    fn shrink(&self, state: &mut State, number: u32) {
        let unused = |segment: &Segment| self.units.are_unused(segment.units.clone());
        let emptied = state.segments.iter().position(|segment| segment.units.contains(&number));
        let spare = state.segments.iter().filter(|segment| unused(segment)).count() > 1;
        if let Some(at) = emptied.filter(|&at| spare && unused(&state.segments[at])) {
            let segment = state.segments.swap_remove(at);
            self.units.detach(segment.units.clone());
            state.segment_bytes = state.segment_bytes.min(segment.mapping.len());
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

    /// The extents there are, lowest number first.
    pub fn live(&self) -> impl Iterator<Item = ExtentId> {
        self.extents.live()
    }

    /// The extent whose granules `offset` lies in, if there is one. Its last granule may reach beyond its
    /// pages: whoever got the offset from elsewhere compares it with [`Extent::start`] and [`Extent::pages`].
    pub fn find(&self, offset: u64) -> Option<ExtentId> {
        self.units.entry(offset).and_then(ExtentId::from_raw)
    }

    /// The offset of `address`, if it lies in this space, and the space is [`by_address`](Config::by_address).
    pub fn offset_of(&self, address: usize) -> Option<u64> {
        self.units.offset_of(address)
    }

    /// The extent whose granules `address` lies in, if it lies in one. If not, it may be any: whoever did not get the
    /// address from a live extent compares it with where that lies.
    #[inline]
    pub fn extent_at(&self, address: usize) -> Option<(ExtentId, &Extent<D>)> {
        let id = ExtentId::from_raw(self.units.entry_at(address)?)?;
        Some((id, self.extents.get(id)?))
    }

    /// The address of `offset`, if it lies in a segment at the moment: it may be gone when this returns.
    #[inline]
    pub fn address_now(&self, offset: u64) -> Option<NonNull<u8>> {
        self.units.pointer(offset)
    }

    /// The address of `offset`, which lies in a live extent.
    ///
    /// # Panics
    /// When no segment lies there.
    pub fn pointer(&self, offset: u64) -> NonNull<u8> {
        match self.units.pointer(offset) {
            Some(address) => address,
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

    /// Counts `pages` more pages as committed, all or none of them. It only counts: the owner notes which
    /// they are, before anything touches them.
    pub fn charge(&self, pages: u32) -> Result<(), Error> {
        let wanted = pages as usize;
        if wanted == 0 {
            return Ok(());
        }
        self.budget.take(wanted)?;
        // Counted first: of two who ask at once, one at least sees the other's pages.
        if self.supply().is_some_and(|supply| !supply.grant(Request::Commit { pages: wanted })) {
            self.budget.give(wanted);
            return Err(Error::Refused { pages: wanted });
        }
        Ok(())
    }

    /// Gives `pages` of an extent, which are committed, back to the system, and counts them so; those that
    /// went. The rest (locked memory) stays committed.
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

    /// As [`release`](Self::release), for pages of many extents at once. Each set is left with those that went.
    ///
    /// # Safety
    /// As for `release`, of each.
    pub unsafe fn release_all<'b>(
        &self,
        batch: impl Iterator<Item = (ExtentId, &'b PageSet)> + Clone,
    ) {
        let mut have_gone = true;
        self.in_pieces(batch.clone(), |pieces| {
            // SAFETY: the pieces lie in live extents (their owner's sets), and so in live segments; the caller says that
            // no one needs their bytes.
            have_gone &= unsafe { release_all_at(pieces) };
        });
        for (id, pages) in batch.clone().filter(|_| !have_gone) {
            let stays = |run: &Range<u32>| {
                let (start, len) = self.place(id, run);
                // SAFETY: as above. What had gone goes once more, which changes nothing.
                unsafe { !release_at(start, len) }
            };
            pages.runs().filter(stays).for_each(|run| _ = pages.remove(run));
        }
        self.budget.give(batch.map(|(_, pages)| pages.len() as usize).sum());
    }

    /// Has memory found for pages of extents, which are committed: who touches them then does not wait for it.
    pub fn populate<'b>(&self, batch: impl Iterator<Item = (ExtentId, &'b PageSet)>) {
        // SAFETY: as in `release_all`, and it changes nothing of what they hold.
        self.in_pieces(batch, |pieces| unsafe { populate_all_at(pieces) });
    }

    /// Calls `work` with where the pages lie, some runs at a time.
    fn in_pieces<'b>(
        &self,
        batch: impl Iterator<Item = (ExtentId, &'b PageSet)>,
        mut work: impl FnMut(&[Piece]),
    ) {
        let runs = batch.flat_map(|(id, pages)| pages.runs().map(move |run| (id, run)));
        let mut places = runs.map(|(id, run)| self.place(id, &run));
        let mut pieces = [Piece::NONE; PIECES];
        loop {
            let filled = pieces.iter_mut().zip(&mut places);
            let filled =
                filled.map(|(piece, (start, len))| *piece = Piece::new(start, len)).count();
            if filled == 0 {
                return;
            }
            work(&pieces[..filled]);
        }
    }

    /// Where a run of an extent's pages lies, and its bytes.
    fn place(&self, id: ExtentId, run: &Range<u32>) -> (NonNull<u8>, usize) {
        let extent = self.extent(id);
        debug_assert!(run.end <= extent.pages());
        let start = self.pointer(extent.start() + ((run.start as u64) << page_shift()));
        (start, run.len() << page_shift())
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

    /// Whether children have the segments too, after a fork.
    pub fn is_in_children(&self) -> bool {
        self.in_children
    }

    /// To be called in a child that has no segments, before it maps any memory: what lies there later is not this
    /// space's, and no extent may be looked into any more.
    pub fn left_behind(&self) {
        let mut state = self.state.lock();
        state.segments.drain(..).for_each(|segment| std::mem::forget(segment.mapping));
    }

    /// Makes the count of committed pages what the owners found: in a child, a lost thread may have died
    /// between its count and the budget's.
    pub fn recount(&self, committed: usize) {
        self.budget.recount(committed);
    }

    /// Asserts every relation between units and extents. That the budget counts the pages which the owners
    /// have as committed is theirs to assert.
    pub fn check(&self) {
        let state = self.state.lock();
        let mut taken = 0;
        for id in self.live() {
            taken += self.units.granules(self.extent(id).pages());
            self.check_extent(id);
        }
        let segments = state.segments.iter();
        let used: u32 = segments.map(|segment| self.units.check(segment.units.clone())).sum();
        assert_eq!(used, taken, "granules in use");
        self.extents.check();
    }

    fn check_extent(&self, id: ExtentId) {
        let extent = self.extent(id);
        for page in 0..extent.pages() as u64 {
            assert_eq!(self.find(extent.start() + (page << page_shift())), Some(id));
        }
        let address = self.pointer(extent.start()).addr().get();
        let by_address = self.units.finds_addresses().then_some(extent.start());
        assert_eq!(self.offset_of(address), by_address, "{id:?} by its address");
    }
}
