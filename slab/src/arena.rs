//! The pages that caches share.

use crate::cache_id::CacheId;
use crate::fork::Member;
use crate::policy::{CHECK_LOOKS_MAX, GRANULE};
use crate::slab::Slab;
use crate::sync::{AtomicU32, AtomicUsize, Relaxed};
use crate::{Error, fork};
use page::fork::Step;
use page::{Extent, ExtentId, Space};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::thread::sleep;
use std::time::Duration;

/// The pages of caches, and the structures that manage these pages.
#[derive(Debug)]
pub struct Arena {
    pub(crate) space: Space<Slab>,
    /// The size of all blocks in bytes: heap memory for bits and indexes outside the slabs.
    pub(crate) block_bytes: AtomicUsize,
    caches: AtomicU32,
}

impl Arena {
    /// Returns an arena without pages. Pages are committed when objects are allocated. The limit in
    /// `config` does not include blocks, because they are heap memory. The child of a fork inherits
    /// the pages, even if `config` requests the opposite. Callers access objects by their
    /// addresses, so the arena can't refuse an access in the child.
    pub fn new(config: page::Config) -> Result<Arc<Self>, Error> {
        // With granules of `GRANULE` pages, a slab takes a little more address space than with
        // granules of one page, but the map of pages takes only a quarter of the memory.
        let granule = config.granule.max(GRANULE);
        let config = page::Config { by_address: true, granule, in_children: true, ..config };
        let space = Space::new(config)?;
        let (block_bytes, caches) = (AtomicUsize::new(0), AtomicU32::new(0));
        let arena = Arc::new(Arena { space, block_bytes, caches });
        let member: Weak<Arena> = Arc::downgrade(&arena);
        fork::register(member);
        Ok(arena)
    }

    /// Returns an id that is unique among the caches of this arena.
    pub(crate) fn next_cache(&self) -> CacheId {
        CacheId::new(self.caches.fetch_add(1, Relaxed))
    }

    /// Returns the slab, of any cache, that contains the address of `object`.
    #[inline]
    pub(crate) fn slab_at(&self, object: NonNull<u8>) -> Option<(ExtentId, &Extent<Slab>)> {
        self.space.extent_at(object.addr().get())
    }

    /// Returns the total memory of the arena in bytes: committed pages, page maps, descriptors and
    /// blocks.
    pub fn bytes(&self) -> usize {
        let pages = self.space.budget().used() * page::page_size();
        pages + self.space.metadata_bytes() + self.block_bytes.load(Relaxed)
    }

    /// Returns the count of committed pages and its limit.
    pub fn budget(&self) -> &page::Budget {
        self.space.budget()
    }

    fn committed(&self) -> usize {
        let pages = self.space.live().map(|id| {
            let extent = self.space.extent(id);
            extent.pages() as usize - extent.data.released().count_ones() as usize
        });
        pages.sum()
    }

    /// Asserts that the extents and the page budget agree. No cache is allowed to be in use. If a
    /// thread of the process is exiting, waits until the thread has cleaned up its caches.
    pub fn check(&self) {
        self.space.check();
        for _ in 0..CHECK_LOOKS_MAX {
            if self.committed() == self.space.budget().used() {
                return;
            }
            sleep(Duration::from_millis(1));
        }
        assert_eq!(self.committed(), self.space.budget().used(), "pages committed");
    }
}

impl Member for Arena {
    fn lock_for_fork(&self) {
        self.space.at_fork(Step::Lock);
    }

    fn unlock_after_fork(&self) {
        self.space.at_fork(Step::Unlock);
    }

    fn recount(&self) {
        self.space.recount(self.committed());
    }
}
