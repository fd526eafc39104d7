//! The untyped cache.
//!
//! Locks: `state` guards the lists and every descriptor of the cache's slabs; the space's lock is taken
//! under it. An empty slab is unlinked under the lock and given back outside it: no one finds it any more.
//!
//! # Safety
//! An object's memory is committed before its bit is set and stays so while the bit is set; two objects
//! never overlap, since object n covers bytes n * stride to (n + 1) * stride of its slab.
#![allow(unsafe_code)]

use crate::descriptor::Slab;
use crate::sync::{Mutex, MutexGuard, Relaxed};
use crate::{Arena, Error, Geometry};
use page::{Extent, ExtentId, page_shift};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Counts of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// Objects in use.
    pub active_objects: usize,
    /// Objects the slabs there are have room for.
    pub objects: usize,
    /// Slabs there are.
    pub slabs: usize,
}

#[derive(Debug, Default)]
struct State {
    /// First slab with objects and room, as a raw extent id; 0 is none.
    partial: u32,
    /// An empty slab kept ready; 0 is none.
    spare: u32,
    stat: CacheStat,
}

/// A cache of objects of one size and alignment.
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

    /// Objects and slabs there are now.
    pub fn stat(&self) -> CacheStat {
        self.state.lock().stat
    }

    /// An object. Its bytes are those it had when it was last freed, or zero.
    pub fn alloc(&self) -> Result<NonNull<u8>, Error> {
        let mut state = self.state.lock();
        let id = self.slab_with_room(&mut state)?;
        let slab = self.slab(id);
        let Some(index) = slab.data.take(self.geometry.objects) else {
            unreachable!("a slab in the list of those with room is full");
        };
        let (committed, pages) = (slab.data.committed(), self.pages_of(index));
        let missing = pages.len() as u32 - committed.count(pages.clone());
        if let Err(error) = self.arena.space.charge(missing) {
            slab.data.give(index);
            self.retire_if_empty(state, id);
            return Err(error.into());
        }
        committed.insert(pages);
        state.stat.active_objects += 1;
        if slab.data.active() == self.geometry.objects {
            self.unlink(&mut state, id);
        }
        Ok(self.arena.space.pointer(slab.start() + (index * self.geometry.stride) as u64))
    }

    /// Gives an object back. A foreign address and a double free are errors and change nothing.
    ///
    /// # Safety
    /// No one uses the object again.
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), Error> {
        let (id, index) = self.locate(object)?;
        let mut state = self.state.lock();
        let slab = self.slab(id);
        let was_full = slab.data.active() == self.geometry.objects;
        if slab.tag() != self.tag || slab.pages() == 0 || !slab.data.give(index) {
            return Err(Error::DoubleFree { address: object.addr().get() });
        }
        state.stat.active_objects -= 1;
        if was_full {
            self.link(&mut state, id);
        }
        self.retire_if_empty(state, id);
        Ok(())
    }

    /// Gives the spare slab back; pages freed.
    pub fn shrink(&self) -> usize {
        let mut state = self.state.lock();
        match ExtentId::from_raw(std::mem::take(&mut state.spare)) {
            Some(id) => self.destroy(state, id),
            None => 0,
        }
    }

    /// Holds the cache still over a fork: its lock is taken until [`let_go`](Self::let_go).
    pub fn hold(&self) {
        self.state.hold();
    }

    /// Releases what [`hold`](Self::hold) took.
    pub fn let_go(&self) {
        self.state.let_go();
    }

    /// Destroys, in a child, the empty slabs that lost threads were about to destroy.
    pub fn mend(&self) {
        let spare = self.state.lock().spare;
        let space = &self.arena.space;
        let lost = space.live().filter(|&id| {
            let slab = self.slab(id);
            slab.tag() == self.tag && slab.data.active() == 0 && id.to_raw() != spare
        });
        for id in lost.collect::<Vec<_>>() {
            self.give_back(id);
        }
    }

    fn slab(&self, id: ExtentId) -> &Extent<Slab> {
        self.arena.space.extent(id)
    }

    /// Slab and index of an object's address.
    fn locate(&self, object: NonNull<u8>) -> Result<(ExtentId, usize), Error> {
        let foreign = Error::Foreign { address: object.addr().get() };
        let offset = self.arena.offset_of(object).ok_or(foreign)?;
        let id = self.arena.space.find(offset).ok_or(foreign)?;
        let slab = self.slab(id);
        let at = offset.checked_sub(slab.start()).ok_or(foreign)? as usize;
        let index = at / self.geometry.stride;
        let inside = index < self.geometry.objects && at.is_multiple_of(self.geometry.stride);
        if slab.tag() != self.tag || !inside {
            return Err(foreign);
        }
        Ok((id, index))
    }

    /// The pages object `index` lies in.
    fn pages_of(&self, index: usize) -> Range<u32> {
        let start = index * self.geometry.stride;
        let last = start + self.geometry.stride - 1;
        (start >> page_shift()) as u32..(last >> page_shift()) as u32 + 1
    }

    /// The first slab with room, else the spare one, else a new one; it is in the list afterwards.
    fn slab_with_room(&self, state: &mut State) -> Result<ExtentId, Error> {
        if let Some(id) = ExtentId::from_raw(state.partial) {
            return Ok(id);
        }
        let id = match ExtentId::from_raw(std::mem::take(&mut state.spare)) {
            Some(id) => id,
            None => {
                let id = self.arena.space.alloc(self.geometry.pages as u32, self.tag)?;
                self.slab(id).data.reset();
                state.stat.slabs += 1;
                state.stat.objects += self.geometry.objects;
                id
            }
        };
        self.link(state, id);
        Ok(id)
    }

    /// Puts a slab at the head of the list of those with room.
    fn link(&self, state: &mut State, id: ExtentId) {
        let slab = self.slab(id);
        slab.data.previous.store(0, Relaxed);
        slab.data.next.store(state.partial, Relaxed);
        if let Some(head) = ExtentId::from_raw(state.partial) {
            self.slab(head).data.previous.store(id.to_raw(), Relaxed);
        }
        state.partial = id.to_raw();
    }

    fn unlink(&self, state: &mut State, id: ExtentId) {
        let slab = self.slab(id);
        let next = slab.data.next.load(Relaxed);
        let previous = slab.data.previous.load(Relaxed);
        match ExtentId::from_raw(previous) {
            Some(previous) => self.slab(previous).data.next.store(next, Relaxed),
            None => state.partial = next,
        }
        if let Some(next) = ExtentId::from_raw(next) {
            self.slab(next).data.previous.store(previous, Relaxed);
        }
    }

    /// Takes a slab without objects out of the list: the first becomes the spare, others are given back.
    fn retire_if_empty(&self, mut state: MutexGuard<'_, State>, id: ExtentId) {
        if self.slab(id).data.active() > 0 {
            return;
        }
        self.unlink(&mut state, id);
        if state.spare == 0 {
            state.spare = id.to_raw();
        } else {
            self.destroy(state, id);
        }
    }

    /// Gives an unlinked empty slab back, outside the lock; pages freed.
    fn destroy(&self, mut state: MutexGuard<'_, State>, id: ExtentId) -> usize {
        state.stat.slabs -= 1;
        state.stat.objects -= self.geometry.objects;
        drop(state);
        self.give_back(id)
    }

    /// Gives a slab back that no one finds any more; pages freed.
    fn give_back(&self, id: ExtentId) -> usize {
        let committed = self.slab(id).data.committed();
        // SAFETY: the slab has no object and is in no list: `destroy`'s caller unlinked it under the lock,
        // or a thread did that is lost (`mend`). No one finds it until `free` below.
        let released = unsafe { self.arena.space.release(id, committed) };
        self.arena.space.free(id);
        released.len() as usize
    }

    /// Asserts the whole state: lists, counts and descriptors of all slabs.
    pub fn check(&self) {
        let state = self.state.lock();
        let mut listed = Vec::new();
        let mut next = ExtentId::from_raw(state.partial);
        let mut previous = 0;
        while let Some(id) = next {
            let slab = self.slab(id);
            assert_eq!(slab.data.previous.load(Relaxed), previous);
            assert!((1..self.geometry.objects).contains(&slab.data.active()), "{id:?} in the list");
            assert!(!listed.contains(&id), "the list of slabs with room has a cycle");
            listed.push(id);
            previous = id.to_raw();
            next = ExtentId::from_raw(slab.data.next.load(Relaxed));
        }
        let mut stat = CacheStat::default();
        for id in self.arena.space.live().filter(|&id| self.slab(id).tag() == self.tag) {
            let slab = self.slab(id);
            slab.data.check(self.geometry.objects);
            let active = slab.data.active();
            stat.slabs += 1;
            stat.objects += self.geometry.objects;
            stat.active_objects += active;
            let room = (1..self.geometry.objects).contains(&active);
            assert_eq!(listed.contains(&id), room, "{id:?} with {active} objects");
            assert!(active > 0 || state.spare == id.to_raw(), "{id:?} is empty and not spare");
        }
        assert_eq!(stat, state.stat);
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
}
