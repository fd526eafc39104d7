//! Fork: the pool is held still before it, and mended in the child, when it is used there first.
//!
//! With all locks held, what other threads were about can only be: an object staged that no word names yet,
//! or one that no word names any more; a word locked; slots held for a release; a zspage in no list; a cell
//! taken for nothing yet. The child has none of those threads, so it frees such objects, unlocks all words,
//! and makes lists and counts anew. (A body that was taken and not yet given to a zspage stays lost.)
//!
//! The thread that forks waits for none of these locks: it is not amid a call of the pool. What it has pinned, locked
//! or staged holds nothing in the child (`Since`), where it can only be dropped.
//!
//! A pool whose pages are not `in_children` has no object in a child. Nothing is mended then: counts stay as they
//! were, every request is refused, and nothing is waited for that a lost thread had begun. It knows that by itself,
//! from the generation of the process that made it, whoever holds it over forks.

use crate::class::ClassState;
use crate::locked::Locked;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::zspage::Body;
use crate::{Core, Error, Owner};
use page::ExtentId;
use page::fork::{AtFork, generation};

impl<O: Owner + Send> AtFork for Core<O> {
    fn prepare(&self) {
        let parts = self.parts();
        parts.compactor.lock_for_fork();
        parts.fetcher.lock_for_fork();
        parts.mending.lock_for_fork();
        self.owner().lock_for_fork();
        parts.lock_plan_for_fork();
        parts.classes.iter().for_each(|class| class.state.lock_for_fork());
        parts.memory.lock_for_fork();
    }

    fn in_parent(&self) {
        let parts = self.parts();
        parts.memory.unlock_after_fork();
        parts.classes.iter().for_each(|class| class.state.unlock_after_fork());
        parts.unlock_plan_after_fork();
        self.owner().unlock_after_fork();
        parts.mending.unlock_after_fork();
        parts.fetcher.unlock_after_fork();
        parts.compactor.unlock_after_fork();
    }

    fn in_child(&self) {
        self.in_parent();
        let parts = self.parts();
        parts.compactor.forget_thread();
        parts.fetcher.forget_thread();
    }
}

impl<O: Owner> Core<O> {
    /// Whether a child has the pool's pages too.
    pub fn is_in_children(&self) -> bool {
        self.parts().memory.space.is_in_children()
    }

    /// Whether this is a child, and the pool's pages stayed with the parent: then it refuses everything.
    pub fn is_left_behind(&self) -> bool {
        self.came_over() && !self.is_in_children()
    }

    /// Whether this is a child of the process that made or mended the pool.
    #[inline]
    fn came_over(&self) -> bool {
        self.parts().generation.load(Acquire) != generation()
    }

    /// The first use in a child mends what lost threads left. Everything that uses the pool begins here.
    ///
    /// # Errors
    /// [`Error::LeftBehind`]
    #[inline]
    pub(crate) fn whole(&self) -> Result<(), Error> {
        if self.came_over() { self.come_over() } else { Ok(()) }
    }

    /// The same for those that have no error to return.
    #[inline]
    pub(crate) fn expect_whole(&self) {
        if let Err(error) = self.whole() {
            panic!("{error}");
        }
    }

    /// The same for figures: where the pool is left behind, they are as they were.
    #[inline]
    pub(crate) fn mended(&self) {
        let _left_behind = self.whole();
    }

    #[cold]
    fn come_over(&self) -> Result<(), Error> {
        if !self.is_in_children() {
            return Err(Error::LeftBehind);
        }
        self.mend();
        Ok(())
    }

    fn mend(&self) {
        let parts = self.parts();
        let _one = parts.mending.lock();
        if !self.came_over() {
            return;
        }
        parts.memory.mend_arena();
        self.owner().mend();
        for class in &parts.classes {
            *class.state.lock() = ClassState::default();
            class.population.store(0, Relaxed);
        }
        parts.ready.store(0, Relaxed);
        parts.offers.forget();
        parts.fetched.store(0, Relaxed);
        parts.compacting.store(false, Relaxed);
        parts.releases.store(0, Relaxed);
        parts.tending.store(false, Relaxed);
        let space = &parts.memory.space;
        for id in space.live().collect::<Vec<_>>() {
            let class = &parts.classes[space.extent(id).tag() as usize];
            Locked::new(parts, class).mend(id, |index, offset| self.len_named(index, offset));
        }
        let committed = parts.classes.iter().map(|class| class.state.lock().committed as usize);
        parts.memory.space.recount(committed.sum());
        for class in &parts.classes {
            Locked::new(parts, class).release_unused();
        }
        parts.generation.store(generation(), Release);
    }

    /// Length of the object at `offset`, if word `index` names it.
    fn len_named(&self, index: u32, offset: u64) -> Option<usize> {
        let place = self.owner().words().with(index, |word, _| word.peek().decode())?.ok()?;
        (place.offset == offset).then_some(place.len)
    }
}

impl Locked<'_> {
    /// Takes zspage `id` into the lists, which are made anew, without what no word names.
    fn mend(mut self, id: ExtentId, len_named: impl Fn(u32, u64) -> Option<usize>) {
        let (parts, class) = (self.parts(), self.class());
        let extent = parts.memory.space.extent(id);
        if !extent.data.is_attached() {
            // Made or destroyed but for one step; it has no pages.
            return parts.memory.space.free(id);
        }
        self.head(id).reset();
        let mut inuse = 0;
        keep_named(self.body(id), |slot, index| {
            let len = len_named(index, self.offset(id, slot));
            len.inspect(|&len| {
                inuse += 1;
                parts.changed_len(None, Some(len));
            });
            len.is_some()
        });
        self.head(id).set_inuse(inuse);
        for page in 0..extent.pages() {
            if self.head(id).committed.contains(page) && !self.is_live(self.body(id), page, inuse) {
                self.head(id).ready.insert(page..page + 1);
            }
        }
        let (committed, ready) = (self.head(id).committed.len(), self.head(id).ready.len());
        parts.ready.fetch_add(ready as usize, Relaxed);
        self.state.zspages += 1;
        self.state.inuse += inuse;
        self.state.committed += committed;
        self.state.ready += ready;
        self.link(id, class.group(inuse));
        self.offer(id, false);
    }
}

/// Frees the slots of a body that are held, or whose owner's word does not name them.
fn keep_named(body: Body<'_>, mut named: impl FnMut(u32, u32) -> bool) {
    for slot in (0..body.owners.len() as u32).filter(|&slot| body.is_taken(slot)) {
        if !body.owner(slot).is_some_and(|index| named(slot, index)) {
            body.give(slot);
        }
    }
}
