//! Creates and reclaims slabs, while no lock of the cache is held.
//!
//! # Safety
//! - sl-A1: only one thread can reach a slab that is not attached (sl-H2 in `cache_id`). The thread
//!   that holds the slab's [`NewSlab`] or [`Chain`] is allowed to write to all memory of the slab,
//!   because no object of the slab is live (sl-K1).
#![allow(unsafe_code)]

use crate::Error;
use crate::bits::NO_ONE;
use crate::depot::{Depot, Locked};
use crate::lists::{List, links};
use crate::options::Memory;
use crate::policy::{BLOCK_HEADER, EMPTY_SHARE};
use crate::red_zones::RedZones;
use crate::shape::Shape;
use crate::slab_ref::SlabRef;
use crate::sync::Relaxed;
use crate::thread;
use page::{ExtentId, ListHead, PageSet};
use std::alloc;
use std::ptr::NonNull;

/// A new slab without objects in use, which no other thread can reach.
#[derive(Debug)]
#[must_use]
pub(crate) struct NewSlab<'d> {
    depot: &'d Depot,
    id: ExtentId,
}

impl NewSlab<'_> {
    /// Attaches the slab to its cache with the given `owner`. The slab is in no list.
    pub(crate) fn attach(self, locked: &mut Locked<'_>, owner: u32) -> ExtentId {
        assert!(std::ptr::eq(self.depot, locked.depot), "the new slab is another cache's");
        // SAFETY: this thread created the slab (sl-A1), and afterwards accesses it only as the
        // owner or the holder of the lock.
        unsafe { locked.attach(self.id, owner) };
        self.id
    }

    /// Attaches the slab without an owner, and inserts it into the list that its count determines.
    pub(crate) fn link(self, locked: &mut Locked<'_>) {
        let id = self.attach(locked, NO_ONE);
        locked.link(id);
    }
}

/// A linked list of empty slabs that were unlinked to be freed.
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
        // SAFETY: the extent was allocated above, and no other code can reach it.
        space.charge(pages).inspect_err(|_| unsafe { space.free(id) })?;
        Ok(id)
    });
    match made {
        Ok(id) => {
            // SAFETY: the extent was allocated and its pages charged above, and the block is new.
            // No other code can reach the extent or the block.
            unsafe { lay_out(depot, id, block) };
            Ok(NewSlab { depot, id })
        }
        Err(error) => {
            // SAFETY: the block was allocated above, and no slab uses it.
            unsafe { free_block(depot, block) };
            Err(error.into())
        }
    }
}

/// Returns the heap layout of a block, and the number of bytes to count for the block.
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
    page::heap::grant(depot.space().supply(), bytes)?;
    // SAFETY: a slab has at least one object, so a block is not empty.
    let block = NonNull::new(unsafe { alloc::alloc(layout) });
    let block = block.ok_or(page::Error::Mapping { bytes })?;
    depot.arena.block_bytes.fetch_add(bytes, Relaxed);
    Ok(block)
}

/// Frees a block.
///
/// # Safety
/// `alloc_block` of this cache returned the block, and no slab uses the block any more.
unsafe fn free_block(depot: &Depot, block: NonNull<u8>) {
    let (layout, bytes) = block_layout(depot);
    depot.arena.block_bytes.fetch_sub(bytes, Relaxed);
    // SAFETY: the block has this layout, and the caller guarantees that no slab uses it.
    unsafe { alloc::dealloc(block.as_ptr(), layout) }
}

/// Frees the blocks of slabs that outlive the cache because users still have their objects.
///
/// # Safety
/// No thread uses the cache now or later.
pub(crate) unsafe fn free_blocks(depot: &Depot) {
    let space = depot.space();
    for id in space.live().filter(|&id| depot.cache_id.has(space.extent(id))) {
        // SAFETY: no thread reads the slab's bits any more, and no slab refers to the block now.
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
/// The extent belongs to the cache, all its pages are charged, and `alloc_block` returned the
/// block. No other code can reach the extent or the block.
unsafe fn lay_out(depot: &Depot, id: ExtentId, block: NonNull<u8>) {
    let Shape { colours, colour_step, first, objects, .. } = depot.shape;
    let colour = depot.colour.fetch_add(1, Relaxed) as usize % colours * colour_step;
    let (slab, start) = (depot.slab(id), depot.space().address(depot.space().extent(id).start()));
    let pad = depot.red_zones.as_ref().map_or(0, RedZones::pad);
    // Stores `list` first, so that a child forked during the layout finds the slab in no list.
    slab.list.store(List::Unlisted as u8, Relaxed);
    // A constructor is allowed to fork. This thread then continues to create the slab in the child.
    // SAFETY: the caller guarantees, here and below, that no other code can reach the slab.
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

/// Releases the lock, and reclaims the empty slabs above the limit.
pub(crate) fn end(mut locked: Locked<'_>) {
    let most = locked.depot.empty_min.max(locked.slabs() / EMPTY_SHARE);
    let chain = unlink_empty(&mut locked, most);
    drop(locked);
    retire(chain);
}

/// Unlinks empty slabs until at most `most` of them are left.
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

/// Reclaims the slabs of a chain, now or after a grace period. The caller holds no lock.
pub(crate) fn retire(chain: Chain<'_>) {
    let Chain { depot, slabs } = chain;
    if slabs.is_empty() {
        return;
    }
    if depot.options.memory == Memory::AnyTime {
        // SAFETY: only this function has the chain (sl-A1), and the memory is not stable.
        unsafe { reclaim(depot, slabs) };
    } else if let Some(depot) = depot.me.upgrade() {
        depot.waiting.fetch_add(1, Relaxed);
        let guard = crossbeam_epoch::pin();
        guard.defer(move || {
            // SAFETY: this closure received the chain's slabs, and every guard that was pinned
            // before `defer` was called has been dropped.
            unsafe { reclaim(&depot, slabs) };
            depot.waiting.fetch_sub(1, Relaxed);
        });
        guard.flush();
    }
}

/// Reclaims slabs that no other thread can reach.
///
/// # Safety
/// The caller owns the slabs, which were in a [`Chain`]. If memory is stable, all guards that were
/// pinned before the slabs were unlinked have been dropped.
unsafe fn reclaim(depot: &Depot, mut slabs: ListHead) {
    // A destructor is allowed to fork. The child then leaves slabs with this mark to the calling
    // thread.
    let mine = thread::mark();
    for id in slabs.iter(links(depot.space())) {
        // SAFETY: only the caller can reach the slabs (sl-A1).
        unsafe { depot.slab(id).set_owner(mine) };
    }
    while let Some(id) = slabs.first() {
        slabs.remove(id, links(depot.space()));
        // SAFETY: only the caller can reach the slabs (sl-A1), whose objects are not in use.
        unsafe {
            if let Some(destructor) = depot.options.destructor {
                let slab_ref = depot.detached(id);
                (0..depot.shape.objects).for_each(|index| destructor(slab_ref.object(index)));
            }
            give_back(depot, id);
        }
    }
}

/// Frees the extent of a slab with its pages, and its block if it has one.
///
/// # Safety
/// The slab belongs to the cache, but is not attached, and no other thread can reach it (sl-A1).
/// None of its objects is in use (sl-K1).
pub(crate) unsafe fn give_back(depot: &Depot, id: ExtentId) {
    let (space, slab) = (depot.space(), depot.slab(id));
    let block = slab.block();
    let all = u16::MAX >> (u16::BITS as usize - depot.shape.pages);
    let pages = PageSet::from_low_bits((all & !slab.released()).into());
    // SAFETY: the caller guarantees that no object is in use and that no thread accesses the slab.
    // So no reference to the block exists.
    unsafe {
        if space.release(id, &pages).len() == pages.len() {
            slab.clear();
            space.free(id);
            block.into_iter().for_each(|block| free_block(depot, block));
        } else if let Some(block) = block {
            // The pages are locked memory, so no page was released. Lays the slab out again, as a
            // new slab.
            lay_out(depot, id, block);
            NewSlab { depot, id }.link(&mut depot.lock());
        }
    }
}
