//! The tag of an extent. The tag holds the number of the slab's cache, and whether the slab is
//! *attached* to the cache.
//!
//! ```text
//!   tag:  | number of the cache: 31 bits | attached: 1 |
//!   made: detached --a thread's, listed, or the reserve's--> attached --unlinked--> detached
//! ```
//! A slab is created and reclaimed while no lock of the cache is held. After the slab is reclaimed,
//! its extent can belong to another cache. sl-H2: a slab becomes attached to a cache, and detached
//! again, only under that cache's lock. So a thread that holds the lock reads no outdated tag. If
//! the slab is attached to the cache, the whole slab belongs to the cache while the thread holds
//! the lock. The slab of a live object is also attached. It was attached before the object was
//! allocated, and remains attached until the object is freed. So a thread that has received the
//! object can rely on the slab's cache without the lock.

use crate::slab::Slab;
use page::Extent;

const ATTACHED: u32 = 1;

/// The number of a cache within its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheId(u32);

impl CacheId {
    /// Returns the id of the cache with number `nth`.
    pub(crate) fn new(nth: u32) -> Self {
        CacheId(nth << 1)
    }

    /// Returns the tag of an extent whose slab belongs to this cache, but is not attached.
    pub(crate) fn tag(self) -> u32 {
        self.0
    }

    /// Returns the tag of an extent whose slab is attached to this cache.
    #[inline]
    pub(crate) fn attached_tag(self) -> u32 {
        self.0 | ATTACHED
    }

    /// Returns true if the slab belongs to this cache, whether attached or not.
    pub(crate) fn has(self, extent: &Extent<Slab>) -> bool {
        extent.tag() & !ATTACHED == self.0
    }

    /// Returns true if the slab is attached to the cache (sl-H2).
    #[inline]
    pub(crate) fn is_attached(self, extent: &Extent<Slab>) -> bool {
        extent.tag() == self.attached_tag()
    }
}
