//! Pages prefaulted, by a thread: whoever stores finds them there, and spares himself the page
//! fault.
//!
//! ```text
//!   store --next slot of the zspage lies on a page that is not committed--> class wants one more
//!   thread, now and then: too much is retained --> given back, many at a time
//!                        class wants pages --> committed, retained --> prefaulted, many at a time
//!           nothing wanted for a moment: all that is retained goes, and then the thread
//! ```
//! Prefaulted pages are retained pages, as those are that objects have left. While a zspage's are
//! being prefaulted it is *busy*, as while they are given back: else one that was given back could
//! be prefaulted after.

use crate::EntryPool;
use crate::Error;
use crate::class::Class;
use crate::class_guard::ClassGuard;
use crate::inner::PoolInner;
use crate::retained::{InFlight, ReleaseScope, no_batch, pages_of};
use crate::sync::JobGuard;
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::worker::{IDLE, Wake, Worker};
use page::heap::boxed;
use page::{ExtentId, PageSet, Supply};
use std::sync::Weak;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

/// How soon the thread looks again ...
const TICK: Duration = Duration::from_micros(500);
/// ... and twice as late each time that there is nothing to do, until there was nothing this often:
/// 64 ms.
const QUIET_TICKS: u32 = 7;
/// Below so many pages, a pool has no use for a thread.
const POOL_MIN: usize = 256;
/// Most pages of a class that are prefaulted at a time: twice as many as it wanted since the last.
const WANTED_MAX: u8 = 32;

/// How many pages each class wants.
#[derive(Debug)]
pub(crate) struct Wanted(Box<[AtomicU8]>);

impl Wanted {
    pub(crate) fn new(classes: usize, supply: Option<&dyn Supply>) -> Result<Self, Error> {
        Ok(Wanted(boxed(supply, (0..classes).map(|_| AtomicU8::new(0)))?))
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Takes note that the class wants a page more. (Of two at the same time one may be forgotten.)
    fn want(&self, class: &Class) {
        let wanted = &self.0[class.position as usize];
        wanted.store((wanted.load(Relaxed) + 1).min(WANTED_MAX), Relaxed);
    }

    /// Nothing is wanted.
    pub(crate) fn forget(&self) {
        self.0.iter().for_each(|wanted| wanted.store(0, Relaxed));
    }

    /// What the class wanted since this was last asked.
    fn take(&self, class: &Class) -> u32 {
        let wanted = &self.0[class.position as usize];
        if wanted.load(Relaxed) == 0 { 0 } else { wanted.swap(0, Relaxed).into() }
    }
}

impl EntryPool {
    /// What the thread does.
    pub(crate) fn run_prefaulter(weak: &Weak<Self>, worker: &Worker) {
        while worker.wait(IDLE, true) == Wake::Notified {
            worker.set_awake(true);
            let mut quiet = 0;
            while quiet < QUIET_TICKS {
                let Some(pool) = weak.upgrade() else { return };
                if pool.ensure_here().is_err() {
                    return;
                }
                quiet = if pool.inner().purge_and_prefault() { 0 } else { quiet + 1 };
                drop(pool);
                if worker.rest(TICK * (1 << quiet)) {
                    return;
                }
            }
            worker.set_awake(false);
            let Some(pool) = weak.upgrade() else { return };
            pool.trim();
            // Who wanted something just before it was to be woken again woke no one.
            if pool.inner().purge_and_prefault() {
                worker.set_awake(true);
            }
        }
    }
}

impl PoolInner {
    /// Takes note that the next object of a class will lie on a page that is not there yet.
    pub(crate) fn request_page(&self, class: &Class) {
        if self.prefaulter.is_enabled() && self.memory.space.budget().used() >= POOL_MIN {
            self.wanted.want(class);
            self.prefaulter.notify();
        }
    }

    /// Gives back what too much is retained, prefaults what is wanted; whether there was anything
    /// to do.
    fn purge_and_prefault(&self) -> bool {
        let eased = self.purge_excess();
        let Some(_alone) = JobGuard::begin(&self.tending) else { return true };
        let fetching = ReleaseScope::begin(self);
        let wanting = self.classes.iter().map(|class| (class, self.wanted.take(class)));
        let wanting = wanting.filter(|&(_, wanted)| wanted > 0);
        let begun =
            wanting.map(|(class, wanted)| ClassGuard::new(self, class).begin_prefault(wanted * 2));
        let mut begun = begun.peekable();
        let is_wanted = begun.peek().is_some();
        let mut begun = begun.flatten();
        loop {
            let mut batch = no_batch();
            let places = batch.iter_mut().zip(&mut begun);
            if places.map(|(place, fetch)| *place = Some(fetch)).count() == 0 {
                return eased || is_wanted;
            }
            let fetch = || self.memory.space.populate(pages_of(&batch));
            self.with_in_flight(&batch, fetch, |locked, id, _| locked.end_busy(id));
            fetching.note(&batch);
        }
    }
}

impl ClassGuard<'_> {
    /// Commits up to `most` pages that the next objects of the class will lie on, which are to be
    /// prefaulted.
    fn begin_prefault(mut self, most: u32) -> Option<InFlight> {
        let (id, slot, header) =
            self.first_with_room().filter(|(.., header)| !header.fixed.is_busy())?;
        let head = header.fixed;
        let pages = self.class().pages_of(slot).start..self.class().pages();
        let prefaulted = PageSet::default();
        let missing = pages.filter(|&page| !head.committed.contains(page)).take(most as usize);
        for page in missing {
            if !self.inner().may_prefault(prefaulted.len())
                || self.inner().memory.space.charge(1).is_err()
            {
                break;
            }
            prefaulted.insert(page..page + 1);
        }
        for pages in prefaulted.runs() {
            head.committed.insert(pages.clone());
            head.retained.insert(pages);
        }
        let count = prefaulted.len();
        let had_offer = head.retained.len() > count;
        head.set_busy(count > 0);
        self.update_offer(id, had_offer);
        self.state.committed += count;
        self.state.retained += count;
        self.inner().prefaulted.fetch_add(count as usize, Relaxed);
        self.inner().retained.fetch_add(count as usize, SeqCst);
        (count > 0).then_some((id, prefaulted))
    }

    /// Pages of a zspage are no longer being given back or prefaulted.
    pub(crate) fn end_busy(mut self, id: ExtentId) {
        self.fixed_header(id).set_busy(false);
        self.update_offer(id, false);
        self.destroy_if_unused(id);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Columns, Config};
    use page::Request;
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, OnceLock};

    /// Looks, with each page that is committed, whether a prefault is seen by those who find no
    /// page on offer.
    #[derive(Debug, Default)]
    struct Looks {
        pool: OnceLock<Weak<EntryPool>>,
        pages: AtomicUsize,
        unseen: AtomicUsize,
    }

    impl Supply for Looks {
        fn grant(&self, request: Request) -> bool {
            if let Request::Commit { pages } = request
                && let Some(pool) = self.pool.get().and_then(Weak::upgrade)
            {
                let is_unseen = pool.inner().releases.load(SeqCst) == 0;
                self.pages.fetch_add(pages, SeqCst);
                self.unseen.fetch_add(usize::from(is_unseen), SeqCst);
            }
            true
        }
    }

    /// Pages that are being prefaulted are in use and on no offer: a store that meets the limit
    /// then is to wait for them.
    #[test]
    fn a_prefault_is_seen_by_who_meets_the_limit() {
        let looks = Arc::new(Looks::default());
        let pages = page::Config { supply: Some(looks.clone()), ..page::Config::default() };
        let config = Config { pages, ..Config::default() };
        let pool = Arc::new(EntryPool::new(config, 1000, Columns::default()).unwrap());
        for index in 0..1000 {
            assert!(pool.lock(index).unwrap().store(&[7; 3000], 0).is_ok());
        }
        assert!(looks.pool.set(Arc::downgrade(&pool)).is_ok());
        let inner = pool.inner();
        inner.classes.iter().for_each(|class| inner.wanted.want(class));
        let before = inner.released.load(SeqCst);
        assert!(inner.purge_and_prefault());
        let (pages, unseen) = (looks.pages.load(SeqCst), looks.unseen.load(SeqCst));
        assert!(pages > 0, "nothing was prefaulted");
        assert_eq!(unseen, 0, "of {pages} pages");
        assert_eq!(inner.released.load(SeqCst) - before, pages, "those are on offer now");
        assert_eq!(inner.releases.load(SeqCst), 0);
        pool.check();
    }
}
