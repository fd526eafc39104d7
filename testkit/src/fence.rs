//! Memory that ends where a page begins that nobody may touch: one byte too far and the test dies.
//!
//! # Safety
//! A [`Fence`] owns the mapping it made; its slice lies between the two forbidden pages.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr;

use zcomp::{Error, Stream};

/// Bytes before the slice that have to stay as they were: a page would catch only far strays.
const GUARD: u8 = 0xa5;

thread_local! {
    /// Mappings that are not in use: making one takes far longer than what is tried in it.
    static FREE: RefCell<Vec<Map>> = const { RefCell::new(Vec::new()) };
}

/// Opened memory between two forbidden pages.
struct Map {
    start: *mut u8,
    /// Of a forbidden page.
    page: usize,
    /// What is opened behind the first of them.
    inner: usize,
}

impl Map {
    fn new(page: usize, inner: usize) -> Self {
        let bytes = inner + 2 * page;
        // SAFETY: a new private mapping, placed by the system.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let start = start.cast::<u8>();
        // SAFETY: `inner` bytes from the second page on lie in the mapping made above.
        let opened = unsafe {
            libc::mprotect(start.add(page).cast(), inner, libc::PROT_READ | libc::PROT_WRITE)
        };
        assert_eq!(opened, 0);
        Map { start, page, inner }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, to which no slice is left.
        unsafe { libc::munmap(self.start.cast(), self.inner + 2 * self.page) };
    }
}

/// A slice right before a forbidden page, with guard bytes in front of it.
pub struct Fence {
    /// There until the fence is dropped.
    map: Option<Map>,
    /// Where the opened part begins, and the slice.
    open: *mut u8,
    start: *mut u8,
    length: usize,
}

impl Fence {
    /// `length` bytes of `fill`.
    pub fn new(length: usize, fill: u8) -> Self {
        // SAFETY: asks for a constant.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let inner = (length + 1).next_multiple_of(page);
        let free = FREE.with_borrow_mut(|free| {
            let fitting = free.iter().position(|map| map.inner == inner)?;
            Some(free.swap_remove(fitting))
        });
        let map = free.unwrap_or_else(|| Map::new(page, inner));
        // SAFETY: all within the opened part of the mapping, which nothing else uses.
        let (open, start) = unsafe {
            let open = map.start.add(page);
            ptr::write_bytes(open, GUARD, inner);
            (open, open.add(inner - length))
        };
        let mut fence = Fence { map: Some(map), open, start, length };
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
        // SAFETY: from the end of the forbidden page to the slice, all of it written in `new`.
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
        // SAFETY: `start` and `length` are within the opened part of the mapping.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl DerefMut for Fence {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` is the only way to it.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        FREE.with_borrow_mut(|free| free.extend(self.map.take()));
    }
}

/// What `src` decompresses to, with both slices fenced, if it does: twice, into zeros and into
/// ones, which must not show through.
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
