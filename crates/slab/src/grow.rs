//! Slabs are made and given back, with no lock of the cache held; those of the reserve too.
//!
//! # Safety
//! - sl-A1: a slab that is not attached (sl-H2 in `cache_id`) is known to its maker alone, or to
//!   who unlinked it: he may work in it, and do with its memory what he likes, as no object of it
//!   is live (sl-K1).
#![allow(unsafe_code)]

use crate::Error;
use crate::bits::{NO_ONE, RESERVE};
use crate::depot::{Depot, State};
use crate::lists::List;
use crate::options::Memory;
use crate::red_zones::RedZones;
use crate::shape::{BLOCK_HEADER, Shape};
use crate::slab_ref::SlabRef;
use crate::sync::Relaxed;
use crate::thread::{self, Number};
use page::{ExtentId, PageSet, Request, page_size};
use std::alloc;
use std::ptr::NonNull;

impl Depot {
    /// A slab without objects in use, in no list.
    pub(crate) fn make(&self) -> Result<ExtentId, Error> {
        let (space, pages) = (&self.arena.space, self.shape.pages as u32);
        let block = self.alloc_block()?;
        let made = space.alloc(pages, self.cache_id.tag()).and_then(|id| {
            space.charge(pages).inspect_err(|_| space.free(id))?;
            Ok(id)
        });
        match made {
            Ok(id) => {
                self.lay_out(id, block);
                Ok(id)
            }
            Err(error) => {
                // SAFETY: no slab has it.
                unsafe { self.free_block(block) };
                Err(error.into())
            }
        }
    }

    /// What a block takes of the heap: `bytes`, of which some may be the heap's own.
    fn block_layout(&self) -> (alloc::Layout, usize) {
        let bytes = self.shape.block_bytes();
        match alloc::Layout::from_size_align(bytes, align_of::<u64>()) {
            Ok(layout) => (layout, bytes + BLOCK_HEADER),
            Err(error) => unreachable!("a block of {bytes} bytes: {error}"),
        }
    }

    /// A block for a slab.
    fn alloc_block(&self) -> Result<NonNull<u8>, Error> {
        let (layout, bytes) = self.block_layout();
        let supply = self.arena.space.supply();
        if supply.is_some_and(|supply| !supply.grant(Request::Allocate { bytes })) {
            let pages = bytes.div_ceil(page_size());
            return Err(page::Error::Refused { pages }.into());
        }
        // SAFETY: a slab has an object at least, so a block has bytes.
        let block = NonNull::new(unsafe { alloc::alloc(layout) });
        let block = block.ok_or(page::Error::Mapping { bytes })?;
        self.arena.block_bytes.fetch_add(bytes, Relaxed);
        Ok(block)
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// It is from `alloc_block`, and for no slab, or for one that is no longer and has forgotten it.
    unsafe fn free_block(&self, block: NonNull<u8>) {
        let (layout, bytes) = self.block_layout();
        self.arena.block_bytes.fetch_sub(bytes, Relaxed);
        // SAFETY: it is of this layout, and no one's, as the caller says.
        unsafe { alloc::dealloc(block.as_ptr(), layout) }
    }

    /// Gives the blocks of the slabs back that stay when the cache is gone, for objects that users
    /// still have.
    ///
    /// # Safety
    /// No one uses the cache, nor will.
    pub(crate) unsafe fn free_blocks(&self) {
        let space = &self.arena.space;
        for id in space.live().filter(|&id| self.cache_id.has(space.extent(id))) {
            let slab = &space.extent(id).data;
            if let Some(block) = slab.block() {
                slab.forget_block();
                // SAFETY: the slab had it, and no one asks for its bits any more.
                unsafe { self.free_block(block) };
            }
        }
    }

    /// Lays a slab out, and its objects.
    fn lay_out(&self, id: ExtentId, block: NonNull<u8>) {
        let Shape { colours, colour_step, first, objects, .. } = self.shape;
        let colour = self.colour.fetch_add(1, Relaxed) as usize % colours * colour_step;
        let extent = self.arena.space.extent(id);
        let start = self.arena.space.address(extent.start());
        let pad = self.red_zones.as_ref().map_or(0, RedZones::pad);
        // First, so that a child which is forked meanwhile finds it in no list.
        extent.data.list.store(List::Unlisted as u8, Relaxed);
        // A fork amid a constructor leaves the slab to the thread that makes it, which the child
        // has.
        extent.data.owner.store(thread::mark(), Relaxed);
        // SAFETY: the extent is new and its pages are charged, and the block is; no one else knows
        // of either.
        unsafe {
            let slab_ref = SlabRef::new(&extent.data, &self.shape);
            slab_ref.reset(start, block, first + colour + pad);
        }
        for index in 0..objects {
            let object = self.slab_ref(id).object(index);
            if let Some(red_zones) = &self.red_zones {
                // SAFETY: the object is free, and its zones lie within its stride.
                unsafe { red_zones.write_zones(object) }
            }
            if let Some(constructor) = self.options.constructor {
                constructor(object);
            }
        }
    }

    /// Unlinks the empty slabs above `most`, as a chain through their links. The lock is held.
    pub(crate) fn unlink_empty(&self, state: &mut State, most: usize) -> Option<ExtentId> {
        let mut chain = None;
        while state.lists.len(List::Free) > most
            && let Some(id) = state.lists.first(List::Free)
        {
            state.lists.unlink(id, |id| self.slab_ref(id));
            self.detach(id);
            self.slab_ref(id).set_next(chain);
            chain = Some(id);
        }
        chain
    }

    /// Gives a chain of slabs back, now or after a grace period.
    pub(crate) fn retire(&self, chain: Option<ExtentId>) {
        let Some(head) = chain else { return };
        if self.options.memory == Memory::AnyTime {
            self.reclaim(head);
        } else if let Some(depot) = self.me.upgrade() {
            self.waiting.fetch_add(1, Relaxed);
            let guard = crossbeam_epoch::pin();
            guard.defer(move || {
                depot.reclaim(head);
                depot.waiting.fetch_sub(1, Relaxed);
            });
            guard.flush();
        }
    }

    /// Gives back the pages of slabs that no one knows any more.
    fn reclaim(&self, head: ExtentId) {
        // They were unlinked by the caller, who alone knows of them (sl-A1). A fork amid a
        // destructor leaves them to him.
        let mine = thread::mark();
        let all = std::iter::successors(Some(head), |&id| self.slab_ref(id).next());
        all.for_each(|id| self.slab_ref(id).slab.owner.store(mine, Relaxed));
        let mut chain = Some(head);
        while let Some(id) = chain {
            let slab_ref = self.slab_ref(id);
            chain = slab_ref.next();
            if let Some(destructor) = self.options.destructor {
                (0..self.shape.objects).for_each(|index| destructor(slab_ref.object(index)));
            }
            self.give_back(id);
        }
    }

    /// Gives back the pages of a slab, and its block if it has one.
    fn give_back(&self, id: ExtentId) {
        let space = &self.arena.space;
        let slab = &space.extent(id).data;
        let block = slab.block();
        let all = u16::MAX >> (u16::BITS as usize - self.shape.pages);
        let pages = PageSet::from_low_bits((all & !slab.released()).into());
        // SAFETY: no object is out, and no one looks any more (sl-K1).
        if unsafe { space.release(id, &pages) }.len() == pages.len() {
            slab.clear();
            space.free(id);
            // SAFETY: the slab that had it is gone.
            block.into_iter().for_each(|block| unsafe { self.free_block(block) });
        } else if let Some(block) = block {
            // Locked memory, so none of it was given back before: it stays, as a new slab.
            self.lay_out(id, block);
            self.link_new(&mut self.state(), id);
        }
    }

    /// Gives up the slabs of all threads but this one, which are no more, and what they were about.
    pub(crate) fn repair_slabs(&self, number: Number) {
        let space = &self.arena.space;
        let mut state = self.state();
        let mut lost = Vec::new();
        for id in space.live().filter(|&id| self.cache_id.has(space.extent(id))) {
            let slab = &space.extent(id).data;
            let owner = slab.owner.load(Relaxed);
            if number.is(owner) || state.reserve.contains(&id) {
                continue;
            }
            if !self.is_attached(id) {
                if owner == thread::mark() {
                    continue;
                }
                // New or on its way out. Where memory is stable it may wait for its grace period.
                let is_whole = !slab.first().is_null() && slab.block().is_some();
                if !is_whole || self.options.memory == Memory::AnyTime {
                    lost.push(id);
                }
            } else if List::of_slab(slab) != List::Unlisted {
                state.lists.unlink(id, |id| self.slab_ref(id));
                self.link_orphan(&mut state, id);
            } else {
                // A thread's, or the reserve's while its idle pages were given back.
                state.owned -= usize::from(owner != RESERVE);
                self.slab_ref(id).rebuild();
                self.link_orphan(&mut state, id);
            }
        }
        drop(state);
        // Without destructors: some may have been called.
        lost.into_iter().for_each(|id| self.give_back(id));
    }

    /// Makes a slab no one's, and frees in it what others have freed. The lock is held (sl-K3).
    fn link_orphan(&self, state: &mut State, id: ExtentId) {
        let slab_ref = self.slab_ref(id);
        slab_ref.slab.bits(&self.shape).orphan();
        slab_ref.drain_remote();
        state.lists.link(id, List::of(slab_ref, &self.shape), |id| self.slab_ref(id));
    }

    /// Makes the slabs of the reserve.
    pub(crate) fn make_reserve(&self) -> Result<(), Error> {
        let slabs = self.options.reserve.div_ceil(self.shape.objects);
        let refused = page::Error::Mapping { bytes: slabs * size_of::<ExtentId>() };
        self.state().reserve.try_reserve_exact(slabs).map_err(|_| Error::Pages(refused))?;
        for _ in 0..slabs {
            let id = self.make()?;
            let mut state = self.state();
            self.attach(id, RESERVE);
            state.reserve.push(id);
        }
        Ok(())
    }

    /// Makes the reserve's slabs no one's, for a cache that ends.
    pub(crate) fn end_reserve(&self) {
        let mut state = self.state();
        for id in std::mem::take(&mut state.reserve) {
            let slab_ref = self.slab_ref(id);
            slab_ref.slab.owner.store(NO_ONE, Relaxed);
            state.lists.link(id, List::of(slab_ref, &self.shape), |id| self.slab_ref(id));
        }
        let chain = self.unlink_empty(&mut state, 0);
        drop(state);
        self.retire(chain);
    }
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
