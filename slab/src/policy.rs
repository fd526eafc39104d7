//! Tuning parameters: the shape of slabs, and the number of slabs that are kept.

/// The alignment of objects that are aligned to cache lines: the length of a processor's line, in
/// bytes.
pub(crate) const LINE: usize = 64;
/// The maximum number of pages of a slab. Each slab has a bit for each of its pages.
pub(crate) const PAGES_MAX: usize = 16;
/// The binary logarithm of the largest page size, 64 KiB.
pub(crate) const PAGE_SHIFT_MAX: u32 = 16;
/// The number of pages that one entry of the map from pages to slabs covers.
pub(crate) const GRANULE: u32 = 4;
/// The number of bytes that the heap uses as the header of a block or wastes after it.
pub(crate) const BLOCK_HEADER: usize = 16;
/// A slab gets no more pages if its overhead is at most its size divided by this number.
pub(crate) const OVERHEAD_SHARE_MAX: usize = 128;

/// Except in `shrink`, a cache reclaims no empty slabs while they have room for at most this
/// multiple of the objects that one thread may keep.
pub(crate) const EMPTY_PER_THREAD_LIMIT: usize = 4;
/// Except in `shrink`, a cache reclaims no empty slabs while at most 1/32 of its slabs are empty.
pub(crate) const EMPTY_SHARE: usize = 32;

/// The number of a thread's hints. Two granules whose numbers differ by a multiple of `HINTS` share
/// a hint.
pub(crate) const HINTS: usize = 256;
/// The binary logarithm of the size in bytes of a granule of the smallest pages.
pub(crate) const HINT_SHIFT: u32 = 14;

/// The maximum number of times that `check` compares the counts, at intervals of a millisecond.
pub(crate) const CHECK_LOOKS_MAX: usize = 10_000;
/// The maximum number of addresses that a report of leaks lists, because a report has a few lines.
pub(crate) const LEAKS_LISTED_MAX: usize = 8;
