//! A growing array. Elements never move and are never removed, so readers need no lock.
//!
//! ```text
//!   chunk 0: 1024 elements   chunk 1: 2048   chunk 2: 4096 ...   each a mapping of its own
//! ```
//!
//! # Safety
//! The chunks of elements `0..len` were mapped, as zeros, before `len` was raised with release
//! order. The chunks stay mapped until the table is dropped. A look-up first reads `len` with
//! acquire order. Zeros are a valid element ([`Zeroed`]). Elements are never moved or dropped one
//! by one.
#![allow(unsafe_code)]

use crate::budget::Supply;
use crate::mapping::{Mapping, release_at};
use crate::policy::{TABLE_CHUNK_FIRST as FIRST, TABLE_CHUNKS as CHUNKS};
use crate::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use crate::zeroed::Zeroed;
use crate::{Error, page_size};
use std::ops::Range;
use std::ptr::NonNull;

/// A page of a table.
pub(crate) struct TablePage {
    chunk: usize,
    page: usize,
    /// The elements with at least one byte on the page, including elements that are not yet added.
    pub(crate) elements: Range<u32>,
}

/// The array.
#[derive(Debug)]
pub(crate) struct GrowingTable<T> {
    /// The starts of the chunks; null before a chunk is mapped. The `Mapping` of each chunk was
    /// passed to `std::mem::forget`.
    chunks: [AtomicPtr<T>; CHUNKS],
    len: AtomicU32,
    /// The bytes of the pages that contain the elements.
    bytes: AtomicUsize,
}

// SAFETY: the table owns its elements and gives out only `&T`, for which T: Send + Sync suffices.
unsafe impl<T: Send + Sync> Sync for GrowingTable<T> {}
// SAFETY: the table owns its elements, and `T: Send`.
unsafe impl<T: Send> Send for GrowingTable<T> {}

/// Returns the number of elements of a chunk.
fn capacity(chunk: usize) -> usize {
    (FIRST as usize) << chunk
}

/// Returns the bytes of a chunk's mapping.
fn chunk_bytes<T>(chunk: usize) -> usize {
    (capacity(chunk) * size_of::<T>()).next_multiple_of(page_size())
}

impl<T: Zeroed> GrowingTable<T> {
    pub(crate) fn new() -> Self {
        const { assert!(!std::mem::needs_drop::<T>(), "elements are never dropped") };
        GrowingTable {
            chunks: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            len: AtomicU32::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Returns the chunk of element `index`, and the element's index in the chunk. Chunk k starts
    /// with element FIRST * (2^k - 1).
    #[inline]
    fn locate(index: u32) -> (usize, usize) {
        let shifted = index as u64 + FIRST as u64;
        // `shifted` is at least FIRST, so neither result is negative. The sum of 64 bits does not
        // overflow.
        let chunk = (63 - FIRST.ilog2()) - shifted.leading_zeros();
        (chunk as usize, (shifted ^ ((FIRST as u64) << chunk)) as usize)
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    /// Returns the start of a chunk, if the chunk is mapped.
    #[inline]
    fn chunk(&self, chunk: usize) -> Option<NonNull<T>> {
        NonNull::new(self.chunks.get(chunk)?.load(Ordering::Relaxed))
    }

    /// Returns the element `index`, if it exists.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        if index >= self.len() {
            return None;
        }
        let (chunk, at) = Self::locate(index);
        // SAFETY: `push` mapped the chunk, as zeros, which are valid, before it raised `len` past
        // `index`; `len` was read with acquire order. The chunk stays mapped as long as `self`
        // exists.
        Some(unsafe { self.chunk(chunk)?.add(at).as_ref() })
    }

    /// Returns `count` elements from `start` on. If an element does not exist, or the elements lie
    /// in several chunks, returns an empty slice.
    pub(crate) fn slice(&self, start: u32, count: u32) -> &[T] {
        let (chunk, at) = Self::locate(start);
        let made = start.checked_add(count).is_some_and(|end| end <= self.len());
        let fits = at + count as usize <= capacity(chunk);
        match self.chunk(chunk).filter(|_| made && fits) {
            // SAFETY: as in `get`. If `made` is true, `len` is beyond the last of these elements.
            Some(base) => unsafe {
                std::slice::from_raw_parts(base.add(at).as_ptr(), count as usize)
            },
            None => &[],
        }
    }

    /// Returns the pages that contain at least a part of element `index`.
    pub(crate) fn pages_of(index: u32) -> impl Iterator<Item = TablePage> {
        let (chunk, at) = Self::locate(index);
        let (page_size, size) = (page_size(), size_of::<T>());
        let start = index - at as u32;
        let last = capacity(chunk) - 1;
        let pages = at * size / page_size..((at + 1) * size).div_ceil(page_size);
        pages.map(move |page| {
            let first = (page * page_size / size) as u32;
            let end = ((page + 1) * page_size).div_ceil(size).min(last + 1) as u32;
            TablePage { chunk, page, elements: start + first..start + end }
        })
    }

    /// Releases a page to the system. After the call, the bytes of the page are zeros, or unchanged
    /// if the page is locked.
    ///
    /// # Safety
    /// No thread depends on the bytes of the page's elements.
    pub(crate) unsafe fn release(&self, page: &TablePage) {
        if let Some(base) = self.chunk(page.chunk) {
            // SAFETY: `pages_of` computed the page within the chunk, whose length is whole pages.
            // The caller guarantees that no thread depends on the bytes. Zeros are valid elements.
            unsafe { release_at(base.cast().add(page.page * page_size()), page_size()) };
        }
    }

    /// Appends an element of zero bytes, and returns its index. The caller serialises pushes.
    pub(crate) fn push(&self, supply: Option<&dyn Supply>) -> Result<u32, Error> {
        let index = self.len();
        if index >= FIRST * ((1 << CHUNKS) - 1) {
            return Err(Error::Exhausted);
        }
        let (chunk, at) = Self::locate(index);
        if self.chunk(chunk).is_none() {
            let mapping = Mapping::reserve(chunk_bytes::<T>(chunk), page_size(), supply)?;
            self.chunks[chunk].store(mapping.base().as_ptr().cast(), Ordering::Relaxed);
            std::mem::forget(mapping); // `GrowingTable::drop` unmaps it
        }
        let pages = |elements: usize| (elements * size_of::<T>()).div_ceil(page_size());
        let more = (pages(at + 1) - pages(at)) * page_size();
        self.bytes.fetch_add(more, Ordering::Relaxed);
        self.len.store(index + 1, Ordering::Release);
        Ok(index)
    }

    /// Returns the number of bytes of the pages that contain the first `count` elements. Each chunk
    /// has its own pages.
    pub(crate) fn bytes_below(count: u32) -> usize {
        let mut left = count as usize;
        let mut bytes = 0;
        let mut room = capacity(0);
        while left > 0 {
            let here = left.min(room);
            bytes += (here * size_of::<T>()).next_multiple_of(page_size());
            left -= here;
            room *= 2;
        }
        bytes
    }

    /// Returns the bytes of the pages that contain the elements.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl<T> Drop for GrowingTable<T> {
    fn drop(&mut self) {
        for (chunk, base) in self.chunks.iter().enumerate() {
            if let Some(base) = NonNull::new(base.load(Ordering::Relaxed)) {
                // SAFETY: `push` forgot exactly this mapping, of this length; `&mut self` proves
                // that no element is borrowed any more.
                drop(unsafe { Mapping::adopt(base.cast(), chunk_bytes::<T>(chunk)) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicU64;

    #[test]
    fn elements_stay_where_they_are() {
        let table = GrowingTable::<AtomicU64>::new();
        let mut addresses = Vec::new();
        for index in 0..5000u32 {
            assert!(table.get(index).is_none());
            assert_eq!(table.push(None).unwrap(), index);
            let element = table.get(index).unwrap();
            element.store(index as u64, Ordering::Relaxed);
            addresses.push(std::ptr::from_ref(element));
        }
        for (index, &address) in addresses.iter().enumerate() {
            let element = table.get(index as u32).unwrap();
            assert_eq!(element.load(Ordering::Relaxed), index as u64);
            assert_eq!(std::ptr::from_ref(element), address);
        }
        assert_eq!(table.bytes(), 8192 + 16384 + 3 * 4096 + 4096);
        assert_eq!(table.bytes(), GrowingTable::<AtomicU64>::bytes_below(5000));
    }

    #[test]
    fn pages_and_elements_agree() {
        type Twelve = [u8; 12];
        // SAFETY: zeros are valid bytes, and nothing changes them here.
        unsafe impl Zeroed for Twelve {}
        for index in (0..1024).chain(1024..1030).chain(3000..3080) {
            let pages: Vec<_> = GrowingTable::<Twelve>::pages_of(index).collect();
            assert!(!pages.is_empty() && pages.iter().all(|page| page.elements.contains(&index)));
            for page in &pages {
                for other in page.elements.clone() {
                    let mut shared = GrowingTable::<Twelve>::pages_of(other);
                    assert!(shared.any(|shared| shared.elements == page.elements), "{other}");
                }
            }
        }
        assert_eq!(GrowingTable::<Twelve>::pages_of(341).count(), 2);
    }

    #[test]
    fn places_do_not_overlap() {
        assert_eq!(GrowingTable::<AtomicU64>::locate(0), (0, 0));
        assert_eq!(GrowingTable::<AtomicU64>::locate(1023), (0, 1023));
        assert_eq!(GrowingTable::<AtomicU64>::locate(1024), (1, 0));
        assert_eq!(GrowingTable::<AtomicU64>::locate(3071), (1, 2047));
        assert_eq!(GrowingTable::<AtomicU64>::locate(3072), (2, 0));
    }
}
