//! The tag of an extent: the cache that its slab belongs to, and whether it is *attached* there.
//!
//! ```text
//!   tag:  | number of the cache: 31 bits | attached: 1 |
//!   made: detached --a thread's, listed, or the reserve's--> attached --unlinked--> detached
//! ```
//! A slab is created and given back without a lock of the cache held, and its extent may then
//! belong to another cache. sl-H2: a slab becomes attached to a cache, and detached again, only
//! under that cache's lock. So a thread that holds the lock and reads that a slab is attached to
//! the cache knows that the whole slab belongs to the cache while the lock is held. (No later
//! change of the tag can be missed, because it would have been made earlier under the same lock.)
//! Without the lock, the same holds for a slab with a live object that the thread has received: the
//! slab was attached before the object was allocated, and stays so until it is freed.

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

    /// Returns the tag of an extent of the cache while its slab is created.
    pub(crate) fn tag(self) -> u32 {
        self.0
    }

    /// Returns the tag of an extent after its slab is attached.
    #[inline]
    pub(crate) fn attached_tag(self) -> u32 {
        self.0 | ATTACHED
    }

    /// Returns true if the slab belongs to the cache, attached or not.
    pub(crate) fn has(self, extent: &Extent<Slab>) -> bool {
        extent.tag() & !ATTACHED == self.0
    }

    /// Returns true if the slab is attached to the cache (sl-H2).
    #[inline]
    pub(crate) fn is_attached(self, extent: &Extent<Slab>) -> bool {
        extent.tag() == self.attached_tag()
    }
}
