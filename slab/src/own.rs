//! The slabs that are a thread's own: how it takes and frees in them, comes by them and gives them
//! up.
//!
//! A slab that no thread owns becomes the thread's in `own_listed` and `own_new`, and no one's in
//! `disown`, all under the lock. The thread's slabs and the cache that functions here are given are
//! of one cache.
//!
//! # Safety
//! A slab is noted in the thread's slabs after it became the thread's, and forgotten before it
//! becomes no one's (sl-M2).
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

/// Takes an object of the thread's current word, if there is one.
#[inline]
pub(crate) fn alloc_fast(depot: &Depot, number: Number) -> Option<NonNull<u8>> {
    depot.threads.of(number)?.alloc()
}

/// Frees an object of the thread's own slabs. Returns false where no hint tells of the object.
///
/// # Safety
/// No one uses the object, unless it is free.
#[inline]
pub(crate) unsafe fn free_fast(depot: &Depot, number: Number, object: NonNull<u8>) -> bool {
    let Some(own) = depot.threads.of(number) else { return false };
    // SAFETY: as the caller says.
    match unsafe { own.free(object) } {
        FastFree::Done => {}
        FastFree::OverLimit => trim(depot, own),
        FastFree::Miss => return false,
    }
    true
}

/// Frees an object of a slab that is the calling thread's. Returns false where it is free.
///
/// # Safety
/// No one uses the object, unless it is free.
pub(crate) unsafe fn free(depot: &Depot, own: &ThreadSlabs, id: ExtentId, index: usize) -> bool {
    let slab_ref = depot.of_thread(own, id);
    // SAFETY: as the caller says.
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

/// Notes one of the thread's slabs, to be found by address.
fn set_hint(depot: &Depot, own: &ThreadSlabs, slab_ref: SlabRef<'_>) {
    if depot.shape.layout == Layout::Native {
        // SAFETY: the slab is the thread's, and `disown` forgets it.
        unsafe { own.set_hint(slab_ref.object(0).addr().get(), slab_ref.bits().live) };
    }
}

/// Takes an object of the thread's current slab.
pub(crate) fn alloc(depot: &Depot, own: &ThreadSlabs) -> Option<NonNull<u8>> {
    let slab_ref = depot.of_thread(own, own.current.get()?);
    if depot.shape.layout == Layout::Native {
        // SAFETY: free objects are taken, of a slab that is the thread's, and `disown` forgets it.
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

/// Makes a slab with free objects the thread's current one.
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

/// Makes a slab that is in a list the thread's.
pub(crate) fn own_listed(locked: &mut Locked<'_>, own: &ThreadSlabs, id: ExtentId) {
    locked.unlink(id);
    // SAFETY: it is attached, and no one's, or it would be in no list; the caller is the thread.
    unsafe { locked.attach(id, own.number()) };
    note(locked, own, id);
}

/// Makes a slab that was just made the thread's.
fn own_new(locked: &mut Locked<'_>, own: &ThreadSlabs, new: NewSlab<'_>) -> ExtentId {
    let id = new.attach(locked, own.number());
    note(locked, own, id);
    id
}

/// Notes a slab that became the thread's, the first of them.
fn note(locked: &mut Locked<'_>, own: &ThreadSlabs, id: ExtentId) {
    let depot = locked.depot;
    let slab_ref = depot.of_thread(own, id);
    let free = depot.shape.objects - slab_ref.active();
    locked.owned += 1;
    own.set_kept(own.kept() + free as u32);
    own.push(depot.space(), id);
    set_hint(depot, own, slab_ref);
}

/// Makes a slab of the thread's no one's.
fn disown(locked: &mut Locked<'_>, own: &ThreadSlabs, id: ExtentId) {
    let depot = locked.depot;
    let slab_ref = depot.of_thread(own, id);
    own.remove(depot.space(), id);
    own.forget(id, slab_ref.object(0).addr().get());
    slab_ref.recount();
    let free = depot.shape.objects - slab_ref.active();
    own.set_kept(own.kept() - free as u32);
    // SAFETY: the lock is held, and the thread has forgotten the slab.
    unsafe { slab_ref.orphan() };
    locked.owned -= 1;
    locked.link(id);
}

/// Gives the thread's oldest slabs up, as long as it keeps too much; all, if someone asked.
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

/// Gives up all slabs of a thread, or of one that is no more.
pub(crate) fn disown_all(locked: &mut Locked<'_>, own: &ThreadSlabs) {
    while let Some(id) = own.slabs().first() {
        disown(locked, own, id);
    }
}
