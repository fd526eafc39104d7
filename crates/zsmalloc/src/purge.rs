//! Retained pages are given back, when there are more than the pool may retain, or when they are
//! needed.
//!
//! Giving back is a system call, so it is done with no lock held. Meanwhile no one may be given a
//! slot on those pages: their slots are withheld, all of them, by one thread per zspage.
#![allow(unsafe_code)]

use crate::class_guard::ClassGuard;
use crate::inner::PoolInner;
use crate::policy::{self, OFFERS_LOOKED_AT, PURGE_BY_FREE, UNUSED_LOOKED_AT};
use crate::retained::{InFlight, ReleaseScope, no_batch, pages_of};
use crate::sync::JobGuard;
use page::{ExtentId, PageSet};

/// Has pages given back if more are retained than may be: by the thread that does such things, if
/// there is one and it keeps up. Called with no lock held.
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

/// Gives pages back if more are retained than may be, no more than `most`, about. Whether any went.
/// Called with no lock held.
pub(crate) fn purge_excess(inner: &PoolInner, most: usize) -> bool {
    let mut total = 0;
    // A thread that finds another at it leaves the job to that one, which looks once more when it
    // is done.
    while total < most
        && let Some(wanted) = excess(inner)
        && let Some(alone) = inner.retained.tend()
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

/// Returns the pages that are to go, if more are retained than may be.
fn excess(inner: &PoolInner) -> Option<usize> {
    let retained = inner.retained.pages();
    policy::purge_target(inner.used(), inner.retained.prefaulted(), retained)
}

/// Gives all retained pages back, and zspages that were made for objects and got none, and returns
/// how many pages.
pub(crate) fn purge_all(inner: &PoolInner, _alone: &JobGuard<'_>) -> usize {
    inner.retained.forget_wanted();
    let pages = purge(inner, usize::MAX);
    for class in &inner.classes {
        while destroy_one_unused(inner.lock(class)) {}
    }
    pages
}

/// Gives back a zspage that was made for an object and has got none, if there is one, and returns
/// whether there was.
pub(crate) fn destroy_one_unused(locked: ClassGuard<'_>) -> bool {
    let unused = locked.group(0).take(UNUSED_LOOKED_AT).find(|&id| locked.is_unused(id));
    unused.inspect(|&id| locked.destroy_if_unused(id)).is_some()
}

/// Gives retained pages back, `wanted` or a few more, and returns how many.
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
        // SAFETY: `next_offer` made all of it, just now.
        let gone = unsafe { give_back(inner, &batch, &releasing) };
        if gone == 0 {
            break;
        }
        total += gone;
    }
    inner.retained.correct_prefaulted();
    total
}

/// Begins to give back the pages of a zspage of the first class from `from` on that offers some.
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

/// Begins to give back the pages of about the emptiest zspage of the class that offers some.
fn begin_any_release(locked: &mut ClassGuard<'_>) -> Option<InFlight> {
    let some = locked.offering().take(OFFERS_LOOKED_AT);
    let emptiest = some.min_by_key(|&id| locked.fixed_header(id).inuse())?;
    Some(locked.begin_release(emptiest))
}

/// Gives withheld pages back to the system, and zspages that this leaves empty, and returns how
/// many pages.
///
/// # Safety
/// All of the batch is of `ClassGuard::begin_release`, of this pool, and not yet given back.
unsafe fn give_back(
    inner: &PoolInner,
    batch: &[Option<InFlight>],
    releasing: &ReleaseScope<'_>,
) -> usize {
    // SAFETY: their slots were withheld when it began, and are until the end below.
    unsafe { inner.memory.release(pages_of(batch)) };
    // SAFETY: it was begun as the caller says, and the pages went just now.
    for_each_in_flight(inner, batch, |locked, id, gone| unsafe { locked.end_release(id, gone) });
    releasing.note(batch)
}

/// Calls `end` with the class of each of the zspages, which stay as long as they are busy.
pub(crate) fn for_each_in_flight(
    inner: &PoolInner,
    batch: &[Option<InFlight>],
    end: impl Fn(ClassGuard<'_>, ExtentId, &PageSet),
) {
    for (id, pages) in pages_of(batch) {
        end(inner.lock(inner.class_of_zspage(id)), id, pages);
    }
}

/// Has the pages of a zspage on which nothing lives any more given back, soon and with others, if
/// there are more of them than the pool may retain.
pub(crate) fn retain(inner: &PoolInner, locked: ClassGuard<'_>, id: ExtentId) {
    // The kernel gives an empty zspage back at once.
    if locked.class().commits_whole {
        release(inner, locked, id);
    } else {
        drop(locked);
        relax(inner);
    }
}

/// Gives all retained pages of a zspage back to the system, and the zspage if that leaves it empty;
/// none where another thread does it at the moment.
pub(crate) fn release(inner: &PoolInner, mut locked: ClassGuard<'_>, id: ExtentId) {
    if !locked.fixed_header(id).has_offer() {
        return locked.destroy_if_unused(id);
    }
    let releasing = ReleaseScope::begin(&inner.retained);
    let begun = locked.begin_release(id);
    drop(locked);
    // SAFETY: it was begun just now.
    unsafe { give_back(inner, &[Some(begun)], &releasing) };
}

/// Gives all zspages without objects of the class back, in a child: the threads that worked on them
/// are lost.
pub(crate) fn release_unused(inner: &PoolInner, locked: ClassGuard<'_>) {
    let class = locked.class();
    let unused: Vec<_> = locked.group(0).collect();
    drop(locked);
    unused.into_iter().for_each(|id| release(inner, inner.lock(class), id));
}
