//! The units of a space: from offsets to addresses and extents, and runs of granules for extents.
//!
//! ```text
//!   offset (42 bits):  | unit: 16 bits | byte in unit: 26 bits |
//!   units[unit] -> base address, map;   used[unit * words ..] -> one bit per granule
//!   rooms: a number per unit, its longest run of unused granules; the lowest with room is found in a few steps
//! ```
//! What changes is changed under the space's lock, which guards the rooms; looking up takes none.
//!
//! # Safety
//! A unit's base points to as many granules of a live segment as it has: the space keeps the mapping until it
//! has detached the unit.
#![allow(unsafe_code)]

use crate::mapping::Mapping;
use crate::maxima::Maxima;
use crate::space::Config;
use crate::supply::Supply;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::table::Table;
use crate::unit::{UNIT_BYTES, UNIT_SHIFT, Unit, unit_pages};
use crate::windows::Windows;
use crate::{EXTENT_PAGES_MAX, Error, OFFSET_BITS, page_shift, page_size};
use std::ops::Range;
use std::ptr::NonNull;

const UNITS_MAX: u32 = 1 << (OFFSET_BITS - UNIT_SHIFT);

/// Where there is room: what the space's lock guards for its units.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    /// Of each unit the longest run of unused granules, the largest extent's at most; 0 without address space.
    runs: Maxima,
    /// No unit below this one is without address space.
    bare: u32,
}

impl Rooms {
    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.bytes()
    }
}

/// An extent's granules that were entered.
pub(crate) struct Entered {
    /// The extent's first page.
    pub(crate) first: u32,
    /// The number of its unit, if nothing was used there before.
    pub(crate) begun: Option<u32>,
}

pub(crate) struct Units {
    units: Table<Unit>,
    used: Table<AtomicU64>,
    /// Words of `used` that were written, and bytes of memory that those take.
    used_touched: AtomicU32,
    used_bytes: AtomicUsize,
    /// Pages of maps in which a granule is used.
    map_pages: AtomicUsize,
    windows: Option<Windows>,
    /// Pages of a granule, and the binary logarithm of its bytes.
    granule: u32,
    granule_shift: u32,
}

impl Units {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let granule = config.granule;
        let is_possible = granule.is_power_of_two() && granule <= EXTENT_PAGES_MAX;
        assert!(is_possible, "a granule of {granule} pages; powers of two up to 256 are possible");
        let granule_shift = page_shift() + granule.trailing_zeros();
        Ok(Units {
            units: Table::new(),
            used: Table::new(),
            used_touched: AtomicU32::new(0),
            used_bytes: AtomicUsize::new(0),
            map_pages: AtomicUsize::new(0),
            windows: config.by_address.then(Windows::new).transpose()?,
            granule,
            granule_shift,
        })
    }

    /// Whether units can be found by address.
    pub(crate) fn finds_addresses(&self) -> bool {
        self.windows.is_some()
    }

    /// Bytes of a granule.
    pub(crate) fn granule_bytes(&self) -> usize {
        1 << self.granule_shift
    }

    fn unit_granules(&self) -> u32 {
        unit_pages() / self.granule
    }

    /// Bytes of a unit's map.
    fn map_bytes(&self) -> usize {
        (self.unit_granules() as usize * 4).next_multiple_of(page_size())
    }

    /// Words of a unit's bitmap.
    fn words(&self) -> u32 {
        self.unit_granules().div_ceil(64)
    }

    fn used(&self, number: u32) -> &[AtomicU64] {
        self.used.slice(number * self.words(), self.words())
    }

    fn iter(&self, numbers: Range<u32>) -> impl Iterator<Item = &Unit> {
        numbers.filter_map(|number| self.units.get(number))
    }

    /// Bytes of memory that were touched.
    pub(crate) fn bytes(&self) -> usize {
        let maps = self.map_pages.load(Relaxed) * page_size();
        let used = self.used_bytes.load(Relaxed);
        let windows = self.windows.as_ref().map_or(0, Windows::bytes);
        maps + used + self.units.bytes() + windows
    }

    /// Granules of the largest extent.
    fn run_max(&self) -> u32 {
        self.granules(EXTENT_PAGES_MAX.min(unit_pages()))
    }

    /// Enters the lowest run of granules with room for `pages` pages as extent entry `entry`'s.
    pub(crate) fn take(&self, rooms: &mut Rooms, pages: u32, entry: u32) -> Option<Entered> {
        let count = self.granules(pages);
        let number = rooms.runs.first(count as u16)?;
        let (unit, used) = (self.units.get(number)?, self.used(number));
        let begun = unit.is_unused().then_some(number);
        let (start, fresh) = unit.take(used, count, entry)?;
        let (end, room) = (start + count, rooms.runs.get(number).into());
        rooms.runs.set(number, unit.room_after_take(used, start..end, room) as u16);
        self.map_pages.fetch_add(fresh, Relaxed);
        let touched = number * self.words() + end.div_ceil(64);
        if touched > self.used_touched.load(Relaxed) {
            self.used_touched.store(touched, Relaxed);
            self.used_bytes.store(Table::<AtomicU64>::bytes_below(touched), Relaxed);
        }
        Some(Entered { first: number * unit_pages() + start * self.granule, begun })
    }

    /// Gives back what `take` gave; the unit's number, if nothing in it is used any more.
    pub(crate) fn give(&self, rooms: &mut Rooms, first: u32, pages: u32) -> Option<u32> {
        let number = first / unit_pages();
        let (unit, used) = (self.units.get(number)?, self.used(number));
        let start = first % unit_pages() / self.granule;
        let given = start..start + self.granules(pages);
        let gone = unit.give(used, given.clone());
        let room = rooms.runs.get(number).into();
        let room = unit.room_after_give(used, given, room, self.run_max());
        rooms.runs.set(number, room as u16);
        self.map_pages.fetch_sub(gone, Relaxed);
        unit.is_unused().then_some(number)
    }

    /// The entry of the granule at `offset`; 0 is none.
    #[inline]
    pub(crate) fn entry(&self, offset: u64) -> Option<u32> {
        let unit = self.units.get(u32::try_from(offset >> UNIT_SHIFT).ok()?)?;
        let granule = (offset as usize & (UNIT_BYTES - 1)) >> self.granule_shift;
        Some(unit.map().get(granule)?.load(Relaxed))
    }

    /// The address of `offset`, if its unit has a segment. In a short one's unit it may lie behind its end.
    #[inline]
    pub(crate) fn pointer(&self, offset: u64) -> Option<NonNull<u8>> {
        let unit = self.units.get(u32::try_from(offset >> UNIT_SHIFT).ok()?)?;
        // The base is read once: a segment that goes meanwhile leaves none.
        let base = NonNull::new(unit.base())?;
        NonNull::new(base.as_ptr().wrapping_add(offset as usize & (UNIT_BYTES - 1)))
    }

    #[inline]
    fn unit_bytes(&self, unit: &Unit) -> usize {
        (unit.granules() as usize) << self.granule_shift
    }

    /// Bytes from a unit's base to `address`, if that lies in the unit.
    fn place_in(&self, unit: &Unit, address: usize) -> Option<usize> {
        let bytes = self.unit_bytes(unit);
        let at = address.wrapping_sub(unit.base().addr());
        (at < bytes).then_some(at)
    }

    /// The unit that `address` lies in, with its number, and the bytes from its base; none where units can't be found so.
    #[inline]
    fn unit_at(&self, address: usize) -> Option<(u32, &Unit, usize)> {
        self.windows.as_ref()?.find(address, |number| {
            let unit = self.units.get(number)?;
            Some((number, unit, self.place_in(unit, address)?))
        })
    }

    /// The offset of `address`, if it lies in one of the units and those can be found by address.
    pub(crate) fn offset_of(&self, address: usize) -> Option<u64> {
        let (number, _, at) = self.unit_at(address)?;
        Some(((number as u64) << UNIT_SHIFT) + at as u64)
    }

    /// The entry of the granule that `address` lies in; of an address in no segment it may be any entry.
    #[inline]
    pub(crate) fn entry_at(&self, address: usize) -> Option<u32> {
        let (_, unit, at) = self.unit_at(address)?;
        Some(unit.map().get(at >> self.granule_shift)?.load(Relaxed))
    }

    /// Lays a segment's address space behind units that have none; which.
    pub(crate) fn attach(
        &self,
        rooms: &mut Rooms,
        mapping: &Mapping,
        supply: Option<&dyn Supply>,
    ) -> Result<Range<u32>, Error> {
        let wanted = mapping.len().div_ceil(UNIT_BYTES) as u32;
        let units = self.spare_units(rooms, wanted, supply)?;
        if let Some(windows) = &self.windows {
            let base = |number| self.units.get(number).map_or(0, |unit| unit.base().addr());
            windows.make_room(wanted, supply, base)?;
        }
        for (nth, number) in units.clone().enumerate() {
            match self.attach_one(number, mapping, nth * UNIT_BYTES, supply) {
                Ok(granules) => rooms.runs.set(number, granules.min(self.run_max()) as u16),
                Err(error) => {
                    self.detach(rooms, units.start..number);
                    return Err(error);
                }
            }
        }
        Ok(units)
    }

    fn attach_one(
        &self,
        number: u32,
        mapping: &Mapping,
        at: usize,
        supply: Option<&dyn Supply>,
    ) -> Result<u32, Error> {
        let unit = self.units.get(number).ok_or(Error::Exhausted)?;
        let granules = (mapping.len() - at).min(UNIT_BYTES) / self.granule_bytes();
        // SAFETY: `at` is below the mapping's length: `attach` counted the units from that length.
        let base = unsafe { mapping.base().add(at) };
        unit.attach(base, granules as u32, self.map_bytes(), supply)?;
        self.windows.as_ref().inspect(|windows| windows.insert(base.addr().get(), number));
        Ok(granules as u32)
    }

    /// Takes the address space of units away that are unused.
    pub(crate) fn detach(&self, rooms: &mut Rooms, units: Range<u32>) {
        rooms.bare = rooms.bare.min(units.start);
        for number in units {
            rooms.runs.set(number, 0);
            if let Some(unit) = self.units.get(number) {
                self.windows.as_ref().inspect(|windows| windows.remove(unit.base().addr(), number));
                unit.detach();
            }
        }
    }

    /// The first `wanted` consecutive units without address space, made if need be.
    fn spare_units(
        &self,
        rooms: &mut Rooms,
        wanted: u32,
        supply: Option<&dyn Supply>,
    ) -> Result<Range<u32>, Error> {
        let is_bare =
            |number: &u32| self.units.get(*number).is_none_or(|unit| unit.granules() == 0);
        rooms.bare = (rooms.bare..UNITS_MAX).find(is_bare).ok_or(Error::Exhausted)?;
        let mut start = rooms.bare;
        for number in rooms.bare..UNITS_MAX {
            if number == self.units.len() {
                rooms.runs.grow(number + 1, supply)?;
                while self.used.len() < (number + 1) * self.words() {
                    self.used.push(supply)?;
                }
                self.units.push(supply)?;
            }
            if !is_bare(&number) {
                start = number + 1;
            } else if number + 1 - start == wanted {
                return Ok(start..number + 1);
            }
        }
        Err(Error::Exhausted)
    }

    /// How many of `units` are used.
    pub(crate) fn count_used(&self, units: Range<u32>) -> u32 {
        self.iter(units).filter(|unit| !unit.is_unused()).count() as u32
    }

    /// Asserts the state of `units`, all of those with address space; how many of their granules are used.
    pub(crate) fn check(&self, rooms: &Rooms, units: impl Iterator<Item = u32>) -> u32 {
        rooms.runs.check();
        let (mut used, mut map_pages) = (0, 0);
        let mut with_room: u32 = 0;
        for number in units {
            let Some(unit) = self.units.get(number) else { panic!("unit {number} was never made") };
            assert!(unit.granules() > 0, "unit {number} has no address space");
            let room = rooms.runs.get(number);
            map_pages += unit.check(self.used(number), room.into(), self.run_max());
            used += unit.granules() - unit.free();
            with_room += u32::from(room > 0);
        }
        assert_eq!(self.map_pages.load(Relaxed), map_pages, "pages of maps");
        let all = 0..self.units.len();
        let rooms_of_all = all.clone().filter(|&number| rooms.runs.get(number) > 0);
        assert_eq!(rooms_of_all.count() as u32, with_room, "units with room");
        let is_bare = |unit: &Unit| unit.granules() == 0;
        assert!(!self.iter(0..rooms.bare.min(all.end)).any(is_bare), "bare below {}", rooms.bare);
        used
    }

    /// The granules that `pages` pages take.
    pub(crate) fn granules(&self, pages: u32) -> u32 {
        pages.div_ceil(self.granule)
    }
}

impl Drop for Units {
    fn drop(&mut self) {
        for unit in self.iter(0..self.units.len()) {
            // SAFETY: `&mut self`: no reference into the units is left; their maps have this length.
            unsafe { unit.destroy(self.map_bytes()) }
        }
    }
}
