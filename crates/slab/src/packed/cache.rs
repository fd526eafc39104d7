//! The cache.
//!
//! ```text
//!   page of a slab:  untouched --an object on it is given out--> committed --the last on it is freed--> ready
//!                        ^                                                      (an object is given out)--'
//!                        '------ released <-- going <-- more pages ready than max(2, 1/64 of the committed)
//! ```
//! Locks: `state` guards the order of the slabs and every descriptor of them; the space's lock is taken under
//! it. Pages are given back outside it, as *going* ones, on which no object is given out meanwhile. A slab
//! without objects, of which no page is committed, is destroyed under the lock.
//!
//! # Safety
//! - sl-S1: the pages of an object are committed before it is given out, and neither ready nor
//!   going, so they are not given back, until it is freed.
//! - sl-S2: two objects never overlap: object n covers bytes n * stride to (n + 1) * stride of its
//!   slab.
#![allow(unsafe_code)]

use super::descriptor::{COMMITTED, READY, ROOM, Slab};
use super::geometry::Pages;
use super::order::Order;
use super::stat::CacheStat;
use super::{Arena, Geometry};
use crate::Error;
use crate::sync::{Mutex, MutexGuard, Relaxed};
use page::{Extent, ExtentId, PageSet, Space};
use std::ptr::NonNull;
use std::sync::Arc;

#[derive(Debug, Default)]
struct State {
    order: Order,
    /// The lowest slab with room, if it is known.
    lowest: Option<ExtentId>,
    stat: CacheStat,
}

/// A cache of objects of one size and alignment, given out lowest address first.
#[derive(Debug)]
pub struct RawCache {
    arena: Arc<Arena>,
    geometry: Geometry,
    tag: u32,
    state: Mutex<State>,
}

impl RawCache {
    /// A cache of objects of `size` bytes, aligned to `align`.
    pub fn new(arena: &Arc<Arena>, size: usize, align: usize) -> Result<Self, Error> {
        let geometry = Geometry::new(size, align)?;
        let tag = arena.next_cache();
        Ok(RawCache { arena: arena.clone(), geometry, tag, state: Mutex::default() })
    }

    /// The arena the cache's slabs lie in.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// The shape of the cache's slabs.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Objects, slabs and pages there are now.
    pub fn stat(&self) -> CacheStat {
        self.state.lock().stat
    }

    /// The free object at the lowest offset; where its pages are refused, the lowest on committed ones. Its
    /// bytes are those it had when it was last freed, or zero.
    pub fn alloc(&self) -> Result<NonNull<u8>, Error> {
        let state = &mut *self.state.lock();
        let (id, index) = match self.lowest(state) {
            Some(place) => place,
            None => (self.create(state)?, 0),
        };
        self.occupy(state, id, index).or_else(|error| {
            self.destroy_if_unused(state, id);
            let (id, index) = self.lowest_committed(state).ok_or(error)?;
            self.occupy(state, id, index)
        })
    }

    /// The free object at the lowest offset, for an owner who can move `object` there: `None` unless that is
    /// lower, and on pages that are committed already. In a cache that is scattered its pages may have to be
    /// committed: objects on pages far apart leave room for others only in part, or for none.
    ///
    /// An owner who copies, points to the new object and frees the old one, and does so once with all, leaves
    /// no room but at the end; the pages there go back.
    pub fn alloc_before(&self, object: NonNull<u8>) -> Option<NonNull<u8>> {
        let state = &mut *self.state.lock();
        let (old, old_index) = self.locate(object).ok()?;
        let end = self.offset(old, old_index);
        if state.stat.is_scattered(&self.geometry)
            && let Some((id, index)) = self.lowest(state)
            && self.offset(id, index) < end
            && let Ok(lower) = self.occupy(state, id, index)
        {
            return Some(lower);
        }
        let (id, index) = self.lowest_committed(state)?;
        (self.offset(id, index) < end).then(|| self.occupy(state, id, index).ok())?
    }

    /// Whether it is worth moving objects: packed, they would need clearly fewer pages or slabs.
    pub fn is_scattered(&self) -> bool {
        self.stat().is_scattered(&self.geometry)
    }

    /// Gives an object back. A foreign address and a double free are errors and change nothing.
    ///
    /// # Safety
    /// No one uses the object again.
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), Error> {
        let mut state = self.state.lock();
        let (id, index) = self.locate(object)?;
        let emptied = self.slab(id).data.give(&self.geometry, index);
        let emptied = emptied.ok_or(Error::DoubleFree { address: object.addr().get() })?;
        state.stat.active_objects -= 1;
        state.stat.ready += emptied.count_ones() as usize;
        self.note(&mut state, id);
        self.release(state, CacheStat::ready_max);
        Ok(())
    }

    /// Gives all pages back that are kept ready; how many went.
    pub fn shrink(&self) -> usize {
        self.release(self.state.lock(), |_| 0)
    }

    /// Holds the cache still over a fork: its lock is taken until [`let_go`](Self::let_go).
    pub fn hold(&self) {
        self.state.hold();
    }

    /// Releases what [`hold`](Self::hold) took.
    pub fn let_go(&self) {
        self.state.let_go();
    }

    /// Makes pages ready again, in a child, that lost threads were giving back. They are still counted as
    /// committed; see [`Arena::recount`].
    pub fn mend(&self) {
        let mut state = self.state.lock();
        for id in state.order.slabs(self.space()) {
            let slab = &self.slab(id).data;
            let going = slab.going();
            slab.settle(going, 0);
            state.stat.ready += going.count_ones() as usize;
            self.note(&mut state, id);
        }
        self.release(state, CacheStat::ready_max);
    }

    fn space(&self) -> &Space<Slab> {
        &self.arena.space
    }

    fn slab(&self, id: ExtentId) -> &Extent<Slab> {
        self.space().extent(id)
    }

    fn offset(&self, id: ExtentId, index: usize) -> u64 {
        self.slab(id).start() + (index * self.geometry.stride) as u64
    }

    /// Slab and index of an object's address. The lock is held, so the cache's own slabs stay what they are.
    fn locate(&self, object: NonNull<u8>) -> Result<(ExtentId, usize), Error> {
        let foreign = Error::Foreign { address: object.addr().get() };
        let offset = self.arena.offset_of(object).ok_or(foreign)?;
        let id = self.space().find(offset).ok_or(foreign)?;
        let slab = self.slab(id);
        // The pages come first: another cache's slab may be in the making.
        let is_ours = slab.pages() > 0 && slab.tag() == self.tag;
        let at = offset.checked_sub(slab.start()).ok_or(foreign)? as usize;
        let index = at / self.geometry.stride;
        let inside = index < self.geometry.objects && at.is_multiple_of(self.geometry.stride);
        if !is_ours || !inside {
            return Err(foreign);
        }
        Ok((id, index))
    }

    /// The lowest free object.
    fn lowest(&self, state: &mut State) -> Option<(ExtentId, usize)> {
        let id = state.lowest.or_else(|| state.order.first(self.space(), ROOM))?;
        state.lowest = Some(id);
        Some((id, self.slab(id).data.lowest_free(&self.geometry)?))
    }

    /// The lowest free object on pages that are committed.
    fn lowest_committed(&self, state: &State) -> Option<(ExtentId, usize)> {
        let id = state.order.first(self.space(), COMMITTED)?;
        Some((id, self.slab(id).data.lowest_committed(&self.geometry)?))
    }

    /// Commits what a free object needs, and takes it.
    fn occupy(&self, state: &mut State, id: ExtentId, index: usize) -> Result<NonNull<u8>, Error> {
        let slab = &self.slab(id).data;
        let missing = (self.geometry.pages_of(index) & !slab.committed()).count_ones();
        self.space().charge(missing)?;
        let no_longer_ready = slab.take(&self.geometry, index);
        state.stat.active_objects += 1;
        state.stat.pages += missing as usize;
        state.stat.ready -= no_longer_ready.count_ones() as usize;
        self.note(state, id);
        Ok(self.space().pointer(self.offset(id, index)))
    }

    /// A slab without objects.
    fn create(&self, state: &mut State) -> Result<ExtentId, Error> {
        let id = self.space().alloc(self.geometry.pages as u32, self.tag)?;
        self.slab(id).data.reset();
        state.order.insert(self.space(), id);
        state.stat.slabs += 1;
        state.stat.objects += self.geometry.objects;
        self.note(state, id);
        Ok(id)
    }

    fn destroy_if_unused(&self, state: &mut State, id: ExtentId) {
        if self.slab(id).data.is_unused() {
            state.order.remove(self.space(), id);
            state.lowest = state.lowest.filter(|&lowest| lowest != id);
            state.stat.slabs -= 1;
            state.stat.objects -= self.geometry.objects;
            self.space().free(id);
        }
    }

    /// Marks what is to be found in a slab, after any change to it.
    fn note(&self, state: &mut State, id: ExtentId) {
        let slab = &self.slab(id).data;
        let found = slab.found(&self.geometry);
        let before = slab.marks.load(Relaxed);
        if found == before {
            return;
        }
        state.order.mark(self.space(), id, found);
        if let Some(lowest) = state.lowest
            && (found ^ before) & ROOM != 0
        {
            let is_lower = self.slab(id).start() < self.slab(lowest).start();
            state.lowest = match found & ROOM {
                0 => state.lowest.filter(|&lowest| lowest != id),
                _ => Some(if is_lower { id } else { lowest }),
            };
        }
    }

    /// Gives ready pages back, the highest first, until no more are left than `most` says; how many went.
    fn release<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        most: impl Fn(&CacheStat) -> usize,
    ) -> usize {
        let mut total = 0;
        while state.stat.ready > most(&state.stat) {
            let Some(id) = state.order.last(self.space(), READY) else {
                unreachable!("{} pages are ready, but no slab has any", state.stat.ready);
            };
            let slab = &self.slab(id).data;
            let going = slab.hold(state.stat.ready - most(&state.stat));
            state.stat.ready -= going.count_ones() as usize;
            self.note(&mut state, id);
            drop(state);
            // SAFETY: no object lies on these pages, as they were ready, and none is given out on them until
            // they are settled. A slab with committed pages is not destroyed meanwhile.
            let released =
                unsafe { self.space().release(id, &PageSet::from_low_bits(going.into())) };
            state = self.state.lock();
            let went = self.settle(&mut state, id, going, released.low_bits() as Pages);
            total += went;
            if went == 0 {
                break; // locked memory
            }
        }
        total
    }

    /// Takes note of a release; how many pages went.
    fn settle(&self, state: &mut State, id: ExtentId, going: Pages, released: Pages) -> usize {
        self.slab(id).data.settle(going, released);
        let (all, went) = (going.count_ones() as usize, released.count_ones() as usize);
        state.stat.pages -= went;
        state.stat.ready += all - went;
        self.note(state, id);
        self.destroy_if_unused(state, id);
        went
    }

    /// Asserts the whole state: order, counts and descriptors of all slabs.
    pub fn check(&self) {
        let state = self.state.lock();
        state.order.check(self.space());
        let lowest = state.order.first(self.space(), ROOM);
        assert!(state.lowest.is_none_or(|known| Some(known) == lowest), "{:?}", state.lowest);
        let mut stat = CacheStat::default();
        let mut going = 0;
        for id in state.order.slabs(self.space()) {
            let slab = self.slab(id);
            assert_eq!((slab.tag(), slab.pages() as usize), (self.tag, self.geometry.pages));
            slab.data.check(&self.geometry);
            assert!(!slab.data.is_unused(), "{id:?} has neither objects nor pages");
            stat.active_objects += slab.data.active();
            stat.objects += self.geometry.objects;
            stat.slabs += 1;
            stat.pages += slab.data.committed().count_ones() as usize;
            stat.ready += slab.data.ready().count_ones() as usize;
            going += slab.data.going().count_ones();
        }
        assert_eq!(stat, state.stat);
        assert!(stat.ready <= stat.ready_max() || going > 0, "{stat:?}");
        let ours = self.space().live().filter(|&id| self.slab(id).tag() == self.tag);
        assert_eq!(ours.count(), stat.slabs, "slabs of the cache");
    }
}

impl Drop for RawCache {
    fn drop(&mut self) {
        self.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misuse_is_named_and_changes_nothing() {
        let arena = Arena::new(page::Config::default()).unwrap();
        let cache = RawCache::new(&arena, 48, 16).unwrap();
        let other = RawCache::new(&arena, 48, 16).unwrap();
        let object = cache.alloc().unwrap();
        let address = object.addr().get();
        let mut outside = 0u8;
        // SAFETY: nobody uses the objects freed here; the others are refused.
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
        // SAFETY: refused, as the slab is gone.
        assert_eq!(unsafe { cache.free(object) }, Err(Error::Foreign { address }));
    }

    #[test]
    fn a_child_takes_pages_back_that_were_going() {
        let arena = Arena::new(page::Config::default()).unwrap();
        let cache = RawCache::new(&arena, page::page_size(), 8).unwrap();
        let objects: Vec<_> = (0..5).map(|_| cache.alloc().unwrap()).collect();
        // SAFETY: nobody uses the objects freed here.
        objects[..2].iter().for_each(|&object| unsafe { cache.free(object).unwrap() });
        // What a thread does that is then lost: it holds page 1, and dies before it has settled.
        let mut state = cache.state.lock();
        let id = state.order.last(cache.space(), READY).unwrap();
        assert_eq!(cache.slab(id).data.hold(1), 2);
        state.stat.ready -= 1;
        cache.note(&mut state, id);
        drop(state);
        assert_eq!(cache.alloc_before(objects[4]), Some(objects[0]));
        assert_eq!(cache.alloc_before(objects[4]), None, "page 1 is going");
        cache.check();
        cache.mend();
        assert_eq!((cache.stat().pages, cache.stat().ready), (5, 1));
        assert_eq!(cache.alloc(), Ok(objects[1]));
        cache.check();
    }
}
