//! The slabs that a thread owns. The thread allocates and frees their objects, acquires slabs and
//! gives up slabs.
//!
//! A thread becomes the owner of a slab in `own_listed` and `own_new`, and gives up a slab in
//! `disown`. `own_listed`, `own_new` and `disown` are called under the lock. The parameters `depot`
//! and `own` of each function belong to one cache.
//!
//! # Safety
//! The thread records a slab after becoming the slab's owner, and removes the record before the
//! slab loses its owner (sl-M2).
#![allow(unsafe_code)]

use crate::Error;
use crate::depot::{Depot, Locked};
use crate::grow::{self, NewSlab};
use crate::layout::Layout;
use crate::lists::List;
use crate::options::Tunables;
use crate::slab_ref::SlabRef;
use crate::thread::Number;
use crate::thread_slabs::{FastFree, ThreadSlabs};
use page::ExtentId;
use std::ptr::NonNull;

/// Allocates a free object of the thread's current word. Returns `None` if the current word has no
/// free object.
#[inline]
pub(crate) fn alloc_fast(depot: &Depot, number: Number) -> Option<NonNull<u8>> {
    depot.threads.of(number)?.alloc()
}

/// Frees an object in a slab that the thread owns. Returns false if no hint covers the object.
///
/// # Safety
/// If the object is live, no thread uses it.
#[inline]
pub(crate) unsafe fn free_fast(depot: &Depot, number: Number, object: NonNull<u8>) -> bool {
    let Some(own) = depot.threads.of(number) else { return false };
    // SAFETY: the caller guarantees that no thread uses the object if it is live.
    match unsafe { own.free(object) } {
        FastFree::Done => {}
        FastFree::OverLimit => trim(depot, own),
        FastFree::Miss => return false,
    }
    true
}

/// Frees an object of a slab that the calling thread owns. Returns false if the object is already
/// free.
///
/// # Safety
/// If the object is live, no thread uses it.
pub(crate) unsafe fn free(depot: &Depot, own: &ThreadSlabs, id: ExtentId, index: usize) -> bool {
    let slab_ref = depot.of_thread(own, id);
    // SAFETY: the caller guarantees that no thread uses the object if it is live.
    if !unsafe { slab_ref.free(index) } {
        return false;
    }
    set_hint(depot, own, slab_ref);
    own.set_kept(own.kept() + 1);
    if own.is_over() {
        trim(depot, own);
    }
    true
}

/// Records a hint for a slab of the thread, by which the slab is found from an object's address.
fn set_hint(depot: &Depot, own: &ThreadSlabs, slab_ref: SlabRef<'_>) {
    if depot.shape.layout == Layout::Native {
        // SAFETY: the thread owns the slab, and `disown` removes the hint.
        unsafe { own.set_hint(slab_ref.object(0).addr().get(), slab_ref.bits().live) };
    }
}

/// Allocates an object of the thread's current slab.
pub(crate) fn alloc(depot: &Depot, own: &ThreadSlabs) -> Option<NonNull<u8>> {
    let slab_ref = depot.of_thread(own, own.current.get()?);
    if depot.shape.layout == Layout::Native {
        // SAFETY: the thread owns the slab, only free objects are allocated, and `disown` removes
        // the thread's record of the slab's bits.
        unsafe {
            let bits = slab_ref.bits();
            let word = bits.next_word(own.word_of(&bits))?;
            own.set_word(&bits, slab_ref.object(0), word);
        }
        return own.alloc();
    }
    let object = slab_ref.alloc().map(|index| slab_ref.object(index))?;
    own.set_kept(own.kept() - 1);
    Some(object)
}

/// Selects one of the thread's slabs with free objects as the current slab, or acquires such a
/// slab.
pub(crate) fn refill(depot: &Depot, own: &ThreadSlabs) -> Result<(), Error> {
    if let Some(id) = own.current.get() {
        let found = depot.of_thread(own, id).drain_remote();
        if found > 0 {
            own.set_kept(own.kept() + found as u32);
            return Ok(());
        }
    }
    let mut locked = depot.lock();
    if let Some(id) = own.current.get() {
        disown(&mut locked, own, id);
    }
    let lists = &locked.lists;
    let shared = lists.first(List::Partial).or_else(|| lists.first(List::Free));
    let id = match (own.slabs().first(), shared) {
        (Some(id), _) => id,
        (None, Some(id)) => {
            locked.recommit(id)?;
            own_listed(&mut locked, own, id);
            id
        }
        (None, None) => {
            drop(locked);
            let new = grow::make(depot)?;
            own_new(&mut depot.lock(), own, new)
        }
    };
    own.current.set(Some(id));
    Ok(())
}

/// Makes the thread the owner of a listed slab.
pub(crate) fn own_listed(locked: &mut Locked<'_>, own: &ThreadSlabs, id: ExtentId) {
    locked.unlink(id);
    // SAFETY: the slab was in a list, so it is attached and has no owner. The caller is the new
    // owner.
    unsafe { locked.attach(id, own.number()) };
    note(locked, own, id);
}

/// Makes the thread the owner of a new slab.
fn own_new(locked: &mut Locked<'_>, own: &ThreadSlabs, new: NewSlab<'_>) -> ExtentId {
    let id = new.attach(locked, own.number());
    note(locked, own, id);
    id
}

/// Records a newly acquired slab at the head of the thread's list.
fn note(locked: &mut Locked<'_>, own: &ThreadSlabs, id: ExtentId) {
    let depot = locked.depot;
    let slab_ref = depot.of_thread(own, id);
    let free = depot.shape.objects - slab_ref.active();
    locked.owned += 1;
    own.set_kept(own.kept() + free as u32);
    own.push(depot.space(), id);
    set_hint(depot, own, slab_ref);
}

/// Removes the thread as owner of a slab.
fn disown(locked: &mut Locked<'_>, own: &ThreadSlabs, id: ExtentId) {
    let depot = locked.depot;
    let slab_ref = depot.of_thread(own, id);
    own.remove(depot.space(), id);
    own.forget(id, slab_ref.object(0).addr().get());
    slab_ref.recount();
    let free = depot.shape.objects - slab_ref.active();
    own.set_kept(own.kept() - free as u32);
    // SAFETY: the lock is held, and the thread has removed its record of the slab.
    unsafe { slab_ref.orphan() };
    locked.owned -= 1;
    locked.link(id);
}

/// Gives up the thread's oldest slabs until the thread keeps at most `limit` - `batchcount` free
/// objects, or no free object if another thread has requested this.
pub(crate) fn trim(depot: &Depot, own: &ThreadSlabs) {
    let Tunables { limit, batchcount } = depot.threads.tunables();
    let most = if own.is_asked() { 0 } else { limit - batchcount };
    own.set_limit(limit);
    let mut locked = depot.lock();
    while own.kept() > most
        && let Some(id) = own.oldest()
    {
        disown(&mut locked, own, id);
    }
    grow::end(locked);
}

/// Gives up all slabs of a thread, which may no longer exist.
pub(crate) fn disown_all(locked: &mut Locked<'_>, own: &ThreadSlabs) {
    while let Some(id) = own.slabs().first() {
        disown(locked, own, id);
    }
}
