//! The counts of a cache, and conclusions from them.

use super::Geometry;
use page::page_size;

/// The number of pages that any cache may retain, and the share of the committed pages that may be
/// retained if that is more: 1/64.
const RETAINED_MIN: usize = 2;
const RETAINED_SHARE: usize = 64;

/// A cache is scattered if it has more than this share, 1/64, above the pages or slabs that its
/// objects need.
const SCATTERED_SHARE: usize = 64;

/// Counts of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// The number of objects in use.
    pub active_objects: usize,
    /// The number of objects for which the present slabs have room.
    pub objects: usize,
    /// The number of slabs.
    pub slabs: usize,
    /// The number of committed pages.
    pub pages: usize,
    /// The number of committed pages that are retained: no object lies on them.
    pub retained: usize,
}

impl CacheStat {
    /// Returns the maximum number of retained pages.
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
