//! Functions that prefault or release pages of a zspage, or repair a zspage in a child of fork.
//! Slots on pages that are being released are withheld.
//!
//! The safety rules are those of [`zspage`](super).
#![allow(unsafe_code)]

use super::{FixedHeader, Header, WITHHELD};
use crate::sync::Ordering::Relaxed;
use page::{Links, PageSet};

/// Marks the zspage as busy. The calling thread releases or prefaults its pages.
///
/// # Panics
/// Panics if another thread has marked the zspage as busy. The thread that finishes first would
/// clear the mark of the other thread.
fn begin_busy(fixed: &FixedHeader) {
    assert!(!fixed.is_busy(), "two threads give pages of a zspage back, or prefault some");
    fixed.busy.store(1, Relaxed);
}

/// Marks the zspage as no longer busy.
///
/// # Safety
/// The caller marked the zspage as busy, and has finished its work on the pages.
pub(crate) unsafe fn end_busy(fixed: &FixedHeader) {
    fixed.busy.store(0, Relaxed);
}

/// Begins to prefault the pages `coming`, which are retained from now on. Returns the number of
/// these pages.
///
/// # Panics
/// Panics if one of the pages is committed, or the zspage is busy.
///
/// # Safety
/// The class is locked, and the pages belong to the zspage.
pub(crate) unsafe fn begin_prefault(fixed: &FixedHeader, coming: &PageSet) -> u32 {
    begin_busy(fixed);
    for pages in coming.runs() {
        assert!(!fixed.committed().contains_any(pages.clone()), "{pages:?} are committed");
        fixed.residency.prefault(pages);
    }
    coming.len()
}

/// Begins to release all retained pages, and withholds the free slots on these pages. Returns the
/// pages.
///
/// # Safety
/// The class is locked.
pub(crate) unsafe fn begin_release(header: Header<'_>) -> PageSet {
    begin_busy(header.fixed);
    let going = header.fixed.residency.releasable(u32::MAX);
    for slot in going.runs().flat_map(|pages| header.class.grid().slots_of(pages)) {
        if !header.is_taken(slot) {
            header.set(slot, WITHHELD);
        }
    }
    going
}

/// Ends a release in which the pages `gone` were released, and frees the withheld slots.
///
/// # Safety
/// `begin_release` withheld the slots, and their pages are no longer being released.
pub(crate) unsafe fn end_release(header: Header<'_>, gone: &PageSet) {
    let residency = &header.fixed.residency;
    for slot in residency.retained().runs().flat_map(|pages| header.class.grid().slots_of(pages)) {
        if header.is_taken(slot) && header.entry(slot).is_none() {
            header.clear(slot);
        }
    }
    residency.released(gone);
}

/// In a child of fork, frees withheld slots, and slots for which `named` returns false. The
/// arguments of `named` are a slot and its entry number. Resets the links and counts of the zspage,
/// but keeps its committed pages.
///
/// # Safety
/// The process is a child without the other threads of its parent. No entry refers to a slot for
/// which `named` returns false.
pub(crate) unsafe fn repair(header: Header<'_>, mut named: impl FnMut(u32, u32) -> bool) {
    let FixedHeader { by_fullness, offering, inuse, busy, residency } = header.fixed;
    [by_fullness, offering].into_iter().for_each(Links::clear);
    busy.store(0, Relaxed);
    residency.clear_retained();
    let mut is_live = |slot| header.entry(slot).is_some_and(|index| named(slot, index));
    let is_lost = |slot: &u32| header.is_taken(*slot) && !is_live(*slot);
    (0..header.entries.len() as u32).filter(is_lost).for_each(|slot| header.clear(slot));
    let live = (0..header.entries.len() as u32).filter(|&slot| header.is_taken(slot));
    inuse.store(live.count() as u32, Relaxed);
    for page in residency.committed().runs().flatten().filter(|&page| !header.is_live(page)) {
        residency.leave(page);
    }
}
