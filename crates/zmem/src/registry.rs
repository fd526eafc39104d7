//! The table of the pagers' address windows. A handler finds the pager of an address in this table,
//! and takes no lock.
//!
//! # Safety
//! From [`add`] until [`remove`], a `Place` refers to one window of a pager. While `end` of a place
//! is not 0, the place's `pager`, `start` and `end` describe the same window. [`remove`] first sets
//! `end` to 0, and then waits until no reader is counted. A reader first counts itself, then loads
//! `end`, and then loads `start`. All of these accesses are sequentially consistent. So either
//! `remove` waits for the reader, or the reader loads 0 from `end`.
#![allow(unsafe_code)]

use crate::Error;
use crate::gate::inside;
use crate::pager::Pager;
use crate::policy::REGIONS_MAX;
use crate::process::generation;
use page::Patience;
use page::fork::Mutex;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

struct Place {
    /// The first address of the place's window, or 0 if the place is free.
    start: AtomicUsize,
    /// The address after the end of the place's window, or 0 if the place is free, being filled or
    /// being cleared.
    end: AtomicUsize,
    pager: AtomicPtr<Pager>,
    /// The number of readers (lower half), and the generation of their process (upper half). A
    /// child has another generation, so its count begins at 0.
    inside: AtomicU64,
}

static PLACES: [Place; REGIONS_MAX] = [const { Place::new() }; REGIONS_MAX];

/// The number of places that were ever used. These are the first places of the table.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The number of address windows that were removed. A fault outside of all windows may result from
/// an access before the removal of a window. After the removal, the memory may belong to the
/// program again, so the instruction is repeated once.
pub(crate) static ENDED: AtomicU32 = AtomicU32::new(0);

/// Locked while an address window is added. Threads lock this value only inside the gate, so a
/// child never inherits it locked.
static ADDING: Mutex<()> = Mutex::new(());

impl Place {
    const fn new() -> Self {
        Place {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            pager: AtomicPtr::new(null_mut()),
            inside: AtomicU64::new(0),
        }
    }

    /// Returns the addresses of the place's window, or an empty range if the place has no window.
    fn addresses(&self) -> Range<usize> {
        // `end` is loaded before `start`: see the module's documentation.
        let end = self.end.load(SeqCst);
        self.start.load(SeqCst)..end
    }

    /// Fills a free place with a pager and the addresses of one of the pager's windows.
    fn fill(&self, pager: &Pager, Range { start, end }: Range<usize>) {
        self.pager.store((&raw const *pager).cast_mut(), SeqCst);
        self.start.store(start, SeqCst);
        self.end.store(end, SeqCst);
    }

    /// Calls `work` with the place's pager if the address is in the place's window.
    fn with_pager<T>(&self, address: usize, work: impl FnOnce(&Pager) -> T) -> Option<T> {
        self.enter();
        let found = self.addresses().contains(&address).then(|| {
            // SAFETY: the place still held the address after this thread had counted itself, so
            // `remove` waits for this thread. The pager lives until `remove` returns, as the caller
            // of `add` guarantees.
            work(unsafe { &*self.pager.load(SeqCst) })
        });
        self.leave();
        found
    }

    /// Counts this thread as a reader. A count that a child has inherited is replaced, because it
    /// has another generation.
    fn enter(&self) {
        let now = u64::from(generation()) << 32;
        let enter = |seen| Some(if seen >> 32 << 32 == now { seen + 1 } else { now + 1 });
        let _entered = self.inside.fetch_update(SeqCst, SeqCst, enter);
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, SeqCst);
    }

    /// Returns whether the place has no readers in this process.
    fn is_empty(&self) -> bool {
        let seen = self.inside.load(SeqCst);
        seen as u32 == 0 || (seen >> 32) as u32 != generation()
    }
}

/// Checks that no region contains any of `addresses`.
///
/// # Errors
/// [`Error::Overlap`] if a region contains any of `addresses`.
pub(crate) fn check_free(addresses: &Range<usize>) -> Result<(), Error> {
    let overlaps =
        |other: &Range<usize>| other.start < addresses.end && addresses.start < other.end;
    let other = PLACES.iter().map(Place::addresses).find(overlaps);
    other.map_or(Ok(()), |Range { start, end }| Err(Error::Overlap { start, end }))
}

/// Adds a window of a pager to the table. From then on, the pager handles faults at the addresses
/// of the window. `map` maps these addresses, after the check that no other region contains them.
///
/// # Errors
/// [`Error::Regions`] if the table is full; the error of [`check_free`]; the errors of `map`.
///
/// # Safety
/// The pager lives until [`remove`] has returned.
pub(crate) unsafe fn add(
    pager: &Pager,
    addresses: Range<usize>,
    map: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    inside(|| {
        let _adding = ADDING.lock();
        check_free(&addresses)?;
        let free = PLACES.iter().position(|place| place.start.load(SeqCst) == 0);
        let nth = free.ok_or(Error::Regions { max: REGIONS_MAX })?;
        map()?;
        PLACES[nth].fill(pager, addresses);
        USED.fetch_max(nth + 1, SeqCst);
        Ok(())
    })
}

/// Removes all windows of a pager from the table, and waits for faults that the pager is handling.
/// The pager gets no further faults. The caller is outside the gate, because these faults may wait
/// at the gate.
pub(crate) fn remove(pager: &Pager) {
    let is_it = |place: &&Place| {
        place.end.load(SeqCst) > 0 && std::ptr::eq(place.pager.load(SeqCst), pager)
    };
    for place in PLACES.iter().filter(is_it) {
        ENDED.fetch_add(1, SeqCst);
        place.end.store(0, SeqCst);
        let mut patience = Patience::new("faults of a pager that ends");
        while !place.is_empty() {
            patience.spend();
            std::thread::yield_now();
        }
        place.pager.store(null_mut(), SeqCst);
        place.start.store(0, SeqCst);
    }
}

/// Calls `work` with each pager.
pub(crate) fn for_each(work: impl Fn(&Pager)) {
    for place in &PLACES[..USED.load(SeqCst)] {
        let addresses = place.addresses();
        let is_first = |pager: &Pager| pager.memory.addresses().start == addresses.start;
        if !addresses.is_empty() {
            with_pager(addresses.start, |pager| is_first(pager).then(|| work(pager)));
        }
    }
}

/// Calls `work` with the pager whose region contains the address, if there is such a pager.
pub(crate) fn with_pager<T>(address: usize, work: impl FnOnce(&Pager) -> T) -> Option<T> {
    with_pager_of(&PLACES[..USED.load(SeqCst)], address, work)
}

fn with_pager_of<T>(places: &[Place], address: usize, work: impl FnOnce(&Pager) -> T) -> Option<T> {
    let mut work = Some(work);
    // A place that is being cleared or filled can seem to contain the address. If
    // `Place::with_pager` then finds that the place does not contain the address, the search
    // continues.
    let mut held = places.iter().filter(|place| place.addresses().contains(&address));
    held.find_map(|place| place.with_pager(address, |pager| work.take().map(|work| work(pager))))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::memory::Managed;
    use crate::pager::Contents;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    fn pager(bytes: usize) -> Pager {
        let memory = Managed::map(bytes, 1 << 16).unwrap();
        Pager::new(memory, Contents::Untouched, &Options::default()).unwrap()
    }

    /// Two regions use the first place of the table in turn, and a third region uses the second
    /// place. Each fault of the third region finds the pager of the third region.
    #[test]
    fn a_place_that_changes_hands_takes_no_others_faults() {
        let places = [Place::new(), Place::new()];
        let mut pagers = [pager(1 << 16), pager(1 << 17), pager(1 << 16)];
        pagers.sort_by_key(|pager| pager.memory.addresses().start);
        let [low, middle, high] = pagers;
        places[1].fill(&middle, middle.memory.addresses());
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for seeker in 0..2 {
                let (places, middle, done) = (&places, &middle, &done);
                scope.spawn(move || {
                    let Range { start, end } = middle.memory.addresses();
                    let address = [start, end - 1][seeker];
                    while !done.load(Relaxed) {
                        let found = with_pager_of(places, address, |found| {
                            found.memory.addresses() == middle.memory.addresses()
                        });
                        assert_eq!(found, Some(true));
                    }
                });
            }
            for nth in 0..20_000 {
                let place = &places[0];
                let pager = [&low, &high][nth % 2];
                place.fill(pager, pager.memory.addresses());
                place.end.store(0, SeqCst);
                while !place.is_empty() {
                    thread::yield_now();
                }
                place.pager.store(null_mut(), SeqCst);
                place.start.store(0, SeqCst);
            }
            done.store(true, Relaxed);
        });
    }
}
