//! Objects are taken and freed, wherever they lie.
//!
//! # Safety
//! The caller that frees an object is done with it; of a slab that may be another thread's only the
//! bits are touched, which stay as long as the object is live.
#![allow(unsafe_code)]

use crate::Error;
use crate::bits::{Freed, NO_ONE, RESERVE};
use crate::depot::{Depot, Location, Locked};
use crate::lists::List;
use crate::thread::number;
use crate::{grow, own};
use page::ExtentId;
use std::ptr::NonNull;

/// Takes an object from where there is one, in a slab that becomes the thread's if it may have any.
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

/// Takes an object under the lock; its slab stays no one's.
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

/// Takes an object of the reserve.
pub(crate) fn alloc_reserved(depot: &Depot) -> Option<NonNull<u8>> {
    let locked = depot.lock();
    let mut slabs = locked.reserve.iter().map(|&id| locked.slab(id));
    slabs.find_map(|slab_ref| slab_ref.alloc().map(|index| slab_ref.object(index)))
}

/// Frees an object, wherever it lies.
///
/// # Safety
/// The location is the object's. No one uses the object, unless it is free; and if it may be free,
/// no other thread frees or shrinks in the cache.
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
                // Of a second free: the slab may have gone, and be another cache's. The lock tells
                // (sl-H2).
                let is_it = depot.index_in(extent, object) == Some(index);
                // SAFETY: as the caller says.
                is_it && unsafe { free_locked(locked, id, index) }
            }
            owner if number.is(owner) => {
                let Some(own) = depot.threads.of(number) else {
                    unreachable!("sl-M1: {id:?} is owned by this thread, which has no slabs")
                };
                // SAFETY: as the caller says.
                unsafe { own::free(depot, own, id, index) }
            }
            _ => {
                // SAFETY: the slab stays, as the object is live; or no one ends it, says the
                // caller.
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

/// Frees an object of a slab that is no thread's. Returns false where it is free.
///
/// # Safety
/// No one uses the object, unless it is free.
unsafe fn free_locked(mut locked: Locked<'_>, id: ExtentId, index: usize) -> bool {
    let depot = locked.depot;
    let slab_ref = locked.slab(id);
    let list = List::of_slab(slab_ref.slab);
    // SAFETY: as the caller says.
    if !unsafe { slab_ref.free(index) } {
        return false;
    }
    // The reserve's.
    if list == List::Unlisted {
        return true;
    }
    locked.lists.active -= 1;
    // More of a full slab's objects are likely to come.
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

/// Frees what was freed remotely in a slab that its thread gave up meanwhile.
fn drain_remote(depot: &Depot, id: ExtentId) {
    let mut locked = depot.lock();
    // It may have gone with all bits, and be another cache's or in the making: first of all it must
    // be attached here (sl-H2). Where it is in no list, a thread's or the reserve's, the bit is
    // found when it comes into one (sl-B1).
    if depot.is_attached(id) && List::of_slab(depot.slab(id)) != List::Unlisted {
        let found = locked.slab(id).drain_remote();
        locked.lists.active -= found;
        locked.relist(id);
    }
    grow::end(locked);
}
