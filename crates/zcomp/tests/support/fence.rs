//! Memory that ends where a page begins that nobody may touch: one byte too far and the test dies.
//!
//! # Safety
//! A [`Fence`] owns the mapping it made; its slice lies between the two forbidden pages.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::ptr;

/// Bytes before the slice that have to stay as they were: a page would catch only far strays.
const GUARD: u8 = 0xa5;

/// A slice right before a forbidden page, with guard bytes in front of it.
pub struct Fence {
    map: *mut u8,
    map_bytes: usize,
    /// Where the opened part begins, and in it the slice.
    open: usize,
    start: usize,
    length: usize,
}

impl Fence {
    /// `length` bytes of `fill`.
    pub fn new(length: usize, fill: u8) -> Self {
        // SAFETY: asks for a constant.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let inner = (length + 1).next_multiple_of(page);
        let map_bytes = inner + 2 * page;
        // SAFETY: a new private mapping, placed by the system.
        let map = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(ptr::null_mut(), map_bytes, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(map, libc::MAP_FAILED);
        let map = map.cast::<u8>();
        // SAFETY: `inner` bytes from the second page on lie in the mapping made above.
        let opened = unsafe {
            libc::mprotect(map.add(page).cast(), inner, libc::PROT_READ | libc::PROT_WRITE)
        };
        assert_eq!(opened, 0);
        let start = page + inner - length;
        // SAFETY: the bytes opened above.
        unsafe { ptr::write_bytes(map.add(page), GUARD, inner) };
        let mut fence = Fence { map, map_bytes, open: page, start, length };
        fence.fill(fill);
        fence
    }

    /// A copy of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut fence = Fence::new(bytes.len(), 0);
        fence.copy_from_slice(bytes);
        fence
    }

    /// That nothing was written in front of the slice.
    pub fn check(&self) {
        // SAFETY: from the end of the forbidden page to the slice, all of it opened in `new`.
        let guard =
            unsafe { std::slice::from_raw_parts(self.map.add(self.open), self.start - self.open) };
        assert!(guard.iter().all(|byte| *byte == GUARD), "written in front of the slice");
    }
}

impl Deref for Fence {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` and `length` are within the opened part of the mapping.
        unsafe { std::slice::from_raw_parts(self.map.add(self.start), self.length) }
    }
}

impl DerefMut for Fence {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` is the only way to it.
        unsafe { std::slice::from_raw_parts_mut(self.map.add(self.start), self.length) }
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, to which no slice is left.
        unsafe { libc::munmap(self.map.cast(), self.map_bytes) };
    }
}
