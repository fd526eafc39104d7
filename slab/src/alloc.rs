//! Allocates and frees objects, in slabs of any owner.
//!
//! # Safety
//! A caller that frees an object does not use the object any more. If a slab may belong to another
//! thread, this code accesses only its bits. The bits exist while the object is live.
#![allow(unsafe_code)]

use crate::Error;
use crate::bits::{Freed, NO_ONE, RESERVE};
use crate::depot::{Depot, Location, Locked};
use crate::lists::List;
use crate::thread::number;
use crate::{grow, own};
use page::ExtentId;
use std::ptr::NonNull;

/// Allocates an object from a slab of the calling thread. If the thread can't own slabs, takes an
/// object from a slab without an owner.
pub(crate) fn alloc(depot: &Depot) -> Result<NonNull<u8>, Error> {
    let Some(own) = depot.threads.make(number(), &depot.shape) else {
        return alloc_shared(depot);
    };
    loop {
        if let Some(object) = own::alloc(depot, own) {
            return Ok(object);
        }
        own::refill(depot, own)?;
    }
}

/// Allocates an object from a slab without an owner, under the lock.
fn alloc_shared(depot: &Depot) -> Result<NonNull<u8>, Error> {
    loop {
        let mut locked = depot.lock();
        let lists = &locked.lists;
        if let Some(id) = lists.first(List::Partial).or_else(|| lists.first(List::Free)) {
            locked.recommit(id)?;
            let slab_ref = locked.slab(id);
            let Some(object) = slab_ref.alloc().map(|index| slab_ref.object(index)) else {
                unreachable!("sl-C1: {id:?} is listed as one with room, and is full")
            };
            locked.lists.active += 1;
            locked.relist(id);
            return Ok(object);
        }
        drop(locked);
        let new = grow::make(depot)?;
        new.link(&mut depot.lock());
    }
}

/// Allocates an object from the reserve.
pub(crate) fn alloc_reserved(depot: &Depot) -> Option<NonNull<u8>> {
    let locked = depot.lock();
    let mut slabs = locked.reserve.iter().map(|&id| locked.slab(id));
    slabs.find_map(|slab_ref| slab_ref.alloc().map(|index| slab_ref.object(index)))
}

/// Frees an object in a slab of any owner.
///
/// # Safety
/// `location` is the location of the object. If the object is live, no thread uses it. If the
/// object may be free, no other thread frees objects of the cache or shrinks the cache.
pub(crate) unsafe fn free(
    depot: &Depot,
    object: NonNull<u8>,
    location: Location<'_>,
) -> Result<(), Error> {
    let (id, extent, index) = location;
    let (slab, number) = (&extent.data, number());
    let twice = Error::DoubleFree { address: object.addr().get() };
    loop {
        let is_done = match slab.owner() {
            NO_ONE | RESERVE => {
                let locked = depot.lock();
                if !matches!(slab.owner(), NO_ONE | RESERVE) {
                    continue;
                }
                // If the object is freed a second time, its slab may have been reclaimed, and may
                // belong to another cache. The check under the lock detects this case (sl-H2).
                let is_it = depot.index_in(extent, object) == Some(index);
                // SAFETY: the caller of `free` guarantees that no thread uses the object if it is
                // live.
                is_it && unsafe { free_locked(locked, id, index) }
            }
            owner if number.is(owner) => {
                let Some(own) = depot.threads.of(number) else {
                    unreachable!("sl-M1: {id:?} is owned by this thread, which has no slabs")
                };
                // SAFETY: the caller of `free` guarantees that no thread uses the object.
                unsafe { own::free(depot, own, id, index) }
            }
            _ => {
                // SAFETY: the slab is not reclaimed while the object is live. If the object may be
                // free, the caller guarantees that no thread reclaims the slab.
                let bits = unsafe { slab.bits(depot.shape.bits_words) };
                let freed = bits.free_remotely(index);
                if freed == Freed::Orphan {
                    drain_remote(depot, id);
                }
                freed != Freed::DoubleFree
            }
        };
        return if is_done { Ok(()) } else { Err(twice) };
    }
}

/// Frees an object of a slab that no thread owns. Returns false if the object is already free.
///
/// # Safety
/// If the object is live, no thread uses it.
unsafe fn free_locked(mut locked: Locked<'_>, id: ExtentId, index: usize) -> bool {
    let depot = locked.depot;
    let slab_ref = locked.slab(id);
    let list = List::of_slab(slab_ref.slab);
    // SAFETY: the caller guarantees that no thread uses the object if it is live. The lock is held
    // and the slab has no owner (sl-K3).
    if !unsafe { slab_ref.free(index) } {
        return false;
    }
    // The slab belongs to the reserve.
    if list == List::Unlisted {
        return true;
    }
    locked.lists.active -= 1;
    // The calling thread becomes the owner of a slab that was full before this free, because more
    // objects of this slab are likely to be freed.
    match depot.threads.make(number(), &depot.shape).filter(|_| list == List::Full) {
        Some(own) => {
            own::own_listed(&mut locked, own, id);
            drop(locked);
            if own.is_over() {
                own::trim(depot, own);
            }
        }
        None => {
            locked.relist(id);
            grow::end(locked);
        }
    }
    true
}

/// Marks the remotely freed objects of a slab as free, after the slab's owner has given up the
/// slab.
fn drain_remote(depot: &Depot, id: ExtentId) {
    let mut locked = depot.lock();
    // Before this thread took the lock, another thread may have reclaimed the slab and freed its
    // bits. The slab's extent can then belong to another cache, or to a slab under construction. So
    // the function first checks that the slab is attached to this cache (sl-H2). An attached slab
    // in no list belongs to a thread or to the reserve. Its remote bits are drained when the slab
    // enters a list (sl-B1).
    if depot.is_attached(id) && List::of_slab(depot.slab(id)) != List::Unlisted {
        let found = locked.slab(id).drain_remote();
        locked.lists.active -= found;
        locked.relist(id);
    }
    grow::end(locked);
}
