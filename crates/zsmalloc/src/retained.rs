//! Retained pages: committed, though no live object touches them; kept for the next objects, or
//! given back.
//!
//! ```text
//!   live --last object on it freed--> retained --too many--> withheld --madvise--> untouched
//!     ^-----------a slot on it taken----'   ^---prefaulted, as a class wants a page---'
//! ```
//! Which zspages have some is known: each class has a list of them, and the pool a bit for each
//! class that has one.

use crate::Error;
use crate::class::Class;
use crate::policy::WANTED_MAX;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicBool, AtomicUsize, JobGuard};
use page::heap::boxed;
use page::{ExtentId, PageSet, Supply, bits};
use std::sync::atomic::{AtomicU8, AtomicU64};

/// The retained pages of a pool: how many there are, where, and how many more are wanted.
#[derive(Debug)]
pub(crate) struct Retained {
    pages: AtomicUsize,
    /// Of them, those that were prefaulted, about.
    prefaulted: AtomicUsize,
    /// Which classes have zspages that offer some: a bit each, changed under the class's lock, read
    /// without.
    offers: Box<[AtomicU64]>,
    /// How many more each class wants.
    wanted: Box<[AtomicU8]>,
    /// Threads that give pages back, or prefault some, at the moment.
    releases: AtomicUsize,
    /// Pages given back or prefaulted so far: a thread that waits for some compares two looks at
    /// it.
    released: AtomicUsize,
    /// Whether a thread sees to what is retained.
    tending: AtomicBool,
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
            tending: AtomicBool::new(false),
        })
    }

    /// Returns the bytes of memory of the tables here.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.offers) + size_of_val(&*self.wanted)
    }

    pub(crate) fn pages(&self) -> usize {
        // In one order with `tending`: see `purge::purge_excess`.
        self.pages.load(SeqCst)
    }

    pub(crate) fn prefaulted(&self) -> usize {
        self.prefaulted.load(Relaxed)
    }

    /// Counts pages that objects have left.
    pub(crate) fn add(&self, pages: usize) {
        self.pages.fetch_add(pages, SeqCst);
    }

    /// Counts pages that are prefaulted.
    pub(crate) fn add_prefaulted(&self, pages: usize) {
        self.prefaulted.fetch_add(pages, Relaxed);
        self.pages.fetch_add(pages, SeqCst);
    }

    /// Counts pages that objects came to: those that were prefaulted, as long as there are some.
    pub(crate) fn take(&self, pages: usize) {
        self.pages.fetch_sub(pages, Relaxed);
        let prefaulted = self.prefaulted();
        if prefaulted > 0 {
            // Of two at the same time one may be lost: the next release of pages corrects the
            // count.
            self.prefaulted.store(prefaulted.saturating_sub(pages), Relaxed);
        }
    }

    /// Counts pages that were given back.
    pub(crate) fn note_gone(&self, pages: usize) {
        self.pages.fetch_sub(pages, Relaxed);
    }

    /// After pages were given back: no more were prefaulted than are left.
    pub(crate) fn correct_prefaulted(&self) {
        self.prefaulted.fetch_min(self.pages.load(Relaxed), Relaxed);
    }

    /// Forgets all pages, and the threads that were working on them, in a child.
    pub(crate) fn reset(&self) {
        self.pages.store(0, Relaxed);
        self.offers.iter().for_each(|word| word.store(0, Relaxed));
        self.prefaulted.store(0, Relaxed);
        self.releases.store(0, Relaxed);
        self.tending.store(false, Relaxed);
    }

    /// Notes whether a class has zspages that offer some, whose lock is held.
    pub(crate) fn set_offer(&self, class: &Class, has: bool) {
        let bit = 1 << (class.position % 64);
        let word = &self.offers[class.position as usize / 64];
        // A thread that sees the bit set, or clear, sees what was noted before: that pages are
        // retained, or that another thread has them.
        if has {
            word.fetch_or(bit, Release)
        } else {
            word.fetch_and(!bit, Release)
        };
    }

    pub(crate) fn has_offer(&self, class: &Class) -> bool {
        bits::any(&self.offers, class.position..class.position + 1)
    }

    /// Returns the first class from `from` on that has such zspages.
    pub(crate) fn first_offer(&self, from: usize) -> Option<usize> {
        let mut ignored = (1u64 << (from % 64)) - 1;
        let mut words = self.offers.iter().enumerate().skip(from / 64);
        words.find_map(|(nth, word)| {
            let classes = word.load(Acquire) & !std::mem::take(&mut ignored);
            (classes != 0).then(|| nth * 64 + classes.trailing_zeros() as usize)
        })
    }

    /// Takes note that a class wants a page more. (Of two at the same time one may be forgotten.)
    pub(crate) fn want(&self, class: &Class) {
        let wanted = &self.wanted[class.position as usize];
        wanted.store((wanted.load(Relaxed) + 1).min(WANTED_MAX), Relaxed);
    }

    /// Returns how many pages a class wanted since this was last asked.
    pub(crate) fn take_wanted(&self, class: &Class) -> u32 {
        let wanted = &self.wanted[class.position as usize];
        if wanted.load(Relaxed) == 0 { 0 } else { wanted.swap(0, Relaxed).into() }
    }

    /// Nothing is wanted.
    pub(crate) fn forget_wanted(&self) {
        self.wanted.iter().for_each(|wanted| wanted.store(0, Relaxed));
    }

    /// Sees to what is retained, unless another thread does.
    pub(crate) fn tend(&self) -> Option<JobGuard<'_>> {
        JobGuard::begin(&self.tending)
    }

    /// The same, after any other.
    pub(crate) fn wait_to_tend(&self) -> JobGuard<'_> {
        JobGuard::wait(&self.tending)
    }

    /// Returns the pages given back or prefaulted so far.
    pub(crate) fn released(&self) -> usize {
        self.released.load(SeqCst)
    }

    /// Returns whether some are being given back or prefaulted, or were since there had been
    /// `released`.
    pub(crate) fn is_release_under_way(&self, released: usize) -> bool {
        self.releases.load(SeqCst) > 0 || self.released() != released
    }
}

/// Marks that a thread gives pages back or prefaults some. It begins before the thread takes any,
/// so a thread that finds none on offer sees it.
pub(crate) struct ReleaseScope<'p>(&'p Retained);

impl<'p> ReleaseScope<'p> {
    pub(crate) fn begin(retained: &'p Retained) -> Self {
        retained.releases.fetch_add(1, SeqCst);
        ReleaseScope(retained)
    }

    /// Takes note of pages that went, or are on offer now, and returns how many.
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

/// A busy zspage, and those of its pages that are on their way: back, with their slots withheld, or
/// here.
pub(crate) type InFlight = (ExtentId, PageSet);

/// Zspages whose pages go or come by one call, which interrupts other processors once.
pub(crate) type Batch = [Option<InFlight>; 32];

pub(crate) fn no_batch() -> Batch {
    [const { None }; 32]
}

/// Returns the pages of a batch, as they are given to the system.
pub(crate) fn pages_of(
    batch: &[Option<InFlight>],
) -> impl Iterator<Item = (ExtentId, &PageSet)> + Clone {
    batch.iter().flatten().map(|(id, pages)| (*id, pages))
}
