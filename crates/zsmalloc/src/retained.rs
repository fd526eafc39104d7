//! Ready pages: committed, though no live object touches them; kept for the next objects, or given
//! back.
//!
//! ```text
//!   live --last object on it freed--> retained --more than may be kept--> held --madvise--> untouched
//!     ^-----------a slot on it taken----'
//! ```
//! Which zspages have some is known: each class has a list of them, and the pool a bit for each
//! class that has one.
//!
//! Giving back is a system call, so it is done outside the class's lock. Meanwhile no one may be
//! given a slot on those pages: their slots are held, all of them, by one thread per zspage.

use crate::Error;
use crate::class::Class;
use crate::class_guard::ClassGuard;
use crate::inner::{NEAR_LIMIT, PoolInner};
use crate::sync::JobGuard;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use page::heap::boxed;
use page::{ExtentId, PageSet, Supply, bits};
use std::sync::atomic::AtomicU64;

/// Commits are dear, so this share of the pool's pages may be kept for the next objects, until no
/// one has asked for compaction for a moment ...
const RETAINED_SHARE: usize = 256;
/// ... and as many at any fill.
const RETAINED_MIN: usize = 8;
/// As many more may be prefaulted, but no more than two for each open class.
const PREFAULT_SHARE: usize = 32;

/// Pages that a free gives back at most, where no thread keeps up with that: what it takes is
/// bounded, whatever the pool's size.
const PURGE_BY_STORE: usize = 32;

/// Zspages that are looked at for the emptiest that offers retained pages: what lies in fuller ones
/// is needed sooner.
const OFFERS_LOOKED_AT: usize = 8;
/// Zspages without objects that are looked at for one that was made in vain: those come first.
const UNUSED_LOOKED_AT: usize = 8;

/// Which classes have zspages that offer retained pages: a bit each, changed under the class's
/// lock, read without.
#[derive(Debug)]
pub(crate) struct Offers(Box<[AtomicU64]>);

impl Offers {
    pub(crate) fn new(classes: usize, supply: Option<&dyn Supply>) -> Result<Self, Error> {
        Ok(Offers(boxed(supply, (0..classes.div_ceil(64)).map(|_| AtomicU64::new(0)))?))
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Notes whether a class has some, whose lock is held.
    pub(crate) fn set(&self, class: &Class, has: bool) {
        let bit = 1 << (class.position % 64);
        let word = &self.0[class.position as usize / 64];
        // Who sees it, or no longer, sees what was noted before: that pages are retained, or that
        // someone has them.
        if has {
            word.fetch_or(bit, Release)
        } else {
            word.fetch_and(!bit, Release)
        };
    }

    pub(crate) fn has(&self, class: &Class) -> bool {
        bits::any(&self.0, class.position..class.position + 1)
    }

    pub(crate) fn forget(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// The first class from `from` on that has some.
    fn first(&self, from: usize) -> Option<usize> {
        let mut ignored = (1u64 << (from % 64)) - 1;
        let mut words = self.0.iter().enumerate().skip(from / 64);
        words.find_map(|(nth, word)| {
            let classes = word.load(Acquire) & !std::mem::take(&mut ignored);
            (classes != 0).then(|| nth * 64 + classes.trailing_zeros() as usize)
        })
    }
}

/// That a thread gives pages back at the moment, or prefaults some: from before it has any, so
/// whoever finds none on offer sees that.
pub(crate) struct ReleaseScope<'p>(&'p PoolInner);

impl<'p> ReleaseScope<'p> {
    pub(crate) fn begin(inner: &'p PoolInner) -> Self {
        inner.releases.fetch_add(1, SeqCst);
        ReleaseScope(inner)
    }

    /// Takes note of pages that went, or are on offer now; how many.
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

/// A busy zspage, and those of its pages that are on their way: back, with their slots held, or
/// here.
pub(crate) type InFlight = (ExtentId, PageSet);

/// Zspages whose pages go or come by one call, which interrupts other processors once.
pub(crate) type Batch = [Option<InFlight>; 32];

pub(crate) fn no_batch() -> Batch {
    [const { None }; 32]
}

/// The pages of a batch, as they are given to the system.
pub(crate) fn pages_of(
    batch: &[Option<InFlight>],
) -> impl Iterator<Item = (ExtentId, &PageSet)> + Clone {
    batch.iter().flatten().map(|(id, pages)| (*id, pages))
}

impl PoolInner {
    /// Pages that may be retained of those that objects have left.
    fn left_max(&self) -> usize {
        (self.memory.space.budget().used() / RETAINED_SHARE).max(RETAINED_MIN)
    }

    /// Pages that may be retained: those, and the ones that were prefaulted and are not taken yet,
    /// about.
    fn retained_max(&self) -> usize {
        self.left_max() + self.prefaulted.load(Relaxed)
    }

    /// Whether one more page may be prefaulted, beside `others` that are not counted yet.
    pub(crate) fn may_prefault(&self, others: u32) -> bool {
        let others = others as usize;
        let most =
            (self.memory.space.budget().used() / PREFAULT_SHARE).min(2 * self.open_classes());
        self.prefaulted.load(Relaxed) + others < most && !self.is_near_limit(others)
    }

    /// Takes note that a store took pages that were retained: those that were prefaulted, as long
    /// as there are some.
    pub(crate) fn take_retained(&self, pages: usize) {
        self.retained.fetch_sub(pages, Relaxed);
        let prefaulted = self.prefaulted.load(Relaxed);
        if prefaulted > 0 {
            // Of two at the same time one may be forgotten: whoever gives pages back corrects it.
            self.prefaulted.store(prefaulted.saturating_sub(pages), Relaxed);
        }
    }

    /// Whether the limit is near, with `others` pages more in use.
    pub(crate) fn is_near_limit(&self, others: usize) -> bool {
        let budget = self.memory.space.budget();
        budget.limit().is_some_and(|limit| budget.used() + others + NEAR_LIMIT >= limit)
    }

    /// Has pages given back if more are retained than may be: by the thread that does such things,
    /// if there is one and it keeps up. Called with no lock held.
    pub(crate) fn purge_excess_soon(&self) {
        let (retained, most) = (self.retained.load(SeqCst), self.retained_max());
        if retained > most {
            self.prefaulter.notify();
            if !self.prefaulter.is_enabled() || retained > 2 * most {
                self.purge_excess_up_to(PURGE_BY_STORE);
            }
        }
    }

    /// Pages that are to go, if more are retained than may be: half of those, as many at once are
    /// cheaper than one by one.
    fn purge_target(&self) -> Option<usize> {
        let (retained, most) = (self.retained.load(SeqCst), self.retained_max());
        (retained > most).then(|| retained - most + self.left_max() / 2)
    }

    /// Gives pages back if more are retained than may be. Whether any went. Called with no lock
    /// held.
    pub(crate) fn purge_excess(&self) -> bool {
        self.purge_excess_up_to(usize::MAX)
    }

    /// The same, but no more than `most`, about.
    fn purge_excess_up_to(&self, most: usize) -> bool {
        let mut total = 0;
        // Whoever finds another at it leaves it to him, who looks once more when he is done.
        while total < most
            && let Some(wanted) = self.purge_target()
            && let Some(alone) = JobGuard::begin(&self.tending)
        {
            let gone = self.purge(wanted.min(most - total));
            drop(alone);
            total += gone;
            if gone == 0 {
                break;
            }
        }
        total > 0
    }

    /// Gives all retained pages back, and zspages that were made for objects and got none; how many
    /// pages.
    pub(crate) fn purge_all(&self, _alone: &JobGuard<'_>) -> usize {
        self.wanted.forget();
        let pages = self.purge(usize::MAX);
        for class in &self.classes {
            while ClassGuard::new(self, class).destroy_one_unused() {}
        }
        pages
    }

    /// Gives retained pages back, `wanted` or a few more; how many.
    pub(crate) fn purge(&self, wanted: usize) -> usize {
        if self.retained.load(SeqCst) == 0 {
            return 0;
        }
        let releasing = ReleaseScope::begin(self);
        let mut from = 0;
        let mut total = 0;
        while total < wanted && self.retained.load(SeqCst) > 0 {
            let mut batch = no_batch();
            let mut pages = 0;
            for place in &mut batch {
                if total + pages < wanted {
                    *place = self.next_offer(&mut from);
                }
                pages += place.as_ref().map_or(0, |(_, pages)| pages.len() as usize);
            }
            let gone = self.give_back(&batch, &releasing);
            if gone == 0 {
                break;
            }
            total += gone;
        }
        self.prefaulted.fetch_min(self.retained.load(Relaxed), Relaxed);
        total
    }

    /// Holds the retained pages of a zspage of the first class from `from` on that offers some.
    fn next_offer(&self, from: &mut usize) -> Option<InFlight> {
        while let Some(position) = self.offers.first(*from) {
            let mut locked = ClassGuard::new(self, &self.classes[position]);
            if let Some(id) = locked.emptiest_offering() {
                *from = position;
                return Some(locked.begin_release(id));
            }
            *from = position + 1;
        }
        None
    }

    /// Gives held pages back to the system, and zspages that this leaves empty; how many pages.
    fn give_back(&self, batch: &[Option<InFlight>], releasing: &ReleaseScope<'_>) -> usize {
        let release = || self.memory.release(pages_of(batch));
        self.with_in_flight(batch, release, |locked, id, gone| locked.end_release(id, gone));
        releasing.note(batch)
    }

    /// Does `work` with no lock held, and then `end` for each of the zspages, which stay as long as
    /// they are busy.
    pub(crate) fn with_in_flight(
        &self,
        batch: &[Option<InFlight>],
        work: impl FnOnce(),
        end: impl Fn(ClassGuard<'_>, ExtentId, &PageSet),
    ) {
        work();
        for (id, pages) in pages_of(batch) {
            let class = &self.classes[self.memory.space.extent(id).tag() as usize];
            end(ClassGuard::new(self, class), id, pages);
        }
    }
}

impl ClassGuard<'_> {
    /// A zspage that offers retained pages, about the emptiest of those of the class.
    fn emptiest_offering(&self) -> Option<ExtentId> {
        self.offering().take(OFFERS_LOOKED_AT).min_by_key(|&id| self.fixed_header(id).inuse())
    }

    /// Holds the slots on the retained pages that a zspage offers, which are to be given back.
    fn begin_release(&mut self, id: ExtentId) -> InFlight {
        self.fixed_header(id).set_busy(true);
        self.update_offer(id, true);
        let header = self.header(id);
        let going = PageSet::default();
        going.copy_from(&header.fixed.retained);
        going.runs().for_each(|pages| header.withhold_slots(self.class().slots_of(pages)));
        (id, going)
    }

    /// Takes note of a release: what is gone is no longer committed, held slots are free again.
    /// Gives the zspage back if nothing is left in it.
    fn end_release(mut self, id: ExtentId, gone: &PageSet) {
        let header = self.header(id);
        header
            .fixed
            .retained
            .runs()
            .for_each(|pages| header.readmit_slots(self.class().slots_of(pages)));
        for pages in gone.runs() {
            header.fixed.committed.remove(pages.clone());
            header.fixed.retained.remove(pages);
        }
        self.inner().retained.fetch_sub(gone.len() as usize, Relaxed);
        self.state.retained -= gone.len();
        self.state.committed -= gone.len();
        self.end_busy(id);
    }

    /// Gives all retained pages of a zspage back to the system, and the zspage if that leaves it
    /// empty. The number of pages; none where another thread does it at the moment.
    pub(crate) fn release(mut self, id: ExtentId) -> u32 {
        if !self.fixed_header(id).has_offer() {
            self.destroy_if_unused(id);
            return 0;
        }
        let inner = self.inner();
        let releasing = ReleaseScope::begin(inner);
        let going = self.begin_release(id);
        drop(self);
        inner.give_back(&[Some(going)], &releasing) as u32
    }

    /// Gives a zspage back that was made for an object and has got none, if there is one; whether
    /// there was.
    pub(crate) fn destroy_one_unused(self) -> bool {
        let unused = self.group(0).take(UNUSED_LOOKED_AT).find(|&id| self.is_unused(id));
        let is_there = unused.is_some();
        if let Some(unused) = unused {
            self.destroy_if_unused(unused);
        }
        is_there
    }

    /// Gives all zspages without objects back, in a child: whoever was about them is lost.
    pub(crate) fn release_unused(self) {
        let (inner, class) = (self.inner(), self.class());
        let unused: Vec<_> = self.group(0).collect();
        drop(self);
        for id in unused {
            ClassGuard::new(inner, class).release(id);
        }
    }

    /// Whether a zspage has neither objects nor pages, and no one is about it.
    fn is_unused(&self, id: ExtentId) -> bool {
        let head = self.fixed_header(id);
        head.inuse() == 0 && !head.is_busy() && head.committed.is_empty()
    }

    pub(crate) fn destroy_if_unused(mut self, id: ExtentId) {
        if self.is_unused(id) {
            let zspage = self.remove(id);
            let (inner, class) = (self.inner(), self.class());
            drop(self);
            inner.memory.destroy(class, zspage);
        }
    }
}
