//! The library's own heap, in mappings of its own: the program may be interrupted within its
//! allocator.
//!
//! # Safety
//! dlmalloc hands out memory that this file has mapped, under a lock.
#![allow(unsafe_code)]

use dlmalloc::Dlmalloc;
use page::fork::Mutex;
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The heap is mapped in pieces of so many bytes at least.
const GRAIN: usize = 1 << 20;

/// The heap of this library.
pub(crate) struct Heap(Mutex<Dlmalloc<Mappings>>);

#[cfg_attr(not(test), global_allocator)]
pub(crate) static HEAP: Heap = Heap(Mutex::new(Dlmalloc::new_with_allocator(Mappings)));

static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// Returns the bytes that the heap has mapped.
pub(crate) fn mapped() -> usize {
    MAPPED.load(Relaxed)
}

impl Heap {
    /// Takes the heap's lock over a fork, as the last one: the others' holders may allocate.
    pub(crate) fn at_fork(&self, step: page::fork::Step) {
        self.0.at_fork(step);
    }
}

/// Where dlmalloc takes its memory from.
struct Mappings;

// SAFETY: memory is mapped by `alloc`, and unmapped by `free` alone, as dlmalloc asks for it.
unsafe impl dlmalloc::Allocator for Mappings {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let bytes = size.next_multiple_of(GRAIN);
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the system chooses where: nothing is replaced.
        let start = unsafe { libc::mmap(null_mut(), bytes, prot, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return (null_mut(), 0, 0);
        }
        MAPPED.fetch_add(bytes, Relaxed);
        (start.cast(), bytes, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, ptr: *mut u8, oldsize: usize, newsize: usize) -> bool {
        // SAFETY: dlmalloc gives up what lies behind.
        unsafe { self.free(ptr.add(newsize), oldsize - newsize) }
    }

    fn free(&self, ptr: *mut u8, size: usize) -> bool {
        // SAFETY: dlmalloc gives up what `alloc` has mapped.
        let is_freed = unsafe { libc::munmap(ptr.cast(), size) } == 0;
        if is_freed {
            MAPPED.fetch_sub(size, Relaxed);
        }
        is_freed
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

// SAFETY: dlmalloc keeps what the trait asks for; one thread at a time is in it.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout has a size and an alignment, as the caller says.
        unsafe { self.0.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.0.lock().calloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: it is of this heap, with this layout, as the caller says.
        unsafe { self.0.lock().free(ptr, layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.0.lock().realloc(ptr, layout.size(), layout.align(), new_size) }
    }
}
