//! The runtime's own heap, in separate mappings. The runtime does not use the program's allocator,
//! because the program may have been interrupted in the allocator.
//!
//! Each large allocation has a separate mapping, so only its written pages use memory. Examples of
//! large allocations are the contexts of codecs, which most processes never use. If dlmalloc
//! allocated this memory, it would write zeros to all pages.
//!
//! # Safety
//! dlmalloc allocates from memory that this file has mapped, under a lock. An allocation has one
//! layout, which determines whether the allocation is large.
#![allow(unsafe_code)]

use crate::policy::{GRAIN, LARGE};
use dispatch::system;
use dlmalloc::Dlmalloc;
use page::fork::Mutex;
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub(crate) struct Heap(Mutex<Dlmalloc<Mappings>>);

#[cfg_attr(not(test), global_allocator)]
pub(crate) static HEAP: Heap = Heap(Mutex::new(Dlmalloc::new_with_allocator(Mappings)));

static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of bytes that the heap has mapped.
pub(crate) fn mapped() -> usize {
    MAPPED.load(Relaxed)
}

impl Heap {
    /// Locks the heap before a fork, or unlocks it after the fork. The heap's lock is the last that
    /// a fork takes, because a thread can allocate memory while it holds another lock.
    pub(crate) fn at_fork(&self, step: page::fork::Step) {
        self.0.at_fork(step);
    }
}

/// Maps `bytes` bytes of whole pages. Returns null on failure.
fn map(bytes: usize) -> *mut u8 {
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let Ok(start) = system(libc::SYS_mmap, [0, bytes, prot, flags, usize::MAX, 0]) else {
        return null_mut();
    };
    MAPPED.fetch_add(bytes, Relaxed);
    std::ptr::with_exposed_provenance_mut(start)
}

/// Unmaps memory. Returns whether the kernel unmapped it.
///
/// # Safety
/// The memory is a part of memory that [`map`] has returned, and no code uses the memory any more.
unsafe fn unmap(start: *mut u8, bytes: usize) -> bool {
    let is_freed = system(libc::SYS_munmap, [start.addr(), bytes, 0, 0, 0, 0]).is_ok();
    if is_freed {
        MAPPED.fetch_sub(bytes, Relaxed);
    }
    is_freed
}

/// Returns the size of the separate mapping for an allocation, or `None` if the allocation is not
/// large.
fn own_mapping(layout: Layout) -> Option<usize> {
    let page = page::page_size();
    (layout.size() >= LARGE && layout.align() <= page).then(|| layout.size().next_multiple_of(page))
}

/// The source of dlmalloc's memory.
struct Mappings;

// SAFETY: `alloc` maps memory that no other code uses. Only `free` unmaps the memory, when dlmalloc
// no longer uses it.
unsafe impl dlmalloc::Allocator for Mappings {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let bytes = size.next_multiple_of(GRAIN);
        let start = map(bytes);
        (start, if start.is_null() { 0 } else { bytes }, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, ptr: *mut u8, oldsize: usize, newsize: usize) -> bool {
        // SAFETY: dlmalloc no longer uses the part after `newsize`.
        unsafe { self.free(ptr.add(newsize), oldsize - newsize) }
    }

    fn free(&self, ptr: *mut u8, size: usize) -> bool {
        // SAFETY: dlmalloc no longer uses the memory, which `alloc` has mapped.
        unsafe { unmap(ptr, size) }
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        page::page_size()
    }
}

// SAFETY: dlmalloc meets the trait's contract. The lock admits one thread at a time.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match own_mapping(layout) {
            Some(bytes) => map(bytes),
            // SAFETY: the caller passes a layout with a size and a valid alignment.
            None => unsafe { self.0.lock().malloc(layout.size(), layout.align()) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match own_mapping(layout) {
            Some(bytes) => map(bytes),
            // SAFETY: the caller passes a layout with a size and a valid alignment.
            None => unsafe { self.0.lock().calloc(layout.size(), layout.align()) },
        }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        match own_mapping(layout) {
            Some(bytes) => {
                // SAFETY: the allocation's layout shows that it has a separate mapping.
                let _kept = unsafe { unmap(ptr, bytes) };
            }
            // SAFETY: the caller passes an allocation of this heap, with its layout.
            None => unsafe { self.0.lock().free(ptr, layout.size(), layout.align()) },
        }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the new size with this alignment is a valid layout.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if own_mapping(layout).is_none() && own_mapping(new).is_none() {
            let (size, align) = (layout.size(), layout.align());
            // SAFETY: the caller passes an allocation of this heap with its layout, and a valid new
            // size.
            return unsafe { self.0.lock().realloc(ptr, size, align, new_size) };
        }
        // SAFETY: both allocations have at least the number of bytes that are copied.
        unsafe {
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr.copy_to_nonoverlapping(moved, layout.size().min(new_size));
                self.dealloc(ptr, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a checksum that depends on the position of each byte.
    fn sum(bytes: &[u8]) -> u64 {
        bytes.iter().zip(1..).map(|(byte, at)| u64::from(*byte) * at).sum()
    }

    #[test]
    fn what_is_moved_between_its_kinds_is_kept() {
        let heap = Heap(Mutex::new(Dlmalloc::new_with_allocator(Mappings)));
        let sizes = [1, LARGE - 1, LARGE, LARGE + 1, 100, 10 * LARGE, 20 * LARGE, 5];
        let layout = |size| Layout::from_size_align(size, 16).unwrap();
        for (from, to) in sizes.iter().flat_map(|from| sizes.map(|to| (*from, to))) {
            // SAFETY: the memory is used within its length, and freed with its layout.
            unsafe {
                let old = heap.alloc_zeroed(layout(from));
                let bytes = std::slice::from_raw_parts_mut(old, from);
                assert!(old.addr().is_multiple_of(16) && bytes.iter().all(|byte| *byte == 0));
                bytes.iter_mut().zip(1_u32..).for_each(|(byte, at)| *byte = (at * 37) as u8);
                let kept = sum(&bytes[..from.min(to)]);
                let new = heap.realloc(old, layout(from), to);
                assert_eq!(sum(std::slice::from_raw_parts(new, from.min(to))), kept, "{from} {to}");
                heap.dealloc(new, layout(to));
            }
        }
    }

    #[test]
    fn what_is_large_takes_no_memory_before_it_is_written() {
        let heap = Heap(Mutex::new(Dlmalloc::new_with_allocator(Mappings)));
        let (layout, before) = (Layout::from_size_align(64 << 20, 8).unwrap(), mapped());
        // SAFETY: the memory is freed with its layout.
        unsafe {
            let start = heap.alloc_zeroed(layout);
            assert!(mapped() >= before + (64 << 20));
            let mut states = vec![0; (64 << 20) / page::page_size()];
            assert_eq!(libc::mincore(start.cast(), 64 << 20, states.as_mut_ptr()), 0);
            assert!(states.iter().all(|state| state & 1 == 0));
            heap.dealloc(start, layout);
        }
    }
}
