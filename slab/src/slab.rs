//! A slab's descriptor: the `data` of its extent.
//!
//! ```text
//!   |  0  next           4  previous            |  in its list, or in a chain to be reclaimed
//!   |  8  active        12  free                |  objects in use; where the next free one is
//!   | 16  live: address of the bits             |  two per object (bits.rs)
//!   | 24  first object: address                 |
//!   | 32  index: address (block, or slab)       |
//!   | 40  list  42  released  44  owner         |  pages given back; the thread that works in it
//! ```
//! With the layout `linked-bufctl`, the two counts are in a header before the index. Any thread is
//! allowed to access the bits and the owner. The other fields are accessed only by the slab's
//! thread or, if no thread owns the slab, by the holder of the cache's lock.
//!
//! # Safety
//! - sl-D1: `begin` sets `live`, `first` and `index` before any other thread can find the slab.
//!   These three pointers refer to memory of the lengths in the slab's shape. The memory exists
//!   until the slab is destroyed. Only the slab's thread uses `index`, or the holder of the cache's
//!   lock if no thread owns the slab.
//! - sl-D2: a descriptor of zero bytes is valid, because it consists of integers and of pointers
//!   for which null is valid.
#![allow(unsafe_code)]

use crate::bits::{Bits, NO_ONE, Owner, Word};
use crate::policy::PAGES_MAX;
use crate::sync::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, Relaxed};
use page::Links;
use std::ptr::{NonNull, null_mut};

/// The counts that change with each allocation and free.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Counts {
    pub(crate) active: AtomicU32,
    /// The first free object in the linked list. In the layout `native`, the index of the word
    /// below which no object is free.
    pub(crate) free: AtomicU32,
}

/// A slab's descriptor.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slab {
    /// The neighbours of the slab in its list or chain.
    pub(crate) links: Links,
    pub(crate) counts: Counts,
    live: AtomicPtr<Word>,
    first: AtomicPtr<u8>,
    index: AtomicPtr<u8>,
    pub(crate) list: AtomicU8,
    /// Bit n is set if page n of the existing slab was released. While a bit is set, no object is
    /// allocated from the slab.
    released: AtomicU16,
    owner: Owner,
}

const _: () = assert!(PAGES_MAX <= u16::BITS as usize);

// The 48 bytes of the diagram above and the extent's own fields fill one cache line.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Slab>() == 48 && size_of::<page::Extent<Slab>>() == 64);

// SAFETY: sl-D2. (A loom model contains no slabs.)
unsafe impl page::Zeroed for Slab {}

impl Slab {
    /// Records where the slab's bits, objects and index lie.
    ///
    /// # Safety
    /// No other thread can reach the slab yet, and sl-D1 holds for the three addresses.
    pub(crate) unsafe fn begin(&self, block: NonNull<u8>, first: NonNull<u8>, index: NonNull<u8>) {
        self.index.store(index.as_ptr(), Relaxed);
        self.first.store(first.as_ptr(), Relaxed);
        self.live.store(block.as_ptr().cast(), Relaxed);
        self.released.store(0, Relaxed);
        self.links.clear();
    }

    /// Clears the descriptor, so that no address in the extent is an object of a cache.
    ///
    /// # Safety
    /// No object is in use, and no thread accesses the slab now or later.
    pub(crate) unsafe fn clear(&self) {
        self.owner.store(NO_ONE, Relaxed);
        self.first.store(null_mut(), Relaxed);
        self.live.store(null_mut(), Relaxed);
    }

    /// Removes and returns the block that lies off the slab.
    ///
    /// # Safety
    /// No thread reads the slab's bits any more.
    pub(crate) unsafe fn take_block(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.live.swap(null_mut(), Relaxed).cast())
    }

    /// Returns the address of the first object, or null if the extent contains no slab.
    #[inline]
    pub(crate) fn first(&self) -> *mut u8 {
        self.first.load(Relaxed)
    }

    /// Returns the address of the header or index.
    pub(crate) fn index(&self) -> *mut u8 {
        self.index.load(Relaxed)
    }

    /// Returns the block that lies off the slab.
    pub(crate) fn block(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.live.load(Relaxed).cast())
    }

    /// Returns the pages that were released, one bit for each page.
    pub(crate) fn released(&self) -> u16 {
        self.released.load(Relaxed)
    }

    pub(crate) fn set_released(&self, pages: u16) {
        self.released.store(pages, Relaxed);
    }

    /// Returns the number of the thread that owns the slab, or `NO_ONE` or `RESERVE`.
    #[inline]
    pub(crate) fn owner(&self) -> u32 {
        self.owner.load(Relaxed)
    }

    /// Sets the owner of the slab.
    ///
    /// # Safety
    /// The caller is allowed to access the slab (sl-K3). After the call, the caller accesses the
    /// slab only if the new owner permits the access.
    pub(crate) unsafe fn set_owner(&self, owner: u32) {
        self.owner.store(owner, Relaxed);
    }

    /// Returns the bits of the slab's objects, `words` words of each kind.
    ///
    /// # Safety
    /// `words` is the number in the slab's shape. The slab is not destroyed while the bits are
    /// used. Only a caller that is allowed to access the slab (sl-K3) changes live bits, to
    /// allocate or free the objects.
    #[inline]
    pub(crate) unsafe fn bits(&self, words: usize) -> Bits<'_> {
        let live = self.live.load(Relaxed);
        // SAFETY: the block begins with the live words and the remote words (sl-D1). The caller
        // guarantees that the slab and its block exist while the bits are used.
        unsafe {
            Bits {
                live: std::slice::from_raw_parts(live, words),
                remote: std::slice::from_raw_parts(live.add(words), words),
                owner: &self.owner,
            }
        }
    }
}
