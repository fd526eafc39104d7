//! Fork: the pool is held still before it, and repaired in the child, when it is used there first.
//!
//! With all locks held, what other threads were about can only be: an object staged that no entry
//! names yet, or one that no entry names any more; an entry locked; slots held for a release; a
//! zspage in no list; a handle slot taken for nothing yet. The child has none of those threads, so
//! it frees such objects, unlocks all entries, and makes lists and counts anew. (A header that was
//! taken and not yet given to a zspage stays lost.)
//!
//! The thread that forks waits for none of these locks: it is not amid a call of the pool. What it
//! has pinned, locked or staged holds nothing in the child (`ForkStamp`), where it can only be
//! dropped.
//!
//! A pool whose pages are not `in_children` has no object in a child. Nothing is repaired then:
//! counts stay as they were, every request is refused, and nothing is waited for that a lost thread
//! had begun. It knows that by itself, from the generation of the process that made it, whoever
//! holds it over forks.
//!
//! # Safety
//! What repairs is unsafe: it unlocks, and frees what lost threads had. `is_in_child` says that
//! those are lost, and `repairing` that one thread repairs, before any other uses the pool.
#![allow(unsafe_code)]

use crate::class::ClassState;
use crate::inner::PoolInner;
use crate::sync::Ordering::{Relaxed, Release};
use crate::table::Table;
use crate::{Error, purge};
use page::ExtentId;
use page::fork::{AtFork, Step, generation};
use std::ops::Deref;

impl AtFork for PoolInner {
    fn prepare(&self) {
        at_fork(self, Step::Lock);
    }

    fn in_parent(&self) {
        at_fork(self, Step::Unlock);
    }

    fn in_child(&self) {
        at_fork(self, Step::Unlock);
        self.compactor.forget_thread();
        self.prefaulter.forget_thread();
    }
}

/// Takes or releases all locks of the pool, in their order.
fn at_fork(inner: &PoolInner, step: Step) {
    inner.compactor.at_fork(step);
    inner.prefaulter.at_fork(step);
    inner.repairing.at_fork(step);
    inner.handles.iter().for_each(|handles| handles.at_fork(step));
    // SAFETY: this looks at none.
    unsafe { inner.entries_as_found().at_fork(step) };
    inner.plan.at_fork(step);
    inner.classes.iter().for_each(|class| class.state.at_fork(step));
    inner.memory.at_fork(step);
}

/// A pool in which nothing is left to repair, or that is left behind, where no one repairs. The one
/// way to its entries. No one keeps it beyond the call that asked for it: a fork may come after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here<'p>(&'p PoolInner);

impl<'p> Here<'p> {
    /// Returns the pool, to be kept.
    #[inline]
    pub(crate) fn inner(self) -> &'p PoolInner {
        self.0
    }

    /// Returns the pool's entries.
    #[inline]
    pub(crate) fn entries(self) -> &'p Table {
        // SAFETY: `ensure_here` or `try_repair` made this, and repaired them if need was.
        unsafe { self.0.entries_as_found() }
    }
}

impl Deref for Here<'_> {
    type Target = PoolInner;

    #[inline]
    fn deref(&self) -> &PoolInner {
        self.0
    }
}

/// The first use in a child repairs what lost threads left, without the heap: it may be in what
/// answers a fault. Everything that uses the pool begins here.
///
/// # Errors
/// [`Error::LeftBehind`]
#[inline]
pub(crate) fn ensure_here(inner: &PoolInner) -> Result<Here<'_>, Error> {
    if inner.is_in_child() {
        repair_in_child(inner)?;
    }
    Ok(Here(inner))
}

/// The same for those that have no error to return.
#[inline]
pub(crate) fn expect_here(inner: &PoolInner) -> Here<'_> {
    match ensure_here(inner) {
        Ok(here) => here,
        Err(error) => panic!("{error}"),
    }
}

/// The same for figures: where the pool is left behind, they are as they were.
#[inline]
pub(crate) fn try_repair(inner: &PoolInner) -> Here<'_> {
    let _left_behind = ensure_here(inner);
    Here(inner)
}

#[cold]
fn repair_in_child(inner: &PoolInner) -> Result<(), Error> {
    if !inner.memory.space.is_in_children() {
        return Err(Error::LeftBehind);
    }
    let _one = inner.repairing.lock();
    if inner.is_in_child() {
        // SAFETY: it is a child, which has the pages, and `repairing` is held: others wait for it.
        unsafe { repair(inner) };
    }
    Ok(())
}

/// Repairs the pool.
///
/// # Safety
/// This is a child that lost all other threads, and none uses the pool meanwhile.
unsafe fn repair(inner: &PoolInner) {
    // SAFETY: as the caller says. What this thread had locked before the fork is stale.
    let entries = unsafe {
        inner.memory.repair_arena();
        inner.entries_as_found().repair();
        inner.entries_as_found()
    };
    inner.handles.iter().for_each(|handles| handles.repair(entries));
    for class in &inner.classes {
        *class.state.lock() = ClassState::default();
        class.population.store(0, Relaxed);
    }
    inner.retained.reset();
    inner.compaction.is_active.store(false, Relaxed);
    // SAFETY: as the caller says.
    unsafe {
        inner.memory.free_unattached();
        inner.memory.space.live().for_each(|id| repair_zspage(inner, entries, id));
    }
    let committed = inner.classes.iter().map(|class| class.state.lock().committed as usize);
    inner.memory.space.recount(committed.sum());
    for class in &inner.classes {
        purge::release_unused(inner, class);
    }
    inner.generation.store(generation(), Release);
}

/// Length of the object at `offset`, if entry `index` names it.
fn len_named(entries: &Table, index: u32, offset: u64) -> Option<usize> {
    let place = entries.peek(index, |entry, _| entry.peek().decode())?.ok()?;
    (place.offset == offset).then_some(place.len)
}

/// Takes a zspage into the lists, which are made anew, without what no entry names.
///
/// # Safety
/// As for [`repair`].
unsafe fn repair_zspage(inner: &PoolInner, entries: &Table, id: ExtentId) {
    let mut locked = inner.lock(inner.class_of_zspage(id));
    let header = locked.header(id);
    let named = |slot, index| {
        let len = len_named(entries, index, header.offset(slot));
        inner.count_len(None, len);
        len.is_some()
    };
    // SAFETY: as the caller says; the entry was asked.
    unsafe { header.repair(named) };
    locked.insert_repaired(id);
}
