//! The pool is locked before a fork, and repaired on its first use in the child.
//!
//! While the forking thread holds all locks, other threads can have left only the following state
//! unfinished:
//! - Objects to which no entry refers yet, or which are about to be freed.
//! - Locked entries.
//! - Slots withheld for a release.
//! - Zspages in no list.
//! - Handle slots that are taken, but hold no object yet.
//!
//! The child lacks the other threads. So the child frees objects without an entry, unlocks all
//! entries, and rebuilds lists and counts. If a header was allocated but not attached to a zspage
//! yet, its memory is not recovered.
//!
//! The forking thread is not executing a function of the pool. So the forking thread holds no lock
//! of the pool, and can take all locks of the pool. In the child, guards of the forking thread lock
//! nothing (`ForkStamp`), and can only be dropped.
//!
//! If children do not inherit the pages (`in_children` is false), the child's pool is *left
//! behind*: it has no objects, and is not repaired. The counts of such a pool do not change, the
//! pool refuses every request, and no call waits for an operation of a lost thread. Such a pool
//! needs no fork handler, because it recognizes a child by the process's generation.
//!
//! # Safety
//! The functions that repair are unsafe, because they unlock and free entries and objects of lost
//! threads. `is_in_child` establishes that the lost threads do not exist in this process. The lock
//! `repairing` ensures that one thread repairs the pool before other threads use it.
#![allow(unsafe_code)]

use crate::class::ClassState;
use crate::inner::PoolInner;
use crate::sync::Ordering::{Relaxed, Release};
use crate::table::Table;
use crate::zspage::release;
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

/// Takes all locks of the pool before a fork, in the lock order, or releases them after the fork.
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

/// A pool that is repaired, or is left behind and needs no repair. Only this type gives access to
/// the pool's entries. The value must not be kept beyond the current call, because a fork may
/// follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RepairedPool<'p>(&'p PoolInner);

impl<'p> RepairedPool<'p> {
    /// Returns the pool itself, which the caller is allowed to keep after the current call.
    #[inline]
    pub(crate) fn inner(self) -> &'p PoolInner {
        self.0
    }

    #[inline]
    pub(crate) fn entries(self) -> &'p Table {
        // SAFETY: `repaired_or_err` or `repaired_or_left_behind` created this value, and repaired
        // the entries if necessary.
        unsafe { self.0.entries_as_found() }
    }
}

impl Deref for RepairedPool<'_> {
    type Target = PoolInner;

    #[inline]
    fn deref(&self) -> &PoolInner {
        self.0
    }
}

/// Repairs the pool on its first use in a child. Every function of the pool calls this function
/// first. Does not use the heap, because the caller may be handling a page fault.
///
/// # Errors
/// Fails with [`Error::LeftBehind`] if the pool is left behind.
#[inline]
pub(crate) fn repaired_or_err(inner: &PoolInner) -> Result<RepairedPool<'_>, Error> {
    if inner.is_in_child() {
        repair_in_child(inner)?;
    }
    Ok(RepairedPool(inner))
}

/// Repairs the pool as [`repaired_or_err`] does, but panics if the pool is left behind. Functions
/// that can't return an error call this function.
#[inline]
pub(crate) fn repaired_or_panic(inner: &PoolInner) -> RepairedPool<'_> {
    match repaired_or_err(inner) {
        Ok(pool) => pool,
        Err(error) => panic!("{error}"),
    }
}

/// Repairs the pool as [`repaired_or_err`] does, but also returns a pool that is left behind. The
/// statistics of a pool that is left behind do not change after the fork.
#[inline]
pub(crate) fn repaired_or_left_behind(inner: &PoolInner) -> RepairedPool<'_> {
    let _left_behind = repaired_or_err(inner);
    RepairedPool(inner)
}

#[cold]
fn repair_in_child(inner: &PoolInner) -> Result<(), Error> {
    if !inner.memory.space.is_in_children() {
        return Err(Error::LeftBehind);
    }
    let _one = inner.repairing.lock();
    if inner.is_in_child() {
        // SAFETY: this process is a child that has inherited the pages. This thread holds the lock
        // `repairing`, for which other threads wait.
        unsafe { repair(inner) };
    }
    Ok(())
}

/// Repairs entries, zspages, lists and counts.
///
/// # Safety
/// The process is a child that lacks all other threads of its parent, and no other thread uses the
/// pool.
unsafe fn repair(inner: &PoolInner) {
    // SAFETY: the caller guarantees that the lost threads do not exist and that no other thread
    // uses the pool. The locks that this thread held before the fork are stale.
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

/// Returns the length of the object at `offset`, if entry `index` refers to that object.
fn len_named(entries: &Table, index: u32, offset: u64) -> Option<usize> {
    let place = entries.peek(index, |entry, _| entry.peek().decode())?.ok()?;
    (place.offset == offset).then_some(place.len)
}

/// Frees the objects of a zspage to which no entry refers, and adds the zspage to the lists.
///
/// # Safety
/// The preconditions of [`repair`] hold.
unsafe fn repair_zspage(inner: &PoolInner, entries: &Table, id: ExtentId) {
    let mut locked = inner.lock(inner.class_of_zspage(id));
    let header = locked.header(id);
    let named = |slot, index| {
        let len = len_named(entries, index, header.offset(slot));
        inner.count_len(None, len);
        len.is_some()
    };
    // SAFETY: the caller guarantees that no other thread uses the pool, and `named` checks the
    // entry of each object.
    unsafe { release::repair(header, named) };
    locked.insert_repaired(id);
}
