//! From an address to its unit in constant time: a hash of the 64 MiB windows that units lie in.
//!
//! ```text
//!   tables: | 2048 entries | 4096 | ... | 131,072 |      made as units come; one is in use, the last that was made
//! ```
//! A unit never straddles a window (segments are aligned to their size, or to 64 MiB). Small segments
//! may share one, so a window may have several entries; probing goes on to the first empty one.
//!
//! pg-W1: the table in use has an entry for each unit, made before anyone knows an address in the
//! unit, and which stays as long as the unit has address space. No entry becomes empty again, so
//! probing comes by all of them. A table that is no longer in use stays as it was: who still looks
//! there knows of no unit that came later.

use crate::Error;
use crate::supply::{Request, Supply};
use crate::unit::UNIT_SHIFT;
use std::sync::OnceLock;

#[cfg(not(all(test, loom)))]
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};
#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const EMPTY: u32 = 0;
const GONE: u32 = u32::MAX;

/// Entries of the first table.
const FIRST: usize = 2048;
/// The last of so many has twice as many entries as a space has units.
const TABLES: usize = 7;

type Entries = Box<[AtomicU32]>;

/// An open hash table of unit numbers, read without a lock, changed under the space's.
#[derive(Debug)]
pub(crate) struct Windows {
    tables: [OnceLock<Entries>; TABLES],
    /// The table in use.
    current: AtomicUsize,
    /// Entries of the first one.
    first: usize,
    /// Units that are entered: at most half as many as there are entries.
    units: AtomicU32,
}

/// A table of `len` entries, all empty.
fn table(len: usize) -> Result<Entries, Error> {
    let mut entries = Vec::new();
    let refused = |_| Error::Mapping { bytes: len * size_of::<AtomicU32>() };
    entries.try_reserve_exact(len).map_err(refused)?;
    entries.resize_with(len, || AtomicU32::new(EMPTY));
    Ok(entries.into_boxed_slice())
}

/// Entries to probe for `address`, in order.
#[inline]
fn probe(entries: &[AtomicU32], address: usize) -> impl Iterator<Item = &AtomicU32> {
    let mask = entries.len() - 1;
    let window = (address >> UNIT_SHIFT) as u64;
    let start = (window.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
    (0..entries.len()).map(move |step| &entries[(start + step) & mask])
}

/// Enters `unit`, which begins at `address`, into a table that has room.
fn enter(entries: &[AtomicU32], address: usize, unit: u32) {
    let free = probe(entries, address).find(|entry| matches!(entry.load(Relaxed), EMPTY | GONE));
    match free {
        Some(entry) => entry.store(unit + 1, Relaxed),
        None => unreachable!("no room for unit {unit}, though `make_room` made it"),
    }
}

impl Windows {
    /// A table for 1,024 units, half full then, and which grows.
    pub(crate) fn new() -> Result<Self, Error> {
        Self::with_first(FIRST)
    }

    fn with_first(first: usize) -> Result<Self, Error> {
        let tables = [const { OnceLock::new() }; TABLES];
        let entries = table(first)?;
        tables[0].get_or_init(|| entries);
        Ok(Windows { tables, current: AtomicUsize::new(0), first, units: AtomicU32::new(0) })
    }

    #[inline]
    fn entries(&self) -> &[AtomicU32] {
        // Acquire: whoever finds a table finds the entries that it began with.
        self.tables[self.current.load(Acquire)].get().map_or(&[], |entries| entries)
    }

    /// What `look` has for a unit at `address`, of the first for which it has anything.
    #[inline]
    pub(crate) fn find<T>(&self, address: usize, look: impl Fn(u32) -> Option<T>) -> Option<T> {
        probe(self.entries(), address)
            .map(|entry| entry.load(Relaxed))
            .take_while(|&entry| entry != EMPTY)
            .filter(|&entry| entry != GONE)
            .find_map(|entry| look(entry - 1))
    }

    /// Makes room for `more` units; `base` says where a unit begins. Whoever looks meanwhile finds what was there.
    pub(crate) fn make_room(
        &self,
        more: u32,
        supply: Option<&dyn Supply>,
        base: impl Fn(u32) -> usize,
    ) -> Result<(), Error> {
        let wanted = (self.units.load(Relaxed) + more) as usize * 2;
        let now = self.current.load(Relaxed);
        let next = (now..TABLES).find(|&nth| self.first << nth >= wanted);
        let next = next.ok_or(Error::Exhausted)?;
        if next == now {
            return Ok(());
        }
        let len = self.first << next;
        let bytes = len * size_of::<AtomicU32>();
        if supply.is_some_and(|supply| !supply.grant(Request::Allocate { bytes })) {
            return Err(Error::Mapping { bytes });
        }
        let larger = table(len)?;
        let units = self.entries().iter().map(|entry| entry.load(Relaxed));
        for unit in units.filter(|&entry| entry != EMPTY && entry != GONE).map(|entry| entry - 1) {
            enter(&larger, base(unit), unit);
        }
        self.tables[next].get_or_init(|| larger);
        self.current.store(next, Release);
        Ok(())
    }

    /// Enters `unit`, which begins at `address`; there is room.
    pub(crate) fn insert(&self, address: usize, unit: u32) {
        enter(self.entries(), address, unit);
        self.units.store(self.units.load(Relaxed) + 1, Relaxed);
    }

    /// Takes `unit` out again.
    pub(crate) fn remove(&self, address: usize, unit: u32) {
        let mut entries = probe(self.entries(), address);
        if let Some(entry) = entries.find(|entry| entry.load(Relaxed) == unit + 1) {
            entry.store(GONE, Relaxed);
            self.units.store(self.units.load(Relaxed) - 1, Relaxed);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.tables.iter().filter_map(OnceLock::get).map(|entries| size_of_val(&**entries)).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn small(unit: u32) -> usize {
        0x7000_0000_0000 + unit as usize * 0x10_0000
    }

    fn find(windows: &Windows, address: usize) -> Option<u32> {
        let holds = |unit: u32| (small(unit)..small(unit) + 0x10_0000).contains(&address);
        windows.find(address, |unit| holds(unit).then_some(unit))
    }

    #[test]
    fn shared_and_removed_windows() {
        let windows = Windows::with_first(16).unwrap();
        windows.make_room(8, None, small).unwrap();
        assert_eq!(windows.bytes(), 64, "no larger one is needed");
        (0..8).for_each(|unit| windows.insert(small(unit), unit));
        assert_eq!(find(&windows, small(5) + 17), Some(5));
        windows.remove(small(3), 3);
        assert_eq!(find(&windows, small(3)), None);
        assert_eq!(find(&windows, small(7)), Some(7));
        windows.insert(small(3), 3);
        assert_eq!(find(&windows, small(3) + 1), Some(3));
        assert_eq!(find(&windows, 0x1234), None);
    }

    #[test]
    fn all_units_of_a_space_find_room() {
        let windows = Windows::new().unwrap();
        for unit in 0..1 << 16 {
            windows.make_room(1, None, small).unwrap();
            windows.insert(small(unit), unit);
            if unit % 3 == 0 {
                windows.remove(small(unit), unit);
                windows.insert(small(unit), unit);
            }
            if unit.is_power_of_two() {
                assert!((0..=unit).all(|unit| find(&windows, small(unit)) == Some(unit)), "{unit}");
            }
        }
        assert_eq!(windows.make_room(1, None, small), Err(Error::Exhausted));
        assert_eq!(windows.bytes(), 4 * 2048 * 127);
    }

    #[test]
    fn a_table_that_is_refused_changes_nothing() {
        let windows = Windows::with_first(2).unwrap();
        windows.insert(small(0), 0);
        let refuses = crate::RefuseNth::new(1, true);
        assert_eq!(windows.make_room(1, Some(&refuses), small), Err(Error::Mapping { bytes: 16 }));
        assert_eq!((find(&windows, small(0)), windows.bytes()), (Some(0), 8));
        windows.make_room(1, None, small).unwrap();
        assert_eq!((find(&windows, small(0)), windows.bytes()), (Some(0), 24));
    }
}

/// Models of pg-W1: one changes the table, as under the space's lock, while another looks addresses
/// up.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const PLACES: [usize; 2] = [0x7000_0000_0000, 0x7000_4000_0000];

    /// Where the units begin, whether the second's address was told to anyone, and the table, which has room for one.
    struct Subject {
        windows: Windows,
        bases: [AtomicUsize; 2],
        told: AtomicUsize,
    }

    impl Subject {
        fn new() -> Arc<Self> {
            let windows = Windows::with_first(2).unwrap();
            windows.insert(PLACES[0], 0);
            let bases = [PLACES[0], 0].map(AtomicUsize::new);
            Arc::new(Subject { windows, bases, told: AtomicUsize::new(0) })
        }

        fn find(&self, address: usize) -> Option<u32> {
            let begins = |unit: u32| self.bases[unit as usize].load(Relaxed) == address;
            self.windows.find(address, |unit| begins(unit).then_some(unit))
        }

        /// Gives the second unit address space, and tells of it.
        fn attach(&self, address: usize) {
            let base = |unit: u32| self.bases[unit as usize].load(Relaxed);
            self.windows.make_room(1, None, base).unwrap();
            self.bases[1].store(address, Relaxed);
            self.windows.insert(address, 1);
            self.told.store(1, Release);
        }
    }

    #[test]
    fn loom_units_are_found_while_the_table_grows() {
        loom::model(|| {
            let subject = Subject::new();
            let other = {
                let subject = subject.clone();
                thread::spawn(move || subject.attach(PLACES[1]))
            };
            if subject.told.load(Acquire) == 1 {
                assert_eq!(subject.find(PLACES[1]), Some(1));
            }
            assert_eq!(subject.find(PLACES[0]), Some(0), "it was there all the time");
            other.join().unwrap();
            assert_eq!(subject.find(PLACES[1]), Some(1));
        });
    }

    #[test]
    fn loom_an_address_is_its_later_units() {
        loom::model(|| {
            let subject = Subject::new();
            let other = {
                let subject = subject.clone();
                thread::spawn(move || {
                    subject.windows.remove(PLACES[0], 0);
                    subject.bases[0].store(0, Relaxed);
                    subject.attach(PLACES[0]);
                })
            };
            // Who knows of no address in the later one may find either, or none.
            let found = subject.find(PLACES[0]);
            if subject.told.load(Acquire) == 1 {
                assert_eq!(subject.find(PLACES[0]), Some(1), "after {found:?}");
            }
            other.join().unwrap();
        });
    }
}
