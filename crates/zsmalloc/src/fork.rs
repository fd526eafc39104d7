//! Fork: the pool is held still before it, and mended in the child, when it is used there first.
//!
//! With all locks held, what other threads were about can only be: an object staged that no word names yet,
//! or one that no word names any more; a word locked; slots held for a release; a zspage in no list; a cell
//! taken for nothing yet. The child has none of those threads, so it frees such objects, unlocks all words,
//! and makes lists and counts anew. (A body that was taken and not yet given to a zspage stays lost.)
//!
//! The thread that forks has no pin and no lock of the pool.

use crate::body::Body;
use crate::class::ClassState;
use crate::locked::Locked;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::{Core, Owner};
use page::ExtentId;
use page::fork::Forks;

impl<O: Owner + Send> Forks for Core<O> {
    fn hold(&self) {
        let parts = self.parts();
        parts.background.hold();
        parts.mending.hold();
        self.owner().hold();
        parts.classes.iter().for_each(|class| class.state.hold());
        parts.memory.hold();
    }

    fn let_go(&self) {
        let parts = self.parts();
        parts.memory.let_go();
        parts.classes.iter().for_each(|class| class.state.let_go());
        self.owner().let_go();
        parts.mending.let_go();
        parts.background.let_go();
    }

    fn let_go_in_child(&self) {
        self.let_go();
        self.parts().background.forget_thread();
        self.parts().lost_threads.store(true, Release);
    }
}

impl<O: Owner> Core<O> {
    /// The first use in a child mends what lost threads left. Everything that looks at the pool begins here.
    pub(crate) fn whole(&self) {
        if self.parts().lost_threads.load(Acquire) {
            self.mend();
        }
    }

    #[cold]
    fn mend(&self) {
        let parts = self.parts();
        let _one = parts.mending.lock();
        if !parts.lost_threads.load(Acquire) {
            return;
        }
        self.owner().mend();
        for class in &parts.classes {
            *class.state.lock() = ClassState::default();
        }
        parts.ready.store(0, Relaxed);
        parts.compacting.store(false, Relaxed);
        parts.releases.store(0, Relaxed);
        let space = &parts.memory.space;
        for id in space.live().collect::<Vec<_>>() {
            let class = &parts.classes[space.extent(id).tag() as usize];
            Locked::new(parts, class).mend(id, |index, offset| self.names(index, offset));
        }
        parts.memory.mend();
        parts.lost_threads.store(false, Release);
    }

    /// Whether word `index` names the object at `offset`.
    fn names(&self, index: u32, offset: u64) -> bool {
        let place = self.owner().words().with(index, |word, _| word.peek().decode());
        matches!(place, Some(Ok(place)) if place.offset == offset)
    }
}

impl Locked<'_> {
    /// Takes zspage `id` into the lists, which are made anew, without what no word names.
    fn mend(mut self, id: ExtentId, names: impl Fn(u32, u64) -> bool) {
        let (parts, class) = (self.parts(), self.class());
        let extent = parts.memory.space.extent(id);
        if extent.data.body.load(Relaxed).is_null() {
            // Made or destroyed but for one step; it has no pages.
            return parts.memory.space.free(id);
        }
        extent.data.reset();
        let inuse = keep_named(self.body(id), |slot, index| names(index, self.offset(id, slot)));
        extent.data.set_inuse(inuse);
        for page in (0..extent.pages()).filter(|&page| extent.committed().contains(page)) {
            if !self.is_live(id, page, inuse) {
                extent.data.ready.insert(page..page + 1);
            }
        }
        parts.ready.fetch_add(extent.data.ready.len() as usize, Relaxed);
        self.state.inuse += inuse as u64;
        self.state.committed += extent.committed().len() as u64;
        self.state.ready += extent.data.ready.len() as u64;
        self.link(id, class.group(inuse));
        if inuse == 0 {
            self.release(id);
        }
    }
}

/// Frees the slots of a body that are held, or whose owner's word does not name them; how many stay.
fn keep_named(body: Body<'_>, named: impl Fn(u32, u32) -> bool) -> u32 {
    let mut kept = 0;
    for slot in (0..body.owners.len() as u32).filter(|&slot| body.is_taken(slot)) {
        match body.owner(slot) {
            Some(index) if named(slot, index) => kept += 1,
            _ => body.give(slot),
        }
    }
    kept
}
