//! The configuration of a space, and the sizes of pages, sections and segments.

use crate::EXTENT_PAGES_MAX;
use crate::budget::Supply;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of bits of an offset. The offsets of a space are below 4 TiB.
pub const OFFSET_BITS: u32 = 42;

/// The minimum size of a segment in bytes. After the system refuses a segment, a smaller segment is
/// requested, down to this size or the extent's size. If the system's pages have 16 or 64 KiB, and
/// in this crate's tests, the longest extent exceeds this value.
pub(crate) const SEGMENT_BYTES_MIN: usize = if cfg!(test) { 1 << 16 } else { 1 << 20 };
/// The bytes of the largest segment. Large segments need fewer mappings, of which a process is
/// allowed 65,530. Still larger segments would be refused more often.
pub(crate) const SEGMENT_BYTES_MAX: usize = 1 << 30;

/// The binary logarithm of [`SECTION_BYTES`].
pub(crate) const SECTION_SHIFT: u32 = 26;
/// The bytes of a section: 64 MiB.
pub(crate) const SECTION_BYTES: usize = 1 << SECTION_SHIFT;
/// The maximum number of sections of a space.
pub(crate) const SECTIONS_MAX: u32 = 1 << (OFFSET_BITS - SECTION_SHIFT);

/// Returns the number of bytes in a page of this system: 4096 on x86-64; 4, 16 or 64 KiB on
/// aarch64.
#[inline]
pub fn page_size() -> usize {
    /// The page size, or 0 before the first call. Concurrent first calls all store the same value.
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Relaxed) {
        0 => {
            let size = rustix::param::page_size();
            assert!(size.is_power_of_two(), "page size {size} is no power of two");
            SIZE.store(size, Relaxed);
            size
        }
        size => size,
    }
}

/// Returns the binary logarithm of [`page_size`].
#[inline]
pub fn page_shift() -> u32 {
    page_size().trailing_zeros()
}

/// Returns the number of pages in a section: 16384 if a page has 4 KiB.
pub(crate) fn section_pages() -> u32 {
    1 << (SECTION_SHIFT - page_shift())
}

/// The configuration of a [`Space`](crate::Space).
#[derive(Clone, Debug)]
pub struct Config {
    /// The maximum number of committed pages; `None` means no limit.
    pub limit: Option<usize>,
    /// A supply that can refuse requests before they reach the system; `None` grants all.
    pub supply: Option<Arc<dyn Supply>>,
    /// The number of pages in a granule, a power of two up to 256. Each granule has one entry in
    /// the map from pages to extents, so larger granules make the map smaller. An extent occupies
    /// whole granules.
    pub granule: u32,
    /// Whether the space has an address index, which [`Space::offset_of`](crate::Space::offset_of)
    /// and [`Space::extent_at`](crate::Space::extent_at) need. The index takes 256 bytes for up to
    /// 32 sections, and grows with further sections.
    pub by_address: bool,
    /// Whether core dumps contain the segments.
    pub in_dumps: bool,
    /// Whether the child of a fork inherits the pages. If false, the pages read as zeros in the
    /// child. The owner must then refuse to read objects that were stored before the fork: see
    /// [`fork::generation`](crate::fork::generation).
    pub in_children: bool,
}

impl Config {
    /// Returns the binary logarithm of a granule's bytes.
    pub(crate) fn granule_shift(&self) -> u32 {
        let granule = self.granule;
        let is_possible = granule.is_power_of_two() && granule <= EXTENT_PAGES_MAX;
        assert!(is_possible, "a granule of {granule} pages; powers of two up to 256 are possible");
        page_shift() + granule.trailing_zeros()
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            limit: None,
            supply: None,
            granule: 1,
            by_address: false,
            in_dumps: true,
            in_children: true,
        }
    }
}
