//! Releases memory: gives up a thread's slabs, reclaims empty slabs, and releases those pages of
//! other slabs that hold no live object.
//!
//! ```text
//!   partial --unlisted, as the reserve's: nothing is taken--> idle pages released --> partial
//! ```
//! # Safety
//! - sl-H1: while a slab belongs to the reserve, none of its objects is allocated. So a page
//!   without live objects stays without live objects.
#![allow(unsafe_code)]

use crate::bits::RESERVE;
use crate::depot::Depot;
use crate::lists::{List, links};
use crate::thread::number;
use crate::{grow, own};
use page::{ExtentId, ListHead, PageSet};

/// Gives up this thread's slabs and reclaims all empty slabs. Other threads give up their free
/// objects at their next free. Returns the number of slabs that were reclaimed or wait for a grace
/// period.
pub(crate) fn shrink(depot: &Depot) -> usize {
    let before = depot.lock().slabs();
    depot.threads.ask();
    if let Some(own) = depot.threads.of(number()) {
        own.set_limit(depot.threads.tunables().limit);
        let mut locked = depot.lock();
        own::disown_all(&mut locked, own);
        grow::end(locked);
    }
    let mut locked = depot.lock();
    let chain = grow::unlink_empty(&mut locked, 0);
    let after = locked.slabs();
    drop(locked);
    grow::retire(chain);
    if !depot.shape.on_slab && depot.red_zones.is_none() && depot.options.may_forget() {
        release_idle_pages(depot);
    }
    before.saturating_sub(after)
}

/// Releases the pages of partial slabs on which no object is live. The next allocation from the
/// slab charges its released pages again.
fn release_idle_pages(depot: &Depot) {
    let mut slabs = ListHead::default();
    while let Some(id) = unlist_partial(depot) {
        release_idle_pages_of(depot, id);
        slabs.push_front(id, links(depot.space()));
    }
    let mut locked = depot.lock();
    while let Some(id) = slabs.first() {
        slabs.remove(id, links(depot.space()));
        // A thread may have freed an object remotely before the slab lost its owner, and read the
        // owner after that. This call finds the remote bit of that object (sl-B1).
        // SAFETY: the lock is held, and no thread owns the slab.
        unsafe { locked.slab(id).orphan() };
        locked.link(id);
    }
    let empty = grow::unlink_empty(&mut locked, 0);
    drop(locked);
    grow::retire(empty);
}

/// Removes the next partial slab from its list, and marks the slab as owned by the reserve.
fn unlist_partial(depot: &Depot) -> Option<ExtentId> {
    let mut locked = depot.lock();
    let id = locked.lists.first(List::Partial)?;
    locked.unlink(id);
    // SAFETY: the lock is held, and no thread owns the slab.
    unsafe { locked.attach(id, RESERVE) };
    Some(id)
}

fn release_idle_pages_of(depot: &Depot, id: ExtentId) {
    // SAFETY: the slab is only read. Concurrent frees can make more pages idle, but no allocation
    // makes an idle page used (sl-H1).
    let idle = unsafe { depot.detached(id) }.idle_pages();
    let slab = depot.slab(id);
    let before = slab.released();
    let pages = PageSet::from_low_bits((idle & !before).into());
    if !pages.is_empty() {
        // SAFETY: no object is live on these pages, and none is allocated on them until the slab
        // loses its owner again (sl-H1).
        let released = unsafe { depot.space().release(id, &pages) };
        slab.set_released(before | released.low_bits() as u16);
    }
}
