//! How a cache begins and ends, and what is left of threads that end, or that a child lacks.
//!
//! # Safety
//! A thread's slabs are touched by another one only when no thread is at work in the cache any
//! more, or there is none.
#![allow(unsafe_code)]

use crate::bits::{NO_ONE, RESERVE};
use crate::depot::{Depot, Locked};
use crate::lists::List;
use crate::options::{Memory, Options};
use crate::thread::{self, Number, ThreadHooks};
use crate::{Arena, Error, grow, own, shrink};
use page::ExtentId;
use std::sync::{Arc, Weak};

/// Makes a cache, with its reserve, that is told of threads that end.
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

/// Gives everything back that no user has, for a cache that ends.
///
/// # Safety
/// No one uses the cache any more.
pub(crate) unsafe fn close(depot: &Depot) {
    let Some(cache) = depot.me.upgrade() else { return };
    // From here on no thread that ends comes by; so the slabs of all threads are this caller's.
    let cache: Arc<dyn ThreadHooks> = cache;
    thread::forget(&cache);
    // SAFETY: no thread is at work in the cache, says the caller.
    for own in unsafe { depot.threads.all() } {
        let mut locked = depot.lock();
        own::disown_all(&mut locked, own);
        grow::end(locked);
    }
    end_reserve(depot);
    shrink::shrink(depot);
}

/// Makes the slabs of the reserve.
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

/// Makes the reserve's slabs no one's, for a cache that ends.
fn end_reserve(depot: &Depot) {
    let mut locked = depot.lock();
    for id in std::mem::take(&mut locked.reserve) {
        // SAFETY: the slab is the reserve's, and the lock is held.
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
        // SAFETY: the child has no other threads, says the caller.
        unsafe {
            self.threads.end_others(number);
            repair_slabs(self, number);
        }
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        // SAFETY: every user of the cache, and every thread that gives back slabs of it, holds the
        // depot.
        unsafe { grow::free_blocks(self) }
    }
}

/// Gives up the slabs of all threads but this one, which are no more, and what they were about.
///
/// # Safety
/// There are no other threads.
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
            // New or on its way out. Where memory is stable it may wait for its grace period.
            let is_whole = !slab.first().is_null() && slab.block().is_some();
            if !is_whole || depot.options.memory == Memory::AnyTime {
                lost.push(id);
            }
            continue;
        }
        if List::of_slab(slab) != List::Unlisted {
            locked.unlink(id);
        } else {
            // A thread's, or the reserve's while its idle pages were given back.
            locked.owned -= usize::from(owner != RESERVE);
            // SAFETY: the thread is no more.
            unsafe { depot.detached(id) }.rebuild();
        }
        // SAFETY: as above; no thread of this process has noted the slab.
        unsafe { link_orphan(&mut locked, id) };
    }
    drop(locked);
    for id in lost {
        // Without destructors: some may have been called.
        // SAFETY: the thread that made it, or had unlinked it, is no more.
        unsafe { grow::give_back(depot, id) };
    }
}

/// Makes a slab no one's, and frees in it what others have freed.
///
/// # Safety
/// No thread works in the slab, or has it noted.
unsafe fn link_orphan(locked: &mut Locked<'_>, id: ExtentId) {
    // SAFETY: as the caller says, and the lock is held.
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
