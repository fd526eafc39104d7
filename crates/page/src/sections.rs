//! The sections of a space: from offsets to addresses and extents, and runs of granules for
//! extents.
//!
//! ```text
//!   offset (42 bits):  | section: 16 bits | byte in section: 26 bits |
//!   sections[section] -> base address, map;   used[section * words ..] -> one bit per granule
//!   free runs: a number per section, its longest run of unused granules; the lowest with room is found in a few steps
//! ```
//! What changes is changed under the space's lock, which guards the free runs; looking up takes
//! none.
//!
//! # Safety
//! A section's base points to as many granules of a live segment as it has: the space keeps the
//! mapping until it has detached the section.
#![allow(unsafe_code)]

use crate::address_index::AddressIndex;
use crate::mapping::Mapping;
use crate::max_tree::MaxTree;
use crate::section::{SECTION_BYTES, SECTION_SHIFT, Section, section_pages};
use crate::space::Config;
use crate::supply::Supply;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::table::GrowingTable;
use crate::{EXTENT_PAGES_MAX, Error, OFFSET_BITS, page_shift, page_size};
use std::ops::Range;
use std::ptr::NonNull;

const SECTIONS_MAX: u32 = 1 << (OFFSET_BITS - SECTION_SHIFT);

/// Where there is room: what the space's lock guards for its sections.
#[derive(Debug, Default)]
pub(crate) struct FreeRuns {
    /// Of each section the longest run of unused granules, the largest extent's at most; 0 without
    /// address space.
    runs: MaxTree,
    /// No section below this one is without address space.
    bare: u32,
}

impl FreeRuns {
    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.bytes()
    }
}

/// An extent's granules that were entered.
pub(crate) struct Placed {
    /// The extent's first page.
    pub(crate) first: u32,
    /// The number of its section, if nothing was used there before.
    pub(crate) new_section: Option<u32>,
}

pub(crate) struct Sections {
    sections: GrowingTable<Section>,
    used: GrowingTable<AtomicU64>,
    /// Words of `used` that were written, and bytes of memory that those take.
    used_touched: AtomicU32,
    used_bytes: AtomicUsize,
    /// Pages of maps in which a granule is used.
    map_pages: AtomicUsize,
    address_index: Option<AddressIndex>,
    /// Pages of a granule, and the binary logarithm of its bytes.
    granule: u32,
    granule_shift: u32,
}

impl Sections {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let granule = config.granule;
        let is_possible = granule.is_power_of_two() && granule <= EXTENT_PAGES_MAX;
        assert!(is_possible, "a granule of {granule} pages; powers of two up to 256 are possible");
        let granule_shift = page_shift() + granule.trailing_zeros();
        Ok(Sections {
            sections: GrowingTable::new(),
            used: GrowingTable::new(),
            used_touched: AtomicU32::new(0),
            used_bytes: AtomicUsize::new(0),
            map_pages: AtomicUsize::new(0),
            address_index: config.by_address.then(AddressIndex::new).transpose()?,
            granule,
            granule_shift,
        })
    }

    /// Whether sections can be found by address.
    pub(crate) fn finds_addresses(&self) -> bool {
        self.address_index.is_some()
    }

    /// Bytes of a granule.
    pub(crate) fn granule_bytes(&self) -> usize {
        1 << self.granule_shift
    }

    fn section_granules(&self) -> u32 {
        section_pages() / self.granule
    }

    /// Bytes of a section's map.
    fn map_bytes(&self) -> usize {
        (self.section_granules() as usize * 4).next_multiple_of(page_size())
    }

    /// Words of a section's bitmap.
    fn words(&self) -> u32 {
        self.section_granules().div_ceil(64)
    }

    fn used(&self, number: u32) -> &[AtomicU64] {
        self.used.slice(number * self.words(), self.words())
    }

    fn iter(&self, numbers: Range<u32>) -> impl Iterator<Item = &Section> {
        numbers.filter_map(|number| self.sections.get(number))
    }

    /// Bytes of memory that were touched.
    pub(crate) fn bytes(&self) -> usize {
        let maps = self.map_pages.load(Relaxed) * page_size();
        let used = self.used_bytes.load(Relaxed);
        let index = self.address_index.as_ref().map_or(0, AddressIndex::bytes);
        maps + used + self.sections.bytes() + index
    }

    /// Granules of the largest extent.
    fn longest_run(&self) -> u32 {
        self.granules(EXTENT_PAGES_MAX.min(section_pages()))
    }

    /// Enters the lowest run of granules with room for `pages` pages as the extent `extent_id`'s.
    pub(crate) fn alloc_run(
        &self,
        free_runs: &mut FreeRuns,
        pages: u32,
        extent_id: u32,
    ) -> Option<Placed> {
        let count = self.granules(pages);
        let number = free_runs.runs.first(count as u16)?;
        let (section, used) = (self.sections.get(number)?, self.used(number));
        let new_section = section.is_unused().then_some(number);
        let (start, fresh) = section.alloc_run(used, count, extent_id)?;
        let (end, room) = (start + count, free_runs.runs.get(number).into());
        free_runs.runs.set(number, section.longest_after_alloc(used, start..end, room) as u16);
        self.map_pages.fetch_add(fresh, Relaxed);
        let touched = number * self.words() + end.div_ceil(64);
        if touched > self.used_touched.load(Relaxed) {
            self.used_touched.store(touched, Relaxed);
            self.used_bytes.store(GrowingTable::<AtomicU64>::bytes_below(touched), Relaxed);
        }
        Some(Placed { first: number * section_pages() + start * self.granule, new_section })
    }

    /// Gives back what `alloc_run` gave; the section's number, if nothing in it is used any more.
    pub(crate) fn free_run(&self, free_runs: &mut FreeRuns, first: u32, pages: u32) -> Option<u32> {
        let number = first / section_pages();
        let (section, used) = (self.sections.get(number)?, self.used(number));
        let start = first % section_pages() / self.granule;
        let given = start..start + self.granules(pages);
        let gone = section.free_run(used, given.clone());
        let room = free_runs.runs.get(number).into();
        let room = section.longest_after_free(used, given, room, self.longest_run());
        free_runs.runs.set(number, room as u16);
        self.map_pages.fetch_sub(gone, Relaxed);
        section.is_unused().then_some(number)
    }

    /// The id of the extent whose granule is at `offset`; 0 is none.
    #[inline]
    pub(crate) fn extent_id_at(&self, offset: u64) -> Option<u32> {
        let section = self.sections.get(u32::try_from(offset >> SECTION_SHIFT).ok()?)?;
        let granule = (offset as usize & (SECTION_BYTES - 1)) >> self.granule_shift;
        Some(section.map().get(granule)?.load(Relaxed))
    }

    /// The address of `offset`, if its section has a segment. In a short one's section it may lie
    /// behind its end.
    #[inline]
    pub(crate) fn try_address(&self, offset: u64) -> Option<NonNull<u8>> {
        let section = self.sections.get(u32::try_from(offset >> SECTION_SHIFT).ok()?)?;
        // The base is read once: a segment that goes meanwhile leaves none.
        let base = NonNull::new(section.base())?;
        NonNull::new(base.as_ptr().wrapping_add(offset as usize & (SECTION_BYTES - 1)))
    }

    #[inline]
    fn section_bytes(&self, section: &Section) -> usize {
        (section.granules() as usize) << self.granule_shift
    }

    /// Bytes from a section's base to `address`, if that lies in the section.
    fn place_in(&self, section: &Section, address: usize) -> Option<usize> {
        let bytes = self.section_bytes(section);
        let at = address.wrapping_sub(section.base().addr());
        (at < bytes).then_some(at)
    }

    /// The section that `address` lies in, with its number, and the bytes from its base; none where
    /// sections can't be found so.
    #[inline]
    fn section_at(&self, address: usize) -> Option<(u32, &Section, usize)> {
        self.address_index.as_ref()?.find(address, |number| {
            let section = self.sections.get(number)?;
            Some((number, section, self.place_in(section, address)?))
        })
    }

    /// The offset of `address`, if it lies in one of the sections and those can be found by
    /// address.
    pub(crate) fn offset_of(&self, address: usize) -> Option<u64> {
        let (number, _, at) = self.section_at(address)?;
        Some(((number as u64) << SECTION_SHIFT) + at as u64)
    }

    /// The id of the extent whose granule `address` lies in; of an address in no segment it may be
    /// any.
    #[inline]
    pub(crate) fn extent_id_at_address(&self, address: usize) -> Option<u32> {
        let (_, section, at) = self.section_at(address)?;
        Some(section.map().get(at >> self.granule_shift)?.load(Relaxed))
    }

    /// Lays a segment's address space behind sections that have none; which.
    pub(crate) fn attach(
        &self,
        free_runs: &mut FreeRuns,
        mapping: &Mapping,
        supply: Option<&dyn Supply>,
    ) -> Result<Range<u32>, Error> {
        let wanted = mapping.len().div_ceil(SECTION_BYTES) as u32;
        let sections = self.spare_sections(free_runs, wanted, supply)?;
        if let Some(index) = &self.address_index {
            let base =
                |number| self.sections.get(number).map_or(0, |section| section.base().addr());
            index.make_room(wanted, supply, base)?;
        }
        for (nth, number) in sections.clone().enumerate() {
            match self.attach_one(number, mapping, nth * SECTION_BYTES, supply) {
                Ok(granules) => free_runs.runs.set(number, granules.min(self.longest_run()) as u16),
                Err(error) => {
                    self.detach(free_runs, sections.start..number);
                    return Err(error);
                }
            }
        }
        Ok(sections)
    }

    fn attach_one(
        &self,
        number: u32,
        mapping: &Mapping,
        at: usize,
        supply: Option<&dyn Supply>,
    ) -> Result<u32, Error> {
        let section = self.sections.get(number).ok_or(Error::Exhausted)?;
        let granules = (mapping.len() - at).min(SECTION_BYTES) / self.granule_bytes();
        // SAFETY: `at` is below the mapping's length: `attach` counted the sections from that
        // length.
        let base = unsafe { mapping.base().add(at) };
        section.attach(base, granules as u32, self.map_bytes(), supply)?;
        self.address_index.as_ref().inspect(|index| index.insert(base.addr().get(), number));
        Ok(granules as u32)
    }

    /// Takes the address space of sections away that are unused.
    pub(crate) fn detach(&self, free_runs: &mut FreeRuns, sections: Range<u32>) {
        free_runs.bare = free_runs.bare.min(sections.start);
        for number in sections {
            free_runs.runs.set(number, 0);
            if let Some(section) = self.sections.get(number) {
                self.address_index
                    .as_ref()
                    .inspect(|index| index.remove(section.base().addr(), number));
                section.detach();
            }
        }
    }

    /// The first `wanted` consecutive sections without address space, made if need be.
    fn spare_sections(
        &self,
        free_runs: &mut FreeRuns,
        wanted: u32,
        supply: Option<&dyn Supply>,
    ) -> Result<Range<u32>, Error> {
        let is_bare =
            |number: &u32| self.sections.get(*number).is_none_or(|section| section.granules() == 0);
        free_runs.bare = (free_runs.bare..SECTIONS_MAX).find(is_bare).ok_or(Error::Exhausted)?;
        let mut start = free_runs.bare;
        for number in free_runs.bare..SECTIONS_MAX {
            if number == self.sections.len() {
                free_runs.runs.grow(number + 1, supply)?;
                while self.used.len() < (number + 1) * self.words() {
                    self.used.push(supply)?;
                }
                self.sections.push(supply)?;
            }
            if !is_bare(&number) {
                start = number + 1;
            } else if number + 1 - start == wanted {
                return Ok(start..number + 1);
            }
        }
        Err(Error::Exhausted)
    }

    /// How many of `sections` are used.
    pub(crate) fn count_used(&self, sections: Range<u32>) -> u32 {
        self.iter(sections).filter(|section| !section.is_unused()).count() as u32
    }

    /// Asserts the state of `sections`, all of those with address space; how many of their granules
    /// are used.
    pub(crate) fn check(&self, free_runs: &FreeRuns, sections: impl Iterator<Item = u32>) -> u32 {
        free_runs.runs.check();
        let (mut used, mut map_pages) = (0, 0);
        let mut with_room: u32 = 0;
        for number in sections {
            let Some(section) = self.sections.get(number) else {
                panic!("section {number} was never made")
            };
            assert!(section.granules() > 0, "section {number} has no address space");
            let room = free_runs.runs.get(number);
            map_pages += section.check(self.used(number), room.into(), self.longest_run());
            used += section.granules() - section.free();
            with_room += u32::from(room > 0);
        }
        assert_eq!(self.map_pages.load(Relaxed), map_pages, "pages of maps");
        let all = 0..self.sections.len();
        let with_room_of_all = all.clone().filter(|&number| free_runs.runs.get(number) > 0);
        assert_eq!(with_room_of_all.count() as u32, with_room, "sections with room");
        let is_bare = |section: &Section| section.granules() == 0;
        assert!(
            !self.iter(0..free_runs.bare.min(all.end)).any(is_bare),
            "bare below {}",
            free_runs.bare
        );
        used
    }

    /// The granules that `pages` pages take.
    pub(crate) fn granules(&self, pages: u32) -> u32 {
        pages.div_ceil(self.granule)
    }
}

impl Drop for Sections {
    fn drop(&mut self) {
        for section in self.iter(0..self.sections.len()) {
            // SAFETY: `&mut self`: no reference into the sections is left; their maps have this
            // length.
            unsafe { section.destroy(self.map_bytes()) }
        }
    }
}
