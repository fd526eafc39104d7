//! The counters of a cache.

use crate::depot::Depot;
use crate::lists::List;
use crate::sync::Relaxed;

/// Counters of a cache. The numbers of objects might not reflect operations that threads execute
/// during the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// The number of objects that users have. Includes remotely freed objects that the slab's
    /// thread has not collected yet.
    pub active_objects: usize,
    /// The number of free objects in slabs that threads own.
    pub in_magazines: usize,
    /// The number of free objects in the reserve.
    pub reserved: usize,
    /// The number of objects in quarantine, which are never reused. An object is in quarantine if
    /// it was written to while it was free, or if bytes beyond its bounds were written to.
    pub lost: usize,
    /// The number of rejected frees. A free is rejected if the address is not an object of the
    /// cache, the object is already free, or its bounds were overwritten.
    pub refused: usize,
    /// The number of objects that fit in the current slabs.
    pub objects: usize,
    /// The number of slabs.
    pub slabs: usize,
    /// The number of slabs without an owner and without objects in use.
    pub free_slabs: usize,
    /// The number of chains of slabs that wait for a grace period. `slabs` does not include the
    /// slabs of these chains.
    pub waiting: usize,
    /// The size in bytes of the records that threads keep of their slabs.
    pub magazine_bytes: usize,
}

impl CacheStat {
    pub(crate) fn of(depot: &Depot) -> Self {
        let state = depot.lock();
        let lists = &state.lists;
        let in_magazines = depot.threads.kept();
        let reserved = state.reserved();
        let objects = depot.shape.objects;
        let in_use = lists.active + (state.owned + state.reserve.len()) * objects;
        let slabs = state.slabs();
        CacheStat {
            active_objects: in_use
                .saturating_sub(in_magazines + reserved + state.quarantined.len()),
            in_magazines,
            reserved,
            lost: state.quarantined.len(),
            refused: depot.refused.load(Relaxed),
            objects: slabs * objects,
            slabs,
            free_slabs: lists.len(List::Free),
            waiting: depot.waiting.load(Relaxed),
            magazine_bytes: depot.threads.bytes(),
        }
    }
}
