//! Fork: the pool is locked before it, and repaired in the child on first use.
//!
//! While all locks are held, other threads can have left only the following unfinished:
//! - Objects that no entry names yet or any more.
//! - Locked entries.
//! - Slots withheld for a release.
//! - Zspages in no list.
//! - Handle slots that are taken, but hold nothing yet.
//!
//! The child has none of those threads, so it frees such objects, unlocks all entries, and rebuilds
//! lists and counts. (A header that was taken and not yet given to a zspage stays lost.)
//!
//! The thread that forks waits for none of these locks, because it is not inside a call of the
//! pool. Its guards hold nothing in the child (`ForkStamp`), and can only be dropped there.
//!
//! A pool whose pages are not `in_children` has no objects in a child. Then nothing is repaired:
//! counts stay as they were, every request is refused, and no call waits for an operation that a
//! lost thread had begun. The pool detects this by comparing generations of processes, so it needs
//! no fork handler.
//!
//! # Safety
//! The functions that repair are unsafe, because they unlock and free on behalf of lost threads.
//! `is_in_child` establishes that those threads are lost, and `repairing` that one thread repairs
//! before any other uses the pool.
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
    // SAFETY: `at_fork` reads no entry.
    unsafe { inner.entries_as_found().at_fork(step) };
    inner.plan.at_fork(step);
    inner.classes.iter().for_each(|class| class.state.at_fork(step));
    inner.memory.at_fork(step);
}

/// A pool in which nothing is left to repair, or that is left behind, where nothing is repaired. It
/// is the only way to the pool's entries. It must not be kept beyond the current call, because a
/// fork may follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here<'p>(&'p PoolInner);

impl<'p> Here<'p> {
    /// Returns the pool itself, which may be kept.
    #[inline]
    pub(crate) fn inner(self) -> &'p PoolInner {
        self.0
    }

    #[inline]
    pub(crate) fn entries(self) -> &'p Table {
        // SAFETY: `ensure_here` or `try_repair` made this, and repaired the entries if necessary.
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

/// Repairs the state that lost threads left behind, on the first use in a child. Does not use the
/// heap, because it may run while a page fault is handled. Every use of the pool begins here.
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

/// As [`ensure_here`], for callers that have no error to return; panics instead.
#[inline]
pub(crate) fn expect_here(inner: &PoolInner) -> Here<'_> {
    match ensure_here(inner) {
        Ok(here) => here,
        Err(error) => panic!("{error}"),
    }
}

/// As [`ensure_here`], for statistics: those of a pool that is left behind stay as they were.
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
        // SAFETY: this is a child that has the pages, and `repairing` is held, so other threads
        // wait for it.
        unsafe { repair(inner) };
    }
    Ok(())
}

/// Repairs the pool.
///
/// # Safety
/// This is a child that lacks all other threads of its parent, and no other thread uses the pool.
unsafe fn repair(inner: &PoolInner) {
    // SAFETY: guaranteed by the caller. The locks that this thread held before the fork are stale.
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
    // SAFETY: guaranteed by the caller.
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

/// Returns the length of the object at `offset` if entry `index` names it.
fn len_named(entries: &Table, index: u32, offset: u64) -> Option<usize> {
    let place = entries.peek(index, |entry, _| entry.peek().decode())?.ok()?;
    (place.offset == offset).then_some(place.len)
}

/// Adds a zspage to the lists, which are being rebuilt, without the objects that no entry names.
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
    // SAFETY: guaranteed by the caller; `named` checks the entry.
    unsafe { header.repair(named) };
    locked.insert_repaired(id);
}
