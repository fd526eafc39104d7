//! Pages fetched ahead of need, by a thread: whoever stores finds them there, and spares himself the page fault.
//!
//! ```text
//!   store --next slot of the zspage lies on a page that is not committed--> class wants one more
//!   thread, now and then: too much is ready --> given back, many at a time
//!                        class wants pages --> committed, ready --> fetched, many at a time
//!           nothing wanted for a moment: all that is ready goes, and then the thread
//! ```
//! Fetched pages are ready pages, as those are that objects have left. While a zspage's are being fetched it is
//! *busy*, as while they are given back: else one that was given back could be fetched after.

use crate::Core;
use crate::Error;
use crate::class::Class;
use crate::core::Owner;
use crate::locked::Locked;
use crate::parts::{Parts, table_of};
use crate::ready::{OnTheWay, Releasing, no_batch, pages_of};
use crate::sync::Alone;
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::worker::{IDLE, Told, Worker};
use page::{ExtentId, PageSet, Supply};
use std::sync::Weak;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

/// How soon the thread looks again ...
const TICK: Duration = Duration::from_micros(500);
/// ... and twice as late each time that there is nothing to do, until there was nothing this often: 64 ms.
const QUIET_TICKS: u32 = 7;
/// Below so many pages, a pool has no use for a thread.
const POOL_MIN: usize = 256;
/// Most pages of a class that are fetched at a time: twice as many as it wanted since the last.
const PAGES_MAX: u8 = 32;

/// How many pages each class wants.
#[derive(Debug)]
pub(crate) struct Ahead(Box<[AtomicU8]>);

impl Ahead {
    pub(crate) fn new(classes: usize, supply: Option<&dyn Supply>) -> Result<Self, Error> {
        Ok(Ahead(table_of(supply, (0..classes).map(|_| Ok(AtomicU8::new(0))))?))
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Takes note that the class wants a page more. (Of two at the same time one may be forgotten.)
    fn want(&self, class: &Class) {
        let wanted = &self.0[class.position as usize];
        wanted.store((wanted.load(Relaxed) + 1).min(PAGES_MAX), Relaxed);
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

impl<O: Owner + Send + 'static> Core<O> {
    /// What the thread does.
    pub(crate) fn tend(weak: &Weak<Self>, worker: &Worker) {
        while worker.wait(IDLE, true) == Told::Asked {
            worker.set_awake(true);
            let mut quiet = 0;
            while quiet < QUIET_TICKS {
                let Some(core) = weak.upgrade() else { return };
                if core.whole().is_err() {
                    return;
                }
                quiet = if core.parts().ease_and_fetch() { 0 } else { quiet + 1 };
                drop(core);
                if worker.rest(TICK * (1 << quiet)) {
                    return;
                }
            }
            worker.set_awake(false);
            let Some(core) = weak.upgrade() else { return };
            core.trim();
            // Who wanted something just before it was to be woken again woke no one.
            if core.parts().ease_and_fetch() {
                worker.set_awake(true);
            }
        }
    }
}

impl Parts {
    /// Takes note that the next object of a class will lie on a page that is not there yet.
    pub(crate) fn want_page(&self, class: &Class) {
        if self.fetcher.is_enabled() && self.memory.space.budget().used() >= POOL_MIN {
            self.ahead.want(class);
            self.fetcher.ask();
        }
    }

    /// Gives back what too much is ready, fetches what is wanted; whether there was anything to do.
    fn ease_and_fetch(&self) -> bool {
        let eased = self.ease();
        let Some(_alone) = Alone::begin(&self.tending) else { return true };
        let fetching = Releasing::begin(self);
        let wanting = self.classes.iter().map(|class| (class, self.ahead.take(class)));
        let wanting = wanting.filter(|&(_, wanted)| wanted > 0);
        let begun = wanting.map(|(class, wanted)| Locked::new(self, class).begin_fetch(wanted * 2));
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
            self.while_busy(&batch, fetch, |locked, id, _| locked.end_busy(id));
            fetching.note(&batch);
        }
    }
}

impl Locked<'_> {
    /// Commits up to `most` pages that the next objects of the class will lie on, which are to be fetched.
    fn begin_fetch(mut self, most: u32) -> Option<OnTheWay> {
        let (id, slot, body) = self.at_hand().filter(|(.., body)| !body.head.is_busy())?;
        let head = body.head;
        let pages = self.class().pages_of(slot).start..self.class().pages();
        let fetched = PageSet::default();
        let missing = pages.filter(|&page| !head.committed.contains(page)).take(most as usize);
        for page in missing {
            if !self.parts().may_fetch(fetched.len())
                || self.parts().memory.space.charge(1).is_err()
            {
                break;
            }
            fetched.insert(page..page + 1);
        }
        for pages in fetched.runs() {
            head.committed.insert(pages.clone());
            head.ready.insert(pages);
        }
        let count = fetched.len();
        let had_offer = head.ready.len() > count;
        head.set_busy(count > 0);
        self.offer(id, had_offer);
        self.state.committed += count;
        self.state.ready += count;
        self.parts().fetched.fetch_add(count as usize, Relaxed);
        self.parts().ready.fetch_add(count as usize, SeqCst);
        (count > 0).then_some((id, fetched))
    }

    /// Pages of a zspage are no longer being given back or fetched.
    pub(crate) fn end_busy(mut self, id: ExtentId) {
        self.head(id).set_busy(false);
        self.offer(id, false);
        self.destroy_if_unused(id);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Config, Slots};
    use page::Request;
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, OnceLock};

    /// Looks, with each page that is committed, whether a fetch is seen by those who find no page on offer.
    #[derive(Default)]
    struct Looks {
        core: OnceLock<Weak<Core<Slots>>>,
        pages: AtomicUsize,
        unseen: AtomicUsize,
    }

    impl Supply for Looks {
        fn grant(&self, request: Request) -> bool {
            if let Request::Commit { pages } = request
                && let Some(core) = self.core.get().and_then(Weak::upgrade)
            {
                let is_unseen = core.parts().releases.load(SeqCst) == 0;
                self.pages.fetch_add(pages, SeqCst);
                self.unseen.fetch_add(usize::from(is_unseen), SeqCst);
            }
            true
        }
    }

    /// Pages that are being fetched are in use and on no offer: a store that meets the limit then is to wait for them.
    #[test]
    fn a_fetch_is_seen_by_who_meets_the_limit() {
        let looks = Arc::new(Looks::default());
        let pages = page::Config { supply: Some(looks.clone()), ..page::Config::default() };
        let config = Config { pages, ..Config::default() };
        let core = Arc::new(Core::<Slots>::with_slots(config, 1000).unwrap());
        for index in 0..1000 {
            assert!(core.lock(index).unwrap().store(&[7; 3000], 0).is_ok());
        }
        assert!(looks.core.set(Arc::downgrade(&core)).is_ok());
        let parts = core.parts();
        parts.classes.iter().for_each(|class| parts.ahead.want(class));
        let before = parts.released.load(SeqCst);
        assert!(parts.ease_and_fetch());
        let (pages, unseen) = (looks.pages.load(SeqCst), looks.unseen.load(SeqCst));
        assert!(pages > 0, "nothing was fetched");
        assert_eq!(unseen, 0, "of {pages} pages");
        assert_eq!(parts.released.load(SeqCst) - before, pages, "those are on offer now");
        assert_eq!(parts.releases.load(SeqCst), 0);
        core.check();
    }
}
