//! Which cache a slab is of, and whether it is *attached* there: the tag of its extent.
//!
//! ```text
//!   tag:  | number of the cache: 31 bits | attached: 1 |
//!   made: detached --a thread's, listed, or the reserve's--> attached --unlinked to go--> detached
//! ```
//! A slab is made, and goes, with no lock of the cache held, and its extent may be another cache's
//! next. sl-H2: a slab becomes attached to a cache, and detached again, under that cache's lock
//! only. So a thread that holds the lock and reads that a slab is attached to the cache knows that
//! all of it is the cache's, as long as it holds the lock. (It misses no later change of the tag,
//! which would have been made under the same lock, before.) Without the lock that holds for a slab
//! with a live object that the thread was told of: the slab was attached before the object was
//! allocated, and stays so until it is freed.

use crate::slab::Slab;
use page::Extent;

const ATTACHED: u32 = 1;

/// The number of a cache within its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheId(u32);

impl CacheId {
    /// Returns the n-th cache.
    pub(crate) fn new(nth: u32) -> Self {
        CacheId(nth << 1)
    }

    /// Returns what an extent of the cache is tagged with while its slab is made.
    pub(crate) fn tag(self) -> u32 {
        self.0
    }

    /// And once it is attached.
    #[inline]
    pub(crate) fn attached_tag(self) -> u32 {
        self.0 | ATTACHED
    }

    /// Returns whether the slab is of the cache, attached or not.
    pub(crate) fn has(self, extent: &Extent<Slab>) -> bool {
        extent.tag() & !ATTACHED == self.0
    }

    /// Returns whether the slab is attached to the cache (sl-H2).
    #[inline]
    pub(crate) fn is_attached(self, extent: &Extent<Slab>) -> bool {
        extent.tag() == self.attached_tag()
    }
}
