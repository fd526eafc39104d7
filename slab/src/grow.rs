//! Creates slabs and gives them back, without a lock of the cache held.
//!
//! # Safety
//! - sl-A1: a slab that is not attached (sl-H2 in `cache_id`) is known only to the thread that
//!   creates it, which has a [`NewSlab`], or to the one that unlinked it, which has a [`Chain`].
//!   That thread may work in the slab, and do anything with its memory, because no object of it is
//!   live (sl-K1).
#![allow(unsafe_code)]

use crate::Error;
use crate::bits::NO_ONE;
use crate::depot::{Depot, Locked};
use crate::lists::{List, links};
use crate::options::Memory;
use crate::red_zones::RedZones;
use crate::shape::{BLOCK_HEADER, Shape};
use crate::slab_ref::SlabRef;
use crate::sync::Relaxed;
use crate::thread;
use page::{ExtentId, ListHead, PageSet, Request, page_size};
use std::alloc;
use std::ptr::NonNull;

/// The share of all slabs that may be empty, as a divisor.
const EMPTY_SHARE: usize = 32;

/// A slab without objects in use that no other thread knows of.
#[derive(Debug)]
#[must_use]
pub(crate) struct NewSlab<'d> {
    depot: &'d Depot,
    id: ExtentId,
}

impl NewSlab<'_> {
    /// Attaches the slab to its cache, with the given `owner`, and leaves it in no list.
    pub(crate) fn attach(self, locked: &mut Locked<'_>, owner: u32) -> ExtentId {
        assert!(std::ptr::eq(self.depot, locked.depot), "the new slab is another cache's");
        // SAFETY: this thread created the slab (sl-A1), and continues only as the owner or the
        // holder of the lock.
        unsafe { locked.attach(self.id, owner) };
        self.id
    }

    /// Attaches the slab without an owner.
    pub(crate) fn link(self, locked: &mut Locked<'_>) {
        let id = self.attach(locked, NO_ONE);
        locked.link(id);
    }
}

/// Empty slabs that were unlinked to be freed, each linked to the next.
#[derive(Debug)]
#[must_use]
pub(crate) struct Chain<'d> {
    depot: &'d Depot,
    slabs: ListHead,
}

/// Creates a slab without objects in use.
pub(crate) fn make(depot: &Depot) -> Result<NewSlab<'_>, Error> {
    let (space, pages) = (depot.space(), depot.shape.pages as u32);
    let block = alloc_block(depot)?;
    let made = space.alloc(pages, depot.cache_id.tag()).and_then(|id| {
        // SAFETY: the extent was allocated just now, and no other code knows of it.
        space.charge(pages).inspect_err(|_| unsafe { space.free(id) })?;
        Ok(id)
    });
    match made {
        Ok(id) => {
            // SAFETY: the extent is new and its pages are charged, and the block is new; no other
            // code knows of either.
            unsafe { lay_out(depot, id, block) };
            Ok(NewSlab { depot, id })
        }
        Err(error) => {
            // SAFETY: no slab has the block.
            unsafe { free_block(depot, block) };
            Err(error.into())
        }
    }
}

/// Returns the heap layout of a block, and the bytes that are counted for it.
fn block_layout(depot: &Depot) -> (alloc::Layout, usize) {
    let bytes = depot.shape.block_bytes();
    match alloc::Layout::from_size_align(bytes, align_of::<u64>()) {
        Ok(layout) => (layout, bytes + BLOCK_HEADER),
        Err(error) => unreachable!("the size of a block, {bytes} bytes, is no layout: {error}"),
    }
}

/// Allocates a block for a slab.
fn alloc_block(depot: &Depot) -> Result<NonNull<u8>, Error> {
    let (layout, bytes) = block_layout(depot);
    let supply = depot.space().supply();
    if supply.is_some_and(|supply| !supply.grant(Request::Allocate { bytes })) {
        return Err(page::Error::Refused { pages: bytes.div_ceil(page_size()) }.into());
    }
    // SAFETY: a slab has at least one object, so a block is not empty.
    let block = NonNull::new(unsafe { alloc::alloc(layout) });
    let block = block.ok_or(page::Error::Mapping { bytes })?;
    depot.arena.block_bytes.fetch_add(bytes, Relaxed);
    Ok(block)
}

/// Frees a block.
///
/// # Safety
/// `alloc_block` of this cache returned the block, and no slab has it any more.
unsafe fn free_block(depot: &Depot, block: NonNull<u8>) {
    let (layout, bytes) = block_layout(depot);
    depot.arena.block_bytes.fetch_sub(bytes, Relaxed);
    // SAFETY: the block has this layout, and no slab has it, as the caller guarantees.
    unsafe { alloc::dealloc(block.as_ptr(), layout) }
}

/// Frees the blocks of the slabs that outlive the cache because users still have objects in them.
///
/// # Safety
/// No thread uses the cache now or later.
pub(crate) unsafe fn free_blocks(depot: &Depot) {
    let space = depot.space();
    for id in space.live().filter(|&id| depot.cache_id.has(space.extent(id))) {
        // SAFETY: no thread reads the slab's bits any more, and the slab has forgotten the block.
        unsafe {
            if let Some(block) = depot.slab(id).take_block() {
                free_block(depot, block);
            }
        }
    }
}

/// Lays out a slab and its objects.
///
/// # Safety
/// The extent belongs to the cache, with all its pages charged, and the block is from
/// `alloc_block`; no other code knows of either.
unsafe fn lay_out(depot: &Depot, id: ExtentId, block: NonNull<u8>) {
    let Shape { colours, colour_step, first, objects, .. } = depot.shape;
    let colour = depot.colour.fetch_add(1, Relaxed) as usize % colours * colour_step;
    let (slab, start) = (depot.slab(id), depot.space().address(depot.space().extent(id).start()));
    let pad = depot.red_zones.as_ref().map_or(0, RedZones::pad);
    // Stored first, so that a child forked during the layout finds the slab in no list.
    slab.list.store(List::Unlisted as u8, Relaxed);
    // If a constructor forks, the slab stays with the thread that creates it, which exists in the
    // child.
    // SAFETY: the caller guarantees, here and below, that no other code knows of the slab.
    let slab_ref = unsafe {
        slab.set_owner(thread::mark());
        SlabRef::begin(slab, &depot.shape, (start, block), first + colour + pad)
    };
    for index in 0..objects {
        let object = slab_ref.object(index);
        if let Some(red_zones) = &depot.red_zones {
            // SAFETY: the object is free, and its zones lie within its stride.
            unsafe { red_zones.write_zones(object) }
        }
        if let Some(constructor) = depot.options.constructor {
            constructor(object);
        }
    }
}

/// Releases the lock, and gives back the empty slabs above the limit.
pub(crate) fn end(mut locked: Locked<'_>) {
    let most = locked.depot.empty_min.max(locked.slabs() / EMPTY_SHARE);
    let chain = unlink_empty(&mut locked, most);
    drop(locked);
    retire(chain);
}

/// Unlinks the empty slabs above `most`.
pub(crate) fn unlink_empty<'d>(locked: &mut Locked<'d>, most: usize) -> Chain<'d> {
    let mut slabs = ListHead::default();
    while locked.lists.len(List::Free) > most
        && let Some(id) = locked.lists.first(List::Free)
    {
        locked.detach(id);
        slabs.push_front(id, links(locked.depot.space()));
    }
    Chain { depot: locked.depot, slabs }
}

/// Gives slabs back, now or after a grace period. No lock may be held.
pub(crate) fn retire(chain: Chain<'_>) {
    let Chain { depot, slabs } = chain;
    if slabs.is_empty() {
        return;
    }
    if depot.options.memory == Memory::AnyTime {
        // SAFETY: this function has the chain.
        unsafe { reclaim(depot, slabs) };
    } else if let Some(depot) = depot.me.upgrade() {
        depot.waiting.fetch_add(1, Relaxed);
        let guard = crossbeam_epoch::pin();
        guard.defer(move || {
            // SAFETY: this closure had the chain, and every guard that was pinned before is
            // dropped.
            unsafe { reclaim(&depot, slabs) };
            depot.waiting.fetch_sub(1, Relaxed);
        });
        guard.flush();
    }
}

/// Gives back the pages of slabs that no other thread knows of.
///
/// # Safety
/// The caller has or had the chain of the slabs, and every guard that was pinned before is dropped.
unsafe fn reclaim(depot: &Depot, mut slabs: ListHead) {
    // If a destructor forks, the slabs stay with the thread that unlinked them.
    let mine = thread::mark();
    for id in slabs.iter(links(depot.space())) {
        // SAFETY: only the caller knows of the slabs (sl-A1).
        unsafe { depot.slab(id).set_owner(mine) };
    }
    while let Some(id) = slabs.first() {
        slabs.remove(id, links(depot.space()));
        // SAFETY: as above; none of the objects is in use.
        unsafe {
            if let Some(destructor) = depot.options.destructor {
                let slab_ref = depot.detached(id);
                (0..depot.shape.objects).for_each(|index| destructor(slab_ref.object(index)));
            }
            give_back(depot, id);
        }
    }
}

/// Gives back the pages of a slab, and its block if it has one.
///
/// # Safety
/// The slab belongs to the cache, but is not attached, and no other thread knows of it or will
/// access it (sl-A1). No object of it is in use (sl-K1).
pub(crate) unsafe fn give_back(depot: &Depot, id: ExtentId) {
    let (space, slab) = (depot.space(), depot.slab(id));
    let block = slab.block();
    let all = u16::MAX >> (u16::BITS as usize - depot.shape.pages);
    let pages = PageSet::from_low_bits((all & !slab.released()).into());
    // SAFETY: the caller guarantees that no object is in use and that no thread accesses the slab;
    // so after the slab is freed, nothing refers to the block.
    unsafe {
        if space.release(id, &pages).len() == pages.len() {
            slab.clear();
            space.free(id);
            block.into_iter().for_each(|block| free_block(depot, block));
        } else if let Some(block) = block {
            // Its pages are locked memory, so none was given back before: the slab stays, as a new
            // one.
            lay_out(depot, id, block);
            NewSlab { depot, id }.link(&mut depot.lock());
        }
    }
}
