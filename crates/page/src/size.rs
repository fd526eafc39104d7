//! The system's page size P, read once.

use std::sync::OnceLock;

/// Bytes in a page of this system: 4096 on x86-64; 4, 16 or 64 KiB on aarch64.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let size = rustix::param::page_size();
        assert!(size.is_power_of_two(), "page size {size} is no power of two");
        size
    })
}

/// Binary logarithm of [`page_size`].
pub fn page_shift() -> u32 {
    page_size().trailing_zeros()
}
