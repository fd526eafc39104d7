//! A thread that prefaults pages, so that stores take no page fault.
//!
//! ```text
//!   store --next slot of the zspage lies on a page that is not committed--> class wants one more
//!   thread, now and then: too much is retained --> released, many at a time
//!                        class wants pages --> committed, retained --> prefaulted, many at a time
//!           nothing wanted for a moment: all retained pages are released; later the thread ends
//! ```
//! Prefaulted pages are retained pages, like pages whose objects were all freed or moved. A zspage
//! is *busy* while its pages are being prefaulted or released. If zspages were not marked as busy,
//! a page could be released and then populated, and its memory would not be charged.
#![allow(unsafe_code)]

use crate::class::Class;
use crate::fork::repaired_or_err;
use crate::inner::PoolInner;
use crate::policy::{self, IDLE, PREFAULT_AHEAD, QUIET_TICKS};
use crate::purge::{for_each_in_flight, purge_all, purge_excess};
use crate::retained::{InFlight, ReleaseScope, no_batch, pages_of};
use crate::search::first_with_room;
use crate::worker::{Wake, Worker};
use page::PageSet;
use std::sync::Weak;

/// The main function of the prefault thread.
pub(crate) fn run_prefaulter(weak: &Weak<PoolInner>, worker: &Worker) {
    while worker.wait(IDLE, true) == Wake::Notified {
        worker.set_awake(true);
        let mut quiet = 0;
        while quiet < QUIET_TICKS {
            let Some(inner) = weak.upgrade() else { return };
            if repaired_or_err(&inner).is_err() {
                return;
            }
            quiet = if purge_and_prefault(&inner) { 0 } else { quiet + 1 };
            drop(inner);
            if worker.rest(policy::tick(quiet)) {
                return;
            }
        }
        worker.set_awake(false);
        let Some(inner) = weak.upgrade() else { return };
        purge_all(&inner, &inner.retained.wait_for_purge_job());
        // A thread that requested a page just before `set_awake(false)` did not wake this thread,
        // so this thread checks again.
        if purge_and_prefault(&inner) {
            worker.set_awake(true);
        }
    }
}

/// Releases surplus retained pages and prefaults requested pages. Returns whether any page was
/// surplus or requested.
fn purge_and_prefault(inner: &PoolInner) -> bool {
    let has_purged = purge_excess(inner, usize::MAX);
    let Some(_alone) = inner.retained.begin_purge_job() else { return true };
    let fetching = ReleaseScope::begin(&inner.retained);
    let wanting = inner.classes.iter().map(|class| (class, inner.retained.take_wanted(class)));
    let wanting = wanting.filter(|&(_, wanted)| wanted > 0);
    let begun =
        wanting.map(|(class, wanted)| begin_prefault(inner, class, wanted * PREFAULT_AHEAD));
    let mut begun = begun.peekable();
    let is_wanted = begun.peek().is_some();
    let mut begun = begun.flatten();
    loop {
        let mut batch = no_batch();
        let places = batch.iter_mut().zip(&mut begun);
        if places.map(|(place, fetch)| *place = Some(fetch)).count() == 0 {
            return has_purged || is_wanted;
        }
        inner.memory.space.populate(pages_of(&batch));
        // SAFETY: `begin_prefault` marked these zspages as busy for this thread, and the pages are
        // populated.
        for_each_in_flight(inner, &batch, |locked, id, _| unsafe { locked.end_busy(id) });
        fetching.note(&batch);
    }
}

/// Commits at most `most` pages for the next objects of the class, and marks them as being
/// prefaulted.
fn begin_prefault(inner: &PoolInner, class: &Class, most: u32) -> Option<InFlight> {
    let mut locked = inner.lock(class);
    let (id, slot, header) =
        first_with_room(&locked).filter(|(.., header)| !header.fixed().is_busy())?;
    let committed = header.fixed().committed();
    let pages = class.grid().pages_of(slot).start..class.pages();
    let mut coming = PageSet::default();
    for page in pages.filter(|&page| !committed.contains(page)).take(most as usize) {
        if !inner.may_prefault(coming.len()) || inner.memory.space.charge(1).is_err() {
            break;
        }
        coming.insert(page..page + 1);
    }
    if coming.is_empty() {
        return None;
    }
    locked.begin_prefault(id, &coming);
    Some((id, coming))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering::SeqCst;
    use crate::{Columns, Config, EntryPool};
    use page::{Request, Supply};
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, OnceLock};

    /// A supply that counts the commits during which other threads can't see that a prefault is
    /// under way. A thread that finds no retained page must be able to see this.
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
                let retained = &pool.inner().retained;
                let is_unseen = !retained.is_release_under_way(retained.released());
                self.pages.fetch_add(pages, SeqCst);
                self.unseen.fetch_add(usize::from(is_unseen), SeqCst);
            }
            true
        }
    }

    /// Pages that are being prefaulted are charged, but not available yet. So a store that reaches
    /// the limit must wait for these pages.
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
        inner.classes.iter().for_each(|class| inner.retained.want(class));
        let before = inner.retained.released();
        assert!(purge_and_prefault(inner));
        let (pages, unseen) = (looks.pages.load(SeqCst), looks.unseen.load(SeqCst));
        assert!(pages > 0, "nothing was prefaulted");
        assert_eq!(unseen, 0, "of {pages} pages");
        let released = inner.retained.released();
        assert_eq!(released - before, pages, "those are on offer now");
        assert!(!inner.retained.is_release_under_way(released));
        pool.check();
    }
}
