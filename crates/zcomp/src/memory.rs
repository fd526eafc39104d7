//! The memory of a stream, owned or borrowed, and a [`Region`], which is its single owner while C
//! contexts point into it.
//!
//! ```text
//!   Memory    | up to 56 bytes skipped | room, from a cache line on                  |
//!                                      | context | to the next line | context | ... |
//! ```
//!
//! # Safety
//! A [`Region`] creates one raw pointer to its memory, and never creates a reference to the memory
//! again: the C contexts in the memory contain pointers to it, which a second `&mut` or a moved
//! `Box` would invalidate. The region is the only user of the memory. `new` converts a `Box` to a
//! pointer, and `drop` converts it back; a borrowed slice remains borrowed for `'m`.
//! [`Memory::owned`] creates a `Box` of zeroed memory from the heap.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::Error;

const WORD_BYTES: usize = size_of::<u64>();

/// The alignment of contexts in bytes: a cache line. zstd requires only the alignment of words, but
/// its tables are faster on lines.
const LINE_BYTES: usize = 64;

/// The maximum distance from a word to the start of the next line, in bytes.
const SKIP_BYTES: usize = LINE_BYTES - WORD_BYTES;

/// The memory of a stream, in words. [`Prepared::stream_bytes`](crate::Prepared::stream_bytes)
/// returns the needed size.
#[derive(Debug)]
pub enum Memory<'m> {
    /// Memory that the stream owns and frees.
    Owned(Box<[u64]>),
    /// Memory that the caller lends while the stream exists.
    Given(&'m mut [u64]),
}

impl Memory<'static> {
    /// Allocates at least `bytes` bytes from the heap, all zero. Pages that the stream does not use
    /// are never touched.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: the allocation failed.
    pub fn owned(bytes: usize) -> Result<Self, Error> {
        let refused = Error::NoMemory { bytes };
        let count = bytes.div_ceil(WORD_BYTES);
        if count == 0 {
            return Ok(Memory::Owned(Box::default()));
        }
        let layout = Layout::array::<u64>(count).map_err(|_| refused.clone())?;
        // SAFETY: the layout has one word or more, so its size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
        let words = NonNull::slice_from_raw_parts(start.cast(), count);
        // SAFETY: the memory was just allocated with the layout of `count` words, which is the
        // layout of a `Box` of them; zeros are valid words.
        Ok(Memory::Owned(unsafe { Box::from_raw(words.as_ptr()) }))
    }
}

impl Memory<'_> {
    /// Returns the length of the memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.words())
    }

    fn words(&self) -> &[u64] {
        match self {
            Memory::Owned(words) => words,
            Memory::Given(words) => words,
        }
    }
}

/// Returns the number of bytes that contexts of these sizes need. Each context takes whole lines,
/// and the memory may begin before the first line.
pub(crate) fn bytes_for(contexts: &[usize]) -> Result<usize, Error> {
    let sum = contexts.iter().try_fold(SKIP_BYTES, |sum, bytes| sum.checked_add(lines(*bytes)?));
    sum.ok_or(Error::NoMemory { bytes: usize::MAX })
}

/// Returns `bytes` rounded up to whole lines.
fn lines(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(LINE_BYTES)
}

/// The memory of a stream, from which contexts are allocated one after another.
#[derive(Debug)]
pub(crate) struct Region<'m> {
    /// The address of the next context, aligned to a line.
    next: NonNull<u8>,
    /// The number of bytes from `next` to the end of the memory.
    left: usize,
    /// The memory that `drop` frees, if the region owns it.
    owned: Option<NonNull<[u64]>>,
    bytes: usize,
    borrowed: PhantomData<&'m mut [u64]>,
}

// SAFETY: a region is the only user of its memory (see the head of this file). So is the holder of
// a `Box` or a `&mut`, and both types are `Send`.
unsafe impl Send for Region<'_> {}

impl<'m> Region<'m> {
    /// Returns a region that owns its memory, for contexts of these sizes. The memory is zeroed.
    pub(crate) fn owned(codec: &'static str, contexts: &[usize]) -> Result<Self, Error> {
        let needed = bytes_for(contexts)?;
        Region::new(Memory::owned(needed)?, codec, needed)
    }

    /// Returns a region that uses `memory`, which must have at least `needed` bytes, the result of
    /// [`bytes_for`].
    pub(crate) fn new(
        memory: Memory<'m>,
        codec: &'static str,
        needed: usize,
    ) -> Result<Self, Error> {
        let (given, start) = (memory.bytes(), memory.words().as_ptr().addr());
        let skip = start.next_multiple_of(LINE_BYTES) - start;
        let left = given.checked_sub(skip).filter(|_| given >= needed);
        let left = left.ok_or(Error::Memory { codec, needed, given })?;
        let (words, is_owned) = match memory {
            Memory::Owned(words) => (NonNull::from(Box::leak(words)), true),
            Memory::Given(words) => (NonNull::from(words), false),
        };
        Ok(Region {
            // SAFETY: the memory has `given` bytes, from which `skip` was subtracted above.
            next: unsafe { words.cast::<u8>().add(skip) },
            left,
            owned: is_owned.then_some(words),
            bytes: given,
            borrowed: PhantomData,
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the next `bytes` bytes. These bytes begin on a line, are valid as long as the region
    /// exists, and are used only by the caller.
    ///
    /// # Panics
    /// If the region has fewer bytes left.
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

impl Drop for Region<'_> {
    fn drop(&mut self) {
        if let Some(words) = self.owned {
            // SAFETY: `new` leaked a `Box` to create this pointer, which is converted back to a
            // `Box` only here.
            drop(unsafe { Box::from_raw(words.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_never_begins_beyond_its_memory() {
        let mut memory = [0; 16];
        for (start, len) in (0..8).flat_map(|start| (0..=8).map(move |len| (start, len))) {
            let words = &mut memory[start..start + len];
            let range = words.as_ptr_range();
            match Region::new(Memory::Given(words), "none", 0) {
                Ok(region) => {
                    let first = region.next.addr().get();
                    assert!(first.is_multiple_of(LINE_BYTES) && first >= range.start.addr());
                    assert_eq!(first + region.left, range.end.addr());
                }
                Err(_) => assert!(len * WORD_BYTES <= SKIP_BYTES),
            }
        }
    }
}
