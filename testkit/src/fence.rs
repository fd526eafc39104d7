//! Memory directly before an inaccessible page. An access beyond the end kills the test.
//!
//! # Safety
//! A [`Fence`] owns the mapping that it created. Its slice lies between the two inaccessible pages.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr;

use zcomp::{Error, Stream};

/// The value of the bytes before the slice, which must not change. A write to these bytes does not
/// reach the inaccessible page before them.
const GUARD: u8 = 0xa5;

thread_local! {
    /// Mappings for reuse, because creating a mapping takes far longer than the test that uses it.
    static FREE: RefCell<Vec<Map>> = const { RefCell::new(Vec::new()) };
}

/// Accessible memory between two inaccessible pages.
struct Map {
    start: *mut u8,
    /// The length of an inaccessible page.
    page: usize,
    /// The length of the accessible part after the first inaccessible page.
    inner: usize,
}

impl Map {
    fn new(page: usize, inner: usize) -> Self {
        let bytes = inner + 2 * page;
        // SAFETY: this creates a private mapping at an address that the kernel chooses, so it
        // replaces no memory.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let start = start.cast::<u8>();
        // SAFETY: `inner` bytes from the second page on lie in the mapping created above.
        let opened = unsafe {
            libc::mprotect(start.add(page).cast(), inner, libc::PROT_READ | libc::PROT_WRITE)
        };
        assert_eq!(opened, 0);
        Map { start, page, inner }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this is the mapping created in `new`, and no slice of the mapping is in use any
        // more.
        unsafe { libc::munmap(self.start.cast(), self.inner + 2 * self.page) };
    }
}

/// A slice directly before an inaccessible page, with guard bytes before it.
pub struct Fence {
    /// `Some` until the fence is dropped.
    map: Option<Map>,
    /// The start of the accessible part, and the start of the slice.
    open: *mut u8,
    start: *mut u8,
    length: usize,
}

impl Fence {
    /// Returns a slice of `length` bytes with the value `fill`.
    pub fn new(length: usize, fill: u8) -> Self {
        // SAFETY: `sysconf` accesses no memory of the caller.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let inner = (length + 1).next_multiple_of(page);
        let free = FREE.with_borrow_mut(|free| {
            let fitting = free.iter().position(|map| map.inner == inner)?;
            Some(free.swap_remove(fitting))
        });
        let map = free.unwrap_or_else(|| Map::new(page, inner));
        // SAFETY: all writes are within the accessible part of the mapping, which this value owns.
        let (open, start) = unsafe {
            let open = map.start.add(page);
            ptr::write_bytes(open, GUARD, inner);
            (open, open.add(inner - length))
        };
        let mut fence = Fence { map: Some(map), open, start, length };
        fence.fill(fill);
        fence
    }

    /// Returns a copy of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut fence = Fence::new(bytes.len(), 0);
        fence.copy_from_slice(bytes);
        fence
    }

    /// Asserts that nothing was written before the slice.
    pub fn check(&self) {
        // SAFETY: `new` wrote all bytes from the end of the inaccessible page to the slice.
        let guard = unsafe {
            let bytes = self.start.offset_from_unsigned(self.open);
            std::slice::from_raw_parts(self.open, bytes)
        };
        assert!(guard.iter().all(|byte| *byte == GUARD), "written in front of the slice");
    }
}

impl Deref for Fence {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` and `length` are within the accessible part of the mapping. `new` wrote
        // its bytes.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl DerefMut for Fence {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` excludes any other access.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        FREE.with_borrow_mut(|free| free.extend(self.map.take()));
    }
}

/// Decompresses `src` twice, into a buffer of zeros and a buffer of ones, with fences around all
/// buffers. Asserts that no old byte of a buffer remains in the output.
pub fn decompressed(stream: &mut dyn Stream, src: &[u8], length: usize) -> Result<Vec<u8>, Error> {
    let src = Fence::of(src);
    let [mut zeros, mut ones] = [Fence::new(length, 0), Fence::new(length, 0xff)];
    let first = stream.decompress(&src, &mut zeros);
    let second = stream.decompress(&src, &mut ones);
    zeros.check();
    ones.check();
    assert_eq!(first, second);
    first?;
    assert!(*zeros == *ones, "old bytes of the output show through");
    Ok(zeros.to_vec())
}
