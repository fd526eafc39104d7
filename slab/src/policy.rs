//! Tuning parameters: the shape of slabs, and the number of slabs that are kept.

/// The length in bytes of a processor's cache line, to which a cache can align its objects.
pub(crate) const LINE: usize = 64;
/// The maximum number of pages of a slab. Each slab has a bit for each of its pages.
pub(crate) const PAGES_MAX: usize = 16;
/// The binary logarithm of the largest page size, 64 KiB.
pub(crate) const PAGE_SHIFT_MAX: u32 = 16;
/// The number of pages that one entry of the map from pages to slabs covers.
pub(crate) const GRANULE: u32 = 4;
/// The number of bytes that the heap adds to each block, as a header or as padding.
pub(crate) const BLOCK_HEADER: usize = 16;
/// A slab gets more pages while its overhead exceeds its size divided by this number.
pub(crate) const OVERHEAD_SHARE_MAX: usize = 128;

/// The number of objects for which a cache keeps empty slabs, divided by a thread's limit of free
/// objects. The cache reclaims these slabs only in `shrink`.
pub(crate) const EMPTY_PER_THREAD_LIMIT: usize = 4;
/// A cache keeps up to 1/EMPTY_SHARE of its slabs empty. It reclaims these slabs only in `shrink`.
pub(crate) const EMPTY_SHARE: usize = 32;

/// The number of a thread's hints. Granules whose numbers differ by a multiple of `HINTS` share a
/// hint.
pub(crate) const HINTS: usize = 256;
/// The binary logarithm of the size of a granule in bytes, with pages of the smallest size.
pub(crate) const HINT_SHIFT: u32 = 14;

/// The maximum number of times that `check` compares the counts. A comparison is made once a
/// millisecond.
pub(crate) const CHECK_LOOKS_MAX: usize = 10_000;
/// The maximum number of addresses that a report of leaks lists.
pub(crate) const LEAKS_LISTED_MAX: usize = 8;
