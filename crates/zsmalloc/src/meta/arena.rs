//! The pages that caches of metadata share.

use super::error::Error;
use super::slab::Slab;
use super::sync::{AtomicU32, Relaxed};
use page::Space;
use page::fork::Step;
use std::ptr::NonNull;
use std::sync::Arc;

/// The pages that caches share. An offset in the arena identifies an object, and has fewer bits
/// than an address.
#[derive(Debug)]
pub struct MetadataArena {
    pub(super) space: Space<Slab>,
    caches: AtomicU32,
}

impl MetadataArena {
    /// Returns an arena without pages. Pages are committed when objects are allocated. Children of
    /// forks inherit the pages regardless of `config`, because the arena can't refuse access to
    /// objects in a child.
    pub fn new(config: page::Config) -> Result<Arc<Self>, Error> {
        let config = page::Config { by_address: true, in_children: true, ..config };
        Ok(Arc::new(MetadataArena { space: Space::new(config)?, caches: AtomicU32::new(0) }))
    }

    /// Returns a number that is unique among this arena's caches. The number is the tag of the
    /// cache's slabs.
    pub(crate) fn next_cache(&self) -> u32 {
        self.caches.fetch_add(1, Relaxed)
    }

    /// Returns the total size in bytes of the arena's memory: committed pages, page maps and
    /// descriptors.
    pub fn bytes(&self) -> usize {
        self.space.budget().used() * page::page_size() + self.space.metadata_bytes()
    }

    /// Returns the supply, which can refuse requests for memory before they reach the system.
    pub fn supply(&self) -> Option<&dyn page::Supply> {
        self.space.supply()
    }

    /// Returns the offset of an address, if the address lies in the arena.
    pub fn offset_of(&self, address: NonNull<u8>) -> Option<u64> {
        self.space.offset_of(address.addr().get())
    }

    /// Returns the address of an offset that [`offset_of`](Self::offset_of) returned, or of any
    /// other offset in a live slab.
    pub fn try_address(&self, offset: u64) -> Option<NonNull<u8>> {
        // If another thread frees the slab during the call, the offset may have no address any
        // more.
        self.space.find(offset).and_then(|_| self.space.try_address(offset))
    }

    /// Locks the arena before a fork, or unlocks it after the fork (see [`page::fork`]). All caches
    /// of the arena must be locked before the arena.
    pub fn at_fork(&self, step: Step) {
        self.space.at_fork(step);
    }

    /// In a child of fork, recounts the committed pages, before the caches are repaired.
    pub fn recount(&self) {
        self.space.recount(self.committed());
    }

    fn committed(&self) -> usize {
        self.space.live().map(|id| self.space.extent(id).data.committed().len() as usize).sum()
    }

    /// Asserts that sections, extents and the page budget are consistent.
    pub fn check(&self) {
        self.space.check();
        assert_eq!(self.committed(), self.space.budget().used(), "pages committed");
    }
}
