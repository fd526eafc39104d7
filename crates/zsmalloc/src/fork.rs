//! Fork: the pool is held still before it, and repaired in the child, when it is used there first.
//!
//! With all locks held, what other threads were about can only be: an object staged that no entry
//! names yet, or one that no entry names any more; an entry locked; slots held for a release; a
//! zspage in no list; a handle slot taken for nothing yet. The child has none of those threads, so
//! it frees such objects, unlocks all entries, and makes lists and counts anew. (A header that was
//! taken and not yet given to a zspage stays lost.)
//!
//! The thread that forks waits for none of these locks: it is not amid a call of the pool. What it
//! has pinned, locked or staged holds nothing in the child (`Since`), where it can only be dropped.
//!
//! A pool whose pages are not `in_children` has no object in a child. Nothing is repaired then:
//! counts stay as they were, every request is refused, and nothing is waited for that a lost thread
//! had begun. It knows that by itself, from the generation of the process that made it, whoever
//! holds it over forks.

use crate::class::ClassState;
use crate::class_guard::ClassGuard;
use crate::inner::PoolInner;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::zspage::Header;
use crate::{EntryPool, Error, purge};
use page::ExtentId;
use page::fork::{AtFork, generation};

impl AtFork for EntryPool {
    fn prepare(&self) {
        let inner = self.inner();
        inner.compactor.lock_for_fork();
        inner.prefaulter.lock_for_fork();
        inner.repairing.lock_for_fork();
        self.handles().inspect(|handles| handles.lock_for_fork());
        self.entries().lock_for_fork();
        inner.plan.lock_for_fork();
        inner.classes.iter().for_each(|class| class.state.lock_for_fork());
        inner.memory.lock_for_fork();
    }

    fn in_parent(&self) {
        let inner = self.inner();
        inner.memory.unlock_after_fork();
        inner.classes.iter().for_each(|class| class.state.unlock_after_fork());
        inner.plan.unlock_after_fork();
        self.entries().unlock_after_fork();
        self.handles().inspect(|handles| handles.unlock_after_fork());
        inner.repairing.unlock_after_fork();
        inner.prefaulter.unlock_after_fork();
        inner.compactor.unlock_after_fork();
    }

    fn in_child(&self) {
        self.in_parent();
        let inner = self.inner();
        inner.compactor.forget_thread();
        inner.prefaulter.forget_thread();
    }
}

impl EntryPool {
    /// Whether a child has the pool's pages too.
    pub fn is_in_children(&self) -> bool {
        self.inner().memory.space.is_in_children()
    }

    /// Whether this is a child, and the pool's pages stayed with the parent: then it refuses
    /// everything.
    pub fn is_left_behind(&self) -> bool {
        self.is_in_child() && !self.is_in_children()
    }

    /// Whether this is a child of the process that made or repaired the pool.
    #[inline]
    fn is_in_child(&self) -> bool {
        self.inner().generation.load(Acquire) != generation()
    }

    /// The first use in a child repairs what lost threads left. Everything that uses the pool
    /// begins here.
    ///
    /// # Errors
    /// [`Error::LeftBehind`]
    #[inline]
    pub(crate) fn ensure_here(&self) -> Result<(), Error> {
        if self.is_in_child() { self.repair_in_child() } else { Ok(()) }
    }

    /// The same for those that have no error to return.
    #[inline]
    pub(crate) fn expect_here(&self) {
        if let Err(error) = self.ensure_here() {
            panic!("{error}");
        }
    }

    /// The same for figures: where the pool is left behind, they are as they were.
    #[inline]
    pub(crate) fn try_repair(&self) {
        let _left_behind = self.ensure_here();
    }

    #[cold]
    fn repair_in_child(&self) -> Result<(), Error> {
        if !self.is_in_children() {
            return Err(Error::LeftBehind);
        }
        self.repair();
        Ok(())
    }

    fn repair(&self) {
        let inner = self.inner();
        let _one = inner.repairing.lock();
        if !self.is_in_child() {
            return;
        }
        inner.memory.repair_arena();
        self.entries().repair();
        self.handles().inspect(|handles| handles.repair(self.entries()));
        for class in &inner.classes {
            *class.state.lock() = ClassState::default();
            class.population.store(0, Relaxed);
        }
        inner.retained.reset();
        inner.compaction.is_active.store(false, Relaxed);
        let space = &inner.memory.space;
        for id in space.live().collect::<Vec<_>>() {
            if !space.extent(id).data.is_attached() {
                // Made or destroyed but for one step; it has no pages.
                space.free(id);
                continue;
            }
            let mut locked = inner.lock(inner.class_of_zspage(id));
            repair(inner, &mut locked, id, |index, offset| self.len_named(index, offset));
        }
        let committed = inner.classes.iter().map(|class| class.state.lock().committed as usize);
        inner.memory.space.recount(committed.sum());
        for class in &inner.classes {
            purge::release_unused(inner, inner.lock(class));
        }
        inner.generation.store(generation(), Release);
    }

    /// Length of the object at `offset`, if entry `index` names it.
    fn len_named(&self, index: u32, offset: u64) -> Option<usize> {
        let place = self.entries().peek(index, |entry, _| entry.peek().decode())?.ok()?;
        (place.offset == offset).then_some(place.len)
    }
}

/// Takes zspage `id` into the lists, which are made anew, without what no entry names.
fn repair(
    inner: &PoolInner,
    locked: &mut ClassGuard<'_>,
    id: ExtentId,
    len_named: impl Fn(u32, u64) -> Option<usize>,
) {
    locked.fixed_header(id).reset();
    let mut inuse = 0;
    keep_named(locked.header(id), |slot, index| {
        let len = len_named(index, locked.offset(id, slot));
        len.inspect(|&len| {
            inuse += 1;
            inner.count_len(None, Some(len));
        });
        len.is_some()
    });
    let header = locked.header(id);
    header.fixed.set_inuse(inuse);
    for page in 0..locked.class().pages() {
        if header.fixed.committed.contains(page) && !locked.is_live(header, page, inuse) {
            header.fixed.retained.insert(page..page + 1);
        }
    }
    locked.insert_repaired(id);
}

/// Frees the slots of a header that are withheld, or whose entry does not name them.
fn keep_named(header: Header<'_>, mut named: impl FnMut(u32, u32) -> bool) {
    for slot in (0..header.entries.len() as u32).filter(|&slot| header.is_taken(slot)) {
        if !header.entry(slot).is_some_and(|index| named(slot, index)) {
            header.clear(slot);
        }
    }
}
