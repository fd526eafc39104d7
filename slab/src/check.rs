//! Checks of a whole cache.
//!
//! # Safety
//! If a slab may belong to another thread, the checks read only its addresses and bits.
#![allow(unsafe_code)]

use crate::bits::{NO_ONE, RESERVE};
use crate::depot::{Depot, Locked};
use crate::lists::{List, links};
use crate::thread::number_if_known;
use crate::thread_slabs::ThreadSlabs;
use page::ExtentId;
use std::ptr::NonNull;

/// Returns the slabs that are attached to the cache. Attached slabs are not reclaimed while the
/// lock is held (sl-H2). Slabs that are being created or reclaimed are left out. An exiting thread
/// may still reclaim slabs.
fn slabs<'l>(locked: &'l Locked<'_>) -> impl Iterator<Item = ExtentId> + use<'l> {
    let depot = locked.depot;
    depot.space().live().filter(|&id| depot.is_attached(id))
}

/// Returns the objects that users have. No thread is allowed to use the cache at the same time.
pub(crate) fn live(depot: &Depot) -> Vec<NonNull<u8>> {
    live_in(&depot.lock()).collect()
}

/// Returns the number of objects that users have.
pub(crate) fn live_count(depot: &Depot) -> usize {
    live_in(&depot.lock()).count()
}

fn live_in<'l>(locked: &'l Locked<'_>) -> impl Iterator<Item = NonNull<u8>> + use<'l> {
    let depot = locked.depot;
    let live = slabs(locked).flat_map(|id| {
        // SAFETY: the slab is attached and the lock is held, so no thread reclaims it. Only its
        // bits and addresses are read.
        let (slab_ref, bits) = unsafe { (depot.detached(id), depot.detached(id).bits()) };
        let live = (0..depot.shape.objects).filter(move |&index| bits.is_out(index));
        live.map(move |index| slab_ref.object(index))
    });
    live.filter(|object| !locked.quarantined.contains(&object.addr().get()))
}

/// Asserts the invariants sl-C1, sl-C2 and sl-C3 of the cache. No thread is allowed to use the
/// cache at the same time. Slabs that other threads own are only counted.
pub(crate) fn check(depot: &Depot) {
    let locked = depot.lock();
    locked.lists.check(depot.space());
    let (mut slabs_seen, mut owned, mut mine, mut active) = (0, 0, 0, 0);
    let own = depot.threads.of(number_if_known());
    for id in slabs(&locked) {
        let (owner, list) = (depot.slab(id).owner(), List::of_slab(depot.slab(id)));
        let is_listed = list != List::Unlisted;
        assert_eq!(is_listed, owner == NO_ONE, "in a list is what is no one's, not {owner}'s");
        slabs_seen += 1;
        if matches!(owner, NO_ONE | RESERVE) {
            let slab_ref = locked.slab(id);
            slab_ref.check();
            let by_count = List::of(slab_ref.active(), depot.shape.objects);
            assert!(!is_listed || list == by_count, "{id:?} is {list:?}, and not {by_count:?}");
            active += if is_listed { slab_ref.active() } else { 0 };
        } else {
            owned += 1;
            if let Some(own) = own.filter(|own| own.number() == owner) {
                let slab_ref = depot.of_thread(own, id);
                slab_ref.recount();
                slab_ref.check();
                mine += 1;
            }
        }
    }
    assert_eq!(slabs_seen, locked.slabs(), "attached slabs");
    assert_eq!(owned, locked.owned, "slabs of threads");
    assert_eq!(active, locked.lists.active, "objects in use of slabs in lists");
    let linked = own.map_or(0, |own| check_own(depot, own));
    assert_eq!(linked, mine, "slabs of this thread, as linked");
}

/// Asserts that a thread's records agree with the slabs that the thread owns. Returns the number of
/// owned slabs.
fn check_own(depot: &Depot, own: &ThreadSlabs) -> usize {
    own.slabs().check(links(depot.space()));
    let (mut noted, mut kept, mut last) = (Vec::new(), 0, None);
    for id in own.slabs().iter(links(depot.space())) {
        last = Some(id);
        let slab_ref = depot.of_thread(own, id);
        kept += depot.shape.objects - slab_ref.active();
        // SAFETY: the thread owns the slab, and the bits are only read.
        noted.push((slab_ref.slab.first().addr(), unsafe { slab_ref.bits() }.live.as_ptr()));
    }
    assert_eq!(own.oldest(), last, "the oldest of a thread's slabs");
    assert_eq!(kept, own.kept() as usize, "free objects of a thread's slabs");
    let current = own.current.get().map(|id| depot.of_thread(own, id));
    // SAFETY: the thread owns the slab, and the bits are only read.
    let bits = current.map(|current| (unsafe { current.bits() }, current.slab.first().addr()));
    own.check(&noted, bits.as_ref().map(|(bits, first)| (bits, *first)));
    noted.len()
}
