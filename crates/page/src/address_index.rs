//! The address index finds the section of an address in constant time. A look-up hashes the number
//! of the 64 MiB window that contains the address.
//!
//! ```text
//!   tables: | 64 buckets | 128 | ... | 131,072 |     added with sections; the last is in use
//! ```
//! A section lies in one window, because segments are aligned to their size or to 64 MiB. If
//! several small segments lie in one window, the section of each segment takes its own bucket. A
//! look-up probes buckets until it finds an empty bucket.
//!
//! pg-W1: the table in use has a bucket for each section. The bucket is filled before any thread
//! receives an address in the section. The bucket holds the section's number while the section has
//! address space. Afterwards, the bucket is marked as gone and never becomes empty, so a look-up
//! visits all buckets of a window. A replaced table does not change. A thread that still reads a
//! replaced table has received no address in a section that was added later.

use crate::Error;
use crate::budget::Supply;
use crate::config::SECTION_SHIFT;
use crate::heap::boxed;
use crate::policy::{INDEX_BUCKETS_FIRST, INDEX_TABLES};
use std::sync::OnceLock;

#[cfg(not(all(test, loom)))]
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};
#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const EMPTY: u32 = 0;
const GONE: u32 = u32::MAX;

type Buckets = Box<[AtomicU32]>;

/// An open hash table of section numbers. Look-ups take no lock. A thread that changes the table
/// holds the space's lock.
#[derive(Debug)]
pub(crate) struct AddressIndex {
    tables: [OnceLock<Buckets>; INDEX_TABLES],
    /// The index in `tables` of the table in use.
    current: AtomicUsize,
    /// The number of buckets of the first table.
    first: usize,
    /// The number of sections in the table in use, at most half the number of its buckets.
    sections: AtomicU32,
}

/// Returns a table of `len` empty buckets.
fn table(len: usize, supply: Option<&dyn Supply>) -> Result<Buckets, Error> {
    boxed(supply, (0..len).map(|_| AtomicU32::new(EMPTY)))
}

/// Returns the buckets in the order in which a look-up of `address` probes them.
#[inline]
fn probe(buckets: &[AtomicU32], address: usize) -> impl Iterator<Item = &AtomicU32> {
    let mask = buckets.len() - 1;
    let window = (address >> SECTION_SHIFT) as u64;
    let start = (window.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
    (0..buckets.len()).map(move |step| &buckets[(start + step) & mask])
}

/// Enters `section`, which begins at `address`, into a table that has a free bucket.
fn enter(buckets: &[AtomicU32], address: usize, section: u32) {
    let free = probe(buckets, address).find(|bucket| matches!(bucket.load(Relaxed), EMPTY | GONE));
    match free {
        Some(bucket) => bucket.store(section + 1, Relaxed),
        None => unreachable!("the index has no free bucket for section {section}"),
    }
}

impl AddressIndex {
    /// Returns an index with space for 32 sections.
    pub(crate) fn new() -> Result<Self, Error> {
        Self::with_first(INDEX_BUCKETS_FIRST)
    }

    fn with_first(first: usize) -> Result<Self, Error> {
        let tables = [const { OnceLock::new() }; INDEX_TABLES];
        let buckets = table(first, None)?;
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
        // Acquire: a thread that reads the number of a table also sees the table's initial buckets.
        self.tables[self.current.load(Acquire)].get().map_or(&[], |buckets| buckets)
    }

    /// Returns the first result of `look` over the sections that may hold `address`.
    #[inline]
    pub(crate) fn find<T>(&self, address: usize, look: impl Fn(u32) -> Option<T>) -> Option<T> {
        probe(self.buckets(), address)
            .map(|bucket| bucket.load(Relaxed))
            .take_while(|&bucket| bucket != EMPTY)
            .filter(|&bucket| bucket != GONE)
            .find_map(|bucket| look(bucket - 1))
    }

    /// Enlarges the index so that `more` further sections fit. `base` returns the address at which
    /// a section begins. During the call, other threads still find all earlier sections.
    pub(crate) fn make_room(
        &self,
        more: u32,
        supply: Option<&dyn Supply>,
        base: impl Fn(u32) -> usize,
    ) -> Result<(), Error> {
        let wanted = (self.sections.load(Relaxed) + more) as usize * 2;
        let now = self.current.load(Relaxed);
        let next = (now..INDEX_TABLES).find(|&nth| self.first << nth >= wanted);
        let next = next.ok_or(Error::Exhausted)?;
        if next == now {
            return Ok(());
        }
        let larger = table(self.first << next, supply)?;
        let buckets = self.buckets().iter().map(|bucket| bucket.load(Relaxed));
        for bucket in buckets.filter(|&bucket| bucket != EMPTY && bucket != GONE) {
            enter(&larger, base(bucket - 1), bucket - 1);
        }
        self.tables[next].get_or_init(|| larger);
        self.current.store(next, Release);
        Ok(())
    }

    /// Enters `section`, which begins at `address`. The caller has made space for the section in
    /// the index.
    pub(crate) fn insert(&self, address: usize, section: u32) {
        enter(self.buckets(), address, section);
        self.sections.store(self.sections.load(Relaxed) + 1, Relaxed);
    }

    /// Removes `section`, which begins at `address`.
    pub(crate) fn remove(&self, address: usize, section: u32) {
        let mut buckets = probe(self.buckets(), address);
        if let Some(bucket) = buckets.find(|bucket| bucket.load(Relaxed) == section + 1) {
            bucket.store(GONE, Relaxed);
            self.sections.store(self.sections.load(Relaxed) - 1, Relaxed);
        }
    }

    /// Returns the size of the tables in bytes.
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
        assert_eq!(index.bytes(), 4 * 64 * 4095);
    }

    #[test]
    fn a_table_that_is_refused_changes_nothing() {
        let index = AddressIndex::with_first(2).unwrap();
        index.insert(small(0), 0);
        let refuses = crate::RefuseNth::new(1, true);
        assert_eq!(index.make_room(1, Some(&refuses), small), Err(Error::Refused { pages: 1 }));
        assert_eq!((find(&index, small(0)), index.bytes()), (Some(0), 8));
        index.make_room(1, None, small).unwrap();
        assert_eq!((find(&index, small(0)), index.bytes()), (Some(0), 24));
    }
}

/// Models of pg-W1. Only one thread changes the table, because changes are made under the space's
/// lock. Another thread looks up addresses.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const PLACES: [usize; 2] = [0x7000_0000_0000, 0x7000_4000_0000];

    /// The bases of two sections, and an index that initially has space for one section. The flag
    /// is set when the other thread has received the second section's address.
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

        /// Assigns address space to the second section, and publishes its address to the other
        /// thread.
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
            // Until this thread has received an address in the second section, a look-up may return
            // either section or none.
            let found = subject.find(PLACES[0]);
            if subject.told.load(Acquire) == 1 {
                assert_eq!(subject.find(PLACES[0]), Some(1), "after {found:?}");
            }
            other.join().unwrap();
        });
    }
}
