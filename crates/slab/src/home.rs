//! Which cache a slab is of, and whether it is *settled* there: the tag of its extent.
//!
//! ```text
//!   tag:  | number of the cache: 31 bits | settled: 1 |
//!   extent made --> unsettled --first of a thread, in a list, or of the reserve--> settled --unlinked to go--> unsettled --> gone
//! ```
//! A slab is made, and goes, with no lock of the cache held, and its extent may be another cache's
//! next. sl-H2: a slab becomes settled in a cache, and unsettled again, under that cache's lock
//! only. So who has the lock and reads that a slab is settled in the cache knows that all of it is
//! the cache's, and stays so while he has it. (No later change of the tag can be hidden from him:
//! it would have been made under the same lock, before.) Without the lock it may be believed of a
//! slab with a live object, of which he was told: it was settled before, and stays so until that
//! object is freed.

use crate::depot::Depot;
use crate::slab::Slab;
use crate::sync::Relaxed;
use page::{Extent, ExtentId};

const SETTLED: u32 = 1;

/// The number of a cache within its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home(u32);

impl Home {
    /// The n-th cache.
    pub(crate) fn of_cache(nth: u32) -> Self {
        Home(nth << 1)
    }

    /// What an extent of the cache is tagged with while its slab is made.
    pub(crate) fn tag(self) -> u32 {
        self.0
    }

    /// And once it is settled.
    #[inline]
    pub(crate) fn settled_tag(self) -> u32 {
        self.0 | SETTLED
    }

    /// Whether the slab is of the cache, settled or not.
    pub(crate) fn has(self, extent: &Extent<Slab>) -> bool {
        extent.tag() & !SETTLED == self.0
    }

    /// Whether the slab is settled in the cache (sl-H2).
    #[inline]
    pub(crate) fn is_settled(self, extent: &Extent<Slab>) -> bool {
        extent.tag() == self.settled_tag()
    }
}

impl Depot {
    /// Takes a slab that was just made up into the cache, as `owner`'s. The lock is held (sl-H2).
    pub(crate) fn settle(&self, id: ExtentId, owner: u32) {
        let extent = self.arena.space.extent(id);
        extent.data.owner.store(owner, Relaxed);
        extent.set_tag(self.home.settled_tag());
    }

    /// Ends that: the slab, which is no one's and empty, is about to go. The lock is held (sl-H2).
    pub(crate) fn unsettle(&self, id: ExtentId) {
        self.arena.space.extent(id).set_tag(self.home.tag());
    }

    /// Whether the slab is the cache's. The lock is held (sl-H2).
    pub(crate) fn is_settled(&self, id: ExtentId) -> bool {
        self.home.is_settled(self.arena.space.extent(id))
    }
}
