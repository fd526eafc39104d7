//! Which region an address is in: a table that handlers look at, without a lock.
//!
//! # Safety
//! A place names a pager from [`add`] until [`remove`], which takes the addresses out first and
//! then waits until no one who may have seen them is inside. Who looks counts itself in before it
//! reads the addresses, both in one order that all agree on; so either it is waited for, or it
//! finds none.
#![allow(unsafe_code)]

use crate::Error;
use crate::pager::Pager;
use page::fork::generation;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

/// The most regions at a time.
pub(crate) const REGIONS_MAX: usize = 128;

struct Place {
    /// 0 of a place that nobody has, 1 of one that is being changed.
    start: AtomicUsize,
    end: AtomicUsize,
    pager: AtomicPtr<Pager>,
    /// Generation of the process, and below it how many threads look. A child begins at none.
    inside: AtomicU64,
}

static PLACES: [Place; REGIONS_MAX] = [const {
    Place {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        pager: AtomicPtr::new(null_mut()),
        inside: AtomicU64::new(0),
    }
}; REGIONS_MAX];

/// Places that were ever used, from the first on.
static USED: AtomicUsize = AtomicUsize::new(0);

impl Place {
    fn enter(&self) {
        let now = u64::from(generation()) << 32;
        let mut seen = self.inside.load(SeqCst);
        loop {
            let count = if seen >> 32 << 32 == now { seen + 1 } else { now + 1 };
            match self.inside.compare_exchange_weak(seen, count, SeqCst, SeqCst) {
                Ok(_) => return,
                Err(other) => seen = other,
            }
        }
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, SeqCst);
    }

    fn is_empty(&self) -> bool {
        let seen = self.inside.load(SeqCst);
        seen as u32 == 0 || (seen >> 32) as u32 != generation()
    }
}

/// Has faults at the pager's addresses come to it.
///
/// # Errors
/// [`Error::Regions`]: there are too many.
///
/// # Safety
/// The pager stays until [`remove`] has returned.
pub(crate) unsafe fn add(pager: &Pager) -> Result<(), Error> {
    let Range { start, end } = pager.memory.addresses();
    let taken = PLACES.iter().position(|place| {
        place.start.load(SeqCst) == 0 && place.start.compare_exchange(0, 1, SeqCst, SeqCst).is_ok()
    });
    let nth = taken.ok_or(Error::Regions { max: REGIONS_MAX })?;
    PLACES[nth].pager.store((&raw const *pager).cast_mut(), SeqCst);
    PLACES[nth].end.store(end, SeqCst);
    PLACES[nth].start.store(start, SeqCst);
    USED.fetch_max(nth + 1, SeqCst);
    Ok(())
}

/// Has no fault come to the pager from now on, and waits for those that are with it.
pub(crate) fn remove(pager: &Pager) {
    let is_it = |place: &&Place| {
        place.start.load(SeqCst) > 1 && std::ptr::eq(place.pager.load(SeqCst), pager)
    };
    if let Some(place) = PLACES.iter().find(is_it) {
        place.end.store(0, SeqCst);
        while !place.is_empty() {
            std::thread::yield_now();
        }
        place.pager.store(null_mut(), SeqCst);
        place.start.store(0, SeqCst);
    }
}

/// Shows `work` the pager that an address belongs to, if there is one.
pub(crate) fn with_pager<T>(address: usize, work: impl FnOnce(&Pager) -> T) -> Option<T> {
    let holds =
        |place: &Place| (place.start.load(SeqCst)..place.end.load(SeqCst)).contains(&address);
    let place = PLACES[..USED.load(SeqCst)].iter().find(|place| holds(place))?;
    place.enter();
    let found = holds(place).then(|| {
        // SAFETY: the place held the address after this thread was counted in, so `remove` waits
        // for it; and until then the pager is there, as `add` was promised.
        work(unsafe { &*place.pager.load(SeqCst) })
    });
    place.leave();
    found
}
