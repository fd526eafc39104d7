//! The creation and the end of a cache, and the removal of slab owners that exit, or that do not
//! exist in the child of a fork.
//!
//! # Safety
//! A thread accesses another thread's slabs only in two cases: no thread uses the cache any more,
//! or the other thread does not exist.
#![allow(unsafe_code)]

use crate::bits::{NO_ONE, RESERVE};
use crate::depot::{Depot, Locked};
use crate::lists::List;
use crate::options::{Memory, Options};
use crate::thread::{self, Number, ThreadHooks};
use crate::{Arena, Error, grow, own, shrink};
use page::ExtentId;
use std::sync::{Arc, Weak};

/// Creates a cache with its reserve. The cache is notified when a thread exits.
pub(crate) fn open(
    arena: &Arc<Arena>,
    size: usize,
    align: usize,
    options: Options,
) -> Result<Arc<Depot>, Error> {
    let depot = Depot::new(arena, size, align, options)?;
    make_reserve(&depot).inspect_err(|_| end_reserve(&depot))?;
    let cache: Weak<Depot> = Arc::downgrade(&depot);
    thread::register(cache);
    Ok(depot)
}

/// Reclaims all slabs without live objects when a cache ends.
///
/// # Safety
/// No thread uses the cache any more.
pub(crate) unsafe fn close(depot: &Depot) {
    let Some(cache) = depot.me.upgrade() else { return };
    // From here on, no exiting thread visits the cache, so only this caller accesses the slabs of
    // all threads.
    let cache: Arc<dyn ThreadHooks> = cache;
    thread::forget(&cache);
    // SAFETY: the caller guarantees that no thread uses the cache.
    for own in unsafe { depot.threads.all() } {
        let mut locked = depot.lock();
        own::disown_all(&mut locked, own);
        grow::end(locked);
    }
    end_reserve(depot);
    shrink::shrink(depot);
}

/// Creates the slabs of the reserve.
fn make_reserve(depot: &Depot) -> Result<(), Error> {
    let slabs = depot.options.reserve.div_ceil(depot.shape.objects);
    let refused = page::Error::Mapping { bytes: slabs * size_of::<ExtentId>() };
    depot.lock().reserve.try_reserve_exact(slabs).map_err(|_| Error::Pages(refused))?;
    for _ in 0..slabs {
        let new = grow::make(depot)?;
        let mut locked = depot.lock();
        let id = new.attach(&mut locked, RESERVE);
        locked.reserve.push(id);
    }
    Ok(())
}

/// Removes the owner of the reserve's slabs when a cache ends.
fn end_reserve(depot: &Depot) {
    let mut locked = depot.lock();
    for id in std::mem::take(&mut locked.reserve) {
        // SAFETY: the slab belongs to the reserve, and the lock is held.
        unsafe { locked.attach(id, NO_ONE) };
        locked.link(id);
    }
    let chain = grow::unlink_empty(&mut locked, 0);
    drop(locked);
    grow::retire(chain);
}

impl ThreadHooks for Depot {
    fn on_exit(&self, number: Number) {
        if let Some(own) = self.threads.of(number) {
            own::disown_all(&mut self.lock(), own);
        }
    }

    fn after_exit(&self) {
        grow::end(self.lock());
    }

    fn lock_for_fork(&self) {
        self.state.lock_for_fork();
    }

    fn unlock_after_fork(&self) {
        self.state.unlock_after_fork();
    }

    unsafe fn repair(&self, number: Number) {
        // SAFETY: the caller guarantees that the child has no other threads.
        unsafe {
            self.threads.end_others(number);
            repair_slabs(self, number);
        }
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        // SAFETY: the last reference to the depot was dropped. Every user of the cache, and every
        // thread that reclaims its slabs, holds a reference.
        unsafe { grow::free_blocks(self) }
    }
}

/// Removes all threads except the caller as owners of slabs, and repairs their unfinished work. The
/// other threads do not exist in the child of a fork.
///
/// # Safety
/// The process has no other threads.
unsafe fn repair_slabs(depot: &Depot, number: Number) {
    let space = depot.space();
    let mut locked = depot.lock();
    let mut lost = Vec::new();
    for id in space.live().filter(|&id| depot.cache_id.has(space.extent(id))) {
        let slab = depot.slab(id);
        let owner = slab.owner();
        if number.is(owner) || locked.reserve.contains(&id) {
            continue;
        }
        if !depot.is_attached(id) {
            if owner == thread::mark() {
                continue;
            }
            // A thread of the parent was creating or reclaiming the slab. If the memory is stable,
            // the slab may be waiting for its grace period.
            let is_whole = !slab.first().is_null() && slab.block().is_some();
            if !is_whole || depot.options.memory == Memory::AnyTime {
                lost.push(id);
            }
            continue;
        }
        if List::of_slab(slab) != List::Unlisted {
            locked.unlink(id);
        } else {
            // The slab belonged to a thread, or to the reserve during the release of its idle
            // pages.
            locked.owned -= usize::from(owner != RESERVE);
            // SAFETY: the thread that owned the slab does not exist any more.
            unsafe { depot.detached(id) }.rebuild();
        }
        // SAFETY: the thread that owned the slab does not exist, and no thread of this process has
        // recorded the slab.
        unsafe { link_orphan(&mut locked, id) };
    }
    drop(locked);
    for id in lost {
        // The slab is freed without calls of destructors, because some objects may have been
        // destroyed already.
        // SAFETY: the thread that created or unlinked the slab does not exist any more.
        unsafe { grow::give_back(depot, id) };
    }
}

/// Removes the owner of a slab, and marks its remotely freed objects as free.
///
/// # Safety
/// No thread accesses the slab or has recorded it.
unsafe fn link_orphan(locked: &mut Locked<'_>, id: ExtentId) {
    // SAFETY: the caller guarantees that no thread accesses the slab, and the lock is held.
    unsafe { locked.depot.detached(id).orphan() };
    locked.link(id);
}

#[cfg(test)]
mod tests {
    use crate::sync::Relaxed;
    use crate::{Arena, RawCache};

    #[test]
    fn no_block_outlives_its_cache() {
        let arena = Arena::new(page::Config::default()).unwrap();
        let cache = RawCache::new(&arena, 48, 8).unwrap();
        let object = cache.alloc().unwrap();
        assert!(arena.block_bytes.load(Relaxed) > 0);
        assert_eq!(cache.destroy().unwrap_err().objects, [object]);
        assert_eq!(arena.block_bytes.load(Relaxed), 0);
        arena.check();
    }
}
