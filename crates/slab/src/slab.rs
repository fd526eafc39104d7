//! A slab's descriptor: the `data` of its extent's.
//!
//! ```text
//!   |  0  next           4  prev                    |  slabs of its list, as raw extent ids; what waits to be
//!                                                      reclaimed is linked here too
//!   |  8  active        12  free                    |  objects in use; where the next free one is
//!   | 16  live: address of the bits                 |  two per object (bits.rs)
//!   | 24  first object: address                     |
//!   | 32  index: address (block, or slab)           |
//!   | 40  list  42  released  44  owner             |  pages given back; the thread that alone works in it
//! ```
//! `linked-bufctl` keeps the first four in a header before its index instead. Everything but the
//! bits and the owner belongs to the slab's thread, or, where it has none, to who has the cache's
//! lock.
//!
//! # Safety
//! - sl-D1: `live`, `first` and `index` are set by `reset`, before anyone finds the slab, to memory
//!   that stays until it is destroyed, of the bytes its shape says; `index` is used by the slab's
//!   thread or under the cache's lock only.
//! - sl-D2: a descriptor is good as zeros: integers and null pointers.
#![allow(unsafe_code)]

use crate::bits::{Bits, NO_ONE, Owner, Word};
use crate::shape::{HEADER, PAGES_MAX, Shape};
use crate::sync::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, Relaxed};
use std::ptr::NonNull;

/// What changes as objects come and go.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Management {
    pub(crate) next: AtomicU32,
    pub(crate) prev: AtomicU32,
    pub(crate) active: AtomicU32,
    /// The head of the linked list; of `native` a word of the bits below which nothing is free.
    pub(crate) free: AtomicU32,
}

/// A slab's descriptor.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slab {
    pub(crate) own: Management,
    pub(crate) live: AtomicPtr<Word>,
    pub(crate) first: AtomicPtr<u8>,
    pub(crate) index: AtomicPtr<u8>,
    pub(crate) list: AtomicU8,
    /// Bit n: page n was given back though the slab stays. No object is given out then.
    released: AtomicU16,
    pub(crate) owner: Owner,
}

const _: () = assert!(PAGES_MAX <= u16::BITS as usize);

// As drawn above, and a line of memory with what is the extent's.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Slab>() == 48 && size_of::<page::Extent<Slab>>() == 64);
const _: () = assert!(size_of::<Management>() <= HEADER);

// SAFETY: sl-D2. (In a model there are no slabs.)
unsafe impl page::Zeroed for Slab {}

impl Slab {
    /// Address of the first object, null where there is no slab.
    #[inline]
    pub(crate) fn first(&self) -> *mut u8 {
        self.first.load(Relaxed)
    }

    /// Pages that were given back.
    pub(crate) fn released(&self) -> u16 {
        self.released.load(Relaxed)
    }

    pub(crate) fn set_released(&self, pages: u16) {
        self.released.store(pages, Relaxed);
    }

    /// The block that lies off the slab.
    pub(crate) fn block(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.live.load(Relaxed).cast())
    }

    /// Ends being a slab: its objects are no one's from now on.
    pub(crate) fn clear(&self) {
        self.owner.store(NO_ONE, Relaxed);
        self.first.store(std::ptr::null_mut(), Relaxed);
        self.forget_block();
    }

    /// Forgets the block, which is about to go.
    pub(crate) fn forget_block(&self) {
        self.live.store(std::ptr::null_mut(), Relaxed);
    }

    /// The bits of its objects.
    #[inline]
    pub(crate) fn bits(&self, shape: &Shape) -> Bits<'_> {
        let words = shape.bits_words;
        let live = self.live.load(Relaxed);
        // SAFETY: the block begins with the words of both kinds (sl-D1). Who asks found a slab that
        // is not destroyed.
        unsafe {
            Bits {
                live: std::slice::from_raw_parts(live, words),
                remote: std::slice::from_raw_parts(live.add(words), words),
                owner: &self.owner,
            }
        }
    }
}
