//! What a cache counts, and what follows from it.

use super::Geometry;
use page::page_size;

/// Pages retained in any cache, and the share of the committed ones that may be: 1/64.
const RETAINED_MIN: usize = 2;
const RETAINED_SHARE: usize = 64;

/// A cache is scattered when its objects take more than this share, 1/64, above what they need.
const SCATTERED_SHARE: usize = 64;

/// Counts of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// Objects in use.
    pub active_objects: usize,
    /// Objects the slabs there are have room for.
    pub objects: usize,
    /// Slabs there are.
    pub slabs: usize,
    /// Pages that are committed.
    pub pages: usize,
    /// Of them, those retained: no object lies on them.
    pub retained: usize,
}

impl CacheStat {
    /// Returns how many pages may be retained.
    pub(crate) fn retained_max(&self) -> usize {
        RETAINED_MIN.max(self.pages / RETAINED_SHARE)
    }

    /// Returns whether the objects, packed into the first slabs, would need clearly fewer pages or
    /// slabs.
    pub(crate) fn is_scattered(&self, geometry: &Geometry) -> bool {
        let (full, rest) =
            (self.active_objects / geometry.objects, self.active_objects % geometry.objects);
        let pages = full * geometry.pages + (rest * geometry.stride).div_ceil(page_size());
        let is_clearly_more = |now, packed| now > packed + packed / SCATTERED_SHARE + 1;
        is_clearly_more(self.pages - self.retained, pages)
            || is_clearly_more(self.slabs, full + usize::from(rest > 0))
    }
}
