//! The thresholds of caches, each with its reason.

/// The maximum number of pages in a slab. With this number, unused bytes and descriptors add on
/// average 1% to the size of objects of up to two pages. With half of this number they add 4%.
pub(super) const SLAB_PAGES_MAX: usize = 16;
/// The number of pages without objects that a cache of any size is allowed to retain.
pub(super) const RETAINED_MIN: usize = 2;
/// A cache is allowed to retain one page per this number of committed pages, because the next
/// objects need pages.
pub(super) const RETAINED_SHARE: usize = 64;
/// A cache is scattered if it has clearly more pages or slabs than packed objects would need: the
/// excess is above 1 plus one per this number of needed pages or slabs. Moving objects then frees
/// memory.
pub(super) const SCATTERED_SHARE: usize = 64;
