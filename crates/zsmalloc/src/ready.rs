//! Ready pages: committed, though no live object touches them; kept for the next objects, or given back.
//!
//! ```text
//!   live --last object on it freed--> ready --more than may be kept--> held --madvise--> untouched
//!     ^-----------a slot on it taken----'
//! ```
//! Which zspages have some is known: each class has a list of them, and the pool a bit for each class that has one.
//!
//! Giving back is a system call, so it is done outside the class's lock. Meanwhile no one may be given a
//! slot on those pages: their slots are held, all of them, by one thread per zspage.

use crate::Error;
use crate::class::Class;
use crate::locked::Locked;
use crate::parts::{NEAR, Parts, table_of};
use crate::sync::Alone;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use page::{ExtentId, PageSet, Supply, bits};
use std::sync::atomic::AtomicU64;

/// Commits are dear, so this share of the pool's pages may be kept for the next objects, until no one has
/// asked for compaction for a moment ...
const READY_SHARE: usize = 256;
/// ... and as many at any fill.
const READY_MIN: usize = 8;
/// As many more may be fetched ahead of need, but no more than two for each open class.
const AHEAD_SHARE: usize = 32;

/// Pages that a free gives back at most, where no thread keeps up with that: what it takes is bounded, whatever the pool's
/// size.
const EASED_MOST: usize = 32;

/// Zspages that are looked at for the emptiest that offers ready pages: what lies in fuller ones is needed sooner.
const OFFERS_MAX: usize = 8;
/// Zspages without objects that are looked at for one that was made in vain: those come first.
const UNUSED_MAX: usize = 8;

/// Which classes have zspages that offer ready pages: a bit each, changed under the class's lock, read without.
#[derive(Debug)]
pub(crate) struct Offers(Box<[AtomicU64]>);

impl Offers {
    pub(crate) fn new(classes: usize, supply: Option<&dyn Supply>) -> Result<Self, Error> {
        Ok(Offers(table_of(supply, (0..classes.div_ceil(64)).map(|_| Ok(AtomicU64::new(0))))?))
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Notes whether a class has some, whose lock is held.
    pub(crate) fn set(&self, class: &Class, has: bool) {
        let bit = 1 << (class.position % 64);
        let word = &self.0[class.position as usize / 64];
        // Who sees it, or no longer, sees what was noted before: that pages are ready, or that someone has them.
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

/// That a thread gives pages back at the moment, or fetches some: from before it has any, so whoever finds none on offer
/// sees that.
pub(crate) struct Releasing<'p>(&'p Parts);

impl<'p> Releasing<'p> {
    pub(crate) fn begin(parts: &'p Parts) -> Self {
        parts.releases.fetch_add(1, SeqCst);
        Releasing(parts)
    }

    /// Takes note of pages that went, or are on offer now; how many.
    pub(crate) fn note(&self, batch: &[Option<OnTheWay>]) -> usize {
        let pages = pages_of(batch).map(|(_, pages)| pages.len() as usize).sum();
        self.0.released.fetch_add(pages, SeqCst);
        pages
    }
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        self.0.releases.fetch_sub(1, SeqCst);
    }
}

/// A busy zspage, and those of its pages that are on their way: back, with their slots held, or here.
pub(crate) type OnTheWay = (ExtentId, PageSet);

/// Zspages whose pages go or come by one call, which interrupts other processors once.
pub(crate) type Batch = [Option<OnTheWay>; 32];

pub(crate) fn no_batch() -> Batch {
    [const { None }; 32]
}

/// The pages of a batch, as they are given to the system.
pub(crate) fn pages_of(
    batch: &[Option<OnTheWay>],
) -> impl Iterator<Item = (ExtentId, &PageSet)> + Clone {
    batch.iter().flatten().map(|(id, pages)| (*id, pages))
}

impl Parts {
    /// Pages that may be kept ready of those that objects have left.
    fn left_most(&self) -> usize {
        (self.memory.space.budget().used() / READY_SHARE).max(READY_MIN)
    }

    /// Pages that may be kept ready: those, and the ones that were fetched ahead of need and are not taken yet, about.
    fn ready_most(&self) -> usize {
        self.left_most() + self.fetched.load(Relaxed)
    }

    /// Whether one more page may be fetched ahead of need, beside `others` that are not counted yet.
    pub(crate) fn may_fetch(&self, others: u32) -> bool {
        let others = others as usize;
        let most = (self.memory.space.budget().used() / AHEAD_SHARE).min(2 * self.open_classes());
        self.fetched.load(Relaxed) + others < most && !self.is_near_limit(others)
    }

    /// Takes note that a store took pages that were ready: those that were fetched, as long as there are some.
    pub(crate) fn took_ready(&self, pages: usize) {
        self.ready.fetch_sub(pages, Relaxed);
        let fetched = self.fetched.load(Relaxed);
        if fetched > 0 {
            // Of two at the same time one may be forgotten: whoever gives pages back corrects it.
            self.fetched.store(fetched.saturating_sub(pages), Relaxed);
        }
    }

    /// Whether the limit is near, with `others` pages more in use.
    pub(crate) fn is_near_limit(&self, others: usize) -> bool {
        let budget = self.memory.space.budget();
        budget.limit().is_some_and(|limit| budget.used() + others + NEAR >= limit)
    }

    /// Has pages given back if more are ready than may be: by the thread that does such things, if there is one and it
    /// keeps up. Called with no lock held.
    pub(crate) fn ease_soon(&self) {
        let (ready, most) = (self.ready.load(SeqCst), self.ready_most());
        if ready > most {
            self.fetcher.ask();
            if !self.fetcher.is_enabled() || ready > 2 * most {
                self.ease_up_to(EASED_MOST);
            }
        }
    }

    /// Pages that are to go, if more are ready than may be: half of those, as many at once are cheaper than one by one.
    fn excess(&self) -> Option<usize> {
        let (ready, most) = (self.ready.load(SeqCst), self.ready_most());
        (ready > most).then(|| ready - most + self.left_most() / 2)
    }

    /// Gives pages back if more are ready than may be. Whether any went. Called with no lock held.
    pub(crate) fn ease(&self) -> bool {
        self.ease_up_to(usize::MAX)
    }

    /// The same, but no more than `most`, about.
    fn ease_up_to(&self, most: usize) -> bool {
        let mut total = 0;
        // Whoever finds another at it leaves it to him, who looks once more when he is done.
        while total < most
            && let Some(wanted) = self.excess()
            && let Some(alone) = Alone::begin(&self.tending)
        {
            let gone = self.trim_pages(wanted.min(most - total));
            drop(alone);
            total += gone;
            if gone == 0 {
                break;
            }
        }
        total > 0
    }

    /// Gives all ready pages back, and zspages that were made for objects and got none; how many pages.
    pub(crate) fn trim_all(&self, _alone: &Alone<'_>) -> usize {
        self.ahead.forget();
        let pages = self.trim_pages(usize::MAX);
        for class in &self.classes {
            while Locked::new(self, class).destroy_one_unused() {}
        }
        pages
    }

    /// Gives ready pages back, `wanted` or a few more; how many.
    pub(crate) fn trim_pages(&self, wanted: usize) -> usize {
        if self.ready.load(SeqCst) == 0 {
            return 0;
        }
        let releasing = Releasing::begin(self);
        let mut from = 0;
        let mut total = 0;
        while total < wanted && self.ready.load(SeqCst) > 0 {
            let mut batch = no_batch();
            let mut pages = 0;
            for place in &mut batch {
                if total + pages < wanted {
                    *place = self.next_ready(&mut from);
                }
                pages += place.as_ref().map_or(0, |(_, pages)| pages.len() as usize);
            }
            let gone = self.give_back(&batch, &releasing);
            if gone == 0 {
                break;
            }
            total += gone;
        }
        self.fetched.fetch_min(self.ready.load(Relaxed), Relaxed);
        total
    }

    /// Holds the ready pages of a zspage of the first class from `from` on that offers some.
    fn next_ready(&self, from: &mut usize) -> Option<OnTheWay> {
        while let Some(position) = self.offers.first(*from) {
            let mut locked = Locked::new(self, &self.classes[position]);
            if let Some(id) = locked.first_ready() {
                *from = position;
                return Some(locked.hold_ready(id));
            }
            *from = position + 1;
        }
        None
    }

    /// Gives held pages back to the system, and zspages that this leaves empty; how many pages.
    fn give_back(&self, batch: &[Option<OnTheWay>], releasing: &Releasing<'_>) -> usize {
        let release = || self.memory.release(pages_of(batch));
        self.while_busy(batch, release, |locked, id, gone| locked.settle(id, gone));
        releasing.note(batch)
    }

    /// Does `work` with no lock held, and then `end` for each of the zspages, which stay as long as they are busy.
    pub(crate) fn while_busy(
        &self,
        batch: &[Option<OnTheWay>],
        work: impl FnOnce(),
        end: impl Fn(Locked<'_>, ExtentId, &PageSet),
    ) {
        work();
        for (id, pages) in pages_of(batch) {
            let class = &self.classes[self.memory.space.extent(id).tag() as usize];
            end(Locked::new(self, class), id, pages);
        }
    }
}

impl Locked<'_> {
    /// A zspage that offers ready pages, about the emptiest of those of the class.
    fn first_ready(&self) -> Option<ExtentId> {
        self.offering().take(OFFERS_MAX).min_by_key(|&id| self.head(id).inuse())
    }

    /// Holds the slots on the ready pages that a zspage offers, which are to be given back.
    fn hold_ready(&mut self, id: ExtentId) -> OnTheWay {
        self.head(id).set_busy(true);
        self.offer(id, true);
        let body = self.body(id);
        let going = PageSet::default();
        going.copy_from(&body.head.ready);
        going.runs().for_each(|pages| body.hold(self.class().slots_of(pages)));
        (id, going)
    }

    /// Takes note of a release: what is gone is no longer committed, held slots are free again. Gives the zspage back
    /// if nothing is left in it.
    fn settle(mut self, id: ExtentId, gone: &PageSet) {
        let body = self.body(id);
        body.head.ready.runs().for_each(|pages| body.unhold(self.class().slots_of(pages)));
        for pages in gone.runs() {
            body.head.committed.remove(pages.clone());
            body.head.ready.remove(pages);
        }
        self.parts().ready.fetch_sub(gone.len() as usize, Relaxed);
        self.state.ready -= gone.len();
        self.state.committed -= gone.len();
        self.end_busy(id);
    }

    /// Gives all ready pages of a zspage back to the system, and the zspage if that leaves it empty.
    /// The number of pages; none where another thread does it at the moment.
    pub(crate) fn release(mut self, id: ExtentId) -> u32 {
        if !self.head(id).has_offer() {
            self.destroy_if_unused(id);
            return 0;
        }
        let parts = self.parts();
        let releasing = Releasing::begin(parts);
        let going = self.hold_ready(id);
        drop(self);
        parts.give_back(&[Some(going)], &releasing) as u32
    }

    /// Gives a zspage back that was made for an object and has got none, if there is one; whether there was.
    pub(crate) fn destroy_one_unused(self) -> bool {
        let unused = self.group(0).take(UNUSED_MAX).find(|&id| self.is_unused(id));
        let is_there = unused.is_some();
        if let Some(unused) = unused {
            self.destroy_if_unused(unused);
        }
        is_there
    }

    /// Gives all zspages without objects back, in a child: whoever was about them is lost.
    pub(crate) fn release_unused(self) {
        let (parts, class) = (self.parts(), self.class());
        let unused: Vec<_> = self.group(0).collect();
        drop(self);
        for id in unused {
            Locked::new(parts, class).release(id);
        }
    }

    /// Whether a zspage has neither objects nor pages, and no one is about it.
    fn is_unused(&self, id: ExtentId) -> bool {
        let head = self.head(id);
        head.inuse() == 0 && !head.is_busy() && head.committed.is_empty()
    }

    pub(crate) fn destroy_if_unused(mut self, id: ExtentId) {
        if self.is_unused(id) {
            let zspage = self.remove(id);
            let (parts, class) = (self.parts(), self.class());
            drop(self);
            parts.memory.destroy(class, zspage);
        }
    }
}
