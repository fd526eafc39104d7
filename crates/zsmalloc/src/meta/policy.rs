//! The thresholds of caches, each with its reason.

/// The maximum number of pages in a slab. With this number, unused bytes and descriptors take 1% of
/// the size of objects of up to two pages on average. With half of this number they take 4%.
pub(super) const SLAB_PAGES_MAX: usize = 16;
/// The number of pages without objects that a cache of any size may retain.
pub(super) const RETAINED_MIN: usize = 2;
/// A cache may retain one page per this number of committed pages, because the next objects need
/// pages.
pub(super) const RETAINED_SHARE: usize = 64;
/// A cache is scattered if it has more pages or slabs than its objects need when packed. The excess
/// must be above one, plus one in this number of the needed ones. Moving objects then frees memory.
pub(super) const SCATTERED_SHARE: usize = 64;
