//! Retained pages are committed pages that no live object touches, and that are kept for the next
//! objects.
//!
//! ```text
//!   live --last object on it freed--> retained --too many--> withheld --madvise--> untouched
//!     ^-----------a slot on it taken----'   ^---prefaulted, as a class wants a page---'
//! ```
//! Zspages with retained pages are found without a search. Each class has a list of its zspages
//! with retained pages, and the pool has a bit for each class whose list is not empty.

use crate::Error;
use crate::class::Class;
use crate::policy::WANTED_MAX;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicBool, AtomicUsize, JobGuard};
use page::heap::boxed;
use page::{ExtentId, PageSet, Supply, bits};
use std::sync::atomic::{AtomicU8, AtomicU64};

/// The retained pages of a pool: their number, their classes, and the number of pages that classes
/// request.
#[derive(Debug)]
pub(crate) struct Retained {
    pages: AtomicUsize,
    /// The approximate number of retained pages that were prefaulted.
    prefaulted: AtomicUsize,
    /// A bit for each class, which is set if zspages of the class offer retained pages. The bit is
    /// changed under the class's lock, and read without a lock.
    offers: Box<[AtomicU64]>,
    /// The number of pages that each class has requested since the last prefault.
    wanted: Box<[AtomicU8]>,
    /// The number of threads that are currently releasing or prefaulting pages.
    releases: AtomicUsize,
    /// The total number of pages released or prefaulted. A thread that waits for released pages
    /// compares two reads of this count.
    released: AtomicUsize,
    /// True while a thread holds the job of releasing or prefaulting pages.
    purge_job: AtomicBool,
}

impl Retained {
    pub(crate) fn new(classes: usize, supply: Option<&dyn Supply>) -> Result<Self, Error> {
        let offers = (0..classes.div_ceil(64)).map(|_| AtomicU64::new(0));
        Ok(Retained {
            pages: AtomicUsize::new(0),
            prefaulted: AtomicUsize::new(0),
            offers: boxed(supply, offers)?,
            wanted: boxed(supply, (0..classes).map(|_| AtomicU8::new(0)))?,
            releases: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
            purge_job: AtomicBool::new(false),
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.offers) + size_of_val(&*self.wanted)
    }

    pub(crate) fn pages(&self) -> usize {
        // This load is sequentially consistent with accesses of `purge_job` (see
        // `purge::purge_excess`).
        self.pages.load(SeqCst)
    }

    pub(crate) fn prefaulted(&self) -> usize {
        self.prefaulted.load(Relaxed)
    }

    /// Counts pages on which no object lies any more.
    pub(crate) fn add(&self, pages: usize) {
        self.pages.fetch_add(pages, SeqCst);
    }

    pub(crate) fn add_prefaulted(&self, pages: usize) {
        self.prefaulted.fetch_add(pages, Relaxed);
        self.pages.fetch_add(pages, SeqCst);
    }

    /// Counts retained pages that new objects use. The pages are also subtracted from the count of
    /// prefaulted pages, which does not fall below 0.
    pub(crate) fn take(&self, pages: usize) {
        self.pages.fetch_sub(pages, Relaxed);
        let prefaulted = self.prefaulted();
        if prefaulted > 0 {
            // If two threads execute this store concurrently, one update may be lost. The next
            // release of pages corrects the count.
            self.prefaulted.store(prefaulted.saturating_sub(pages), Relaxed);
        }
    }

    /// Counts pages that were released.
    pub(crate) fn note_gone(&self, pages: usize) {
        self.pages.fetch_sub(pages, Relaxed);
    }

    /// After a release, limits the count of prefaulted pages to the count of retained pages.
    pub(crate) fn correct_prefaulted(&self) {
        self.prefaulted.fetch_min(self.pages.load(Relaxed), Relaxed);
    }

    /// In a child of fork, resets the counts of pages, and the count of threads that released or
    /// prefaulted pages.
    pub(crate) fn reset(&self) {
        self.pages.store(0, Relaxed);
        self.offers.iter().for_each(|word| word.store(0, Relaxed));
        self.prefaulted.store(0, Relaxed);
        self.releases.store(0, Relaxed);
        self.purge_job.store(false, Relaxed);
    }

    /// Records whether a class, whose lock is held, has zspages that offer retained pages.
    pub(crate) fn set_offer(&self, class: &Class, has: bool) {
        let bit = 1 << (class.position % 64);
        let word = &self.offers[class.position as usize / 64];
        // A thread that reads the bit also sees the change that caused it: pages became retained,
        // or a thread took the retained pages.
        if has {
            word.fetch_or(bit, Release)
        } else {
            word.fetch_and(!bit, Release)
        };
    }

    pub(crate) fn has_offer(&self, class: &Class) -> bool {
        bits::any(&self.offers, class.position..class.position + 1)
    }

    /// Returns the position of the first class, at or after `from`, whose zspages offer retained
    /// pages.
    pub(crate) fn first_offer(&self, from: usize) -> Option<usize> {
        let mut ignored = (1u64 << (from % 64)) - 1;
        let mut words = self.offers.iter().enumerate().skip(from / 64);
        words.find_map(|(nth, word)| {
            let classes = word.load(Acquire) & !std::mem::take(&mut ignored);
            (classes != 0).then(|| nth * 64 + classes.trailing_zeros() as usize)
        })
    }

    /// Records that a class requests another page. If two threads call this function concurrently,
    /// one request may be lost.
    pub(crate) fn want(&self, class: &Class) {
        let wanted = &self.wanted[class.position as usize];
        wanted.store((wanted.load(Relaxed) + 1).min(WANTED_MAX), Relaxed);
    }

    /// Returns the number of pages that a class has requested since the last call.
    pub(crate) fn take_wanted(&self, class: &Class) -> u32 {
        let wanted = &self.wanted[class.position as usize];
        if wanted.load(Relaxed) == 0 { 0 } else { wanted.swap(0, Relaxed).into() }
    }

    pub(crate) fn forget_wanted(&self) {
        self.wanted.iter().for_each(|wanted| wanted.store(0, Relaxed));
    }

    /// Takes the job of releasing or prefaulting pages. Returns `None` if another thread has the
    /// job.
    pub(crate) fn begin_purge_job(&self) -> Option<JobGuard<'_>> {
        JobGuard::begin(&self.purge_job)
    }

    /// Takes the job of releasing or prefaulting pages. Waits while another thread has the job.
    pub(crate) fn wait_for_purge_job(&self) -> JobGuard<'_> {
        JobGuard::wait(&self.purge_job)
    }

    pub(crate) fn released(&self) -> usize {
        self.released.load(SeqCst)
    }

    /// Returns whether a thread is releasing or prefaulting pages, or has done so since
    /// [`released`](Self::released) returned `released`.
    pub(crate) fn is_release_under_way(&self, released: usize) -> bool {
        self.releases.load(SeqCst) > 0 || self.released() != released
    }
}

/// While this value exists, its thread is counted as releasing or prefaulting pages. The count is
/// incremented before the thread takes any pages, so another thread that finds no retained page
/// sees the count.
pub(crate) struct ReleaseScope<'p>(&'p Retained);

impl<'p> ReleaseScope<'p> {
    pub(crate) fn begin(retained: &'p Retained) -> Self {
        retained.releases.fetch_add(1, SeqCst);
        ReleaseScope(retained)
    }

    /// Counts pages that were released or prefaulted. Returns their number.
    pub(crate) fn note(&self, batch: &[Option<InFlight>]) -> usize {
        let pages = pages_of(batch).map(|(_, pages)| pages.len() as usize).sum();
        self.0.released.fetch_add(pages, SeqCst);
        pages
    }
}

impl Drop for ReleaseScope<'_> {
    fn drop(&mut self) {
        self.0.releases.fetch_sub(1, SeqCst);
    }
}

/// A busy zspage, and its pages that are being prefaulted or released. Slots on pages that are
/// being released are withheld.
pub(crate) type InFlight = (ExtentId, PageSet);

/// Zspages whose pages are released or prefaulted by one system call, which interrupts other
/// processors once.
pub(crate) type Batch = [Option<InFlight>; 32];

pub(crate) fn no_batch() -> Batch {
    [const { None }; 32]
}

/// Returns the pages of a batch in the form that [`page::Space`] accepts.
pub(crate) fn pages_of(
    batch: &[Option<InFlight>],
) -> impl Iterator<Item = (ExtentId, &PageSet)> + Clone {
    batch.iter().flatten().map(|(id, pages)| (*id, pages))
}
