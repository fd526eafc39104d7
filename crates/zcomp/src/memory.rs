//! Memory for the contexts of the C libraries' encoders and decoders. A [`ContextMemory`] owns the
//! memory while contexts point into it.
//!
//! ```text
//!   up to 56 bytes skipped | from a cache line on: context | to the next line | context | ...
//! ```
//!
//! # Safety
//! A [`ContextMemory`] creates one raw pointer to its memory, and never a reference. A reference
//! would invalidate the pointers into the memory that the C contexts contain. `new` allocates the
//! memory, and `drop` frees it with the same layout.
#![allow(unsafe_code)]

use crate::Error;
use crate::policy::CONTEXT_ALIGN;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// The maximum distance in bytes from a machine word to the start of the next cache line.
const SKIP_BYTES: usize = CONTEXT_ALIGN - size_of::<u64>();

/// Returns the number of bytes that contexts of these sizes need. Each context takes whole cache
/// lines. Further bytes are needed because the memory does not always begin on a cache line.
pub(crate) fn bytes_for(contexts: &[usize]) -> Result<usize, Error> {
    let sum = contexts.iter().try_fold(SKIP_BYTES, |sum, bytes| sum.checked_add(lines(*bytes)?));
    sum.ok_or(Error::NoMemory { bytes: usize::MAX })
}

/// Returns `bytes` rounded up to whole cache lines.
fn lines(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(CONTEXT_ALIGN)
}

/// Heap memory from which contexts are allocated one after another.
#[derive(Debug)]
pub(crate) struct ContextMemory {
    /// The address of the next context, aligned to a cache line.
    next: NonNull<u8>,
    /// The number of bytes from `next` to the end of the memory.
    left: usize,
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the value is the only owner of its memory (see the head of this file).
unsafe impl Send for ContextMemory {}

impl ContextMemory {
    /// Allocates zeroed memory for contexts of these sizes. The memory is aligned only to a machine
    /// word, because at a greater alignment the allocator would write zeros to all pages. So pages
    /// that the contexts do not use are never touched.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: the allocation failed.
    pub(crate) fn new(contexts: &[usize]) -> Result<Self, Error> {
        let bytes = bytes_for(contexts)?;
        let refused = Error::NoMemory { bytes };
        let layout = Layout::from_size_align(bytes, align_of::<u64>());
        let layout = layout.map_err(|_| refused.clone())?;
        // SAFETY: the layout has at least SKIP_BYTES bytes, so its size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
        let skip = start.addr().get().next_multiple_of(CONTEXT_ALIGN) - start.addr().get();
        // SAFETY: the layout aligns `start` to a word, so `skip` is at most SKIP_BYTES. The memory
        // has at least SKIP_BYTES bytes.
        let next = unsafe { start.add(skip) };
        Ok(ContextMemory { next, left: bytes - skip, start, layout })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Returns the next `bytes` bytes, which begin on a cache line. The bytes are valid as long as
    /// the memory exists, and only the caller uses them.
    ///
    /// # Panics
    /// If fewer bytes are left.
    pub(crate) fn take(&mut self, bytes: usize) -> NonNull<u8> {
        let taken = self.next;
        let step = lines(bytes).unwrap_or(usize::MAX);
        assert!(step <= self.left, "contexts take more memory than `prepare` counted");
        // SAFETY: the assertion establishes `step <= left`, and `left` is the number of bytes from
        // `next` to the end of the memory.
        self.next = unsafe { taken.add(step) };
        self.left -= step;
        taken
    }
}

impl Drop for ContextMemory {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the memory with this layout, and it is freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_separate_lines_in_the_memory() {
        for contexts in [&[1, 64, 65][..], &[4096], &[0, 7], &[]] {
            let mut memory = ContextMemory::new(contexts).unwrap();
            let end = memory.start.addr().get() + memory.bytes();
            assert_eq!(memory.bytes(), bytes_for(contexts).unwrap());
            let mut free = memory.start.addr().get();
            for &bytes in contexts {
                let at = memory.take(bytes).addr().get();
                assert!(at.is_multiple_of(CONTEXT_ALIGN) && at >= free);
                free = at + bytes;
            }
            assert!(free <= end && memory.left <= SKIP_BYTES);
        }
    }

    #[test]
    fn memory_that_the_system_refuses_is_an_error() {
        for bytes in [usize::MAX / 2, usize::MAX] {
            let error = ContextMemory::new(&[bytes]).unwrap_err();
            assert!(matches!(error, Error::NoMemory { .. }), "{error}");
        }
    }
}
