//! The configuration of a space, and the sizes of its parts.

use crate::supply::Supply;
use crate::{EXTENT_PAGES_MAX, page_shift};
use std::sync::Arc;

/// The number of bits of an offset: a space has 4 TiB of offsets.
pub const OFFSET_BITS: u32 = 42;

/// The smallest segment that is tried after the system has refused larger ones, unless the extent
/// needs a larger one. (In this crate's tests it is smaller than the longest extent, as it is on
/// systems with large pages.)
pub(crate) const SEGMENT_BYTES_MIN: usize = if cfg!(test) { 1 << 16 } else { 1 << 20 };
/// The largest segment. Large segments need few mappings, of which a process may have 65,530; small
/// segments are refused less often.
pub(crate) const SEGMENT_BYTES_MAX: usize = 1 << 30;

/// The binary logarithm of [`SECTION_BYTES`].
pub(crate) const SECTION_SHIFT: u32 = 26;
/// The bytes of a section: 64 MiB.
pub(crate) const SECTION_BYTES: usize = 1 << SECTION_SHIFT;
/// The maximum number of sections of a space.
pub(crate) const SECTIONS_MAX: u32 = 1 << (OFFSET_BITS - SECTION_SHIFT);

/// Returns the number of pages in a section: 16384 of 4 KiB.
pub(crate) fn section_pages() -> u32 {
    1 << (SECTION_SHIFT - page_shift())
}

/// The configuration of a [`Space`](crate::Space).
#[derive(Clone, Debug)]
pub struct Config {
    /// The maximum number of committed pages; `None` means no limit.
    pub limit: Option<usize>,
    /// A supply that may refuse requests before they reach the system; `None` grants all.
    pub supply: Option<Arc<dyn Supply>>,
    /// The pages of a granule, a power of two up to 256. A granule is one entry of the map from
    /// page to extent. An extent takes whole granules; large granules make the map small.
    pub granule: u32,
    /// Whether the space has an address index, which [`Space::offset_of`](crate::Space::offset_of)
    /// and [`Space::extent_at`](crate::Space::extent_at) need. It takes 256 bytes, and more from 33
    /// sections on.
    pub by_address: bool,
    /// Whether segments are part of core dumps.
    pub in_dumps: bool,
    /// Whether the child of a fork inherits the pages. If not, it reads zeros there, and the owner
    /// must refuse to read what was stored: see [`fork::generation`](crate::fork::generation).
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
