//! From an address to its section in constant time: a hash of the 64 MiB windows that sections lie
//! in.
//!
//! ```text
//!   tables: | 2048 buckets | 4096 | ... | 131,072 |      made as sections come; one is in use, the last that was made
//! ```
//! A section never straddles a window (segments are aligned to their size, or to 64 MiB). Small
//! segments may share one, so a window may have several buckets; probing goes on to the first empty
//! one.
//!
//! pg-W1: the table in use has a bucket for each section, made before anyone knows an address in
//! the section, and which stays as long as the section has address space. No bucket becomes empty
//! again, so probing comes by all of them. A table that is no longer in use stays as it was: who
//! still looks there knows of no section that came later.

use crate::Error;
use crate::section::SECTION_SHIFT;
use crate::supply::{Request, Supply};
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
/// The last of so many has twice as many buckets as a space has sections.
const TABLES: usize = 7;

type Buckets = Box<[AtomicU32]>;

/// An open hash table of section numbers, read without a lock, changed under the space's.
#[derive(Debug)]
pub(crate) struct AddressIndex {
    tables: [OnceLock<Buckets>; TABLES],
    /// The table in use.
    current: AtomicUsize,
    /// Entries of the first one.
    first: usize,
    /// Sections that are entered: at most half as many as there are buckets.
    sections: AtomicU32,
}

/// A table of `len` buckets, all empty.
fn table(len: usize) -> Result<Buckets, Error> {
    let mut buckets = Vec::new();
    let refused = |_| Error::Mapping { bytes: len * size_of::<AtomicU32>() };
    buckets.try_reserve_exact(len).map_err(refused)?;
    buckets.resize_with(len, || AtomicU32::new(EMPTY));
    Ok(buckets.into_boxed_slice())
}

/// Entries to probe for `address`, in order.
#[inline]
fn probe(buckets: &[AtomicU32], address: usize) -> impl Iterator<Item = &AtomicU32> {
    let mask = buckets.len() - 1;
    let window = (address >> SECTION_SHIFT) as u64;
    let start = (window.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
    (0..buckets.len()).map(move |step| &buckets[(start + step) & mask])
}

/// Enters `section`, which begins at `address`, into a table that has room.
fn enter(buckets: &[AtomicU32], address: usize, section: u32) {
    let free = probe(buckets, address).find(|bucket| matches!(bucket.load(Relaxed), EMPTY | GONE));
    match free {
        Some(bucket) => bucket.store(section + 1, Relaxed),
        None => unreachable!("no room for section {section}, though `make_room` made it"),
    }
}

impl AddressIndex {
    /// A table for 1,024 sections, half full then, and which grows.
    pub(crate) fn new() -> Result<Self, Error> {
        Self::with_first(FIRST)
    }

    fn with_first(first: usize) -> Result<Self, Error> {
        let tables = [const { OnceLock::new() }; TABLES];
        let buckets = table(first)?;
        tables[0].get_or_init(|| buckets);
        Ok(AddressIndex {
            tables,
            current: AtomicUsize::new(0),
            first,
            sections: AtomicU32::new(0),
        })
    }

    #[inline]
    fn buckets(&self) -> &[AtomicU32] {
        // Acquire: whoever finds a table finds the buckets that it began with.
        self.tables[self.current.load(Acquire)].get().map_or(&[], |buckets| buckets)
    }

    /// What `look` has for a section at `address`, of the first for which it has anything.
    #[inline]
    pub(crate) fn find<T>(&self, address: usize, look: impl Fn(u32) -> Option<T>) -> Option<T> {
        probe(self.buckets(), address)
            .map(|bucket| bucket.load(Relaxed))
            .take_while(|&bucket| bucket != EMPTY)
            .filter(|&bucket| bucket != GONE)
            .find_map(|bucket| look(bucket - 1))
    }

    /// Makes room for `more` sections; `base` says where a section begins. Whoever looks meanwhile
    /// finds what was there.
    pub(crate) fn make_room(
        &self,
        more: u32,
        supply: Option<&dyn Supply>,
        base: impl Fn(u32) -> usize,
    ) -> Result<(), Error> {
        let wanted = (self.sections.load(Relaxed) + more) as usize * 2;
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
        let sections = self.buckets().iter().map(|bucket| bucket.load(Relaxed));
        for section in
            sections.filter(|&bucket| bucket != EMPTY && bucket != GONE).map(|bucket| bucket - 1)
        {
            enter(&larger, base(section), section);
        }
        self.tables[next].get_or_init(|| larger);
        self.current.store(next, Release);
        Ok(())
    }

    /// Enters `section`, which begins at `address`; there is room.
    pub(crate) fn insert(&self, address: usize, section: u32) {
        enter(self.buckets(), address, section);
        self.sections.store(self.sections.load(Relaxed) + 1, Relaxed);
    }

    /// Takes `section` out again.
    pub(crate) fn remove(&self, address: usize, section: u32) {
        let mut buckets = probe(self.buckets(), address);
        if let Some(bucket) = buckets.find(|bucket| bucket.load(Relaxed) == section + 1) {
            bucket.store(GONE, Relaxed);
            self.sections.store(self.sections.load(Relaxed) - 1, Relaxed);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.tables.iter().filter_map(OnceLock::get).map(|buckets| size_of_val(&**buckets)).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn small(section: u32) -> usize {
        0x7000_0000_0000 + section as usize * 0x10_0000
    }

    fn find(index: &AddressIndex, address: usize) -> Option<u32> {
        let holds = |section: u32| (small(section)..small(section) + 0x10_0000).contains(&address);
        index.find(address, |section| holds(section).then_some(section))
    }

    #[test]
    fn shared_and_removed_windows() {
        let index = AddressIndex::with_first(16).unwrap();
        index.make_room(8, None, small).unwrap();
        assert_eq!(index.bytes(), 64, "no larger one is needed");
        (0..8).for_each(|section| index.insert(small(section), section));
        assert_eq!(find(&index, small(5) + 17), Some(5));
        index.remove(small(3), 3);
        assert_eq!(find(&index, small(3)), None);
        assert_eq!(find(&index, small(7)), Some(7));
        index.insert(small(3), 3);
        assert_eq!(find(&index, small(3) + 1), Some(3));
        assert_eq!(find(&index, 0x1234), None);
    }

    #[test]
    fn all_sections_of_a_space_find_room() {
        let index = AddressIndex::new().unwrap();
        for section in 0..1 << 16 {
            index.make_room(1, None, small).unwrap();
            index.insert(small(section), section);
            if section % 3 == 0 {
                index.remove(small(section), section);
                index.insert(small(section), section);
            }
            if section.is_power_of_two() {
                assert!(
                    (0..=section).all(|section| find(&index, small(section)) == Some(section)),
                    "{section}"
                );
            }
        }
        assert_eq!(index.make_room(1, None, small), Err(Error::Exhausted));
        assert_eq!(index.bytes(), 4 * 2048 * 127);
    }

    #[test]
    fn a_table_that_is_refused_changes_nothing() {
        let index = AddressIndex::with_first(2).unwrap();
        index.insert(small(0), 0);
        let refuses = crate::RefuseNth::new(1, true);
        assert_eq!(index.make_room(1, Some(&refuses), small), Err(Error::Mapping { bytes: 16 }));
        assert_eq!((find(&index, small(0)), index.bytes()), (Some(0), 8));
        index.make_room(1, None, small).unwrap();
        assert_eq!((find(&index, small(0)), index.bytes()), (Some(0), 24));
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

    /// Where the sections begin, whether the second's address was told to anyone, and the table,
    /// which has room for one.
    struct Subject {
        index: AddressIndex,
        bases: [AtomicUsize; 2],
        told: AtomicUsize,
    }

    impl Subject {
        fn new() -> Arc<Self> {
            let index = AddressIndex::with_first(2).unwrap();
            index.insert(PLACES[0], 0);
            let bases = [PLACES[0], 0].map(AtomicUsize::new);
            Arc::new(Subject { index, bases, told: AtomicUsize::new(0) })
        }

        fn find(&self, address: usize) -> Option<u32> {
            let begins = |section: u32| self.bases[section as usize].load(Relaxed) == address;
            self.index.find(address, |section| begins(section).then_some(section))
        }

        /// Gives the second section address space, and tells of it.
        fn attach(&self, address: usize) {
            let base = |section: u32| self.bases[section as usize].load(Relaxed);
            self.index.make_room(1, None, base).unwrap();
            self.bases[1].store(address, Relaxed);
            self.index.insert(address, 1);
            self.told.store(1, Release);
        }
    }

    #[test]
    fn loom_sections_are_found_while_the_table_grows() {
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
    fn loom_an_address_is_its_later_sections() {
        loom::model(|| {
            let subject = Subject::new();
            let other = {
                let subject = subject.clone();
                thread::spawn(move || {
                    subject.index.remove(PLACES[0], 0);
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
