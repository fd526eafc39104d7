//! Extents: runs of consecutive pages with a descriptor.

use crate::page_shift;
use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::num::NonZeroU32;

/// The number of an extent within its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExtentId(NonZeroU32);

impl ExtentId {
    /// From the number a descriptor field holds; 0 is none.
    pub fn from_raw(raw: u32) -> Option<Self> {
        NonZeroU32::new(raw).map(ExtentId)
    }

    /// The number to keep in a descriptor field.
    pub fn to_raw(self) -> u32 {
        self.0.get()
    }

    pub(crate) fn index(self) -> u32 {
        self.0.get() - 1
    }

    pub(crate) fn from_index(index: u32) -> Option<Self> {
        index.checked_add(1).and_then(Self::from_raw)
    }
}

/// A descriptor: 12 bytes and the owner's. Its memory keeps its type for the life of the space
/// (`data` is never dropped, and made anew by nobody), so a stale [`ExtentId`] reads old values or
/// zeros, never foreign memory.
#[derive(Debug)]
pub struct Extent<D> {
    /// First page, counted in the space's offsets.
    first: AtomicU32,
    /// Number of pages; 0 while the extent is free. Stored last, read first.
    pages: AtomicU32,
    /// Owner's number, set when the extent is made.
    tag: AtomicU32,
    /// What the owner keeps about the extent, such as which of its pages are committed. At first
    /// zeros, or what the last owner left.
    pub data: D,
}

const _: () = assert!(cfg!(all(test, loom)) || size_of::<Extent<()>>() == 12);

impl<D> Extent<D> {
    /// As a table's memory is, which is zeros.
    #[cfg(all(test, loom))]
    pub(crate) fn unused(data: D) -> Self {
        let [first, pages, tag] = std::array::from_fn(|_| AtomicU32::new(0));
        Extent { first, pages, tag, data }
    }

    /// Makes it an extent, under the space's lock.
    pub(crate) fn begin(&self, first: u32, pages: u32, tag: u32) {
        self.first.store(first, Relaxed);
        self.tag.store(tag, Relaxed);
        self.pages.store(pages, Release);
    }

    /// Makes it a free one, under the space's lock; its first page, and how many it had.
    pub(crate) fn end(&self) -> (u32, u32) {
        (self.first.load(Relaxed), self.pages.swap(0, Relaxed))
    }

    /// Offset of the extent's first byte.
    pub fn start(&self) -> u64 {
        (self.first.load(Relaxed) as u64) << page_shift()
    }

    /// Number of pages that were asked for. Whoever reads it first, of an extent that may go, reads
    /// start and tag of the same extent, or of a later one.
    pub fn pages(&self) -> u32 {
        self.pages.load(Acquire)
    }

    /// The number its owner gave it last: in [`Space::alloc`](crate::Space::alloc), or since.
    pub fn tag(&self) -> u32 {
        self.tag.load(Relaxed)
    }

    /// Gives it another number. The extent is the caller's.
    pub fn set_tag(&self, tag: u32) {
        self.tag.store(tag, Relaxed);
    }
}
