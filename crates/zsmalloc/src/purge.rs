//! Purging releases retained pages. The pool purges if too many pages are retained, or if another
//! class or a store needs pages.
//!
//! A release is a system call, so the thread holds no lock during the call. Objects must not be
//! stored on pages during their release, so all slots on these pages are withheld. Only one thread
//! at a time releases pages of a zspage.
#![allow(unsafe_code)]

use crate::class::Class;
use crate::class_guard::ClassGuard;
use crate::inner::PoolInner;
use crate::policy::{self, OFFERS_LOOKED_AT, PURGE_BY_FREE, UNUSED_LOOKED_AT};
use crate::retained::{InFlight, ReleaseScope, no_batch, pages_of};
use crate::sync::JobGuard;
use page::{ExtentId, PageSet};

/// Makes the prefault thread release pages if more pages are retained than allowed. If the prefault
/// thread is not enabled, or is too slow, the caller releases pages itself. The caller holds no
/// lock.
pub(crate) fn relax(inner: &PoolInner) {
    let retained = inner.retained.pages();
    let most = policy::retained_max(inner.used(), inner.retained.prefaulted());
    if retained > most {
        inner.prefaulter.notify();
        if !inner.prefaulter.is_enabled() || retained > 2 * most {
            purge_excess(inner, PURGE_BY_FREE);
        }
    }
}

/// If more pages are retained than allowed, releases at most about `most` pages. Returns whether
/// any page was released. The caller holds no lock.
pub(crate) fn purge_excess(inner: &PoolInner, most: usize) -> bool {
    let mut total = 0;
    // If another thread has the job, this thread leaves the work to the other thread. The other
    // thread checks for surplus pages again after it has dropped its guard.
    while total < most
        && let Some(wanted) = excess(inner)
        && let Some(alone) = inner.retained.begin_purge_job()
    {
        let gone = purge(inner, wanted.min(most - total));
        drop(alone);
        total += gone;
        if gone == 0 {
            break;
        }
    }
    total > 0
}

/// Returns the number of pages to release, or `None` if no more pages are retained than allowed.
fn excess(inner: &PoolInner) -> Option<usize> {
    let retained = inner.retained.pages();
    policy::purge_target(inner.used(), inner.retained.prefaulted(), retained)
}

/// Releases all retained pages, and destroys zspages that were created for an object but never
/// used. Returns the number of pages released.
pub(crate) fn purge_all(inner: &PoolInner, _alone: &JobGuard<'_>) -> usize {
    inner.retained.forget_wanted();
    let pages = purge(inner, usize::MAX);
    for class in &inner.classes {
        while destroy_one_unused(inner.lock(class)) {}
    }
    pages
}

/// Destroys a zspage of the class that was created for an object but never used. Returns whether a
/// zspage was destroyed.
pub(crate) fn destroy_one_unused(locked: ClassGuard<'_>) -> bool {
    let unused = locked.group(0).take(UNUSED_LOOKED_AT).find(|&id| locked.is_unused(id));
    unused.inspect(|&id| locked.destroy_if_unused(id)).is_some()
}

/// Releases `wanted` retained pages, or a few more. Returns the number of pages released.
pub(crate) fn purge(inner: &PoolInner, wanted: usize) -> usize {
    if inner.retained.pages() == 0 {
        return 0;
    }
    let releasing = ReleaseScope::begin(&inner.retained);
    let mut from = 0;
    let mut total = 0;
    while total < wanted && inner.retained.pages() > 0 {
        let mut batch = no_batch();
        let mut pages = 0;
        for place in &mut batch {
            if total + pages < wanted {
                *place = next_offer(inner, &mut from);
            }
            pages += place.as_ref().map_or(0, |(_, pages)| pages.len() as usize);
        }
        // SAFETY: `next_offer` has just begun all releases of the batch by `begin_release` of this
        // pool.
        let gone = unsafe { give_back(inner, &batch, &releasing) };
        if gone == 0 {
            break;
        }
        total += gone;
    }
    inner.retained.correct_prefaulted();
    total
}

/// Begins to release the retained pages of one zspage, in the first class at or after `from` that
/// offers retained pages. Sets `from` to the class at which the next call continues.
fn next_offer(inner: &PoolInner, from: &mut usize) -> Option<InFlight> {
    while let Some(position) = inner.retained.first_offer(*from) {
        *from = position;
        if let Some(begun) = begin_any_release(&mut inner.lock(&inner.classes[position])) {
            return Some(begun);
        }
        *from = position + 1;
    }
    None
}

/// Begins to release retained pages of a class. Chooses the emptiest of the first few zspages that
/// offer retained pages.
fn begin_any_release(locked: &mut ClassGuard<'_>) -> Option<InFlight> {
    let some = locked.offering().take(OFFERS_LOOKED_AT);
    let emptiest = some.min_by_key(|&id| locked.fixed_header(id).inuse())?;
    Some(locked.begin_release(emptiest))
}

/// Releases pages whose slots are withheld, and destroys zspages that become empty. Returns the
/// number of pages released.
///
/// # Safety
/// `ClassGuard::begin_release` of this pool returned the whole batch, and no page of the batch has
/// been released yet.
unsafe fn give_back(
    inner: &PoolInner,
    batch: &[Option<InFlight>],
    releasing: &ReleaseScope<'_>,
) -> usize {
    // SAFETY: `begin_release` withheld all slots on these pages until `end_release` below, so no
    // object lies there.
    unsafe { inner.memory.release(pages_of(batch)) };
    // SAFETY: the caller guarantees that `begin_release` returned this batch, and `release` has
    // finished.
    for_each_in_flight(inner, batch, |locked, id, gone| unsafe { locked.end_release(id, gone) });
    releasing.note(batch)
}

/// Calls `end` for each zspage of the batch, with its class locked. The zspages still exist,
/// because they are busy.
pub(crate) fn for_each_in_flight(
    inner: &PoolInner,
    batch: &[Option<InFlight>],
    end: impl Fn(ClassGuard<'_>, ExtentId, &PageSet),
) {
    for (id, pages) in pages_of(batch) {
        end(inner.lock(inner.class_of_zspage(id)), id, pages);
    }
}

/// Drops the class's lock after pages of zspage `id` have lost their last objects. The pages become
/// retained pages. If the pool then has too many retained pages, releases some of them.
pub(crate) fn retain(inner: &PoolInner, locked: ClassGuard<'_>, id: ExtentId) {
    // In the kernel's geometry an empty zspage is freed immediately, as in the kernel.
    if locked.class().commits_whole {
        release(inner, locked, id);
    } else {
        drop(locked);
        relax(inner);
    }
}

/// Releases all retained pages of a zspage, and destroys the zspage if it becomes empty. Does
/// nothing if another thread is releasing or prefaulting pages of this zspage.
pub(crate) fn release(inner: &PoolInner, mut locked: ClassGuard<'_>, id: ExtentId) {
    if !locked.fixed_header(id).has_offer() {
        return locked.destroy_if_unused(id);
    }
    let releasing = ReleaseScope::begin(&inner.retained);
    let begun = locked.begin_release(id);
    drop(locked);
    // SAFETY: `begin_release` has just returned `begun`.
    unsafe { give_back(inner, &[Some(begun)], &releasing) };
}

/// In a child of fork, releases all zspages of a class that have no objects. The child lacks the
/// threads that would have released these zspages.
pub(crate) fn release_unused(inner: &PoolInner, class: &Class) {
    let mut before = None;
    loop {
        let locked = inner.lock(class);
        // If the loop finds the same zspage again, that zspage could not be destroyed, and the loop
        // ends.
        let unused = locked.group(0).next().filter(|id| before != Some(*id));
        let Some(id) = unused else { return };
        before = unused;
        release(inner, locked, id);
    }
}
