//! What a cache counts.

use crate::depot::{Depot, List};
use crate::sync::Relaxed;

/// Counts of a cache. While threads are at work, objects may be off by what they are doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// Objects that users have.
    pub active_objects: usize,
    /// Free objects that threads keep for themselves.
    pub in_magazines: usize,
    /// Free objects that threads share.
    pub shared: usize,
    /// Objects in the reserve.
    pub reserved: usize,
    /// Objects that were written to when no one may, and are not given out again.
    pub lost: usize,
    /// Objects the slabs there are have room for.
    pub objects: usize,
    /// Slabs there are.
    pub slabs: usize,
    /// Of them, those in which no object is out.
    pub free_slabs: usize,
    /// Chains of slabs that wait for a grace period; they are no more among `slabs`.
    pub waiting: usize,
    /// Bytes of the magazines.
    pub magazine_bytes: usize,
}

impl CacheStat {
    pub(crate) fn of(depot: &Depot) -> Self {
        let state = depot.state();
        let in_magazines = depot.magazines.count();
        let kept = state.shared.len() + state.reserve.len() + state.lost + in_magazines;
        CacheStat {
            active_objects: state.out.saturating_sub(kept),
            in_magazines,
            shared: state.shared.len(),
            reserved: state.reserve.len(),
            lost: state.lost,
            objects: state.slabs() * depot.shape.objects,
            slabs: state.slabs(),
            free_slabs: state.lens[List::Free as usize],
            waiting: depot.waiting.load(Relaxed),
            magazine_bytes: depot.magazines.bytes(),
        }
    }
}
