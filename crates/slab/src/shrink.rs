//! Giving back: a thread's slabs, empty slabs, and pages of others on which nothing lives.
//!
//! ```text
//!   partial --unlisted, as the reserve's: nothing is taken there--> pages without live objects released --> partial
//! ```
//! # Safety
//! - sl-H1: while a slab is the reserve's no object of it is given out: so pages on which none is
//!   live stay so.
#![allow(unsafe_code)]

use crate::bits::RESERVE;
use crate::depot::Depot;
use crate::lists::List;
use crate::sync::Relaxed;
use crate::thread::number;
use page::{ExtentId, PageSet};

impl Depot {
    /// Gives back all that can be: the slabs of this thread, and empty ones. Other threads give up
    /// theirs when they next free. How many slabs went, or wait for a grace period.
    pub(crate) fn shrink(&self) -> usize {
        let before = self.state().slabs();
        self.threads.all().for_each(|thread_slabs| thread_slabs.set_limit(0));
        if let Some(thread_slabs) = self.threads.of(number()) {
            thread_slabs.set_limit(self.threads.tunables().limit);
            self.disown_all_and_end(thread_slabs);
        }
        let mut state = self.state();
        let chain = self.unlink_empty(&mut state, 0);
        let after = state.slabs();
        drop(state);
        self.retire(chain);
        if !self.shape.on_slab && self.red_zones.is_none() && self.options.may_forget() {
            self.release_idle_pages();
        }
        before.saturating_sub(after)
    }

    /// Gives back the pages of partial slabs on which no object lives. They are counted again when
    /// the slab is next taken from.
    fn release_idle_pages(&self) {
        let mut chain = None;
        while let Some(id) = self.unlist_partial(chain) {
            self.release_idle_pages_of(id);
            chain = Some(id);
        }
        let mut state = self.state();
        while let Some(id) = chain {
            // The lock is held, and no thread owns it (sl-K3).
            let slab_ref = self.slab_ref(id);
            chain = slab_ref.next();
            slab_ref.slab.bits(&self.shape).orphan();
            // Whoever freed remotely just before the slab was no one's, and looked for the owner
            // just now (sl-B1).
            slab_ref.drain_remote();
            let list = List::of(slab_ref, &self.shape);
            state.lists.link(id, list, |id| self.slab_ref(id));
        }
        let empty = self.unlink_empty(&mut state, 0);
        drop(state);
        self.retire(empty);
    }

    /// The next partial slab, taken out of its list; `next` hangs behind it.
    fn unlist_partial(&self, next: Option<ExtentId>) -> Option<ExtentId> {
        let mut state = self.state();
        let id = state.lists.first(List::Partial)?;
        // The lock is held, and no thread owns it (sl-K3).
        state.lists.unlink(id, |id| self.slab_ref(id));
        let slab_ref = self.slab_ref(id);
        slab_ref.slab.owner.store(RESERVE, Relaxed);
        slab_ref.set_next(next);
        Some(id)
    }

    fn release_idle_pages_of(&self, id: ExtentId) {
        // Only looked at; what is freed meanwhile makes more pages idle, not fewer (sl-H1).
        let slab_ref = self.slab_ref(id);
        let before = slab_ref.slab.released();
        let pages = PageSet::from_low_bits((slab_ref.idle_pages() & !before).into());
        if !pages.is_empty() {
            // SAFETY: nothing lives on these pages, nor will before the slab is no one's again
            // (sl-H1).
            let released = unsafe { self.arena.space.release(id, &pages) };
            slab_ref.slab.set_released(before | released.low_bits() as u16);
        }
    }
}
