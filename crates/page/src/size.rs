//! The system's page size, read once.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Returns the bytes in a page of this system: 4096 on x86-64; 4, 16 or 64 KiB on aarch64.
#[inline]
pub fn page_size() -> usize {
    /// The page size, or 0 until it is read. Threads that read the page size concurrently all store
    /// the same value.
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
