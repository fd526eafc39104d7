//! What a cache counts.

use crate::depot::Depot;
use crate::lists::List;
use crate::sync::Relaxed;

/// Counts of a cache. While threads are at work, objects may be off by what they are doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// Objects that users have, those included that another thread than their slab's has freed
    /// since it last looked.
    pub active_objects: usize,
    /// Free objects in slabs that are threads' own.
    pub in_magazines: usize,
    /// Free objects of the reserve.
    pub reserved: usize,
    /// Objects that were written to when no one may, and are not given out again.
    pub lost: usize,
    /// Frees that were refused: of what is no object of the cache, or is free, or was written to
    /// when no one may.
    pub refused: usize,
    /// Objects the slabs there are have room for.
    pub objects: usize,
    /// Slabs there are.
    pub slabs: usize,
    /// Of them, those that are no thread's, and without objects in use.
    pub free_slabs: usize,
    /// Chains of slabs that wait for a grace period; they are no more among `slabs`.
    pub waiting: usize,
    /// Bytes of what notes threads' slabs.
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
