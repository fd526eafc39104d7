//! A cache of objects of one size.
//!
//! ```text
//!   a page:  untouched --an object is given out--> committed --its last is freed--> retained
//!                ^                                     ^---an object is given out-----' |
//!                '--released, the slab is busy --- more retained than max(2, 1/64) <----'
//! ```
//! The lock `state` guards the order of the slabs and all their descriptors. The space's lock is
//! taken under the lock `state`. No lock is held while pages are released. During the release the
//! slab is busy, and no object is allocated on its retained pages. A slab without objects and
//! committed pages is destroyed under the lock `state`.
//!
//! # Safety
//! - mt-S1: the pages of an object are committed before the object is allocated. Until the object
//!   is freed, its pages are not retained, so they are not released.
//! - mt-S2: two objects never overlap, because object n covers bytes n * stride to (n + 1) * stride
//!   of its slab.
#![allow(unsafe_code)]

use super::error::Error;
use super::slab::{HAS_COMMITTED_ROOM, HAS_RETAINED, HAS_ROOM, Slab};
use super::slab_tree::SlabTree;
use super::stat::CacheStat;
use super::sync::{Mutex, MutexGuard, Relaxed};
use super::{Geometry, MetadataArena};
use page::fork::Step;
use page::{Extent, ExtentId, PageSet, Space};
use std::ptr::NonNull;
use std::sync::Arc;

#[derive(Debug, Default)]
struct State {
    tree: SlabTree,
    /// The slab at the lowest offset of all slabs with a free object, or `None` if this slab is not
    /// known.
    lowest: Option<ExtentId>,
    stat: CacheStat,
    /// The number of retained pages that are being released.
    releasing: usize,
}

/// A cache of objects of one size and alignment. The lowest free address is allocated first.
#[derive(Debug)]
pub struct Cache {
    arena: Arc<MetadataArena>,
    geometry: Geometry,
    tag: u32,
    state: Mutex<State>,
}

impl Cache {
    /// Returns a cache of objects of `size` bytes that are aligned to `align` bytes.
    pub fn new(arena: &Arc<MetadataArena>, size: usize, align: usize) -> Result<Self, Error> {
        let geometry = Geometry::new(size, align)?;
        let tag = arena.next_cache();
        Ok(Cache { arena: arena.clone(), geometry, tag, state: Mutex::default() })
    }

    /// Returns the arena in which the cache's slabs lie.
    pub fn arena(&self) -> &Arc<MetadataArena> {
        &self.arena
    }

    /// Returns the shape of the cache's slabs.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the current numbers of objects, slabs and pages.
    pub fn stat(&self) -> CacheStat {
        self.state.lock().stat
    }

    /// Allocates the free object at the lowest offset. If no pages can be committed for it,
    /// allocates the lowest free object on committed pages. The object's bytes are those of the
    /// previous object at this place, or zeros.
    pub fn alloc(&self) -> Result<NonNull<u8>, Error> {
        let state = &mut *self.state.lock();
        let (id, index) = match self.lowest(state) {
            Some(place) => place,
            None => (self.create(state)?, 0),
        };
        // SAFETY: slab and index were just found, and the state is still locked.
        unsafe { self.alloc_at(state, id, index) }.or_else(|error| {
            self.destroy_if_unused(state, id);
            let (id, index) = self.lowest_committed(state).ok_or(error)?;
            // SAFETY: slab and index were just found, and the state is still locked.
            unsafe { self.alloc_at(state, id, index) }
        })
    }

    /// Allocates the free object at the lowest offset, to which the owner can move `object`.
    /// Returns `None` if no object on committed pages is free below `object`. In a scattered cache,
    /// pages may be committed for the new object, because the committed pages may have little space
    /// left.
    ///
    /// To move an object, the owner copies it, redirects the pointers to it, and frees the old
    /// object. After the owner has moved each object, free objects remain only at the highest
    /// offsets, and the pages of these objects are released.
    pub fn alloc_before(&self, object: NonNull<u8>) -> Option<NonNull<u8>> {
        let state = &mut *self.state.lock();
        let (old, old_index) = self.locate(object).ok()?;
        let end = self.offset(old, old_index);
        if state.stat.is_scattered(&self.geometry)
            && let Some((id, index)) = self.lowest(state)
            && self.offset(id, index) < end
            // SAFETY: slab and index were just found, and the state is still locked.
            && let Ok(lower) = unsafe { self.alloc_at(state, id, index) }
        {
            return Some(lower);
        }
        let (id, index) = self.lowest_committed(state)?;
        // SAFETY: slab and index were just found, and the state is still locked.
        let alloc = || unsafe { self.alloc_at(state, id, index) }.ok();
        (self.offset(id, index) < end).then(alloc)?
    }

    /// Returns whether moving objects is worthwhile, because packed objects would need clearly
    /// fewer pages or slabs.
    pub fn is_scattered(&self) -> bool {
        self.stat().is_scattered(&self.geometry)
    }

    /// Frees an object. For a foreign address or a double free, returns an error and changes
    /// nothing.
    ///
    /// # Safety
    /// No thread uses the object again.
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), Error> {
        let mut state = self.state.lock();
        let (id, index) = self.locate(object)?;
        // SAFETY: `locate` found that the slab belongs to this cache, whose lock is held. The
        // caller guarantees that no thread uses the object again.
        let emptied = unsafe { self.slab(id).data.clear_used(self.geometry.grid(), index) };
        let emptied = emptied.ok_or(Error::DoubleFree { address: object.addr().get() })?;
        state.stat.active_objects -= 1;
        state.stat.retained += emptied as usize;
        self.update_summary(&mut state, id);
        self.release(state, CacheStat::retained_max);
        Ok(())
    }

    /// Releases all retained pages. Returns the number of pages released.
    pub fn shrink(&self) -> usize {
        self.release(self.state.lock(), |_| 0)
    }

    /// Locks the cache before a fork, or unlocks it after the fork.
    pub fn at_fork(&self, step: Step) {
        self.state.at_fork(step);
    }

    /// In a child of fork, cancels the releases that lost threads had begun. The pages of these
    /// releases stay retained, and still count as committed (see [`MetadataArena::recount`]).
    ///
    /// # Safety
    /// The process is a child that lacks all other threads of its parent, so no thread releases
    /// pages.
    pub unsafe fn repair(&self) {
        let mut state = self.state.lock();
        for id in state.tree.slabs(self.space()) {
            // SAFETY: the slab is in this cache's tree, which is locked. The caller guarantees that
            // the threads that released pages are lost.
            unsafe { self.slab(id).data.end_release(&PageSet::default()) };
            self.update_summary(&mut state, id);
        }
        state.releasing = 0;
        self.release(state, CacheStat::retained_max);
    }

    fn space(&self) -> &Space<Slab> {
        &self.arena.space
    }

    fn slab(&self, id: ExtentId) -> &Extent<Slab> {
        self.space().extent(id)
    }

    fn offset(&self, id: ExtentId, index: u32) -> u64 {
        self.slab(id).start() + u64::from(index) * self.geometry.stride as u64
    }

    /// Returns the slab of the object at an address, and the object's index in the slab. The caller
    /// holds the lock, so the cache's own slabs do not change.
    fn locate(&self, object: NonNull<u8>) -> Result<(ExtentId, u32), Error> {
        let foreign = Error::Foreign { address: object.addr().get() };
        let offset = self.arena.offset_of(object).ok_or(foreign)?;
        let id = self.space().find(offset).ok_or(foreign)?;
        let slab = self.slab(id);
        // `pages` is read first, because another thread may be creating a slab of another cache.
        let is_ours = slab.pages() > 0 && slab.tag() == self.tag;
        let at = offset.checked_sub(slab.start()).ok_or(foreign)? as usize;
        let index = at / self.geometry.stride;
        let inside = index < self.geometry.objects && at.is_multiple_of(self.geometry.stride);
        if !is_ours || !inside {
            return Err(foreign);
        }
        Ok((id, index as u32))
    }

    fn lowest(&self, state: &mut State) -> Option<(ExtentId, u32)> {
        let id = state.lowest.or_else(|| state.tree.first(self.space(), HAS_ROOM))?;
        state.lowest = Some(id);
        Some((id, self.slab(id).data.lowest_free(self.geometry.grid())?))
    }

    /// Returns the lowest free object on committed pages.
    fn lowest_committed(&self, state: &State) -> Option<(ExtentId, u32)> {
        let id = state.tree.first(self.space(), HAS_COMMITTED_ROOM)?;
        Some((id, self.slab(id).data.lowest_committed(self.geometry.grid())?))
    }

    /// Commits the pages of a free object and takes the object.
    ///
    /// # Safety
    /// The object was found by `lowest` or `lowest_committed`, or is the first object of a slab
    /// that `create` returned. `state` belongs to this cache, and has been locked since.
    unsafe fn alloc_at(
        &self,
        state: &mut State,
        id: ExtentId,
        index: u32,
    ) -> Result<NonNull<u8>, Error> {
        let (slab, grid) = (&self.slab(id).data, self.geometry.grid());
        let missing = slab.missing(grid, index);
        self.space().charge(missing)?;
        // SAFETY: the caller guarantees that the object is free and `state` is locked. The pages
        // were just charged.
        state.stat.retained -= unsafe { slab.set_used(grid, index) } as usize;
        state.stat.active_objects += 1;
        state.stat.pages += missing as usize;
        self.update_summary(state, id);
        Ok(self.space().address(self.offset(id, index)))
    }

    fn create(&self, state: &mut State) -> Result<ExtentId, Error> {
        let id = self.space().alloc(self.geometry.pages as u32, self.tag)?;
        // SAFETY: the slab was just created for this cache, whose state is locked.
        unsafe {
            self.slab(id).data.reset();
            state.tree.insert(self.space(), id);
        }
        state.stat.slabs += 1;
        state.stat.objects += self.geometry.objects;
        self.update_summary(state, id);
        Ok(id)
    }

    /// Destroys a slab if it has neither objects nor committed pages.
    fn destroy_if_unused(&self, state: &mut State, id: ExtentId) {
        if self.slab(id).data.is_unused() {
            state.tree.remove(self.space(), id);
            state.lowest = state.lowest.filter(|&lowest| lowest != id);
            state.stat.slabs -= 1;
            state.stat.objects -= self.geometry.objects;
            // SAFETY: no object lies in the slab, and it was removed from the cache's tree.
            unsafe { self.space().free(id) };
        }
    }

    fn update_summary(&self, state: &mut State, id: ExtentId) {
        let slab = &self.slab(id).data;
        let found = slab.summarise(self.geometry.grid());
        let before = slab.summary.load(Relaxed);
        if found == before {
            return;
        }
        state.tree.set_summary(self.space(), id, found);
        if let Some(lowest) = state.lowest
            && (found ^ before) & HAS_ROOM != 0
        {
            let is_lower = self.slab(id).start() < self.slab(lowest).start();
            state.lowest = match found & HAS_ROOM {
                0 => state.lowest.filter(|&lowest| lowest != id),
                _ => Some(if is_lower { id } else { lowest }),
            };
        }
    }

    /// Releases retained pages, the highest first, until at most as many are left as `most`
    /// returns. Returns the number of pages released.
    fn release<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        most: impl Fn(&CacheStat) -> usize,
    ) -> usize {
        let mut total = 0;
        let excess = |state: &State| {
            (state.stat.retained - state.releasing).saturating_sub(most(&state.stat))
        };
        // If no slab is found, other threads are already releasing the remaining excess.
        while excess(&state) > 0
            && let Some(id) = state.tree.last(self.space(), HAS_RETAINED)
        {
            // SAFETY: the slab is in this cache's tree, whose state is locked.
            let mut going = unsafe { self.slab(id).data.begin_release(excess(&state)) };
            let count = going.len() as usize;
            state.releasing += count;
            self.update_summary(&mut state, id);
            drop(state);
            let released = PageSet::from_low_bits(going.low_bits());
            // SAFETY: the pages were retained, so no object lies on them. No object is allocated on
            // them until the release has ended. A slab with committed pages is not destroyed during
            // the release.
            let released = unsafe { self.space().release(id, &released) };
            going.clear();
            released.runs().for_each(|run| _ = going.insert(run));
            state = self.state.lock();
            state.releasing -= count;
            // SAFETY: the release was begun above, and the pages in `going` were released.
            let went = unsafe { self.end_release(&mut state, id, &going) };
            total += went;
            if went == 0 {
                break; // locked memory can't be released
            }
        }
        total
    }

    /// Ends a release in which the pages `gone` of a slab were released. Returns the number of
    /// pages in `gone`.
    ///
    /// # Safety
    /// The caller began the release, and the pages in `gone` were released to the system.
    unsafe fn end_release(&self, state: &mut State, id: ExtentId, gone: &PageSet<1>) -> usize {
        // SAFETY: the caller guarantees that it began the release, and holds the lock of the state.
        unsafe { self.slab(id).data.end_release(gone) };
        let went = gone.len() as usize;
        state.stat.pages -= went;
        state.stat.retained -= went;
        self.update_summary(state, id);
        self.destroy_if_unused(state, id);
        went
    }

    /// Asserts that the whole state is consistent: order, counts and descriptors of all slabs.
    pub fn check(&self) {
        let state = self.state.lock();
        state.tree.check(self.space());
        let lowest = state.tree.first(self.space(), HAS_ROOM);
        assert!(state.lowest.is_none_or(|known| Some(known) == lowest), "{:?}", state.lowest);
        let mut stat = CacheStat::default();
        for id in state.tree.slabs(self.space()) {
            let slab = self.slab(id);
            assert_eq!((slab.tag(), slab.pages() as usize), (self.tag, self.geometry.pages));
            slab.data.check(self.geometry.grid());
            assert!(!slab.data.is_unused(), "{id:?} has neither objects nor pages");
            stat.active_objects += slab.data.active();
            stat.objects += self.geometry.objects;
            stat.slabs += 1;
            stat.pages += slab.data.committed().len() as usize;
            stat.retained += slab.data.retained().len() as usize;
        }
        assert_eq!(stat, state.stat);
        assert!(stat.retained <= stat.retained_max() || state.releasing > 0, "{stat:?}");
        let ours = self.space().live().filter(|&id| self.slab(id).tag() == self.tag);
        assert_eq!(ours.count(), stat.slabs, "slabs of the cache");
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misuse_is_named_and_changes_nothing() {
        let arena = MetadataArena::new(page::Config::default()).unwrap();
        let cache = Cache::new(&arena, 48, 16).unwrap();
        let other = Cache::new(&arena, 48, 16).unwrap();
        let object = cache.alloc().unwrap();
        let address = object.addr().get();
        let mut outside = 0u8;
        // SAFETY: no thread uses the objects that are freed. The other calls are refused.
        unsafe {
            assert_eq!(other.free(object), Err(Error::Foreign { address }));
            let inside = object.add(1);
            assert_eq!(cache.free(inside), Err(Error::Foreign { address: address + 1 }));
            let stack = NonNull::from(&mut outside);
            assert!(matches!(cache.free(stack), Err(Error::Foreign { .. })));
            cache.free(object).unwrap();
            assert_eq!(cache.free(object), Err(Error::DoubleFree { address }));
        }
        cache.check();
        assert_eq!(cache.stat().active_objects, 0);
        assert_eq!(cache.shrink(), 1);
        // SAFETY: the call is refused, because the slab was destroyed.
        assert_eq!(unsafe { cache.free(object) }, Err(Error::Foreign { address }));
    }

    #[test]
    fn a_child_takes_pages_back_that_were_releasing() {
        let arena = MetadataArena::new(page::Config::default()).unwrap();
        let cache = Cache::new(&arena, page::page_size(), 8).unwrap();
        let objects: Vec<_> = (0..5).map(|_| cache.alloc().unwrap()).collect();
        // SAFETY: no thread uses the objects that are freed.
        objects[..2].iter().for_each(|&object| unsafe { cache.free(object).unwrap() });
        // This thread acts as a thread that is lost in the child. The thread begins to release page
        // 1, and does not finish.
        let mut state = cache.state.lock();
        let id = state.tree.last(cache.space(), HAS_RETAINED).unwrap();
        // SAFETY: the cache is locked.
        assert_eq!(unsafe { cache.slab(id).data.begin_release(1) }.low_bits(), 2);
        state.releasing = 1;
        cache.update_summary(&mut state, id);
        drop(state);
        assert_eq!(cache.alloc_before(objects[4]), None, "retained pages may be on their way");
        cache.check();
        // SAFETY: this thread began the release, and does not continue it.
        unsafe { cache.repair() };
        assert_eq!((cache.stat().pages, cache.stat().retained), (5, 2));
        assert_eq!(cache.alloc(), Ok(objects[0]));
        assert_eq!(cache.alloc(), Ok(objects[1]));
        cache.check();
    }
}
