//! The sections of a space: the mapping from offsets to addresses and extents, and the allocation
//! of granules.
//!
//! ```text
//!   offset (42 bits):  | section: 16 bits | byte in section: 26 bits |
//!   sections[section] -> base address, map;   used[section * words ..] -> one bit per granule
//!
//!   segment (one mapping, 1 MiB to 1 GiB)
//!   | section u                 | section u + 1             | ...
//!     map of a section: | u32 per granule: extent index + 1, 0 = none |   a mapping of its own
//! ```
//! If a granule is 16 pages of 4 KiB, a map takes 4 KiB. Maps stay mapped for the life of the
//! space. All changes are made under the space's lock. A look-up takes no lock.
//!
//! # Safety
//! The space meets the requirements of [`Section`]: it detaches a mapping's sections before it
//! unmaps the mapping.
#![allow(unsafe_code)]

use crate::address_index::AddressIndex;
use crate::budget::Supply;
use crate::config::{Config, SECTION_BYTES, SECTION_SHIFT, SECTIONS_MAX, section_pages};
use crate::free_runs::{FreeRuns, longest_after_alloc, longest_after_free};
use crate::mapping::Mapping;
use crate::section::Section;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::table::GrowingTable;
use crate::{EXTENT_PAGES_MAX, Error, page_size};
use std::ops::Range;
use std::ptr::NonNull;

/// The result of an allocation of granules for a new extent.
pub(crate) struct Placed {
    /// The extent's first page.
    pub(crate) first: u32,
    /// The number of the extent's section, if no granule of the section was used before.
    pub(crate) new_section: Option<u32>,
}

pub(crate) struct Sections {
    sections: GrowingTable<Section>,
    used: GrowingTable<AtomicU64>,
    /// The number of words of `used` that were written.
    used_touched: AtomicU32,
    used_bytes: AtomicUsize,
    /// The number of those pages of the maps that contain an entry of a used granule.
    map_pages: AtomicUsize,
    address_index: Option<AddressIndex>,
    /// The number of pages in a granule.
    granule: u32,
    granule_shift: u32,
}

impl Sections {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        Ok(Sections {
            sections: GrowingTable::new(),
            used: GrowingTable::new(),
            used_touched: AtomicU32::new(0),
            used_bytes: AtomicUsize::new(0),
            map_pages: AtomicUsize::new(0),
            address_index: config.by_address.then(AddressIndex::new).transpose()?,
            granule: config.granule,
            granule_shift: config.granule_shift(),
        })
    }

    /// Returns whether sections can be found by address.
    pub(crate) fn finds_addresses(&self) -> bool {
        self.address_index.is_some()
    }

    /// Returns the bytes of a granule.
    pub(crate) fn granule_bytes(&self) -> usize {
        1 << self.granule_shift
    }

    fn section_granules(&self) -> u32 {
        section_pages() / self.granule
    }

    /// Returns the bytes of a section's map.
    fn map_bytes(&self) -> usize {
        (self.section_granules() as usize * 4).next_multiple_of(page_size())
    }

    /// Returns the number of words of a section's bitmap.
    fn words(&self) -> u32 {
        self.section_granules().div_ceil(64)
    }

    fn used(&self, number: u32) -> &[AtomicU64] {
        self.used.slice(number * self.words(), self.words())
    }

    fn iter(&self, numbers: Range<u32>) -> impl Iterator<Item = &Section> {
        numbers.filter_map(|number| self.sections.get(number))
    }

    /// Returns the bytes of the maps, the bitmaps, the sections and the address index.
    pub(crate) fn bytes(&self) -> usize {
        let maps = self.map_pages.load(Relaxed) * page_size();
        let used = self.used_bytes.load(Relaxed);
        let index = self.address_index.as_ref().map_or(0, AddressIndex::bytes);
        maps + used + self.sections.bytes() + index
    }

    /// Returns the number of granules of the largest extent.
    fn longest_run(&self) -> u32 {
        self.granules(EXTENT_PAGES_MAX.min(section_pages()))
    }

    /// Assigns the lowest free run of granules with space for `pages` pages to the extent
    /// `extent_id`.
    pub(crate) fn alloc_run(
        &self,
        free_runs: &mut FreeRuns,
        pages: u32,
        extent_id: u32,
    ) -> Option<Placed> {
        let count = self.granules(pages);
        let number = free_runs.longest.first(count as u16)?;
        let (section, used) = (self.sections.get(number)?, self.used(number));
        let new_section = section.is_unused().then_some(number);
        let (start, fresh) = section.alloc_run(used, count, extent_id)?;
        let (end, before) = (start + count, free_runs.longest.get(number).into());
        let longest = longest_after_alloc(used, section.free_range(), start..end, before);
        free_runs.longest.set(number, longest as u16);
        self.map_pages.fetch_add(fresh, Relaxed);
        let touched = number * self.words() + end.div_ceil(64);
        if touched > self.used_touched.load(Relaxed) {
            self.used_touched.store(touched, Relaxed);
            self.used_bytes.store(GrowingTable::<AtomicU64>::bytes_below(touched), Relaxed);
        }
        Some(Placed { first: number * section_pages() + start * self.granule, new_section })
    }

    /// Frees the granules that `alloc_run` assigned to an extent. If no granule of their section is
    /// used any more, returns the section's number.
    ///
    /// # Safety
    /// No thread uses the extent any more.
    pub(crate) unsafe fn free_run(
        &self,
        free_runs: &mut FreeRuns,
        first: u32,
        pages: u32,
    ) -> Option<u32> {
        let number = first / section_pages();
        let (section, used) = (self.sections.get(number)?, self.used(number));
        let start = first % section_pages() / self.granule;
        let given = start..start + self.granules(pages);
        // SAFETY: the caller guarantees that no thread uses the extent, which has these granules.
        let gone = unsafe { section.free_run(used, given.clone()) };
        let (before, enough) = (free_runs.longest.get(number).into(), self.longest_run());
        let longest = longest_after_free(used, section.granules(), given, before, enough);
        free_runs.longest.set(number, longest as u16);
        self.map_pages.fetch_sub(gone, Relaxed);
        section.is_unused().then_some(number)
    }

    /// Returns the id of the extent whose granule contains `offset`, or 0 if the granule is free.
    #[inline]
    pub(crate) fn extent_id_at(&self, offset: u64) -> Option<u32> {
        let section = self.sections.get(u32::try_from(offset >> SECTION_SHIFT).ok()?)?;
        let granule = (offset as usize & (SECTION_BYTES - 1)) >> self.granule_shift;
        Some(section.map().get(granule)?.load(Relaxed))
    }

    /// Returns the address of `offset`, if its section has a segment. The address can lie beyond
    /// the segment's end if the segment is shorter than a section.
    #[inline]
    pub(crate) fn try_address(&self, offset: u64) -> Option<NonNull<u8>> {
        let section = self.sections.get(u32::try_from(offset >> SECTION_SHIFT).ok()?)?;
        // Reads the base only once, because a concurrent unmapping of the segment sets the base to
        // null.
        let base = NonNull::new(section.base())?;
        NonNull::new(base.as_ptr().wrapping_add(offset as usize & (SECTION_BYTES - 1)))
    }

    /// Returns the section that contains `address`, the section's number, and the distance in bytes
    /// from its base to `address`. Returns `None` in a space without an address index.
    #[inline]
    fn section_at(&self, address: usize) -> Option<(u32, &Section, usize)> {
        self.address_index.as_ref()?.find(address, |number| {
            let section = self.sections.get(number)?;
            let at = address.wrapping_sub(section.base().addr());
            (at < (section.granules() as usize) << self.granule_shift)
                .then_some((number, section, at))
        })
    }

    /// Returns the offset of `address`, if a section contains the address and the space has an
    /// address index.
    pub(crate) fn offset_of(&self, address: usize) -> Option<u64> {
        let (number, _, at) = self.section_at(address)?;
        Some(((number as u64) << SECTION_SHIFT) + at as u64)
    }

    /// Returns the id of the extent whose granule contains `address`. If `address` is outside of
    /// all segments, can return the id of any extent.
    #[inline]
    pub(crate) fn extent_id_at_address(&self, address: usize) -> Option<u32> {
        let (_, section, at) = self.section_at(address)?;
        Some(section.map().get(at >> self.granule_shift)?.load(Relaxed))
    }

    /// Assigns the address space of `mapping` to free sections. Returns their numbers.
    ///
    /// # Safety
    /// The mapping exists as long as a granule of the sections is used.
    pub(crate) unsafe fn attach(
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
            // SAFETY: the caller guarantees that the mapping exists long enough. The number of
            // sections was computed from the mapping's length, so each section begins in the
            // mapping.
            match unsafe { self.attach_one(number, mapping, nth * SECTION_BYTES, supply) } {
                Ok(granules) => {
                    free_runs.longest.set(number, granules.min(self.longest_run()) as u16)
                }
                Err(error) => {
                    // SAFETY: these sections were just attached under the space's lock, so none of
                    // their granules is used.
                    unsafe { self.detach(free_runs, sections.start..number) };
                    return Err(error);
                }
            }
        }
        Ok(sections)
    }

    /// Assigns the address space that begins `at` bytes into `mapping` to one section. Returns its
    /// number of granules.
    ///
    /// # Safety
    /// `at` is below the mapping's length, and the mapping exists as long as a granule of the
    /// section is used.
    unsafe fn attach_one(
        &self,
        number: u32,
        mapping: &Mapping,
        at: usize,
        supply: Option<&dyn Supply>,
    ) -> Result<u32, Error> {
        let section = self.sections.get(number).ok_or(Error::Exhausted)?;
        let granules = (mapping.len() - at).min(SECTION_BYTES) / self.granule_bytes();
        // SAFETY: the caller guarantees that `at` is below the mapping's length.
        let base = unsafe { mapping.base().add(at) };
        // SAFETY: the caller keeps the mapping, which contains these granules from byte `at` on.
        // `map_bytes` depends only on the size of a granule, and is at least 4 bytes per granule of
        // a section.
        unsafe { section.attach(base, granules as u32, self.map_bytes(), supply) }?;
        self.address_index.as_ref().inspect(|index| index.insert(base.addr().get(), number));
        Ok(granules as u32)
    }

    /// Removes the address space of `sections`.
    ///
    /// # Safety
    /// No granule of these sections is used.
    pub(crate) unsafe fn detach(&self, free_runs: &mut FreeRuns, sections: Range<u32>) {
        free_runs.bare = free_runs.bare.min(sections.start);
        for number in sections {
            free_runs.longest.set(number, 0);
            if let Some(section) = self.sections.get(number) {
                self.address_index
                    .as_ref()
                    .inspect(|index| index.remove(section.base().addr(), number));
                // SAFETY: the caller guarantees that no granule is used.
                unsafe { section.detach() };
            }
        }
    }

    /// Returns the first `wanted` consecutive sections without address space. If there are not
    /// enough sections, creates more.
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
                free_runs.longest.grow(number + 1, supply)?;
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

    /// Returns the number of `sections` that have a used granule.
    pub(crate) fn count_used(&self, sections: Range<u32>) -> u32 {
        self.iter(sections).filter(|section| !section.is_unused()).count() as u32
    }

    /// Asserts the consistency of `sections`, which must be all sections that have address space.
    /// Returns the number of their used granules.
    pub(crate) fn check(&self, free_runs: &FreeRuns, sections: impl Iterator<Item = u32>) -> u32 {
        free_runs.longest.check();
        let (mut used, mut map_pages) = (0, 0);
        let mut with_room: u32 = 0;
        for number in sections {
            let Some(section) = self.sections.get(number) else {
                panic!("section {number} was never made")
            };
            assert!(section.granules() > 0, "section {number} has no address space");
            let longest = free_runs.longest.get(number);
            map_pages += section.check(self.used(number), longest.into(), self.longest_run());
            used += section.granules() - section.free();
            with_room += u32::from(longest > 0);
        }
        assert_eq!(self.map_pages.load(Relaxed), map_pages, "pages of maps");
        let all = 0..self.sections.len();
        let with_room_of_all = all.clone().filter(|&number| free_runs.longest.get(number) > 0);
        assert_eq!(with_room_of_all.count() as u32, with_room, "sections with room");
        let is_bare = |section: &Section| section.granules() == 0;
        assert!(
            !self.iter(0..free_runs.bare.min(all.end)).any(is_bare),
            "bare below {}",
            free_runs.bare
        );
        used
    }

    /// Returns the number of granules for `pages` pages.
    pub(crate) fn granules(&self, pages: u32) -> u32 {
        pages.div_ceil(self.granule)
    }
}

impl Drop for Sections {
    fn drop(&mut self) {
        for section in self.iter(0..self.sections.len()) {
            // SAFETY: `&mut self` proves that no reference into the sections exists, and
            // `attach_one` created each map with this length.
            unsafe { section.destroy(self.map_bytes()) }
        }
    }
}
