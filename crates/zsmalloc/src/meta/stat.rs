//! The counts of a cache, and decisions that depend on them.

use super::Geometry;
use super::policy::{RETAINED_MIN, RETAINED_SHARE, SCATTERED_SHARE};
use page::page_size;

/// Counts of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// The number of objects in use.
    pub active_objects: usize,
    /// The number of objects, free or in use, in the present slabs.
    pub objects: usize,
    /// The number of slabs.
    pub slabs: usize,
    /// The number of committed pages.
    pub pages: usize,
    /// The number of retained pages, which are committed pages on which no object lies.
    pub retained: usize,
}

impl CacheStat {
    /// Returns the maximum number of retained pages.
    pub(crate) fn retained_max(&self) -> usize {
        RETAINED_MIN.max(self.pages / RETAINED_SHARE)
    }

    /// Returns whether the objects would need clearly fewer pages or slabs if they were packed.
    pub(crate) fn is_scattered(&self, geometry: &Geometry) -> bool {
        let (full, rest) =
            (self.active_objects / geometry.objects, self.active_objects % geometry.objects);
        let pages = full * geometry.pages + (rest * geometry.stride).div_ceil(page_size());
        let is_clearly_more = |now, packed| now > packed + packed / SCATTERED_SHARE + 1;
        is_clearly_more(self.pages - self.retained, pages)
            || is_clearly_more(self.slabs, full + usize::from(rest > 0))
    }
}
